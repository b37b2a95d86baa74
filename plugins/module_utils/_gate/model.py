# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a SKU's profile of what known-good nodes show. PRIVATE to the collection.

On the controller. Nothing is made of a node that a gate would not let pass, nor of nodes that differ; and what was made
is held against each of them before it is told.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError, NotProven
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import parts
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.hardware import CELLS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.registry import LOOKS, MEASURES
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.shown import (
    PROVENANCE,
    Asks,
    Measured,
    Shown,
    about,
    differences,
    named,
    plain,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import SCHEMA
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, PASS, sentence

#: What a profile may lack: everything that a look can tell.
LEAVE_OUT = (*LOOKS.cells, *CELLS)
#: Those that no look tells, and that models have in common.
_FROM_LIKE = ("dcgm",)
#: Sections in the order in which a profile has them. Those that no look tells come from a profile that is there,
#: whatever gate they are of, and stand before the last.
_SECTIONS = (
    *("gpu", parts.SECTION, "firmware", LOOKS.section),
    *(measures.section for measures in MEASURES.values()),
)
#: What stands in a profile's part ``gpu`` and no look tells.
_OF_A_SHEET = ("memory_bandwidth",)
_BROKEN = (KeyError, TypeError, ValueError, AttributeError, IndexError)
_MANY = 12
Looked = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Question:
    """margin: how many per cent a floor lies under the slowest. kept: the profile that is there. like: another SKU's.

    ordered: by node how many GPUs it was ordered with, where somebody says so. against: by node what else speaks
    against it. measured: by gate and node the newest verdict.
    """

    sku: str
    title: str
    date: str
    margin: float = 5.0
    leave_out: Sequence[str] = ()
    kept: Mapping[str, Any] = field(default_factory=dict)
    like: Mapping[str, Any] = field(default_factory=dict)
    ordered: Mapping[str, int] = field(default_factory=dict)
    against: Mapping[str, Sequence[str]] = field(default_factory=dict)
    measured: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)

    @property
    def asks(self) -> Asks:
        rows = [row for one in (self.like, self.kept) for row in (one.get(LOOKS.section) or {}).get("cells") or []]
        return Asks(frozenset(self.leave_out), {row["name"]: row for row in rows if "limit" in row})


@dataclass(frozen=True)
class Made:
    """left_out: by cell why. floors: one a measurement that the ledger had, and warnings: one that cannot be read.
    notes: by node what a person should know."""

    profile: dict[str, Any]
    left_out: dict[str, str]
    floors: list[str]
    warnings: list[str]
    notes: dict[str, list[str]]


def make(question: Question, looks: Looked) -> Made:
    """The profile of these nodes.

    :raises ConfigError: for a question that has no answer.
    :raises NotProven: where a node is not known to be good, or nodes differ; all that is wrong is named.
    """
    _askable(question, looks)
    asks = question.asks
    shown = {node: _shown(node, look, asks) for node, look in looks.items()}
    figures, unread = _measured(question)
    _refuse(_findings(question, looks, shown, figures))
    told = {node: {**one.facts.fields(), **_parts(question, looks[node])} for node, one in shown.items()}
    _agree(differences(told, {**LOOKS.same, **parts.SAME}))
    _agree([line for gate in figures for line in _rows_that_differ(gate, figures[gate])])
    sections, floors = _sections(question, looks, shown, figures)
    profile = _whole(question, sections)
    for node, look in looks.items():
        _proven(node, LOOKS.passes(profile, look))
    first = next(iter(shown.values()))
    notes = {node: list(one.notes) for node, one in shown.items() if one.notes}
    return Made(profile, dict(first.silent), floors, unread, notes)


def _askable(question: Question, looks: Looked) -> None:
    unknown = sorted(set(question.leave_out) - set(LEAVE_OUT))
    if unknown:
        raise ConfigError(f"no look tells {', '.join(unknown)}", wanted=", ".join(LEAVE_OUT), do="correct leave_out")
    if not 0 <= question.margin < 100:
        raise ConfigError("the margin is no part of a figure", wanted="0 to 99 per cent", seen=f"{question.margin:g}")
    if not looks:
        raise ConfigError("no node was looked at", do="give looks, by node what state: seen has told of it")


def _shown(node: str, look: Mapping[str, Any], asks: Asks) -> Shown:
    try:
        return LOOKS.shown(look, asks)
    except FleetError as exc:
        raise exc.located(node=node) from None


# -- what is in the way ----------------------------------------------------------------------------------------------


def _findings(
    question: Question, looks: Looked, shown: Mapping[str, Shown], figures: Mapping[str, Figures]
) -> dict[str, list[str]]:
    found = {node: [*one.findings, *question.against.get(node, ())] for node, one in shown.items()}
    for node, one in shown.items():
        count = one.facts.count
        if not one.findings:
            found[node] += parts.findings(looks[node].get("hardware"), question.leave_out, count)
        if question.ordered.get(node, count) != count:
            found[node].append(f"{count} GPUs, and {question.ordered[node]} were ordered")
        found[node] += _of_gates(question, node)
        found[node] += [
            f"{gate} has measured {name} on {figure.gpus} GPUs, and it shows {count}"
            for gate, by_node in figures.items()
            for name, figure in by_node.get(node, {}).items()
            if figure.gpus != count
        ]
    return {node: texts for node, texts in found.items() if texts}


def _of_gates(question: Question, node: str) -> Iterator[str]:
    """A failure stands until the same question passes."""
    for by_node in question.measured.values():
        verdict = by_node.get(node)
        if verdict is not None and verdict.get("verdict") == FAIL:
            yield f"its newest verdict is no pass: {short(sentence(verdict), 300)}"


def _refuse(findings: Mapping[str, Sequence[str]]) -> None:
    if findings:
        raise NotProven(
            "no profile is made of a node that is not known to be good",
            wanted="nodes without a finding",
            seen="; ".join(f"{node}: {_several(texts)}" for node, texts in findings.items()),
            do="mend the node, or limit the run to others; what this model does not tell, name in leave_out",
            details={"findings": {node: list(texts) for node, texts in findings.items()}},
        )


def _agree(lines: Sequence[str]) -> None:
    if lines:
        raise NotProven(
            "the nodes differ, and no profile is made of them",
            wanted="nodes of one model that show the same",
            seen=_several(lines),
            do="limit the run to nodes that are alike; what may differ between them, name in leave_out",
            details={"differences": list(lines)},
        )


def _several(texts: Sequence[str]) -> str:
    listed = [text.rstrip(".") for text in texts]
    return "; ".join(listed[:_MANY]) + (f"; and {len(listed) - _MANY} more" if len(listed) > _MANY else "")


def _proven(node: str, wrong: str) -> None:
    if wrong:
        raise NotProven(
            "the node would not pass by the profile that was made of it",
            node=node,
            seen=short(wrong, 300),
            do="name what is in the way in leave_out, and report it",
        )


def _parts(question: Question, look: Mapping[str, Any]) -> dict[str, Any]:
    return parts.fields(look.get("hardware"), question.leave_out)


# -- what gates have measured ----------------------------------------------------------------------------------------

Figures = Mapping[str, Mapping[str, Measured]]


def _measured(question: Question) -> tuple[dict[str, Figures], list[str]]:
    """By gate and node the slowest figure of each measurement; and which verdicts could not be read."""
    found: dict[str, Figures] = {}
    unread = []
    for gate, measures in MEASURES.items():
        of_gate: dict[str, Mapping[str, Measured]] = {}
        for node, verdict in question.measured.get(gate, {}).items():
            if verdict.get("verdict") != PASS:
                continue
            try:
                of_gate[node] = measures.read(verdict)
            except _BROKEN as exc:
                unread.append(f"{measures.section}: what {gate} told of {node} cannot be read: {type(exc).__name__}")
        found[gate] = of_gate
    return found, unread


def _rows_that_differ(gate: str, figures: Figures) -> Iterator[str]:
    """One name for two measurements; how fast each was may differ."""
    for name in _names(figures):
        section = MEASURES[gate].section
        rows = {
            node: {f"{section}.{name}.{key}": value for key, value in of[name].row.items()}
            for node, of in figures.items()
            if name in of
        }
        yield from differences(rows, {})


def _names(figures: Figures) -> list[str]:
    return list(dict.fromkeys(name for of in figures.values() for name in of))


def _floors(question: Question, gate: str, figures: Figures, drivers: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for name in _names(figures):
        of = {node: by_name[name] for node, by_name in figures.items() if name in by_name}
        slowest = min(of.values(), key=lambda one: one.value)
        minimum = math.floor(slowest.value * (100 - question.margin)) / 100
        if minimum <= 0:
            raise NotProven(f"{gate} has measured nothing in {name}", seen=f"{slowest.value:g} {slowest.unit}")
        verdicts = {node: question.measured[gate][node] for node in of}
        conditions = f"{plain(question.margin)} % under {plain(slowest.value)} {slowest.unit}, the slowest"
        told = about(_tools(verdicts, drivers), of, _oldest(verdicts, question.date), conditions)
        yield {**slowest.row, "minimum": plain(minimum), **told}


def _tools(verdicts: Mapping[str, Mapping[str, Any]], drivers: Mapping[str, str]) -> str:
    tools = {
        " ".join(str(verdict["tool"][key]) for key in ("name", "version")).strip() for verdict in verdicts.values()
    }
    return f"{' and '.join(sorted(short(tool, 100) for tool in tools))}, {_driver(drivers[node] for node in verdicts)}"


def _driver(drivers: Iterable[str]) -> str:
    return f"driver {' and '.join(sorted(set(drivers)))}"


def _oldest(verdicts: Mapping[str, Mapping[str, Any]], today: str) -> str:
    return min([today, *(str(verdict["ended"]).partition("T")[0] for verdict in verdicts.values())])


# -- the profile -----------------------------------------------------------------------------------------------------


def _sections(
    question: Question, looks: Looked, shown: Mapping[str, Shown], figures: Mapping[str, Figures]
) -> tuple[dict[str, Any], list[str]]:
    drivers = {node: one.driver for node, one in shown.items()}
    tool = f"nvidia-smi, {_driver(drivers.values())}"
    facts = LOOKS.common([one.facts for one in shown.values()])
    made = LOOKS.sections(facts, question.asks, lambda more: about(tool, shown, question.date, more))
    told = _parts(question, next(iter(looks.values())))
    if told:
        who = sorted({who for look in looks.values() for who in parts.parts(look.get("hardware"))})
        source = f"hardware_verify, {' and '.join(short(one, 100) for one in who)}"
        made[parts.SECTION] = parts.section(told, lambda more: about(source, looks, question.date, more))
    floors = []
    for gate, measures in MEASURES.items():
        rows = list(_floors(question, gate, figures[gate], drivers))
        floors += [f"{measures.section}.{row['name']}: {row['minimum']}, of {named(figures[gate])}" for row in rows]
        if rows:
            beside = question.kept.get(measures.section) or {}
            whole = _with_kept(question, measures.section, measures.rows, rows)
            made[measures.section] = {**beside, measures.rows: whole}
    return made, floors


def _with_kept(question: Question, section: str, rows: str, made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A measurement that the ledger does not have now keeps the floor that stands there."""
    names = {row["name"] for row in made}
    kept = (question.kept.get(section) or {}).get(rows) or []
    return [*made, *(dict(row) for row in kept if row["name"] not in names)]


def _whole(question: Question, made: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"schema": SCHEMA, "sku": question.sku, "title": question.title}
    sheet = {key: entry for key, entry in (question.kept.get("gpu") or {}).items() if key in _OF_A_SHEET}
    known = {**{key: question.like[key] for key in _FROM_LIKE if key in question.like}, **question.kept, **made}
    names = dict.fromkeys([*_SECTIONS, *(name for name in known if name not in _FROM_LIKE), *_FROM_LIKE])
    found.update({name: known[name] for name in names if name in known and name not in found})
    return {**found, "gpu": {**found["gpu"], **sheet}}


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What the two say differently, whoever says it and since when."""
    return differences({"the file": dict(_flat("", before)), "these nodes": dict(_flat("", after))}, {})


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in PROVENANCE:
                yield from _flat(f"{path}.{key}" if path else str(key), inner)
    elif isinstance(value, list) and all(isinstance(row, Mapping) for row in value):
        for row in value:
            yield from _flat(f"{path}.{row.get('name', row.get('id'))}", row)
    else:
        yield path, ", ".join(map(str, value)) if isinstance(value, list) else value
