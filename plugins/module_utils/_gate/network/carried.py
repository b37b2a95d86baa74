# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures what ports carry, one after the other, and judges it. PRIVATE to the collection.

Who measures himself over the host's own memory is fast, so the kernel has to have seen the data leave by that port.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import DeadlineExceeded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import record_end
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.ports import number, uncounted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.section import ETHERNET
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.speeds import IPERF3, PERFTEST, Speed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.tools import (
    Seen,
    iperf3,
    perftest,
    place,
    read_iperf3,
    read_perftest,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run, run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, PASS, Check, Sheet

#: Who is given an address, and has to begin, has so many seconds beside those of the measurement.
_BEGIN = 15.0
_REFUSED = "Couldn't connect"
_LEFT = 0.9
_REMEDY = "field_diag"


@dataclass(frozen=True)
class Taken:
    """One port measured. runs: the one that measured, and the one that it wrote to where that was ours. sent: bytes
    that the kernel saw leave by that port meanwhile; None where it does not tell. uncounted: where its driver never
    does, what helps."""

    speed: Speed
    port: str
    seen: Seen
    runs: Sequence[Run]
    sent: Optional[int]
    uncounted: str = ""


class Asked(NamedTuple):
    """What is measured, by which programs, against whom. end: until when, on the clock that only goes on."""

    speeds: Sequence[Speed]
    programs: Mapping[str, str]
    servers: Mapping[str, str]
    sysfs: str
    end: float

    @property
    def left(self) -> float:
        return max(1.0, self.end - time.monotonic())


def asked_of(params: Mapping[str, Any], speeds: Sequence[Speed], sysfs: str) -> Asked:
    programs = {name: str(params.get(name) or name) for name in (IPERF3, PERFTEST)}
    servers = {str(port): str(server) for port, server in (params.get("servers") or {}).items()}
    return Asked(speeds, programs, servers, sysfs, time.monotonic() + float(params.get("speed_timeout") or 900))


def measure(asked: Asked, ctx: Context) -> Iterator[Taken]:
    for speed in asked.speeds:
        for port in speed.links.ports:
            before = _sent(asked.sysfs, speed, port)
            seen, runs = _METHODS[speed.tool](asked, ctx, speed, port)
            after = _sent(asked.sysfs, speed, port)
            sent = None if before is None or after is None or after < before else after - before
            yield Taken(speed, port, seen, runs, sent, uncounted(asked.sysfs, speed.links, port))


def _sent(sysfs: str, speed: Speed, port: str) -> Optional[int]:
    """Bytes that left by a port, ever. An RDMA port counts words of four (InfiniBand Architecture Specification 1.3,
    PortXmitData)."""
    if speed.links.kind == ETHERNET:
        return number(os.path.join(sysfs, "class", "net", port, "statistics", "tx_bytes"))
    device, _slash, which = port.partition("/")
    words = number(os.path.join(sysfs, "class", "infiniband", device, "ports", which, "counters", "port_xmit_data"))
    return None if words is None else words * 4


def _by_iperf3(asked: Asked, ctx: Context, speed: Speed, port: str) -> tuple[Seen, list[Run]]:
    argv = iperf3(asked.programs[IPERF3], speed, port, asked.servers[port])
    done = run(argv, timeout=min(asked.left, speed.seconds + _BEGIN))
    return read_iperf3(done.text, speed), [done]


def _by_perftest(asked: Asked, ctx: Context, speed: Speed, port: str) -> tuple[Seen, list[Run]]:
    """Against the server that is named for the port, else against the next port of these links on this very node."""
    program = asked.programs[PERFTEST]
    if port in asked.servers:
        address, which = place(asked.servers[port], 18515)
        done = _until_heard(asked, ctx, speed, perftest(program, speed, port, which, address))
        return read_perftest(done.text, speed), [done]
    ports = speed.links.ports
    peer, which = ports[(ports.index(port) + 1) % len(ports)], _free()
    served: list[Run] = []
    limit = min(asked.left, speed.seconds + 2 * _BEGIN)

    def serve() -> None:
        served.append(run(perftest(program, speed, peer, which), timeout=limit))

    server = threading.Thread(target=serve)
    server.start()
    try:
        done = _until_heard(asked, ctx, speed, perftest(program, speed, port, which, "127.0.0.1"))
    finally:
        server.join()
    return read_perftest(done.text, speed), [done, *served]


def _until_heard(asked: Asked, ctx: Context, speed: Speed, argv: Sequence[str]) -> Run:
    """A server takes a moment to listen; until then it is tried again, and no longer than that."""
    tried: list[Run] = []

    def once() -> Run:
        tried.append(run(argv, timeout=min(asked.left, speed.seconds + _BEGIN)))
        return tried[-1]

    try:
        return ctx.wait(
            once, lambda done: _REFUSED not in done.cries + done.text, timeout=_BEGIN, interval=0.3, wanted="a server"
        )
    except DeadlineExceeded:
        return tried[-1]


def _free() -> int:
    """A port of this host that nobody listens on."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


_METHODS = {IPERF3: _by_iperf3, PERFTEST: _by_perftest}


# -- what it proves ----------------------------------------------------------------------------------------------------


def judge(sheet: Sheet, taken: Taken) -> None:
    speed, port = taken.speed, taken.port
    for done in taken.runs:
        record_end(sheet, done)
    problem = taken.seen.problem or _unseen(taken)
    if problem or taken.seen.rate is None:
        cries = short(taken.runs[0].cries.strip(), 120)
        text = f"{port}: {speed.tool}: {problem}" + (f" ({cries})" if cries else "")
        sheet.unsettled(speed.cell, port, text, "remediate_config" if problem == taken.uncounted else "retest")
        return
    rate = taken.seen.rate
    verdict = PASS if rate >= speed.minimum else FAIL
    if verdict == FAIL:
        text = f"{port}: {rate:g} {speed.unit}, wanted {speed.minimum:g} of {speed.links.rate:g}"
        sheet.find(speed.cell, port, text, _REMEDY)
    sheet.record(Check(speed.cell, port, verdict, rate, speed.minimum, speed.unit, speed.source))


def _unseen(taken: Taken) -> str:
    """What speaks against the data having left by that port; empty where nothing does."""
    if taken.sent is None:
        return taken.uncounted or "the kernel does not tell how much left by the port"
    if taken.sent * 8 < _LEFT * taken.seen.bits:
        told, left = taken.seen.bits / 8e9, taken.sent / 1e9
        return f"it tells of {told:.3g} GB, and the kernel saw {left:.3g} GB leave by the port"
    return ""
