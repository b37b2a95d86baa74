# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the network gate wants ports to carry: the section "network.speeds" of a profile. PRIVATE to the collection.

A figure is a part of the line rate of one port, and each port is measured by itself.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.floors import chosen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.section import (
    ETHERNET,
    NAME,
    Links,
    links_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted

IPERF3, PERFTEST = "iperf3", "ib_write_bw"
#: Which of them measures ports of which kind.
_KINDS: Mapping[str, Sequence[str]] = {IPERF3: (ETHERNET,), PERFTEST: ("infiniband", "roce")}
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


@dataclass(frozen=True)
class Speed:
    """What each port of some links must carry. part: of its line rate. streams: connections, or queue pairs."""

    name: str
    tool: str
    links: Links
    part: float
    seconds: float
    streams: int
    source: str

    @property
    def cell(self) -> str:
        return f"speed.{self.name}"

    @property
    def minimum(self) -> float:
        """Gb/s."""
        return round(self.part * self.links.rate, 3)

    @property
    def unit(self) -> str:
        """What the figure is, so that nobody compares it with another one."""
        what = f"{self.streams} streams" if self.tool == IPERF3 else f"{self.streams} queue pairs of 8 MiB"
        return f"Gb/s, {self.tool}, {what}"


def _read(section: Mapping[str, Any]) -> tuple[Speed, ...]:
    links = {one.name: one for one in links_of(section)}
    found = tuple(_row(row, links[row["links"]]) for row in section.get("speeds") or [])
    if len({one.name for one in found}) != len(found) or not all(_measurable(one) for one in found):
        raise ValueError("a speed without a name of its own, a tool for its links, a part of their rate or a time")
    return found


def _row(row: Mapping[str, Any], links: Links) -> Speed:
    return Speed(
        str(row["name"]),
        str(row["tool"]),
        links,
        float(row["of_rate"]),
        float(row["seconds"]),
        int(row.get("streams") or 1),
        str(row["source"]),
    )


def _measurable(one: Speed) -> bool:
    named = bool(_NAME.match(one.name)) and one.links.kind in _KINDS.get(one.tool, ())
    return named and 0 < one.part <= 1 and one.seconds >= 1 and 1 <= one.streams <= 128


def speeds_of(wanted: Wanted, names: Sequence[str]) -> list[Speed]:
    """Those that are named; none where none is.

    :raises ConfigError: where the profile has no such section, or no speed that is named.
    """
    return chosen(wanted, NAME, _read, names) if names else []


def every(wanted: Wanted) -> list[Speed]:
    """All of the profile; none where its section has none.

    :raises ConfigError: where the profile has no such section.
    """
    return chosen(wanted, NAME, _read, ())


def places_of(speeds: Sequence[Speed], servers: Mapping[str, str]) -> None:
    """:raises ConfigError: where nobody says against whom a port is to be measured."""
    alone = [port for one in speeds if one.tool == IPERF3 for port in one.links.ports if port not in servers]
    single = [one.links.ports[0] for one in speeds if one.tool == PERFTEST and len(one.links.ports) == 1]
    if any(port not in servers for port in single):
        raise ConfigError(
            f"{single[0]} is the only port of its links, and has no other one to be measured against",
            wanted="servers: an address by port, or another node (pair_gate)",
        )
    if alone:
        raise ConfigError(
            f"nothing says against which iperf3 server {', '.join(alone)} is to be measured",
            wanted="servers: an address by port",
            do="name one for each port, another for ports that are measured at once",
        )
