# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a wave may begin: maintenance windows, in a site's own time. PRIVATE to the collection.

A window says when work begins. What has begun is never cut off by its end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError

#: As ``datetime.weekday`` counts them.
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])\Z")
_END_OF_DAY = "24:00"
_WANTED = "days (of mon to sun; all without it), from and to (as 22:00), zone (as Europe/Berlin; UTC without it)"
#: A window opens on one of these days, whichever day of the week it names, and a day later where a clock is set.
_AHEAD = 9


@dataclass(frozen=True)
class Window:
    """begins, ends: minutes of a day; one that ends before it begins ends on the next day."""

    days: frozenset[int]
    begins: int
    ends: int
    zone: tzinfo

    def open_on(self, day: date) -> tuple[float, float] | None:
        """When it opens on this day, and when it closes; None where it does not."""
        if day.weekday() not in self.days:
            return None
        last = day if self.ends > self.begins else day + timedelta(days=1)
        return self._at(day, self.begins), self._at(last, self.ends)

    def _at(self, day: date, minutes: int) -> float:
        whole, rest = divmod(minutes, 24 * 60)
        clock = datetime(day.year, day.month, day.day, rest // 60, rest % 60, tzinfo=self.zone)
        return (clock + timedelta(days=whole)).timestamp()

    def spans(self, now: float) -> list[tuple[float, float]]:
        today = datetime.fromtimestamp(now, self.zone).date()
        spans = (self.open_on(today + timedelta(days=ahead)) for ahead in range(-1, _AHEAD))
        return [span for span in spans if span]

    def shown(self, at: float) -> str:
        """In the window's own time."""
        return datetime.fromtimestamp(at, self.zone).strftime("%a %Y-%m-%d %H:%M %Z")


def windows(given: Sequence[Mapping[str, Any]]) -> list[Window]:
    return [_window(one) for one in given]


def _window(one: Mapping[str, Any]) -> Window:
    days = one.get("days") or list(DAYS)
    named = [str(day).strip().lower()[:3] for day in (days if isinstance(days, (list, tuple)) else [days])]
    begins, ends = _minutes(one.get("from")), _minutes(one.get("to"), end=True)
    if set(one) - {"days", "from", "to", "zone"} or not set(named) <= set(DAYS) or begins is None or ends is None:
        raise ConfigError("this is no maintenance window", wanted=_WANTED, seen=repr(dict(one)), do="correct it")
    return Window(frozenset(map(DAYS.index, named)), begins, ends, _zone(str(one.get("zone") or "UTC")))


def _minutes(clock: Any, end: bool = False) -> int | None:
    """YAML reads 22:00 without quotes as a number of base 60: minutes, which is what is wanted here."""
    if isinstance(clock, int) and not isinstance(clock, bool) and 0 <= clock < 24 * 60 + end:
        return clock
    if end and clock == _END_OF_DAY:
        return 24 * 60
    found = _CLOCK.match(str(clock))
    return int(found[1]) * 60 + int(found[2]) if found else None


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as exc:  # no such zone is a KeyError; a folder's name is an OSError
        raise ConfigError(
            "the controller knows no such time zone",
            wanted="a name of the tz database, as Europe/Berlin",
            seen=name,
            do="correct it, or install tzdata",
        ) from exc


def closed(given: Sequence[Window], now: float) -> str:
    """When the next window opens, in words; empty where one is open, or there are none."""
    if not given or any(begin <= now < end for one in given for begin, end in one.spans(now)):
        return ""
    opens, window = min(
        ((begin, one) for one in given for begin, _end in one.spans(now) if begin > now), key=lambda found: found[0]
    )
    return f"outside the maintenance windows; the next one opens {window.shown(opens)}"
