# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collectives over several nodes: what the wire carries, by pairs, and what all nodes reach together. PRIVATE.

PRIVATE to the collection. Of the wire a ring alone tells: with NVLS or trees less goes over it than the figure says, so
that two nodes show more than their line rate over seven of eight rails (NVIDIA/nccl-tests#212, #290). So pairs are
measured by a ring, and held against the line rate; all nodes together against a floor of their own.

Standard library only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.judge import judge, required
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.section import (
    ENVIRONMENT,
    GIB,
    NAME,
    NCCL,
    TOOLS,
    Floor,
    usable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import ENDED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.together import (
    Call,
    Cell,
    Counted,
    Figure,
    Leg,
    Member,
    Test,
    Told,
    Wants,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, NODE, PASS, Sheet

PAIRS, ALL = "pairs", "all"
#: The rails carry even parts of a ring: less than this part of the mean is a rail that others carry for.
_EVEN = 0.9
#: Of each size so many times out of place, and as often in place.
_TIMES = 20
#: So much of the least that leaves a node its kernel must have seen: counters may be behind.
_SEEN = 0.9
_PORT = re.compile(r"[A-Za-z0-9_-]+/[1-9]\d?\Z")
_OWN = "own rule: a ring uses all rails alike"
#: Of the cells of one node those that tell how it was run, and not how fast.
_OF_THE_NODE = (ENDED, "device_id")


@dataclass(frozen=True)
class Fabric:
    """A collective over several nodes. of: pairs, or all at once. ports: the rails. least: so many nodes are
    needed."""

    floor: Floor
    of: str
    ports: tuple[str, ...]
    least: int


@dataclass(frozen=True)
class Started:
    """How ranks are started on nodes. mpirun: the command of Open MPI with its first options. lock: the words that keep
    other gates off a node while a rank runs there. programs: the folder of the tests."""

    mpirun: Sequence[str]
    lock: Sequence[str]
    programs: str
    seconds: float


def _read(section: Mapping[str, Any]) -> tuple[Fabric, ...]:
    found = tuple(_row(row) for row in section.get("fabric") or [])
    if len({one.floor.name for one in found}) != len(found) or not all(map(_sound, found)):
        raise ValueError(
            "a collective of the fabric without a name of its own, rails, a line rate or a floor, or nodes"
        )
    return found


def _row(row: Mapping[str, Any]) -> Fabric:
    ports, of = tuple(str(port) for port in row["ports"]), str(row["of"])
    rate = float(row["of_rate"]) * float(row["rate_gbps"]) * len(ports) / 8 if of == PAIRS else float(row["minimum"])
    sizes = (int(row["from_gib"]) * GIB, int(row["to_gib"]) * GIB)
    named = (str(row["name"]), str(row["program"]), str(row.get("algorithm") or "ring"))
    floor = Floor(*named, *sizes, round(rate, 3), str(row["source"]), str(row.get("library") or NCCL))
    return Fabric(floor, of, ports, 2 if of == PAIRS else int(row["nodes"]))


def _sound(one: Fabric) -> bool:
    """A pair is held against its line rate, so that it is a ring and no other."""
    ports = bool(one.ports) and len(set(one.ports)) == len(one.ports) and all(map(_PORT.match, one.ports))
    kind = one.of in (PAIRS, ALL) and (one.of == ALL or one.floor.algorithm == "ring") and one.least >= 2
    return ports and kind and usable(one.floor)


def tests_of(wanted: Wanted, started: Started) -> list[Test]:
    """:raises ConfigError: where the section cannot be read."""
    if not wanted.profile.get(NAME):
        return []
    return [_test(wanted, one, started) for one in wanted.section(NAME, _read)]


def _test(wanted: Wanted, one: Fabric, started: Started) -> Test:
    floor = one.floor
    rows = [row for row in required(wanted, [floor]) if row.id not in _OF_THE_NODE]
    nodes = "2 nodes" if one.of == PAIRS else "all nodes"
    cells: dict[Cell, Wants] = {
        (f"fabric.{row.id}", NODE): Wants(
            "all of each node" if row.id.endswith(".ranks") else row.wanted,
            f"{row.unit}, {nodes}" if row.unit.startswith("GB/s") else row.unit,
            row.source,
        )
        for row in rows
    }
    cells.update(
        {(f"fabric.{floor.name}.rail", port): Wants(_EVEN, "of the mean of the rails", _OWN) for port in one.ports}
    )
    legs = partial(_legs, wanted, one, started)
    return Test(floor.name, TOOLS[floor.library], cells, one.ports, legs, (), 0 if one.of == PAIRS else one.least)


def command(one: Fabric, started: Started, gpus: int, members: Sequence[Member]) -> list[str]:
    """One rank a node, over all of its GPUs, and over these rails alone."""
    floor = one.floor
    rails = "=" + ",".join(port.replace("/", ":") for port in one.ports)
    told = {**ENVIRONMENT[floor.algorithm], "NCCL_IB_HCA": rails}
    ranks = ["-np", str(len(members)), "--map-by", "ppr:1:node"]
    ranks += ["--host", ",".join(f"{member.address}:1" for member in members)]
    ranks += [word for name, value in sorted(told.items()) for word in ("-x", f"{name}={value}")]
    sizes = ["-b", str(floor.smallest), "-e", str(floor.largest), "-f", "2", "-g", str(gpus)]
    sizes += ["-c", "1", "-w", "5", "-n", str(_TIMES)]
    return [*started.mpirun, *ranks, *started.lock, os.path.join(started.programs, floor.program), *sizes]


def _legs(wanted: Wanted, one: Fabric, started: Started, members: Sequence[Member], at: int) -> list[Leg]:
    argv = command(one, started, wanted.gpu_count, members)
    call = Call(members[0].host, argv, started.seconds, alone=False)
    return [Leg([call], partial(_figures, wanted, one, [member.host for member in members], call))]


def _figures(
    wanted: Wanted, one: Fabric, hosts: Sequence[str], call: Call, told: Told, counted: Counted
) -> dict[tuple[str, Cell], Figure]:
    heard = told[call.host]
    sheet = Sheet()
    run = Run(tuple(call.argv), heard.rc, heard.text.encode(), b"", "exit", 0.0)
    all_gpus = replace(wanted, gpu_count=wanted.gpu_count * len(hosts))
    judge(sheet, read(heard.text), run, all_gpus, one.floor, nodes=len(hosts))
    doubt = heard.ended_badly or _doubt(sheet)
    idle = {host: "" if doubt else _idle(one, host, len(hosts), counted) for host in hosts}
    found: dict[tuple[str, Cell], Figure] = {}
    for row in required(wanted, [one.floor]):
        if row.id not in _OF_THE_NODE:
            figure, cell = _figure(sheet, row.id, doubt), (f"fabric.{row.id}", NODE)
            found.update({(host, cell): Figure(why=idle[host]) if idle[host] else figure for host in hosts})
    for host in hosts:
        found.update({(host, cell): figure for cell, figure in _rails(one, host, counted, idle[host] or doubt).items()})
    return found


def _idle(one: Fabric, host: str, nodes: int, counted: Counted) -> str:
    """Why the table, which one node prints, proves nothing of this one: its kernel saw less leave than it takes."""
    sent = _sent(one, host, counted).values()
    if None in sent:
        return "the kernel does not tell how much left by each rail"
    total = sum(value or 0 for value in sent)
    # Its own part has to leave it once; by a ring, or where parts are added up, all but the part of one node.
    forwards = one.floor.algorithm == "ring" or "gather" not in one.floor.program
    least = _SEEN * (nodes - 1 if forwards else 1) / nodes * sum(one.floor.sizes) * 2 * _TIMES
    if total >= least:
        return ""
    if not total:
        return "nothing left by the rails"
    return f"{host} sent {total / GIB:.0f} GiB by its rails, and who takes part sends {least / GIB:.0f} at least"


def _sent(one: Fabric, host: str, counted: Counted) -> dict[str, Optional[int]]:
    told = {port: counted.get((host, port)) for port in one.ports}
    return {port: moved.sent if moved else None for port, moved in told.items()}


def _doubt(sheet: Sheet) -> str:
    """Why the table proves nothing: a part of it was not measured, or a rank was not there."""
    known = [check for check in sheet.rows() if check.verdict not in (PASS, FAIL)]
    ranks = [check for check in sheet.rows() if check.id.endswith(".ranks")]
    if not known and ranks and ranks[0].verdict == PASS:
        return ""
    return short("; ".join(finding.text for finding in sheet.findings) or "it tells of no ranks", 300)


def _figure(sheet: Sheet, id: str, doubt: str) -> Figure:
    if doubt:
        return Figure(why=doubt)
    check = sheet.checks.get((id, NODE))
    # What the tool itself calls failed is in cells of no other name, and speaks against what arrived.
    own = [row for row in sheet.rows() if row.verdict == FAIL and row.id.rpartition(".")[2] in ("bounds", "average")]
    if check is None or (own and id.endswith(".wrong")):
        return Figure(None, False, "the tool itself calls it failed") if own else Figure(why="it was not measured")
    value = float(check.measured) if isinstance(check.measured, (int, float)) else None
    told = next((finding.text for finding in sheet.findings if finding.id == id), f"{check.measured} {check.unit}")
    return Figure(value, check.verdict == PASS, short(told, 200))


def _rails(one: Fabric, host: str, counted: Counted, doubt: str) -> dict[Cell, Figure]:
    cells = {port: (f"fabric.{one.floor.name}.rail", port) for port in one.ports}
    if doubt:
        return {cell: Figure(why=doubt) for cell in cells.values()}
    sent = _sent(one, host, counted)
    total = sum(value or 0 for value in sent.values())
    shares = {port: round((value or 0) * len(sent) / total, 3) for port, value in sent.items()}
    return {
        cells[port]: Figure(share, share >= _EVEN, f"{host} sent {share:.0%} of the mean over {port}")
        for port, share in shares.items()
    }
