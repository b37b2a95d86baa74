# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges what was seen in a soak. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak import grid, series
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.progress import Progress
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.section import ALWAYS, UNITS, Limit, Plan
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    INCONCLUSIVE,
    NODE,
    PASS,
    Check,
    Sheet,
)

#: In so many of the looks under load a figure is told: one that is not shows nothing of the rest.
_TOLD = 0.9
#: What speaks against a node that does not keep a limit of its profile.
_REMEDY = "field_diag"
#: By the cell what is said of a soak that does not keep it, and what helps.
_WORDS: Mapping[str, tuple[str, str]] = {
    grid.SOAKED: ("it was under load for {measured:g} s of {wanted:g}", "retest"),
    grid.SAMPLES: ("it was looked at {measured:g} times", "retest"),
    grid.GAP: ("nobody saw the GPUs for {measured:g} s, and the profile lets {wanted:g} pass", "retest"),
    grid.CLOCK: ("the clock was set by {measured:g} s meanwhile", "remediate_config"),
    grid.INTERRUPTIONS: (
        "it was cut off {measured:g} times, by a reboot, a kill or what could not be measured, and may be {wanted:g}"
        " times",
        _REMEDY,
    ),
}


def begin(required: Sequence[grid.Required]) -> Sheet:
    sheet = Sheet()
    for row in required:
        sheet.require(row.id, row.entity, wanted=row.wanted, unit=row.unit, source=row.source)
    return sheet


def measured(progress: Progress) -> dict[str, float]:
    """What is of the soak as a whole, by the cell."""
    whole: dict[str, float] = {
        grid.SOAKED: round(progress.seconds, 1),
        grid.SAMPLES: progress.samples,
        grid.GAP: progress.gap,
        grid.CLOCK: progress.step,
        grid.INTERRUPTIONS: progress.interruptions,
    }
    return {**whole, **{grid.rounds(name): count for name, count in progress.rounds.items()}}


def spoiled(progress: Progress, plan: Plan) -> bool:
    """Can no more time make a pass of it?"""
    return progress.gap > plan.gap or progress.step > grid.CLOCK_SECONDS or progress.interruptions > plan.interruptions


def judge(sheet: Sheet, required: Sequence[grid.Required], progress: Progress, plan: Plan) -> None:
    """Everything that was counted; what the looks and the load said is recorded by whoever asked them."""
    told = measured(progress)
    for row in (row for row in required if row.id in told):
        value = told[row.id]
        if not row.keeps(value):
            words, remedy = _WORDS.get(row.id, ("{measured:g} rounds of {id} passed", "retest"))
            sheet.find(row.id, NODE, words.format(id=row.id, measured=value, wanted=row.wanted), remedy)
        verdict = PASS if row.keeps(value) else INCONCLUSIVE
        sheet.record(Check(row.id, NODE, verdict, value, row.wanted, row.unit, row.source))
    for number, totals in enumerate(progress.totals):
        _figures(sheet, number, totals, plan, progress.loaded)
    for number, uuid in enumerate(progress.uuids):
        sheet.record(Check(grid.UUID, f"GPU {number}", PASS, uuid, "its own", "", "nvidia-smi"))


def series_kept(sheet: Sheet, progress: Progress, problem: str) -> None:
    """problem: why the series does not lie on the node as it is told here."""
    if problem:
        sheet.unsettled(grid.SERIES, NODE, f"the series cannot be written on the node: {problem}", "remediate_config")
        return
    told = f"{progress.digest}, {len(progress.rows)} rows of {progress.samples} samples"
    sheet.record(Check(grid.SERIES, NODE, PASS, told, "kept", "", "own rule: what was not seen was not soaked"))


def _figures(sheet: Sheet, number: int, totals: Mapping[str, series.Figure], plan: Plan, loaded: int) -> None:
    """loaded: how many looks there were under load, in nearly all of which a figure has to be told."""
    gpu = f"GPU {number}"
    for name in (name for name in ALWAYS if name in totals):
        if _silent(totals[name], loaded):
            sheet.unsettled(name, gpu, _fell_silent(gpu, name, totals[name], loaded))
            continue
        shown = f"{totals[name][1]:g} to {totals[name][3]:g}, mean {series.mean(totals[name]):.1f}"
        sheet.record(Check(name, gpu, PASS, shown, "told", UNITS[name], "nvidia-smi"))
    for limit in plan.limits:
        if limit.name in totals:
            _limit(sheet, gpu, limit, totals[limit.name], loaded)


def _statistic(figure: Sequence[float], name: str) -> float:
    values = {"min": figure[1], "mean": round(series.mean(figure), 3), "max": figure[3]}
    return values[name]


def _silent(figure: series.Figure, loaded: int) -> bool:
    return figure[0] < _TOLD * loaded


def _fell_silent(gpu: str, name: str, figure: series.Figure, loaded: int) -> str:
    return f"{gpu}: {name} was told in {figure[0]:g} of {loaded} looks under load: its sensor fell silent"


def _limit(sheet: Sheet, gpu: str, limit: Limit, figure: series.Figure, loaded: int) -> None:
    value = _statistic(figure, limit.statistic)
    if limit.keeps(value) and _silent(figure, loaded):
        sheet.unsettled(limit.cell, gpu, _fell_silent(gpu, limit.name, figure, loaded))
        return
    verdict = PASS if limit.keeps(value) else FAIL
    if verdict == FAIL:
        bound = "at most" if limit.most is not None else "at least"
        text = f"{gpu}: {limit.statistic} {limit.name} {value:g} {limit.unit}, wanted {bound} {limit.wanted:g}"
        sheet.find(limit.cell, gpu, text, _REMEDY)
    sheet.record(Check(limit.cell, gpu, verdict, value, limit.wanted, limit.unit, limit.source))


def beyond(progress: Progress, plan: Plan) -> bool:
    """Has a GPU gone beyond what no later sample can mend: the highest or the lowest of all?"""
    return any(
        limit.name in totals and not limit.keeps(_statistic(totals[limit.name], limit.statistic))
        for totals in progress.totals
        for limit in plan.limits
        if (limit.statistic == "max" and limit.most is not None)
        or (limit.statistic == "min" and limit.least is not None)
    )


def looked(
    sheet: Sheet, progress: Progress, found: Sequence[tuple[str, Mapping[str, Any]]], log: Mapping[str, Any]
) -> None:
    """What the looks at the GPUs, the load and the kernel log said. found: what ended it, by what it is."""
    for what, verdict in [*found, (grid.LOG, log)]:
        _imported(sheet, verdict, what)
    seen = PASS if all(what != grid.STATE for what, _verdict in found) else INCONCLUSIVE
    for number in range(len(progress.totals)):
        sheet.record(Check(grid.STATE, f"GPU {number}", seen, 0, 0, "looks that failed", "profile"))
    for number, text in progress.unseen:
        sheet.find(grid.STATE, f"GPU {number}", text, "reset_gpu")
        sheet.record(Check(grid.STATE, f"GPU {number}", FAIL, 1, 0, "looks that failed", "profile"))
    word = log["verdict"]
    sheet.record(Check(grid.LOG, NODE, word, 0 if word == PASS else None, 0, "failures", "kernel log"))


def _imported(sheet: Sheet, verdict: Mapping[str, Any], prefix: str) -> None:
    """What another gate found in between. A finding keeps its id, by which remedies are counted."""
    for row in verdict["findings"]:
        if row["remedy"] != "none":
            sheet.find(row["id"], row["entity"], row["text"], row["remedy"])
    for row in verdict["checks"]:
        if row["verdict"] != PASS:
            known = {key: row[key] for key in ("measured", "wanted", "unit", "source")}
            sheet.record(Check(f"{prefix}.{row['id']}", row["entity"], row["verdict"], **known))
