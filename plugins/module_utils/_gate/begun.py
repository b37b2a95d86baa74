# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a gate begins, and how it says that it came to no measurement. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted, wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    Sheet,
    Tool,
    answer,
    as_verdict,
    inconclusive,
    now_utc,
)


@dataclass(frozen=True)
class Begun:
    """One run of a gate: since when, and what the profile wants."""

    gate: str
    started: str
    wanted: Wanted
    #: When it began, by the clock of the boot.
    since: float = field(default_factory=time.monotonic)

    def verdict(self, sheet: Sheet, tool: Tool, evidence: str) -> dict[str, Any]:
        """What the sheet says, with what was asked and by what."""
        return as_verdict(
            self.gate,
            sheet,
            tool=tool,
            started=self.started,
            evidence=evidence,
            profile=self.wanted.reference(),
            seconds=self._seconds(),
        )

    def unmeasured(self, text: str, id: str) -> dict[str, Any]:
        """Nothing was measured, and this was in the way."""
        profile = self.wanted.reference()
        return inconclusive(self.gate, text, id=id, started=self.started, profile=profile, seconds=self._seconds())

    def _seconds(self) -> float:
        return time.monotonic() - self.since


def _nothing_more(wanted: Wanted) -> None:
    """A gate that reads no section of its own."""


def begin(
    gate: str,
    params: Mapping[str, Any],
    look: Callable[[Begun], Result],
    *,
    needs: Callable[[Wanted], object] = _nothing_more,
) -> Result:
    """What ``look`` finds; inconclusive where there is no profile by which to judge it.

    :param needs: reads the gate's own section of the profile, and raises where it is not there.
    """
    started = now_utc()
    try:
        wanted = wanted_of(params.get("profile"))
        needs(wanted)
    except ConfigError as exc:
        return answer(inconclusive(gate, str(exc), id="profile", remedy="remediate_config", started=started))
    return look(Begun(gate, started, wanted))
