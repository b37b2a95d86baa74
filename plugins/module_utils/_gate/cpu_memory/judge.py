# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges CPUs and memory by what the kernel tells and counts, and says which cells must be filled. PRIVATE.

PRIVATE to the collection. Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.machine import (
    Counted,
    Errors,
    Shown,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.section import Load, Machine, Section
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import ENDED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.required import Required, demand
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    INCONCLUSIVE,
    NODE,
    PASS,
    Check,
    Sheet,
)

THREADS, SOCKETS, NODES, MEMORY, CONTROLLERS = (
    *("cpu_threads", "cpu_sockets", "numa_nodes"),
    *("memory", "memory_controllers"),
)
UNCORRECTED, CORRECTED, CHECKS = "uncorrected_errors", "corrected_errors", "machine_checks"
#: What the kernel keeps for itself differs by less from boot to boot; one of 32 modules is three times as much.
ALIKE = 0.01
_KIB_IN_GIB = 1 << 20
_EDAC = "own rule: of what could not be corrected each one counts"


def required(section: Section) -> Iterator[Required]:
    machine = section.machine
    source = machine.source
    yield Required(THREADS, NODE, machine.threads, "", source)
    yield Required(SOCKETS, NODE, machine.sockets, "", source)
    if machine.nodes is not None:
        yield Required(NODES, NODE, machine.nodes, "", source)
    yield Required(MEMORY, NODE, machine.memory, "GiB", source)
    yield Required(CONTROLLERS, NODE, machine.controllers, "", source)
    for entity in machine.entities:
        yield Required(UNCORRECTED, entity, 0, "since the driver was loaded", _EDAC)
    if machine.machine_checks is not None:
        yield Required(CHECKS, NODE, machine.machine_checks, "since boot", source)
    if section.loads or section.solves:
        yield Required(ENDED, NODE, "exit [0]", "", "own rule: an unknown end is none")
        for entity in machine.entities:
            yield Required(CORRECTED, entity, machine.corrected, "under load", source)
    for load in section.loads:
        yield Required(load.cell, NODE, wanted_of(load), load.unit, load.source)
        if load.memory:
            yield Required(load.filled_cell, NODE, load.least(machine), "GiB", load.source)
    for one in section.solves:
        yield Required(one.cell, NODE, one.minimum, one.unit, one.source)


def wanted_of(load: Load) -> Any:
    return "right results" if load.minimum is None else load.minimum


def begin(section: Section) -> Sheet:
    sheet = Sheet()
    demand(sheet, required(section))
    return sheet


# -- what there is -----------------------------------------------------------------------------------------------------


def present(sheet: Sheet, machine: Machine, shown: Shown) -> None:
    """Are CPUs and memory as many as the profile wants?"""
    gone = shown.present is not None and shown.present < machine.threads
    _number_of(
        sheet, machine, THREADS, shown.online, machine.threads, "CPUs online", "power_cycle" if gone else "reboot"
    )
    _number_of(sheet, machine, SOCKETS, shown.sockets, machine.sockets, "CPU sockets", "power_cycle")
    if machine.nodes is not None:
        _number_of(sheet, machine, NODES, shown.nodes, machine.nodes, "NUMA nodes", "remediate_config")
    _memory(sheet, machine, shown.memory)


def _number_of(
    sheet: Sheet, machine: Machine, cell: str, found: Optional[int], wanted: int, what: str, remedy: str
) -> None:
    if found is None:
        sheet.unsettled(cell, NODE, f"the kernel does not tell how many {what} there are")
        return
    verdict = PASS if found == wanted else FAIL if found < wanted else INCONCLUSIVE
    if verdict != PASS:
        remedy = remedy if verdict == FAIL else "remediate_config"
        sheet.find(cell, NODE, f"{found} {what}, and the profile wants {wanted}", remedy)
    sheet.record(Check(cell, NODE, verdict, found, wanted, "", machine.source))


def _memory(sheet: Sheet, machine: Machine, found: Optional[int]) -> None:
    if found is None:
        sheet.unsettled(MEMORY, NODE, "the kernel does not tell how much memory there is")
        return
    seen = round(found / _KIB_IN_GIB, 2)
    low, high = limits(machine)
    verdict = PASS if low <= seen <= high else FAIL if seen < low else INCONCLUSIVE
    if verdict != PASS:
        text = f"{seen:g} GiB of memory, and the profile wants {machine.memory:g}"
        sheet.find(MEMORY, NODE, text, "reseat" if verdict == FAIL else "remediate_config")
    sheet.record(Check(MEMORY, NODE, verdict, seen, machine.memory, "GiB", machine.source))


def limits(machine: Machine) -> tuple[float, float]:
    """The least and the most memory of a machine that is whole, in GiB."""
    return machine.memory * (1 - ALIKE), machine.memory * (1 + ALIKE)


# -- what was counted --------------------------------------------------------------------------------------------------


def counts(sheet: Sheet, machine: Machine, seen: Counted) -> None:
    """What has gone wrong since the machine came up. A second look can make a cell worse, never better."""
    found = len(seen.controllers)
    verdict = PASS if found == machine.controllers else INCONCLUSIVE
    if verdict != PASS:
        text = f"{found} memory controllers in EDAC, and the profile wants {machine.controllers}: is its driver loaded?"
        sheet.find(CONTROLLERS, NODE, text, "remediate_config")
    sheet.record(Check(CONTROLLERS, NODE, verdict, found, machine.controllers, "", machine.source))
    for name, errors in seen.controllers.items():
        _uncorrected(sheet, name, errors, seen)
    if machine.machine_checks is not None:
        _checks(sheet, machine, machine.machine_checks, seen.machine_checks)


def _uncorrected(sheet: Sheet, name: str, errors: Errors, seen: Counted) -> None:
    count = errors.uncorrected
    if count is None:
        sheet.unsettled(UNCORRECTED, name, f"{name} does not tell its uncorrected errors", "remediate_config")
        return
    if count:
        bad = [module for module, one in seen.modules.items() if _of(module, name) and one.uncorrected]
        text = f"{name}: {count} uncorrected memory errors{_at(bad)}"
        sheet.find(UNCORRECTED, name, text, "rma")
    verdict = FAIL if count else PASS
    sheet.record(Check(UNCORRECTED, name, verdict, count, 0, "since the driver was loaded", _EDAC))


def _checks(sheet: Sheet, machine: Machine, most: int, found: Optional[int]) -> None:
    if found is None:
        sheet.unsettled(CHECKS, NODE, "the kernel does not tell how many machine checks there were", "remediate_config")
        return
    if found > most:
        sheet.find(CHECKS, NODE, f"{found} machine check exceptions, and the profile allows {most}", "field_diag")
    verdict = FAIL if found > most else PASS
    sheet.record(Check(CHECKS, NODE, verdict, found, most, "since boot", machine.source))


def grown(sheet: Sheet, machine: Machine, before: Counted, after: Counted) -> None:
    """What the loads have shown. Counters that fell were set back, and nobody knows how far they had come."""
    counts(sheet, machine, after)
    for name, errors in after.controllers.items():
        begun = before.controllers.get(name, Errors(None, None))
        if None in (*begun, *errors):
            sheet.unsettled(CORRECTED, name, f"{name} does not tell its errors", "remediate_config")
            continue
        rise = int(errors.corrected or 0) - int(begun.corrected or 0)
        if rise < 0 or int(errors.uncorrected or 0) < int(begun.uncorrected or 0):
            sheet.unsettled(CORRECTED, name, f"{name}: its counters were set back under load")
            continue
        _risen(sheet, machine, name, rise, _worse(before.modules, after.modules, name))
    checks = (before.machine_checks, after.machine_checks)
    if None not in checks and checks[0] != checks[1]:
        text = f"machine check exceptions went from {checks[0]} to {checks[1]} under load"
        sheet.find(f"{CHECKS}.grown", NODE, text, "field_diag")
        sheet.record(Check(CHECKS, NODE, FAIL, checks[1], checks[0], "since boot", machine.source))


def _risen(sheet: Sheet, machine: Machine, name: str, rise: int, bad: list[str]) -> None:
    verdict = FAIL if rise > machine.corrected else PASS
    if verdict == FAIL:
        text = (
            f"{name}: {rise} corrected memory errors under load{_at(bad)}, and the profile allows {machine.corrected}"
        )
        sheet.find(CORRECTED, name, text, "field_diag")
    sheet.record(Check(CORRECTED, name, verdict, rise, machine.corrected, "under load", machine.source))


def _worse(before: Mapping[str, Errors], after: Mapping[str, Errors], controller: str) -> list[str]:
    """The modules of a controller that counted more than before."""
    found = []
    for module, errors in after.items():
        begun = before.get(module, Errors(0, 0)).corrected or 0
        if _of(module, controller) and (errors.corrected or 0) > begun:
            found.append(module)
    return found


def _of(module: str, controller: str) -> bool:
    return module.partition(" ")[0] == controller


def _at(modules: list[str]) -> str:
    named = ", ".join(short(module.partition(" ")[2], 60) for module in modules[:4])
    return f" in {named}" if named else ""
