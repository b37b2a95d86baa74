# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate of the network: each port as the kernel shows it, twice, and where it leads. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import evidence
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.alone import BUSY, TEXT, alone
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.begun import Begun, begin
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import record_end
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network import ber
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network import judge as judging
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.carried import (
    Taken,
    asked_of,
    judge,
    measure,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.claimed import tool_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.lldp import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.ports import Port, shown
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.section import Links, section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.speeds import Speed, places_of, speeds_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._lldp import command
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run, run
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

GATE = "network_gate"
_SYSFS = "/sys"
_DRY = "not run in check mode: it would load the network"
Seen = dict[str, Port]


def plan_of(params: Mapping[str, Any]) -> dict[str, str]:
    """By port the switch and its port to which it must lead, in words with one space between them."""
    return {str(port): " ".join(str(place).split()) for port, place in (params.get("neighbours") or {}).items()}


def network_gate(params: Mapping[str, Any], ctx: Context) -> Result:
    """Look at each port before and after a while, measure those that are asked for, and say what that proves."""
    return begin(GATE, params, lambda begun: _look(params, ctx, begun), needs=lambda wanted: _asked(params, wanted))


def _asked(params: Mapping[str, Any], wanted: Wanted) -> tuple[list[Links], list[Speed]]:
    links = section_of(wanted, list(params.get("tests") or []))
    speeds = speeds_of(wanted, [str(name) for name in params.get("speeds") or []])
    places_of(speeds, params.get("servers") or {})
    return links, speeds


def _look(params: Mapping[str, Any], ctx: Context, begun: Begun) -> Result:
    (asked, speeds), plan = _asked(params, begun.wanted), plan_of(params)
    names = ", ".join(speed.name for speed in speeds)
    if speeds and not ctx.may_write(f"measure {names} between ports", destructive=True):
        return answer(begun.unmeasured(_DRY, "check_mode"))
    sysfs = str(params.get("sysfs_path") or _SYSFS)
    started = time.monotonic()
    sheet = judging.begin(asked, plan, speeds)
    before = _shown(sheet, sysfs, asked)
    runs = _neighbours(sheet, params, plan)
    # Errors come with traffic, so what is measured is between the two looks; a port that is down carries nothing.
    taken = _measured(sheet, params, ctx, speeds, sysfs) if speeds and sheet.verdict != FAIL else []
    # As long as the longest of them: more time finds more errors, and none fewer.
    until = started + max(links.seconds for links in asked)
    ctx.wait(time.monotonic, lambda now: now >= until, timeout=86400.0, interval=0.5, wanted="the time to count errors")
    after = _shown(sheet, sysfs, asked)
    for links in asked:
        for name in links.ports:
            if before[name].there and after[name].there:
                judging.grown(sheet, links, name, before[name], after[name])
    # After what was measured, so that the errors of the traffic are among them.
    runs += ber.look(sheet, asked, str(params.get("mlxlink") or ber.TOOL), float(params.get("timeout") or 60))
    told = Tool(tool_of(asked, plan, speeds), next((one.seen.version for one in taken if one.seen.version), ""), [])
    return _told(
        params, ctx, begun, sheet, [before, after], [*runs, *(one for each in taken for one in each.runs)], told
    )


def _measured(
    sheet: Sheet, params: Mapping[str, Any], ctx: Context, speeds: Sequence[Speed], sysfs: str
) -> list[Taken]:
    asked = asked_of(params, speeds, sysfs)
    with alone({"pci_path": os.path.join(sysfs, "bus", "pci", "devices")}, ctx, timeout=asked.left) as free:
        if not free:
            sheet.unsettled(BUSY, NODE, TEXT)
            return []
        taken = list(measure(asked, ctx))
    for one in taken:
        judge(sheet, one)
    return taken


def _shown(sheet: Sheet, sysfs: str, asked: Sequence[Links]) -> Seen:
    found = {}
    for links in asked:
        for name in links.ports:
            found[name] = shown(sysfs, links, name)
            judging.state(sheet, links, name, found[name])
    return found


def _neighbours(sheet: Sheet, params: Mapping[str, Any], plan: Mapping[str, str]) -> list[Run]:
    if not plan:
        return []
    done = run(command(str(params.get("lldpctl") or "lldpctl")), timeout=float(params.get("timeout") or 60))
    record_end(sheet, done)
    judging.neighbours(sheet, plan, read(done.text))
    return [done]


def _told(
    params: Mapping[str, Any],
    ctx: Context,
    begun: Begun,
    sheet: Sheet,
    looks: Sequence[Seen],
    runs: Sequence[Run],
    tool: Tool,
) -> Result:
    kernel = [{name: port.as_dict() for name, port in look.items()} for look in looks]
    kept = evidence.save(
        sheet, params, ctx, lambda: {"gate": GATE, "kernel": kernel, "runs": [one.as_evidence() for one in runs]}
    )
    tool = Tool(tool.name, tool.version, list(runs[0].argv) if runs else [])
    parts = [part for one in runs for part in one.parts()]
    return answer(begun.verdict(sheet, tool, digest(canonical(kernel), *parts)), evidence_path=kept)
