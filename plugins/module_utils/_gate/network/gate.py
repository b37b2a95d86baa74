# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate of the network: each port as the kernel shows it, twice, and where it leads. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import evidence
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.begun import Begun, begin
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import record_end
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network import judge as judging
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.lldp import command, read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.ports import Port, shown
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.section import Links, section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run, run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    Sheet,
    Tool,
    answer,
    canonical,
    digest,
)

GATE = "network_gate"
_SYSFS = "/sys"
Seen = dict[str, Port]


def plan_of(params: Mapping[str, Any]) -> dict[str, str]:
    """By port the switch and its port to which it must lead, in words with one space between them."""
    return {str(port): " ".join(str(place).split()) for port, place in (params.get("neighbours") or {}).items()}


def network_gate(params: Mapping[str, Any], ctx: Context) -> Result:
    """Look at each port before and after a while, and say what that proves."""
    tests = list(params.get("tests") or [])
    return begin(GATE, params, lambda begun: _look(params, ctx, begun), needs=lambda wanted: section_of(wanted, tests))


def _look(params: Mapping[str, Any], ctx: Context, begun: Begun) -> Result:
    asked, plan = section_of(begun.wanted, list(params.get("tests") or [])), plan_of(params)
    sysfs = str(params.get("sysfs_path") or _SYSFS)
    started = time.monotonic()
    sheet = judging.begin(asked, plan)
    before = _shown(sheet, sysfs, asked)
    done = _neighbours(sheet, params, plan)
    # As long as the longest of them: more time finds more errors, and none fewer.
    until = started + max(links.seconds for links in asked)
    ctx.wait(time.monotonic, lambda now: now >= until, timeout=86400.0, interval=0.5, wanted="the time to count errors")
    after = _shown(sheet, sysfs, asked)
    for links in asked:
        for name in links.ports:
            if before[name].there and after[name].there:
                judging.grown(sheet, links, name, before[name], after[name])
    return _told(params, ctx, begun, sheet, [before, after], done)


def _shown(sheet: Sheet, sysfs: str, asked: Sequence[Links]) -> Seen:
    found = {}
    for links in asked:
        for name in links.ports:
            found[name] = shown(sysfs, links, name)
            judging.state(sheet, links, name, found[name])
    return found


def _neighbours(sheet: Sheet, params: Mapping[str, Any], plan: Mapping[str, str]) -> Optional[Run]:
    if not plan:
        return None
    done = run(command(str(params.get("lldpctl") or "lldpctl")), timeout=float(params.get("timeout") or 60))
    record_end(sheet, done)
    judging.neighbours(sheet, plan, read(done.text))
    return done


def _told(
    params: Mapping[str, Any], ctx: Context, begun: Begun, sheet: Sheet, looks: Sequence[Seen], done: Optional[Run]
) -> Result:
    kernel = [{name: port.as_dict() for name, port in look.items()} for look in looks]
    runs = [done] if done is not None else []
    kept = evidence.save(
        sheet, params, ctx, lambda: {"gate": GATE, "kernel": kernel, "runs": [one.as_evidence() for one in runs]}
    )
    tool = Tool("kernel and lldpctl" if runs else "kernel", "", list(runs[0].argv) if runs else [])
    parts = [part for one in runs for part in one.parts()]
    return answer(begun.verdict(sheet, tool, digest(canonical(kernel), *parts)), evidence_path=kept)
