# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A driver in the list of names is whole. What one still lacks is a failing test each, whose name says it."""

from __future__ import annotations

import pytest
from contract import newcomers

WHOLE = "nothing is missing"
ALL = [
    pytest.param(line, id=f"{port} {driver}: {line}")
    for port, driver in newcomers.drivers()
    for line in newcomers.missing(port, driver) or [WHOLE]
]


@pytest.mark.parametrize("line", ALL)
def test_driver(line: str) -> None:
    assert line == WHOLE
