# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges a collective against a profile, and says which cells it must fill. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.document import Seen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.section import Floor
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cries import OF_NODE, heard
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import ENDED, record_end
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.required import Required, demand
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

#: A larger message is no slower on a fabric that is whole: less than this part of the best size is a dip.
_STEADY = 0.9
_OWN = "own rule"


def required(wanted: Wanted, floors: Sequence[Floor]) -> Iterator[Required]:
    """All of the node: nccl-tests tells no figure of a single GPU."""
    yield Required(ENDED, NODE, "exit [0]", "", "own rule: an unknown end is none", "exit 0")
    yield Required("device_id", NODE, wanted.gpu_count, "", "sysfs", wanted.gpu_count)
    for floor in floors:
        yield Required(f"{floor.name}.ranks", NODE, wanted.gpu_count, "", wanted.gpu_count_source, wanted.gpu_count)
        yield Required(f"{floor.name}.sizes", NODE, floor.largest, "bytes", floor.source, floor.largest)
        yield Required(f"{floor.name}.wrong", NODE, 0, "values", _OWN, 0)
        yield Required(f"{floor.name}.busbw", NODE, floor.minimum, floor.unit, floor.source)
        yield Required(f"{floor.name}.steady", NODE, _STEADY, "of the best size", _OWN)


def begin(wanted: Wanted, floors: Sequence[Floor], on_bus: int) -> Sheet:
    """on_bus: how many GPUs of the SKU the kernel knows; nccl-tests tells no device ids."""
    sheet = Sheet()
    demand(sheet, required(wanted, floors))
    fits = on_bus == wanted.gpu_count
    if not fits:
        text = f"the kernel knows {on_bus} GPUs of the profile {wanted.sku}, which counts {wanted.gpu_count}"
        sheet.find("device_id", NODE, text, "remediate_config")
    sheet.record(Check("device_id", NODE, PASS if fits else INCONCLUSIVE, on_bus, wanted.gpu_count, "", "sysfs"))
    return sheet


def judge(
    sheet: Sheet,
    seen: Seen,
    run: Run,
    wanted: Wanted,
    floor: Floor,
    *,
    nodes: int = 1,
    places: Sequence[str] = (),
    known: Sequence[Floor] = (),
) -> None:
    """Everything that one run says. nodes: on how many hosts the ranks must be. places: the PCI addresses of the
    GPUs of the one host, as its kernel has them. known: what else the profile has a floor for."""
    record_end(sheet, run)
    _cries(sheet, run, floor, nodes)
    for at, text in enumerate(seen.problems):
        sheet.unsettled(f"{floor.name}.output" + (f".{at}" if at else ""), NODE, f"{floor.program}: {short(text, 300)}")
    _ranks(sheet, seen, wanted, floor, nodes)
    _places(sheet, seen, floor, places)
    _ends(sheet, seen, floor)
    _table(sheet, seen, floor, known)


def _ranks(sheet: Sheet, seen: Seen, wanted: Wanted, floor: Floor, nodes: int) -> None:
    count, hosts = len(seen.ranks), {host for host, _device in seen.ranks.values()}
    if not count:
        return
    whole = sorted(seen.ranks) == list(range(count)) and len(hosts) == nodes
    verdict = PASS if count == wanted.gpu_count and whole else FAIL if count < wanted.gpu_count else INCONCLUSIVE
    if verdict != PASS:
        text = f"{floor.name} ran on {count} of {wanted.gpu_count} GPUs, on {len(hosts)} hosts"
        sheet.find(f"{floor.name}.ranks", NODE, text, "power_cycle" if verdict == FAIL else "remediate_config")
    sheet.record(Check(f"{floor.name}.ranks", NODE, verdict, count, wanted.gpu_count, "", wanted.gpu_count_source))


def _places(sheet: Sheet, seen: Seen, floor: Floor, places: Sequence[str]) -> None:
    """Each rank on a GPU of its own: no bus is told more often than the kernel has GPUs there."""
    known, told = (Counter(map(_bus, some)) for some in (places, (address for _host, address in seen.places.values())))
    if places and told - known:
        text = f"{floor.name} ran on {', '.join(f'bus {bus:02x}' for bus in sorted(told - known))} more often than"
        sheet.unsettled(f"{floor.name}.ranks", NODE, f"{text} there are GPUs of the SKU", "remediate_config")


def _bus(address: str) -> int:
    """The bus of a PCI address, which may be told alone."""
    parts = address.partition(".")[0].split(":")
    return int(parts[-2] if len(parts) > 1 else parts[0], 16)


def _cries(sheet: Sheet, run: Run, floor: Floor, nodes: int) -> None:
    """What NCCL says of a GPU that failed while it ran on; of several nodes nobody knows whose it was."""
    for cry in heard(f"{run.text}\n{run.cries}", whole=True):
        text, cell = f"{floor.name}: {cry.text}", cry.id.replace("training:", f"{floor.name}.")
        if cry.whose == OF_NODE and nodes == 1:
            sheet.find(cell, cry.entity, text, cry.remedy)
            sheet.record(Check(cell, cry.entity, FAIL, short(cry.text, 120), "none", "", floor.program))
        else:
            sheet.unsettled(cell, cry.entity, text, cry.remedy)


def _ends(sheet: Sheet, seen: Seen, floor: Floor) -> None:
    """Its last two lines. Without them it was cut; what they call failed is a failure, whatever the rows say."""
    for what, said, word in (
        ("bounds", seen.bounds, "values arrived wrong"),
        ("average", seen.average, "its own limit of bandwidth was not met"),
    ):
        if not said:
            sheet.unsettled(f"{floor.name}.{what}", NODE, f"{floor.program} was cut: its last lines are not there")
        elif said.split()[1:] not in ([], ["OK"]) or (what == "bounds" and said != "0 OK"):
            sheet.find(f"{floor.name}.{what}", NODE, f"{floor.name}: {word} ({short(said, 40)})", "field_diag")
            sheet.record(Check(f"{floor.name}.{what}", NODE, FAIL, said, "OK", "", floor.program))


def _table(sheet: Sheet, seen: Seen, floor: Floor, known: Sequence[Floor]) -> None:
    rows, sizes = seen.rows, [row.size for row in seen.rows]
    if sorted(sizes) != floor.sizes:
        text = f"{floor.name} shows no sizes of {floor.smallest} to {floor.largest} bytes, each doubled and once"
        sheet.unsettled(f"{floor.name}.sizes", NODE, text)
        return
    sheet.record(Check(f"{floor.name}.sizes", NODE, PASS, max(sizes), floor.largest, "bytes", floor.source))
    _wrong(sheet, [row.wrong for row in seen.rows], floor)
    values = [value for row in rows for value in row.busbw]
    if any(value is None for value in values):
        sheet.unsettled(f"{floor.name}.busbw", NODE, f"{floor.name} has a size without a bandwidth")
        return
    largest = max(rows, key=lambda row: row.size)
    _bandwidth(sheet, [value for value in values if value is not None], largest.busbw, floor, known)


def _wrong(sheet: Sheet, counts: Sequence[int | None], floor: Floor) -> None:
    cell = f"{floor.name}.wrong"
    if any(count is None for count in counts):
        sheet.unsettled(cell, NODE, f"{floor.name} did not look whether the values arrived as they were sent")
        return
    total = sum(count for count in counts if count is not None)
    if total:
        sheet.find(cell, NODE, f"{floor.name}: {total} values arrived wrong", "field_diag")
    sheet.record(Check(cell, NODE, FAIL if total else PASS, total, 0, "values", _OWN))


def _ring(floor: Floor, known: Sequence[Floor], least: float) -> str:
    """The collective of the profile by a ring, whose floor this figure meets; empty where it meets none."""
    same = [one for one in known if (one.program, one.sizes) == (floor.program, floor.sizes)]
    rings = (one for one in same if floor.algorithm != "ring" and one.algorithm == "ring")
    return next((one.name for one in rings if least >= one.minimum), "")


def _bandwidth(
    sheet: Sheet, values: Sequence[float], last: Sequence[float | None], floor: Floor, known: Sequence[Floor]
) -> None:
    least, best = min(values), max(values)
    verdict = PASS if least >= floor.minimum else FAIL
    if verdict == FAIL:
        text = f"{floor.name}: {least:g} {floor.unit}, wanted {floor.minimum:g}"
        ring = _ring(floor, known, least)
        if ring:  # its links are as fast as they should be: what adds up in the switches was not used
            text += f"; that meets the floor of {ring}, by a ring: was NVLS off, by its set-up or the fabric manager's?"
        sheet.find(f"{floor.name}.busbw", NODE, text, "remediate_config" if ring else "field_diag")
    sheet.record(Check(f"{floor.name}.busbw", NODE, verdict, least, floor.minimum, floor.unit, floor.source))
    share = round(min(value for value in last if value is not None) / best, 3) if best else 0.0
    steady = PASS if share >= _STEADY else FAIL
    if steady == FAIL:
        text = f"{floor.name}: the largest size reaches {share:.0%} of the best one"
        sheet.find(f"{floor.name}.steady", NODE, text, "field_diag")
    sheet.record(Check(f"{floor.name}.steady", NODE, steady, share, _STEADY, "of the best size", _OWN))
