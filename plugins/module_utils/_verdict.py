# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every gate and every check of trust says, and when it may say pass. PRIVATE to the collection.

Whoever judges fills in a :class:`Sheet`. The sheet says ``pass`` only when every cell that was required is there and
passes, and nothing else was recorded that does not. A gate therefore states first what it must see, then what it saw;
what it forgets to look at, or cannot read, stays an open cell, and an open cell is ``inconclusive``.

Runs on nodes: standard library only, Python 3.9 and newer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event, Result

PASS = "pass"
FAIL = "fail"
INCONCLUSIVE = "inconclusive"
SCHEMA = 1
#: The entity of what is of the machine as a whole.
NODE = "node"

#: From the best to the worst. A failure is never outvoted by what could not be measured.
_ORDER = {PASS: 0, INCONCLUSIVE: 1, FAIL: 2}

#: From the least to the most: what a person, or the break-fix play, has to do. ``fabric`` (look outside the node)
#: stands below the remedies that take a part out of it.
REMEDIES = (
    "none",
    "retest",
    "remediate_config",
    "reset_gpu",
    "reboot",
    "power_cycle",
    "fabric",
    "reseat",
    "field_diag",
    "rma",
)
_RANK = {name: rank for rank, name in enumerate(REMEDIES)}

#: What a gate's verdict does to its host, by the option ``fail_on``.
FAIL_ON: Mapping[str, tuple[str, ...]] = {
    "inconclusive": (FAIL, INCONCLUSIVE),
    "fail": (FAIL,),
    "never": (),
}


def worst(verdicts: Iterable[str]) -> str:
    """The verdict over several; of nothing at all, and of a word that is no verdict, ``inconclusive``."""
    known = [verdict if verdict in _ORDER else INCONCLUSIVE for verdict in verdicts]
    return max(known, key=_ORDER.__getitem__) if known else INCONCLUSIVE


def worst_remedy(remedies: Iterable[str]) -> str:
    """The heaviest remedy; an unknown word counts as ``field_diag``."""
    known = [remedy if remedy in _RANK else "field_diag" for remedy in remedies]
    return max(known, key=_RANK.__getitem__) if known else "none"


def heavier(remedy: str, than: str) -> bool:
    """Does one remedy ask for more than another one?"""
    return _RANK[remedy] > _RANK[than]


def now_utc() -> str:
    """Now, as verdicts write it."""
    return iso(datetime.now(timezone.utc).timestamp())


def iso(seconds: float) -> str:
    """Seconds since the epoch as verdicts write them."""
    return datetime.fromtimestamp(seconds // 1, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc(seconds: float) -> str:
    """The same with milliseconds, as the times of passports are written."""
    return f"{iso(seconds)[:-1]}.{int(seconds % 1 * 1000):03d}Z"


def seconds_of(text: Any) -> Optional[float]:
    """Seconds since the epoch of a time as verdicts write it; None where it is none."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc).timestamp()
    except (TypeError, ValueError):
        return None


def digest(*parts: bytes) -> str:
    """One digest over several byte strings; each is counted with its length, so that none can slide into the next."""
    total = hashlib.sha256()
    for part in parts:
        total.update(b"%d:" % len(part))
        total.update(part)
    return f"sha256:{total.hexdigest()}"


def canonical(value: Any) -> bytes:
    """The one spelling of a JSON-like value, however its keys are ordered."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return text.encode("ascii")


def json_digest(value: Any) -> str:
    """The digest of a JSON-like value."""
    return f"sha256:{hashlib.sha256(canonical(value)).hexdigest()}"


@dataclass(frozen=True)
class Check:
    """One cell: a test on an entity."""

    id: str
    entity: str
    verdict: str
    measured: Any = None
    wanted: Any = None
    unit: str = ""
    source: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "entity": self.entity,
            "measured": self.measured,
            "wanted": self.wanted,
            "unit": self.unit,
            "source": self.source,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class Finding:
    """What is wrong, in words, and what helps. ``id`` names the row of a table, for instance ``dcgm:80``."""

    id: str
    entity: str
    text: str
    remedy: str

    def as_dict(self) -> dict[str, str]:
        return {"id": self.id, "entity": self.entity, "text": self.text, "remedy": self.remedy}


@dataclass
class Sheet:
    """The cells of one gate run."""

    checks: dict[tuple[str, str], Check] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    _required: dict[tuple[str, str], Check] = field(default_factory=dict)

    def require(self, id: str, entity: str, *, wanted: Any = PASS, unit: str = "", source: str = "") -> None:
        """This cell must be recorded, or the gate is inconclusive."""
        self._required[(id, entity)] = Check(id, entity, INCONCLUSIVE, None, wanted, unit, source)

    def wants(self, id: str, entity: str) -> bool:
        return (id, entity) in self._required

    def demanded(self) -> set[str]:
        """What must be seen, by the cells' ids."""
        return {id for id, _entity in self._required}

    def record(self, check: Check) -> None:
        """A cell that was measured. A second look at the same cell can make it worse, never better."""
        key = (check.id, check.entity)
        before = self.checks.get(key)
        if before is None or worst([before.verdict, check.verdict]) != before.verdict:
            self.checks[key] = check

    def find(self, id: str, entity: str, text: str, remedy: str) -> None:
        """A finding; the same one twice is one."""
        finding = Finding(id, entity, text, remedy)
        if all((known.id, known.entity) != (id, entity) for known in self.findings):
            self.findings.append(finding)

    def found(self, id: str) -> bool:
        """Is there a finding of this id, on whatever part?"""
        return any(known.id == id for known in self.findings)

    def unsettled(self, id: str, entity: str, text: str, remedy: str = "retest") -> None:
        """Something that was in the way of measuring: a finding and an inconclusive cell."""
        self.find(id, entity, text, remedy)
        self.record(Check(id, entity, INCONCLUSIVE))

    def rows(self) -> list[Check]:
        """All cells: those recorded, then those that are still open."""
        return [*self.checks.values(), *(row for key, row in self._required.items() if key not in self.checks)]

    @property
    def verdict(self) -> str:
        """Pass only on a full sheet. A finding that asks for anything keeps a sheet from passing, too."""
        if not self._required:
            return worst([INCONCLUSIVE, *(check.verdict for check in self.checks.values())])
        verdict = worst(check.verdict for check in self.rows())
        if verdict == PASS and any(finding.remedy != "none" for finding in self.findings):
            return INCONCLUSIVE
        return verdict

    @property
    def remedy(self) -> str:
        """The heaviest remedy of the findings; a sheet that does not pass always has one."""
        remedy = worst_remedy(finding.remedy for finding in self.findings)
        if remedy == "none" and self.verdict != PASS:
            return "field_diag" if self.verdict == FAIL else "retest"
        return remedy


@dataclass(frozen=True)
class Tool:
    """What measured, for the verdict."""

    name: str
    version: str = ""
    argv: Sequence[str] = ()


def as_verdict(
    gate: str,
    sheet: Sheet,
    *,
    tool: Tool,
    started: str,
    evidence: str,
    profile: Mapping[str, Any] | None = None,
    seconds: Optional[float] = None,
) -> dict[str, Any]:
    """The verdict mapping that all gates return, of the schema ``verdict.schema.json``; the worst finding first.

    :param seconds: how long it took, by a clock that nobody sets; without it what lies between its two times.
    """
    findings, ended = list(sheet.findings), _end_of(started, seconds)
    if sheet.verdict != PASS and not any(finding.remedy != "none" for finding in findings):
        findings.append(_open_cells(sheet))
    findings.sort(key=lambda finding: -_RANK.get(finding.remedy, _RANK["field_diag"]))
    return {
        "schema": SCHEMA,
        "gate": gate,
        "verdict": sheet.verdict,
        "checks": [check.as_dict() for check in sheet.rows()],
        "findings": [finding.as_dict() for finding in findings],
        "remedy": sheet.remedy,
        "tool": {"name": tool.name, "version": tool.version},
        "argv": list(tool.argv),
        "started": started,
        "ended": ended,
        "duration": round(_between(started, ended) if seconds is None else seconds, 3),
        "evidence_digest": evidence,
        "profile": dict(profile or {"sku": "", "digest": ""}),
    }


def _end_of(started: str, seconds: Optional[float]) -> str:
    """A clock of the day that was set meanwhile makes no verdict end before its begin, or hours after its end."""
    begin = seconds_of(started)
    return max(started, now_utc()) if begin is None or seconds is None else iso(begin + seconds)


def _between(started: str, ended: str) -> float:
    begin, end = seconds_of(started), seconds_of(ended)
    return max(0.0, end - begin) if begin is not None and end is not None else 0.0


def _open_cells(sheet: Sheet) -> Finding:
    """A verdict that is no pass says why, even where nothing but an empty cell speaks against the node."""
    cells = [f"{row.id} of {row.entity}" for row in sheet.rows() if row.verdict != PASS]
    shown = ", ".join(cells[:4]) + (f" and {len(cells) - 4} more" if len(cells) > 4 else "")
    return Finding("incomplete", NODE, f"not measured, or not passed: {shown or 'everything'}", sheet.remedy)


def inconclusive(
    gate: str,
    text: str,
    *,
    id: str,
    remedy: str = "retest",
    started: str = "",
    profile: Mapping[str, Any] | None = None,
    seconds: Optional[float] = None,
) -> dict[str, Any]:
    """A verdict of a gate that could not run."""
    sheet = Sheet()
    sheet.unsettled(id, NODE, text, remedy)
    return as_verdict(
        gate,
        sheet,
        tool=Tool(gate),
        started=started or now_utc(),
        evidence=digest(text.encode("utf-8")),
        profile=profile,
        seconds=seconds,
    )


def blocks(verdict: str, fail_on: str) -> bool:
    """Does this verdict fail the host?"""
    return (verdict if verdict in _ORDER else INCONCLUSIVE) in FAIL_ON.get(fail_on, FAIL_ON["inconclusive"])


def sentence(verdict: Mapping[str, Any], *, shown: int = 3) -> str:
    """The verdict for a person: the worst findings and the remedy."""
    findings = verdict["findings"]
    texts = [row["text"].rstrip(".") for row in findings[:shown]]
    if len(findings) > shown:
        texts.append(f"and {len(findings) - shown} more")
    if verdict["verdict"] == PASS:
        texts.insert(0, f"{len(verdict['checks'])} of {len(verdict['checks'])} checks")
    what = "; ".join(texts) or "nothing was measured"
    return f"{verdict['gate']}: {verdict['verdict']}. {what}. Remedy: {verdict['remedy']}"


def refusal(result: Mapping[str, Any], fail_on: str, *, check_mode: bool) -> str:
    """Why this result fails its host, for a person; empty where it does not.

    A gate that check mode kept from running has decided nothing, and stops no dry run. Where it is no dry run, a
    finding that says so is a word of whoever wrote the result.
    """
    if check_mode and any(finding["id"] == "check_mode" for finding in result["findings"]):
        return ""
    return sentence(result) if blocks(result["verdict"], fail_on) else ""


def answer(verdict: Mapping[str, Any], asked: Mapping[str, Any] | None = None, **more: Any) -> Result:
    """A gate's result: the verdict at the top level, and one event that carries it whole. It never says changed.

    :param asked: the question, as the controller put it. In a result ``asked`` are the writes that were sent.
    """
    told = {**verdict, **({} if asked is None else {"asked": dict(asked)})}
    data = {**{key: value for key, value in verdict.items() if key != "asked"}, **more, "msg": sentence(verdict)}
    return Result(changed=False, data=data, events=[Event("verdict", verdict["gate"], told)])
