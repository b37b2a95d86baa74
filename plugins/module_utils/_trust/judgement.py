# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How this port fills in a sheet: a check that does not pass brings its finding with it. PRIVATE to the collection.

Verdict and remedy come out of the sheet (``_verdict.py``), as they do for every gate: what must be seen is required
first, and a cell that nobody filled in is inconclusive.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    PASS,
    Check,
    Sheet,
    Tool,
    as_verdict,
    blocks,
    json_digest,
    now_utc,
    sentence,
)


@dataclass
class Judgement:
    """What was looked at so far, and what it came to."""

    gate: str
    sheet: Sheet = field(default_factory=Sheet)
    argv: list[str] = field(default_factory=list)
    started: str = field(default_factory=now_utc)
    #: What the checks were read from, as text; only its digest leaves this machine.
    evidence: dict[str, Any] = field(default_factory=dict)

    def require(self, *cells: tuple[str, str]) -> None:
        """These must be recorded: pairs of id and entity."""
        for name, entity in cells:
            self.sheet.require(name, entity)

    def check(
        self,
        name: str,
        *,
        entity: str,
        measured: Any,
        wanted: Any,
        source: str,
        verdict: str,
        unit: str = "",
        finding: str = "",
        text: str = "",
        remedy: str = "remediate_config",
    ) -> str:
        """Add one check; one that does not pass needs a finding and a text for a person. Returns the verdict."""
        self.sheet.record(Check(name, entity, verdict, measured, wanted, unit, source))
        if verdict != PASS:
            self.sheet.find(
                finding or name, entity, text or f"{name}: {entity} has {measured}, wanted {wanted}", remedy
            )
        return verdict

    def same(
        self, name: str, *, entity: str, measured: Any, wanted: Any, source: str, finding: str = "", text: str = ""
    ) -> str:
        """A check that passes on equality alone."""
        verdict = PASS if measured == wanted else FAIL
        return self.check(
            name,
            entity=entity,
            measured=measured,
            wanted=wanted,
            source=source,
            verdict=verdict,
            finding=finding,
            text=text,
        )

    @property
    def verdict(self) -> str:
        return self.sheet.verdict

    def as_dict(self) -> dict[str, Any]:
        """The verdict as the ledger keeps it."""
        tool = Tool("image_verify", "1", self.argv)
        return as_verdict(self.gate, self.sheet, tool=tool, started=self.started, evidence=json_digest(self.evidence))


def result_of(
    judgement: Judgement, *, fail_on: str, more: Mapping[str, Any], asked: Mapping[str, Any] | None = None
) -> Result:
    """The verb's result: the verdict at top level, its event, and a failure where ``fail_on`` asks for one.

    A verdict that fails the task is no exception: its event must reach the ledger all the same.

    :param asked: the question, which the event carries and the result does not.
    """
    verdict = {**judgement.as_dict(), **more}
    told = {**verdict, **({} if asked is None else {"asked": dict(asked)})}
    data = {**verdict, "msg": sentence(verdict, shown=10)}
    if blocks(verdict["verdict"], fail_on):
        data["failed"] = True
    return Result(changed=False, data=data, events=[Event("verdict", judgement.gate, told)])
