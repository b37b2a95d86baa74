# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges one look at the GPUs against a profile. PRIVATE to the collection.

Nothing is run here: in goes what was read and how the tool ended; out comes a sheet.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import record_end
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state import deltas, links
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.cells import (
    OF_LINKS,
    RULES,
    Wants,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.document import Gpu, Seen, bare
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.exits import explain
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.fields import AMD
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.grid import SINCE, entity, required
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.section import (
    NVIDIA,
    demanded,
    parse_version,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.values import Reading
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.required import demand
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    INCONCLUSIVE,
    NODE,
    PASS,
    Check,
    Sheet,
)

_NUMBERS = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z"
#: NVIDIA's has a word before it.
_UUID, _UUID_AMD = re.compile(f"GPU-{_NUMBERS}"), re.compile(_NUMBERS)
_DEVICE = re.compile(r"(?:0x)?([0-9a-f]{4})([0-9a-f]{4})\Z")
_DEVICE_AMD = re.compile(r"0x([0-9a-f]{4})\Z")
_ADDRESS = re.compile(r"(?:0000)?([0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})\.[0-7]\Z")
_VENDOR, _VENDOR_AMD = "10de", "0x1002"


@dataclass
class Look:
    """What one look read. state, errors: what was said of the NVLinks; None where nobody asked. before: the rows of an
    earlier look; None where there was none. boot_id, uptime: of the node."""

    seen: Seen
    runs: Sequence[Run]
    state: Optional[links.Table] = None
    errors: Optional[links.Table] = None
    before: Optional[Sequence[Mapping[str, Any]]] = None
    tool: str = NVIDIA
    boot_id: str = ""
    uptime: float = 0.0
    #: What may be otherwise at the next look, by its cell.
    passing: dict[tuple[str, str], Reading] = field(default_factory=dict)

    def rows(self) -> list[dict[str, Any]]:
        """What each GPU has counted, for a later look."""
        return [self.row(number, gpu) for number, gpu in enumerate(self.seen.gpus)]

    def row(self, number: int, gpu: Gpu) -> dict[str, Any]:
        counted = deltas.counters(gpu, self.errors.of(number, uuid_of(gpu)) if self.errors else None)
        return {"gpu": number, "uuid": uuid_of(gpu), "boot_id": self.boot_id, "uptime": self.uptime, **counted}


def uuid_of(gpu: Gpu) -> str:
    words, pattern = gpu.said("uuid"), _UUID_AMD if gpu.form == AMD else _UUID
    return words[0] if len(words) == 1 and pattern.match(words[0]) else ""


def device_of(gpu: Gpu) -> str:
    """The PCI device id; with its vendor where that is another one, and empty where nothing is told."""
    words = gpu.said("device_id")
    if gpu.form == AMD:
        ours = _DEVICE_AMD.match(words[0].lower()) if gpu.said("vendor") == [_VENDOR_AMD] and words else None
        return ours.group(1) if ours else ""
    match = _DEVICE.match(words[0].lower()) if len(words) == 1 else None
    if match is None:
        return ""
    return match.group(1) if match.group(2) == _VENDOR else match.group(0)


def judge(look: Look, wanted: Wanted) -> Sheet:
    """Everything that one look says."""
    sheet, seen = Sheet(), look.seen
    version = parse_version(seen.said("driver"))
    cells = demanded(wanted, version)
    numbers = range(max(wanted.gpu_count, len(seen.gpus)))
    demand(sheet, required(wanted, cells, numbers, second=look.before is not None, tool=look.tool))
    if not cells:
        sheet.unsettled("cells", NODE, "the profile names no cell for this driver", "remediate_config")
    for done in look.runs:
        if look.tool == NVIDIA:
            explain(sheet, done)
        record_end(sheet, done)
    _document(sheet, seen, look.tool)
    if seen.gpus:
        _count(sheet, seen, wanted, look.tool)
    for number, gpu in enumerate(seen.gpus):
        _identity(sheet, number, gpu, look, wanted)
        _cells(sheet, look, number, gpu, cells)
    return sheet


def _document(sheet: Sheet, seen: Seen, tool: str) -> None:
    for at, text in enumerate(seen.problems):
        sheet.unsettled(f"output.{at}" if at else "output", NODE, f"{tool}: {short(text, 300)}")
    driver = seen.said("driver")
    if parse_version(driver):
        sheet.record(Check("driver", NODE, PASS, driver, "a version", "", tool))
    elif seen.gpus:
        sheet.unsettled("driver", NODE, f"{tool} does not tell the driver's version", "remediate_config")


def _count(sheet: Sheet, seen: Seen, wanted: Wanted, tool: str) -> None:
    count, attached = len(seen.gpus), seen.said("attached")
    verdict = PASS
    if count < wanted.gpu_count:
        verdict = FAIL
        sheet.find("gpu_count", NODE, f"{count} of {wanted.gpu_count} GPUs", "power_cycle")
    elif count > wanted.gpu_count:
        verdict = INCONCLUSIVE
        text = f"{count} GPUs, and the profile {wanted.sku} knows {wanted.gpu_count}"
        sheet.find("gpu_count", NODE, text, "remediate_config")
    elif attached != str(count):
        verdict = INCONCLUSIVE
        text = f"{tool} tells of {count} GPUs, and says that there are {attached or 'nobody knows how many'}"
        sheet.find("gpu_count", NODE, text, "retest")
    sheet.record(Check("gpu_count", NODE, verdict, count, wanted.gpu_count, "", wanted.gpu_count_source))


def _identity(sheet: Sheet, number: int, gpu: Gpu, look: Look, wanted: Wanted) -> None:
    where, uuid, device, tool = entity(number), uuid_of(gpu), device_of(gpu), look.tool
    alone = [uuid_of(other) for other in look.seen.gpus].count(uuid) == 1
    if not uuid or not alone:
        said = "its UUID is also another's" if uuid else "it tells no UUID"
        sheet.unsettled("uuid", where, f"{_named(number, gpu)}: {said}", "retest")
    else:
        sheet.record(Check("uuid", where, PASS, uuid, "its own", "", tool))
    fits = device in wanted.device_ids
    if not fits:
        text = f"{_named(number, gpu)}: device {device or 'unknown'} is not a GPU of the profile {wanted.sku}"
        sheet.find("device_id", where, text, "remediate_config")
    verdict = PASS if fits else INCONCLUSIVE
    sheet.record(Check("device_id", where, verdict, device or None, list(wanted.device_ids), "", tool))


def _named(number: int, gpu: Gpu) -> str:
    """A GPU for a person: its number, and its address, by which the kernel's log and the BMC know it."""
    address = _ADDRESS.match(bare("".join(gpu.said("bus_id"))))
    return f"{entity(number)} ({address.group(1).lower()})" if address else entity(number)


def _cells(sheet: Sheet, look: Look, number: int, gpu: Gpu, cells: Sequence[Wants]) -> None:
    wants = {cell.name: cell for cell in cells}
    for name, rule in RULES.items():
        cell = wants.get(name) or Wants(name, "own rule", {})
        if name in wants:
            reading = _of_links(look, number, gpu, cell) if name in OF_LINKS else _read(name, gpu, cell)
            _record(sheet, look, number, gpu, cell, reading)
        elif rule.health and (reading := _read(name, gpu, cell)).verdict == FAIL:
            _record(sheet, look, number, gpu, cell, reading)
    if look.before is not None:
        reading = deltas.judge(look.row(number, gpu), look.before)
        _record(sheet, look, number, gpu, Wants(SINCE, "own rule: what a first look counted", {}), reading, 0)


def _read(name: str, gpu: Gpu, cell: Wants) -> Reading:
    rule = RULES[name].judge
    return rule(gpu, cell) if rule else Reading(INCONCLUSIVE)


def _of_links(look: Look, number: int, gpu: Gpu, cell: Wants) -> Reading:
    table = look.state if cell.name == "nvlink" else look.errors
    known = table.of(number, uuid_of(gpu)) if table else None
    strange = table.strange[0] if table and table.strange else ""
    if known is None and strange:
        return Reading(INCONCLUSIVE, short(strange, 100), f"of its NVLinks it is said: {short(strange, 100)}", "retest")
    if known is None and table is not None and not table.by_number and cell.name == "nvlink":
        known = links.Links()  # the tool ran and has nothing to tell: no link is there
    return links.judge_state(known, cell) if cell.name == "nvlink" else links.judge_errors(known, cell)


def _record(sheet: Sheet, look: Look, number: int, gpu: Gpu, cell: Wants, reading: Reading, wanted: Any = None) -> None:
    where = entity(number)
    shown = cell.wanted if wanted is None else wanted
    if reading.text:
        remedy = "none" if reading.note else reading.remedy
        text = reading.text.replace(NVIDIA, look.tool)
        sheet.find(f"gpu.{cell.name}", where, f"{_named(number, gpu)}: {text}", remedy)
    if reading.passing and reading.verdict != PASS:
        look.passing[cell.name, where] = reading
    sheet.record(Check(cell.name, where, reading.verdict, reading.measured, shown, "", cell.source))
