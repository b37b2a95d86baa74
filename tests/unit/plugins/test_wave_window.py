# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a wave may begin: days, nights, time zones and the nights on which a clock is set."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._wave_window import DAYS, closed, windows
from hypothesis import given
from hypothesis import strategies as st

NIGHTS = {"days": ["fri", "Saturday"], "from": "22:00", "to": "06:00", "zone": "Europe/Berlin"}


def at(text: str, zone: str = "Europe/Berlin") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ("2026-11-27T21:59", "outside the maintenance windows; the next one opens Fri 2026-11-27 22:00 CET"),
        ("2026-11-27T22:00", ""),
        ("2026-11-28T05:59", ""),
        ("2026-11-28T06:00", "outside the maintenance windows; the next one opens Sat 2026-11-28 22:00 CET"),
        ("2026-11-29T05:59", ""),
        ("2026-11-29T06:00", "outside the maintenance windows; the next one opens Fri 2026-12-04 22:00 CET"),
    ],
)  # fmt: skip
def test_a_window_over_midnight_belongs_to_the_day_on_which_it_opens(now: str, told: str) -> None:
    assert closed(windows([NIGHTS]), at(now)) == told
    assert closed([], at(now)) == ""


def test_the_night_on_which_the_clock_is_set_ends_when_the_clock_on_the_wall_says_so() -> None:
    short = windows([{"from": "01:00", "to": "04:00", "zone": "Europe/Berlin"}])
    assert closed(short, at("2026-03-29T03:59")) == "" != closed(short, at("2026-03-29T04:00"))
    assert at("2026-03-29T04:00") - at("2026-03-29T01:00") == 2 * 3600


@given(
    st.sets(st.sampled_from(DAYS), min_size=1), st.integers(0, 1439), st.integers(0, 1440), st.integers(0, 10**7),
    st.sampled_from(["UTC", "Asia/Kolkata", "America/New_York"]),
)  # fmt: skip
def test_what_is_open_is_what_a_clock_on_the_wall_shows(
    days: set[str], begins: int, ends: int, minute: int, zone: str
) -> None:
    """A minute of a year or two against a plain look at the wall, away from the nights on which clocks are set."""
    now = datetime(2026, 11, 2, tzinfo=timezone.utc) + timedelta(minutes=minute % (110 * 1440))
    wall = now.astimezone(ZoneInfo(zone))
    passed, today, before = wall.hour * 60 + wall.minute, DAYS[wall.weekday()], DAYS[wall.weekday() - 1]
    last = ends if ends > begins else ends + 1440
    is_open = (today in days and begins <= passed < last) or (before in days and begins <= passed + 1440 < last)
    one: dict[str, Any] = {"days": sorted(days), "from": begins, "to": ends, "zone": zone}
    assert (closed(windows([one]), now.timestamp()) == "") == is_open


@pytest.mark.parametrize(
    "wrong",
    [{"from": "22:00"}, {"from": "25:00", "to": "6:00"}, {"days": ["someday"]}, {"until": "x"}, {"zone": "Mars"}],
)
def test_what_is_no_window_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        windows([{**({} if "from" in wrong else {"from": "1:00", "to": "24:00"}), **wrong}])
