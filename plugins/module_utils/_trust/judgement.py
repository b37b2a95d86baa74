# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict of this port: checks and findings are gathered, the worst of them decides. PRIVATE to the collection.

Three outcomes exist, and only ``pass`` admits. A verdict without a single check is inconclusive: nothing was looked
at.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event, Result

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"
_WORSE = {PASS: 0, INCONCLUSIVE: 1, FAIL: 2}
REMEDIES = ("none", "retest", "remediate_config")
_FAILS = {"never": frozenset(), "fail": frozenset({FAIL}), "inconclusive": frozenset({FAIL, INCONCLUSIVE})}


def utc(at: float | None = None) -> str:
    """Seconds since the epoch as ISO 8601 in UTC with milliseconds; now where none are given."""
    at = time.time() if at is None else at
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))
    return f"{whole}.{int(at % 1 * 1000):03d}Z"


def canonical(value: Any) -> bytes:
    """One spelling of a JSON value, for digests."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(value: Any) -> str:
    return "sha256:" + hashlib.sha256(canonical(value)).hexdigest()


@dataclass
class Judgement:
    """What was looked at so far, and what it came to."""

    gate: str
    checks: list[dict[str, Any]] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    argv: list[str] = field(default_factory=list)
    tool: dict[str, str] = field(default_factory=lambda: {"name": "image_verify", "version": "1"})
    started: str = field(default_factory=utc)
    #: What the checks were read from, as text; only its digest leaves this machine.
    evidence: dict[str, Any] = field(default_factory=dict)

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
        line = {"id": name, "entity": entity, "measured": measured, "wanted": wanted, "unit": unit}
        self.checks.append({**line, "source": source, "verdict": verdict})
        if verdict != PASS:
            told = text or f"{name}: {entity} has {measured}, wanted {wanted}"
            self.findings.append({"id": finding or name, "entity": entity, "text": told, "remedy": remedy})
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
        return max((check["verdict"] for check in self.checks), key=_WORSE.__getitem__, default=INCONCLUSIVE)

    def as_dict(self) -> dict[str, Any]:
        """The verdict as the ledger keeps it."""
        return {
            "schema": 1,
            "gate": self.gate,
            "verdict": self.verdict,
            "checks": self.checks,
            "findings": self.findings,
            "tool": self.tool,
            "argv": self.argv,
            "started": self.started,
            "ended": utc(),
            "evidence_digest": digest(self.evidence),
        }


def result_of(judgement: Judgement, *, fail_on: str, more: Mapping[str, Any]) -> Result:
    """The verb's result: the verdict at top level, its event, and a failure where ``fail_on`` asks for one.

    A verdict that fails the task is no exception: its event must reach the ledger all the same.
    """
    verdict = {**judgement.as_dict(), **more}
    data = dict(verdict)
    data["remedy"] = max((item["remedy"] for item in judgement.findings), key=REMEDIES.index, default="none")
    data["msg"] = message(judgement)
    if judgement.verdict in _FAILS[fail_on]:
        data["failed"] = True
    return Result(changed=False, data=data, events=[Event("verdict", judgement.gate, verdict)])


def message(judgement: Judgement) -> str:
    """One line for a person."""
    if judgement.verdict == PASS:
        return f"{judgement.gate}: pass ({len(judgement.checks)} checks)"
    told = "; ".join(f"{item['text']} [{item['id']}, remedy: {item['remedy']}]" for item in judgement.findings)
    return f"{judgement.gate}: {judgement.verdict}: {told or 'nothing was looked at'}"
