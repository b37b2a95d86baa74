# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Times as BMCs tell them, whose clocks may never have been set. PRIVATE to the collection."""

from __future__ import annotations

import re
import time
from datetime import datetime, timezone
from typing import Any, NamedTuple, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError

#: Up to here a BMC counts from its own start: its clock was not set yet (IPMI 2.0, table 32-1 and section 37.1). With
#: Redfish such a BMC says 1970, too.
NEVER_SET = 0x20000000
#: IPMI's word for no time at all, and later than its clocks can tell; OpenBMC writes the year 9999 for the same.
NO_TIME = 0xFFFFFFFF
#: A date, a time and where on earth: without the last nobody knows when it was.
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9})\d*)?\s*(?:([Zz])|([+-])(\d\d):?(\d\d))\s*\Z",
    re.ASCII,
)
_LONGEST = 64


class Clock(NamedTuple):
    """A BMC's clock: the seconds since the epoch that it showed, its own words for them, and by how much it is ahead
    of the clock of the machine that asked; None where it was not told, or was never set."""

    at: Optional[float] = None
    said: str = ""
    ahead: Optional[float] = None


def seen(at: Optional[float], said: str, asked_at: float) -> Clock:
    """The BMC's clock as it was read.

    :param asked_at: seconds since the epoch by our own clock, at that time.
    """
    return Clock(at, said, None if at is None else round(at - asked_at, 1))


def known(seconds: float) -> Optional[float]:
    """The same; None where it is what a clock shows that was never set."""
    return seconds if NEVER_SET < seconds < NO_TIME else None


def of_iso(said: Any) -> Optional[float]:
    """Seconds since the epoch of what a BMC said; None where it is no time, or that of a clock that was never set."""
    found = _seconds(said)
    return None if found is None else known(found)


def iso(seconds: Optional[float]) -> Optional[str]:
    """In UTC, to the second."""
    return None if seconds is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def since(option: Any) -> Optional[float]:
    """Seconds since the epoch out of the option ``since``; None where it is not given.

    :raises ConfigError: where it is no time.
    """
    text = str(option if option is not None else "").strip()
    if not text:
        return None
    found = _seconds(text) if not re.fullmatch(r"\d{1,12}(\.\d{1,9})?", text, re.ASCII) else float(text)
    if found is None:
        raise ConfigError(
            "since is no time",
            wanted="seconds since the epoch, or a time such as 2026-11-28T09:00:00Z or 2026-11-28T10:00:00+01:00",
            seen=text if len(text) <= _LONGEST else f"{len(text)} characters",
            do="correct since; a time without Z or an offset could be meant anywhere on earth",
        )
    return found


def _seconds(said: Any) -> Optional[float]:
    match = _ISO.match(said.strip()) if isinstance(said, str) and len(said) <= _LONGEST else None
    if not match:
        return None
    year, month, day, hour, minute, second = (int(match[number]) for number in range(1, 7))
    try:
        # A leap second is told as the last one of its minute.
        found = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=timezone.utc).timestamp()
    except (ValueError, OverflowError):  # the 99th of a month, the year 0
        return None
    east = 0 if match[8] else (int(match[10]) * 60 + int(match[11])) * (1 if match[9] == "+" else -1)
    return found + float(f"0.{match[7] or 0}") - east * 60
