# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel log gate: reads this boot's kernel log and judges the node by it. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import evidence
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.begun import Begun, begin
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log import read as reader
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.judge import judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.lines import (
    Incident,
    Names,
    incidents,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.verdict import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    Check,
    Sheet,
    Tool,
    answer,
    digest,
    iso,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result

GATE = "kernel_log_gate"
NODE = "node"


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
    for name in ("window", "xid", "sxid", "kernel"):
        sheet.require(name, NODE)
    names = Names({}, {})
    judge(sheet, [one for log in logs for one in _found(log, start, clock, names)], names)
    _window(sheet, logs, start, clock)
    _crashes(sheet, str(params.get("pstore_path") or ""), clock.booted + asked)
    tool = Tool(chosen.source, "", [log.place for log in logs])
    verdict = begun.verdict(sheet, tool, digest(*(part for log in logs for part in (log.source.encode(), log.raw))))
    return answer(verdict, window=_described(chosen, start, clock), evidence_path=_save(params, ctx, logs))


def _read(params: Mapping[str, Any], start: float, clock: reader.Clock) -> list[reader.Log]:
    """The logs in the order they were tried; the last one counts, the others failed and are looked at, too."""
    path = str(params.get("path") or "")
    tries: dict[str, Callable[[], reader.Log]] = {
        "kmsg": lambda: reader.read_kmsg(path or "/dev/kmsg", start),
        "journal": lambda: reader.read_journal(
            str(params.get("journalctl") or "journalctl"), clock, float(params.get("timeout") or 60)
        ),
        "file": lambda: reader.read_file(path, clock),
    }
    source = str(params.get("source") or "auto")
    logs = []
    for name in ("kmsg", "journal") if source == "auto" else (source,):
        log = tries[name]()
        log.settle(start, clock)
        logs.append(log)
        if not log.problems:
            break
    return logs


def _found(log: reader.Log, start: float, clock: reader.Clock, names: Names) -> list[Incident]:
    """The incidents of the window. The whole log is read for names: the driver tells them once, at its start."""
    inside = {id(line) for line in log.in_window(start, clock)}
    return [one for line, one in incidents(log.lines, names) if id(line) in inside]


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


def _crashes(sheet: Sheet, folder: str, start_wall: float) -> None:
    records = reader.crash_records(folder, start_wall) if folder else []
    if records:
        text = f"the kernel crashed and left {', '.join(records[:3])} in {folder}"
        sheet.find("pstore", NODE, text, "field_diag")
        sheet.record(Check("kernel", NODE, FAIL, records[:8], 0, "records", folder))


def _described(log: reader.Log, start: float, clock: reader.Clock) -> dict[str, Any]:
    times = [age for age in (log.age_of(line, clock) for line in log.lines) if age is not None]
    return {
        "source": log.source,
        "since": iso(clock.booted + start),
        "boot_id": clock.boot_id,
        "uptime": round(clock.uptime, 1),
        "records": len(log.lines),
        "first": round(min(times), 3) if times else None,
        "last": round(max(times), 3) if times else None,
    }


def _save(params: Mapping[str, Any], ctx: Context, logs: list[reader.Log]) -> str:
    def content() -> dict[str, Any]:
        shown = [{"source": log.source, "place": log.place, "raw": log.raw.decode("utf-8", "replace")} for log in logs]
        return {"gate": GATE, "logs": shown}

    return evidence.save(params, ctx, content)
