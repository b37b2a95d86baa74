# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long leave lasts that a machine elsewhere is given, by the clock over there. PRIVATE to the collection."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unreachable

#: Well inside a lease of sixty seconds, which was looked at right before.
LEAST_SECONDS = 20.0
MOST_SECONDS = 45.0


class Term:
    """The end of one leave after the other. What is held up on its way finds that its leave has ended."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._most = max(seconds, MOST_SECONDS)
        self._clock: Mapping[str, Any] = {}
        self._heard = 0.0
        self._began: float | None = None

    @property
    def seconds(self) -> float:
        """How long the next one lasts: at its end, what it rests on is not older than what permits a write here."""
        return self._seconds

    @property
    def known(self) -> bool:
        """Has the machine told its clock?"""
        return bool(self._clock)

    def hears(self, clock: Any) -> None:
        self._clock = clock if isinstance(clock, Mapping) else {}
        self._heard = time.monotonic()

    def until(self, since: float) -> dict[str, Any]:
        """A leave that began at a moment here, with its beginning and its end in the clock over there; none before that
        is known."""
        try:
            self._began = float(self._clock["uptime"]) + (since - self._heard)
        except (KeyError, TypeError, ValueError):
            return {}
        boot = str(self._clock.get("boot") or "")
        return {"boot": boot, "given": self._began, "until": self._began + self._seconds}

    def lengthens(self, late: Any, what: str) -> None:
        """The last leave had ended when its first write came; the next one lasts longer.

        :param late: the uptime over there at which that write came; None where one came in time.
        :raises Unreachable: where no leave may last as long as the way there takes.
        """
        if not isinstance(late, (int, float)) or self._began is None:
            return
        took = float(late) - self._began
        if self._seconds >= self._most:
            raise Unreachable(
                f"the way there takes {took:.0f} s, longer than leave to write may last; nothing more was written",
                wanted=f"a first write within {self._most:g} s of the look at lease and evidence",
                seen=f"{took:.1f} s from that look to the first write that {what} came to",
                do="delegate to a host that is nearer, run smaller batches (serial), or do not delegate it",
            )
        self._seconds = min(self._most, max(self._seconds, 2 * took))
