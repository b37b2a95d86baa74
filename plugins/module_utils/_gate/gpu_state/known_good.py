# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a known-good node shows of its GPUs, for a profile. PRIVATE to the collection.

The node says what its tool printed. The controller judges that by the rules of the gate itself, against the best of the
node's own GPUs: so whatever the gate would fail a node for is in the way, and what the gate could not read later is no
cell of the profile.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state import links
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.cells import OF_LINKS, RULES, Wants
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.document import (
    Gpu,
    Seen,
    absent,
    number,
    read,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.judge import Look, device_of, judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.section import NAME
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.on_bus import devices_on_bus
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.shown import (
    About,
    Asks,
    Facts,
    Looks,
    Shown,
    plain,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import SCHEMA, wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run, run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS, Sheet

_CALLS = (("-q", "-x"), ("nvlink", "-s"), ("nvlink", "-e"))
_PCI = "/sys/bus/pci/devices"
#: More than sixteen GPUs print; it travels to the controller.
_PRINTED = 2 * 1024 * 1024
_DEVICE = re.compile(r"[0-9a-f]{4}\Z")
#: How far apart the memory of two nodes may be, as drivers reserve some.
_NEAR = 0.98
#: The values that tell a cell. Where a node tells none of them, its driver or its model does not have it.
TELL: Mapping[str, tuple[str, ...]] = {
    "mig": ("mig", "mig_pending"),
    "ecc_mode": ("ecc", "ecc_pending"),
    "ecc_volatile": ("ecc_volatile_dram", "ecc_volatile_sram"),
    "ecc_aggregate": ("ecc_aggregate_dram", "ecc_aggregate_sram"),
    "sram_threshold": ("sram_threshold",),
    "row_remap": ("remap_failure", "remap_pending", "remap_uncorrectable"),
    "row_remap_banks": ("banks_none", "banks_low"),
    "retired_pages": ("retired_single", "retired_double", "retired_pending"),
    "repairs": ("unrepairable", "channel_repair", "tpc_repair"),
    "recovery": ("recovery", "reset_required"),
    "ras": ("ras_uncorrectable", "ras_deferred"),
    "xgmi": ("xgmi_uncorrectable",),
    "bad_pages": ("pages_retired", "pages_pending", "pages_unreservable"),
    "ras_memory": ("ras_memory",),
    "partition": ("compute_partition", "memory_partition"),
    "clocks": ("hw_thermal", "power_brake", "hw_slowdown", "sw_thermal"),
    "memory": ("memory",),
    "persistence": ("persistence",),
    "power": ("power_limit", "power_draw"),
    "pcie": ("pcie_generation", "pcie_generation_max", "pcie_width", "pcie_width_max"),
    "fabric": ("fabric_state", "fabric_status"),
    "fabric_cluster": ("fabric_cluster",),
}
#: Where a figure of the SKU is read, with its unit there and in a profile.
_READ: Mapping[str, tuple[str, str, str]] = {
    "memory": ("memory", "MiB", "MiB"),
    "power": ("power_limit", "W", "W"),
    "pcie_generation": ("pcie_generation_max", "", "generation"),
    "pcie_width": ("pcie_width_max", "x", "lanes"),
}
_UNITS: Mapping[str, str] = {
    **{name: unit for name, (_field, _there, unit) in _READ.items()},
    "nvlink_links": "links",
    "nvlink_speed": "GB/s",
}
_NOT_TOLD = "nvidia-smi does not tell it of these GPUs"


def ask(params: Mapping[str, Any]) -> dict[str, Any]:
    """On the node: what nvidia-smi prints, and which devices of NVIDIA the kernel knows."""
    tool = str(params.get("nvidia_smi") or "nvidia-smi")
    end = time.monotonic() + float(params.get("timeout") or 120)
    runs = [run([tool, *call], timeout=max(1.0, end - time.monotonic()), limit=_PRINTED) for call in _CALLS]
    return {
        "runs": [one.as_evidence() for one in runs],
        "on_bus": devices_on_bus(str(params.get("pci_path") or _PCI)),
    }


# -- what a node has said, on the controller -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Told:
    """state, errors: what was said of the NVLinks; None where the call did not end well."""

    seen: Seen
    runs: Sequence[Run]
    state: Optional[links.Table]
    errors: Optional[links.Table]
    on_bus: Sequence[str]

    def look(self, cells: Sequence[str]) -> Look:
        """As the gate would have seen it: it makes a call for the cells that it must fill, and for no other."""
        made = [True, "nvlink" in cells, "nvlink_errors" in cells]
        runs = [one for one, wanted in zip(self.runs, made) if wanted]
        return Look(self.seen, runs, self.state if made[1] else None, self.errors if made[2] else None)

    def tables(self) -> list[links.Links]:
        return list(self.state.by_number.values()) if self.state else []


def _run_of(told: Any) -> Run:
    """:raises BadAnswer: where it is no run of a tool."""
    shape: dict[str, Any] = {"argv": list, "rc": (int, type(None)), "ended": str, "stdout": str, "stderr": str}
    whole = isinstance(told, Mapping) and all(isinstance(told.get(key), kind) for key, kind in shape.items())
    if not whole or not told["argv"]:
        raise BadAnswer("the look is none of gate_profile", do="register gate_profile with state: seen, and give that")
    argv = tuple(str(word) for word in told["argv"])
    return Run(argv, told["rc"], told["stdout"].encode(), told["stderr"].encode(), told["ended"], 0.0)


def _told(look: Mapping[str, Any]) -> _Told:
    rows = look.get("runs")
    runs = [_run_of(one) for one in (rows if isinstance(rows, list) and len(rows) == len(_CALLS) else [None])]
    state, errors = (links.read(one.text) if one.ended == "exit" and one.rc == 0 else None for one in runs[1:])
    bus = look.get("on_bus")
    return _Told(read(runs[0].text), runs, state, errors, [str(one) for one in bus] if isinstance(bus, list) else [])


def shown(look: Mapping[str, Any], asks: Asks) -> Shown:
    """What a node shows, and what speaks against it.

    :raises BadAnswer: where this is no look at a node.
    """
    told = _told(look)
    silent = _silent(told, asks)
    cells = tuple(name for name in RULES if name not in silent)
    device = device_of(told.seen.gpus[0]) if told.seen.gpus else ""
    facts = Facts(len(told.seen.gpus), device, _figures(told, cells, min), cells)
    best = {name: 1.0 for cell in cells for name in RULES[cell].figures}
    against = replace(facts, count=max(1, facts.count), figures={**best, **_figures(told, cells, max)})
    sheet = judge(told.look(cells), wanted_of(_profile(against, asks)))
    findings, notes = tuple(_findings(told, facts, silent, sheet)), tuple(_notes(told, sheet))
    return Shown(facts, told.seen.said("driver"), silent, findings, notes)


def _silent(told: _Told, asks: Asks) -> dict[str, str]:
    """By cell why it is none of the profile."""
    found = {name: "left out by leave_out" for name in RULES if name in asks.without}
    for name, rule in RULES.items():
        if name in found:
            continue
        if rule.limited and name not in asks.limits:
            found[name] = "how many are too many, no node can show; a profile that like names may have a limit"
        elif not (_links_told(told, name) if name in OF_LINKS else any(_tells(gpu, name) for gpu in told.seen.gpus)):
            found[name] = _NOT_TOLD
    return found


def _tells(gpu: Gpu, name: str) -> bool:
    if name == "fabric_cluster":  # without a cluster there are zeros, as on each machine that is a fabric of its own
        rule = RULES[name].judge
        return rule is not None and rule(gpu, Wants(name, "", {})).verdict == PASS
    return any(not absent(word) for field in TELL[name] for word in gpu.said(field))


def _links_told(told: _Told, name: str) -> bool:
    """A call that did not end well, or said what nobody knows, tells too: it is in the way, and no silence."""
    if told.state is not None and not any(one.up for one in told.tables()):
        strange = bool(told.state.strange) or any(one.strange and not one.none_up for one in told.tables())
        return strange and name == "nvlink"
    return name == "nvlink" or told.errors is None or any(one.counted for one in told.errors.by_number.values())


def _figures(told: _Told, cells: Sequence[str], of_all: Callable[[list[float]], float]) -> dict[str, float]:
    """By name what all of these GPUs reach, or what the best of them does. What one does not tell is not there."""
    found: dict[str, float] = {}
    for name in dict.fromkeys(name for cell in cells for name in RULES[cell].figures):
        values = list(_values(told, name))
        whole = [value for value in values if value is not None]
        if whole and len(whole) == len(values):
            found[name] = of_all(whole)
    return found


def _values(told: _Told, name: str) -> Iterator[Optional[float]]:
    if name in _READ:
        field, unit, _shown = _READ[name]
        yield from (number(gpu.said(field), unit) for gpu in told.seen.gpus)
    elif name == "nvlink_links":
        yield from (float(len(one.up)) for one in told.tables() if one.up)
    else:
        yield from (speed for one in told.tables() for speed in one.up.values() if speed is not None)


def _findings(told: _Told, facts: Facts, silent: Mapping[str, str], sheet: Sheet) -> Iterator[str]:
    """What speaks against a node."""
    findings = [one.text for one in sheet.findings if one.remedy != "none" and one.id != "cells"]
    yield from findings
    if sheet.verdict != PASS and not findings:
        yield "not told, or not as it must be: " + ", ".join(
            f"{row.id} of {row.entity}" for row in sheet.rows() if row.verdict != PASS
        )
    if told.seen.gpus and not _DEVICE.match(facts.device):
        yield f"its GPUs tell {facts.device or 'no device id'}, which is no device of NVIDIA"
    known = [one for one in told.on_bus if one == facts.device]
    if told.seen.gpus and len(known) != facts.count:
        yield f"the kernel knows {len(known)} GPUs of the device {facts.device}, and nvidia-smi {facts.count}"
    if silent.get("nvlink") == _NOT_TOLD and any(one.none_up for one in told.tables()):
        yield "none of its NVLinks is up; where this model has none, name nvlink and nvlink_errors in leave_out"


def _notes(told: _Told, sheet: Sheet) -> Iterator[str]:
    yield from (one.text for one in sheet.findings if one.remedy == "none")
    for gpu in told.seen.gpus[:1]:
        limit, usual = (number(gpu.said(name), "W") for name in ("power_limit", "power_default"))
        if limit is not None and usual is not None and limit != usual:
            yield f"its power limit is {plain(limit)} W, and the one that it was shipped with {plain(usual)} W"


# -- the sections of a profile ---------------------------------------------------------------------------------------

_CONDITIONS: Mapping[str, str] = {
    "count": "all that nvidia-smi and the kernel know",
    "device_ids": "PCI device id in lower case",
    "memory": "the GPU with the least",
    "nvlink_links": "all links were up",
    "nvlink_speed": "a link and direction",
    "pcie_generation": "what the link can reach; an idle one steps down",
    "pcie_width": "what the link can reach",
    "power": "the limit that was set",
}
_CELL = "each GPU told it, and was as it must be; an older driver may not tell it"


def common(facts: Sequence[Facts]) -> Facts:
    """Of nodes that agree: of their figures the least."""
    first = facts[0]
    return replace(first, figures={name: min(one.figures[name] for one in facts) for name in first.figures})


def sections(facts: Facts, asks: Asks, about: About) -> dict[str, Any]:
    """about: of the conditions of a number, all that stands beside it."""
    gpu: dict[str, Any] = {"count": {"value": facts.count}, "device_ids": {"value": [facts.device]}}
    figures = [name for name in _UNITS if name in facts.figures]
    gpu.update({name: {"value": plain(facts.figures[name]), "unit": _UNITS[name]} for name in figures})
    return {
        "gpu": {name: {**entry, **about(_CONDITIONS[name])} for name, entry in gpu.items()},
        NAME: {"cells": [_cell(name, asks, about) for name in facts.cells]},
    }


def _cell(name: str, asks: Asks, about: About) -> dict[str, Any]:
    limit = asks.limits.get(name) if RULES[name].limited else None
    return {"name": name, **about(_CELL)} if limit is None else dict(limit)


def _profile(facts: Facts, asks: Asks) -> dict[str, Any]:
    """To judge a node against its own best GPU."""
    made = sections(
        facts, asks, lambda conditions: {"source": "its own best GPU", "date": "", "conditions": conditions}
    )
    return {"schema": SCHEMA, "sku": "of its own", "title": "", **made}


def passes(profile: Mapping[str, Any], look: Mapping[str, Any]) -> str:
    """Empty where a node that has shown this passes by the profile."""
    cells = [str(row["name"]) for row in profile[NAME]["cells"]]
    sheet = judge(_told(look).look(cells), wanted_of(profile))
    return "" if sheet.verdict == PASS else "; ".join(one.text for one in sheet.findings) or sheet.verdict


def _near(one: float, other: float) -> bool:
    return min(one, other) >= max(one, other) * _NEAR


LOOKS = Looks(NAME, ask, shown, common, sections, passes, tuple(RULES), {"gpu.memory": _near})
