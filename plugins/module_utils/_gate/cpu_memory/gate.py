# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate of CPUs and memory: what the kernel shows and counts of them, while stress-ng loads them. PRIVATE.

PRIVATE to the collection. Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import evidence
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.alone import BUSY, TEXT, alone
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.begun import Begun, begin
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory import judge as judging
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory import loads, solved
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.machine import (
    Counted,
    counted,
    shown,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.section import Section, section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    NODE,
    Sheet,
    Tool,
    answer,
    canonical,
    digest,
)

GATE = "cpu_memory_gate"
_SYSFS, _PROC = "/sys", "/proc"
_DRY = "not run in check mode: it would load the CPUs and the memory"


@dataclass
class _Look:
    """One run of the gate, as far as it has come. told: what the kernel showed, as evidence."""

    params: Mapping[str, Any]
    ctx: Context
    section: Section
    end: float
    sheet: Sheet
    told: list[dict[str, Any]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    version: str = ""

    @property
    def sysfs(self) -> str:
        return str(self.params.get("sysfs_path") or _SYSFS)

    @property
    def proc(self) -> str:
        return str(self.params.get("proc_path") or _PROC)

    def counted(self) -> Counted:
        found = counted(self.sysfs, self.proc)
        self.told.append(found.as_dict())
        return found


def cpu_memory_gate(params: Mapping[str, Any], ctx: Context) -> Result:
    """Look at CPUs and memory, load them, and say what that proves."""
    tests = list(params.get("tests") or [])
    return begin(GATE, params, lambda begun: _look(params, ctx, begun), needs=lambda wanted: section_of(wanted, tests))


def _look(params: Mapping[str, Any], ctx: Context, begun: Begun) -> Result:
    section = section_of(begun.wanted, list(params.get("tests") or []))
    names = ", ".join(section.names)
    if names and not ctx.may_write(f"load CPUs and memory: {names}", destructive=True):
        return answer(begun.unmeasured(_DRY, "check_mode"))
    end = time.monotonic() + float(params.get("timeout") or 1800)
    look = _Look(params, ctx, section, end, judging.begin(section))
    there = shown(look.sysfs, look.proc)
    look.told.append(there.as_dict())
    judging.present(look.sheet, section.machine, there)
    before = look.counted()
    judging.counts(look.sheet, section.machine, before)
    # What is broken needs no load to show it.
    if names and look.sheet.verdict != FAIL:
        _loaded(look)
        judging.grown(look.sheet, section.machine, before, look.counted())
    return _told(look, begun)


def _loaded(look: _Look) -> None:
    pci = {"pci_path": os.path.join(look.sysfs, "bus", "pci", "devices")}
    with alone(pci, look.ctx, timeout=max(1.0, look.end - time.monotonic())) as free:
        if not free:
            look.sheet.unsettled(BUSY, NODE, TEXT)
            return
        stress_ng = str(look.params.get("stress_ng") or "stress-ng")
        for taken in loads.take(look.section, stress_ng, look.proc, look.end):
            loads.judge(look.sheet, taken, look.section.machine)
            look.version = look.version or taken.seen.version
            look.runs += [taken.run] if taken.run else []
            look.told.append(dict(taken.saw))
        hpl = [str(word) for word in look.params.get("hpl") or ["xhpl"]]
        for one in solved.take(look.section.solves, hpl, look.end):
            solved.judge(look.sheet, one)
            look.version = look.version or one.seen.version
            look.runs.append(one.run)


def _told(look: _Look, begun: Begun) -> Result:
    kept = evidence.save(
        look.sheet,
        look.params,
        look.ctx,
        lambda: {"gate": GATE, "kernel": look.told, "runs": [one.as_evidence() for one in look.runs]},
    )
    parts = [part for one in look.runs for part in one.parts()]
    argv = list(look.runs[0].argv) if look.runs else []
    tools = [*(["stress-ng"] if look.section.loads else []), *(["HPL"] if look.section.solves else [])]
    tool = Tool(" and ".join(tools) or "kernel", look.version, argv)
    return answer(begun.verdict(look.sheet, tool, digest(canonical(look.told), *parts)), evidence_path=kept)
