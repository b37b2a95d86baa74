# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When leave ends that a machine elsewhere is given."""

from __future__ import annotations

import time

import pytest
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._term import Term


def test_j3_leave_lasts_from_the_look_that_it_rests_on_for_as_long_as_was_asked() -> None:
    """Not for the longest that leave may last; and what has passed here since the clock was told, has passed there."""
    term, before = Term(3.0), time.monotonic()
    term.hears({"boot": "b1", "uptime": 1000.0})
    first, later = term.until(before), term.until(before + 60.0)
    assert first["until"] <= 1003.0 <= term.until(time.monotonic())["until"] and first["boot"] == "b1"
    assert later["until"] - first["until"] == pytest.approx(60.0)
