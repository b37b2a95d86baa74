# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A driver in the list of names is whole. What one still lacks is a line each of its test's failure.

Asked in the test and not where tests are collected: each worker collects all of them, and this takes seconds.
"""

from __future__ import annotations

import pytest
from contract import newcomers


@pytest.mark.parametrize(("port", "driver"), newcomers.drivers())
def test_driver(port: str, driver: str) -> None:
    lines = [f"{port} {driver}: {line}" for line in newcomers.missing(port, driver)]
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)
