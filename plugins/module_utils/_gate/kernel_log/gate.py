# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel log gate: reads this boot's kernel log and judges the node by it. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import evidence
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.begun import Begun, begin
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log import lines as forms
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log import machine, whole
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log import read as reader
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.crashes import crash_records, of_check
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.judge import judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.lines import (
    Incident,
    Names,
    incidents,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.records import texts_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.signs import worth
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.whole import lost, prove_end
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Line, Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    INCONCLUSIVE,
    NODE,
    PASS,
    Check,
    Sheet,
    Tool,
    answer,
    digest,
    iso,
)

GATE = "kernel_log_gate"
#: What each pass has looked at.
CELLS = ("window", "xid", "sxid", "kernel")
#: Where they can have been seen.
SOURCES = ("kmsg", "journal", "file")
_SAME_SECONDS = 2.0
#: Each line that anybody looks at has one of these words.
_SIGNS = (*forms.SIGNS, *machine.SIGNS, *whole.SIGNS)


def lacking(verdict: Mapping[str, Any]) -> str:
    """The cells that a claimed pass has not; empty where it has all. verdict: one whose shape was checked."""
    passed = {row["id"] for row in verdict["checks"] if (row["entity"], row["verdict"]) == (NODE, PASS)}
    gone = [name for name in CELLS if name not in passed]
    return f"required cells are not in it: {', '.join(gone)}" if gone else ""


def own(window: str) -> Own:
    """What each pass says, by the window that was asked for."""
    quiet = Line(0, "kernel log", "failures", 0)
    return Own(
        {(name, NODE): Line(f"whole since {window}", "kernel log") if name == "window" else quiet for name in CELLS},
        SOURCES,
    )


def kernel_log_gate(params: Mapping[str, Any], ctx: Context) -> Result:
    """Read the log and say what it proves."""
    return begin(GATE, params, lambda begun: _look(params, ctx, begun))


def _look(params: Mapping[str, Any], ctx: Context, begun: Begun) -> Result:
    try:
        clock = reader.read_clock(params)
        asked = reader.window_start(str(params.get("since") or "boot"), clock)
    except ConfigError as exc:
        return answer(begun.unmeasured(str(exc), "window"))
    start = max(0.0, asked)  # of an earlier boot the kernel has no log, only the records of its crashes
    logs = _read(params, start, clock)
    chosen = logs[-1]
    sheet = Sheet()
    for name in CELLS:
        sheet.require(name, NODE)
    names, marked = Names({}, {}), [_marked(log) for log in logs]
    judge(sheet, _found(logs, marked, start, clock, names), names)
    _window(sheet, logs, start, clock)
    crashed = min(float(params.get("_crashed_since", clock.now)), clock.booted + asked)
    _holes(sheet, logs, marked, start, clock)
    for option in ("pstore_path", "pstore_archive"):
        _crashes(sheet, str(params.get(option) or ""), crashed)
    kept = _save(sheet, params, ctx, logs)
    tool = Tool(chosen.source, "", [log.place for log in logs])
    verdict = begun.verdict(sheet, tool, digest(*(part for log in logs for part in (log.source.encode(), log.raw))))
    return answer(verdict, window=_described(chosen, start, clock), evidence_path=kept)


def _read(params: Mapping[str, Any], start: float, clock: reader.Clock) -> list[reader.Log]:
    """The kernel's own ring, which ends now, and where that does not go back far enough the log that does.

    The last one counts; the ring is looked at in any case, and holds the end of the other one.
    """
    source, path = str(params.get("source") or "auto"), str(params.get("path") or "")
    device = str(params.get("kmsg_path") or "/dev/kmsg")
    ring = reader.read_kmsg(path or device if source in ("auto", "kmsg") else device, start)
    if source in ("auto", "kmsg"):
        known = list(ring.problems)
        ring.settle(start, clock)
        if source == "kmsg" or not ring.problems:
            return [ring]
        ring.ends_now = ring.ends_now and not known
    if source == "file":
        log = reader.read_file(path, clock)
    else:
        program = str(params.get("journalctl") or "journalctl")
        log = reader.read_journal(program, clock, float(params.get("timeout") or 60))
    log.settle(start, clock)
    prove_end(log, ring, clock)
    return [ring, log]


def _marked(log: reader.Log) -> list[reader.Line]:
    """The lines of a log that anybody looks at: next to none of its hundred thousand."""
    return [log.lines[number] for number in worth(texts_of(log.lines), _SIGNS)]


def _found(
    logs: Sequence[reader.Log],
    marked: Sequence[Sequence[reader.Line]],
    start: float,
    clock: reader.Clock,
    names: Names,
) -> list[Incident]:
    """The incidents of the window, each once, in the order of their times.

    The whole of each log is read for names: the driver tells them once, at its start.
    """
    found: list[Incident] = []
    for log, lines in zip(reversed(logs), reversed(marked)):
        known = _times(found)
        for line, one in incidents(lines, names):
            one = replace(one, at=log.age_of(line, clock))
            if log.in_window(line, start, clock) and not _near(one.at, known.get(_message(one), [])):
                found.append(one)
    return found if any(one.at is None for one in found) else sorted(found, key=lambda one: one.at or 0.0)


def _message(one: Incident) -> tuple[str, int, str, str]:
    """What is the same in two logs, of which one may only know the second."""
    return one.kind, one.number, one.where, one.text


def _times(found: Sequence[Incident]) -> dict[tuple[str, int, str, str], list[float]]:
    """Of each message when it was logged, in order; what has no time may have been at any."""
    times: dict[tuple[str, int, str, str], list[float]] = {}
    for one in found:
        times.setdefault(_message(one), []).append(-math.inf if one.at is None else one.at)
    return {message: sorted(several) for message, several in times.items()}


def _near(at: float | None, times: Sequence[float]) -> bool:
    if at is None or not times or times[0] == -math.inf:
        return bool(times)
    place = bisect_left(times, at - _SAME_SECONDS)
    return place < len(times) and times[place] <= at + _SAME_SECONDS


def _window(sheet: Sheet, logs: list[reader.Log], start: float, clock: reader.Clock) -> None:
    since = iso(clock.booted + start)
    chosen = logs[-1]
    if chosen.problems:
        for log in logs:
            for number, text in enumerate(log.problems):
                sheet.find(
                    f"log.{log.source}" + (f".{number}" if number else ""), NODE, f"{log.source}: {text}", "retest"
                )
    verdict = INCONCLUSIVE if chosen.problems else PASS
    measured = f"{len(chosen.lines)} records of {chosen.place}"
    sheet.record(Check("window", NODE, verdict, measured, f"whole since {since}", "", chosen.source))


def _holes(
    sheet: Sheet,
    logs: Sequence[reader.Log],
    marked: Sequence[Sequence[reader.Line]],
    start: float,
    clock: reader.Clock,
) -> None:
    """Lines in which a log says itself that lines are missing."""
    for log, lines in zip(logs, marked):
        for line in (line for line in lines if log.in_window(line, start, clock)):
            words = lost(line.text)
            if words:
                sheet.find("log.lost", NODE, f"{log.source}: {words}: {cut(line.text, 80)}", "retest")
                sheet.record(Check("window", NODE, INCONCLUSIVE, cut(line.text, 80), "no line lost", "", log.source))


def _crashes(sheet: Sheet, folder: str, start_wall: float) -> None:
    try:
        records = crash_records(folder, start_wall) if folder else []
    except ConfigError as exc:
        sheet.find(f"pstore:{folder}", NODE, str(exc), "remediate_config")
        sheet.record(Check("kernel", NODE, INCONCLUSIVE, exc.seen, 0, "records", folder))
        return
    if records:
        what = "a machine check stopped the machine" if any(map(of_check, records)) else "the kernel crashed"
        text = f"{what} and left {', '.join(records[:3])} in {folder}"
        sheet.find(f"pstore:{folder}", NODE, text, "field_diag")
        sheet.record(Check("kernel", NODE, FAIL, records[:8], 0, "records", folder))


def _described(log: reader.Log, start: float, clock: reader.Clock) -> dict[str, Any]:
    times = log.ages(clock)
    return {
        "source": log.source,
        "since": iso(clock.booted + start),
        "boot_id": clock.boot_id,
        "uptime": round(clock.uptime, 1),
        "records": len(log.lines),
        "first": round(min(times), 3) if times else None,
        "last": round(max(times), 3) if times else None,
    }


def _save(sheet: Sheet, params: Mapping[str, Any], ctx: Context, logs: list[reader.Log]) -> str:
    def content() -> dict[str, Any]:
        shown = [{"source": log.source, "place": log.place, "raw": log.raw.decode("utf-8", "replace")} for log in logs]
        return {"gate": GATE, "logs": shown}

    return evidence.save(sheet, params, ctx, content)
