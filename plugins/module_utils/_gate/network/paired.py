# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What two nodes carry between each other, port by port and in both directions. PRIVATE to the collection.

What one writes the other one's kernel must have seen come in by the port of the same name, as it saw it leave here.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Callable, NamedTuple, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.section import NAME
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.speeds import (
    IPERF3,
    PERFTEST,
    Speed,
    every,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.tools import (
    Seen,
    iperf3,
    iperf3_server,
    perftest,
    read_iperf3,
    read_perftest,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.together import (
    Call,
    Counted,
    Figure,
    Figures,
    Leg,
    Member,
    Moved,
    Test,
    Told,
    Wants,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted

#: Until both sides have begun, beside the time of the measurement.
_BEGIN = 15.0
#: Of what the tool tells so much must have gone over the wire.
_SEEN = 0.9


class _Tool(NamedTuple):
    """port: the first that a server listens on. server, client: how they are called. read: what the client prints."""

    port: int
    server: Callable[[str, Speed, str, int, Member], list[str]]
    client: Callable[[str, Speed, str, int, Member], list[str]]
    read: Callable[[str, Speed], Seen]


def _document(text: str, speed: Speed) -> Seen:
    """What stands around the document is what the program cried."""
    return read_iperf3(text[max(0, text.find("{")) : text.rfind("}") + 1], speed)


_TOOLS: Mapping[str, _Tool] = {
    PERFTEST: _Tool(
        18515,
        lambda program, speed, port, number, own: perftest(program, speed, port, number),
        lambda program, speed, port, number, other: perftest(program, speed, port, number, other.address),
        read_perftest,
    ),
    IPERF3: _Tool(
        5201,
        lambda program, speed, port, number, own: iperf3_server(program, own.ports[port], number),
        lambda program, speed, port, number, other: iperf3(program, speed, port, _place(other.ports[port], number)),
        _document,
    ),
}


def _place(address: str, number: int) -> str:
    return f"[{address}]:{number}" if ":" in address else f"{address}:{number}"


def tests_of(wanted: Wanted, programs: Mapping[str, str]) -> list[Test]:
    """Each speed of the profile.

    :raises ConfigError: where its section cannot be read.
    """
    if not wanted.profile.get(NAME):
        return []
    return [_test(speed, programs) for speed in every(wanted)]


def _test(speed: Speed, programs: Mapping[str, str]) -> Test:
    wants = Wants(speed.minimum, f"{speed.unit}, the slower direction", speed.source)
    ports = speed.links.ports
    cells = {(_cell(speed), port): wants for port in ports}
    addressed = ports if speed.tool == IPERF3 else ()
    program = programs.get(speed.tool) or speed.tool
    return Test(speed.name, speed.tool, cells, ports, partial(_legs, speed, program), addressed)


def _cell(speed: Speed) -> str:
    return f"pair.{speed.name}"


def _legs(speed: Speed, program: str, members: Sequence[Member], at: int) -> list[Leg]:
    """One after the other, or the slower port of two would be hidden; and both ways, or who receives badly would be."""
    ways = (tuple(members), tuple(reversed(members)))
    return [_leg(speed, program, port, at, client, server) for port in speed.links.ports for client, server in ways]


def _leg(speed: Speed, program: str, port: str, at: int, client: Member, server: Member) -> Leg:
    tool = _TOOLS[speed.tool]
    number, seconds = tool.port + at, speed.seconds + _BEGIN
    calls = [
        Call(server.host, tool.server(program, speed, port, number, server), seconds + _BEGIN),
        Call(client.host, tool.client(program, speed, port, number, server), seconds, retried=True),
    ]
    return Leg(calls, partial(_read, speed, port, client.host, server.host))


def _read(speed: Speed, port: str, client: str, server: str, told: Told, counted: Counted) -> Figures:
    figure = _figure(speed, client, server, told, counted.get((client, port)), counted.get((server, port)))
    return {(host, (_cell(speed), port)): figure for host in (client, server)}


def _figure(speed: Speed, client: str, server: str, told: Told, left: Optional[Moved], came: Optional[Moved]) -> Figure:
    for host in (client, server):
        bad = told[host].ended_badly
        if bad:
            return Figure(why=f"{speed.tool} on {host}: {bad}{_cried(told[host].text)}")
    seen = _TOOLS[speed.tool].read(told[client].text, speed)
    problem = seen.problem or _unseen(seen, left, came)
    if problem or seen.rate is None:
        return Figure(why=f"{speed.tool} from {client}: {problem}")
    why = f"{seen.rate:g} Gb/s from {client}"
    return Figure(seen.rate, seen.rate >= speed.minimum, why)


def _cried(text: str) -> str:
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    return f" ({short(last, 120)})" if last else ""


def _unseen(seen: Seen, left: Optional[Moved], came: Optional[Moved]) -> str:
    """What speaks against the data having gone over the wire between these ports; empty where nothing does."""
    counts = (left.sent if left else None, came.received if came else None)
    for count, what in zip(counts, ("left", "came in")):
        if count is None:
            return f"the kernel does not tell how much {what} by the port"
        if count * 8 < _SEEN * seen.bits:
            return f"it tells of {seen.bits / 8e9:.3g} GB, and {count / 1e9:.3g} GB {what} by the port"
    return ""
