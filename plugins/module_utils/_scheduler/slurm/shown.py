# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The topology that slurmctld goes by, as ``scontrol show topology`` prints it. PRIVATE to the collection.

Measured with 22.05.8: exit status 0 both where there is none and where slurmctld does not answer; only standard error
tells one from the other. With 26.05.3 the topology of the cluster's default alone is shown where none is named, and
what blocks are joined to stands in lines of its own behind them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.hostlist import expand

#: On standard error, where slurmctld goes by no topology, or has none of that name.
NONE = "No topology information available"
_FIELD = re.compile(r"(?:^|\s)([A-Za-z]+)=(\S*)")
_PARTITION = re.compile(r"(?:^|\s)(PartitionName|Nodes|Topology|Default|State|MinNodes)=(\S*)")
#: By the first word of a line, what it tells of; a form that is not here is not guessed at.
_UNITS = ("SwitchName", "BlockName", "RingName")
_JOINED = "AggregatedBlock"
_NOBODY = ("", "(null)")


@dataclass(frozen=True)
class Group:
    """A switch, or a block: its nodes, those below it among them, and the switches right below it."""

    nodes: frozenset[str]
    below: frozenset[str] = frozenset()


def parse_topology(text: str) -> dict[str, Group]:
    """Each switch or block by its name; empty where there is none.

    :raises BadAnswer: for a line that is neither, and a name that stands twice.
    """
    found: dict[str, Group] = {}
    for line in filter(str.strip, text.splitlines()):
        fields = _FIELD.findall(line)
        told = dict(fields)
        form, name = fields[0] if fields else ("", "")
        if form == _JOINED:
            continue
        if form not in _UNITS or not name or name in found or "Nodes" not in told:
            raise BadAnswer("a line of scontrol show topology that cannot be read", seen=cut(line, 200))
        found[name] = Group(_names(told["Nodes"]), _names(told.get("Switches", "")))
    return found


@dataclass(frozen=True)
class Partition:
    """topology: the one that it goes by; empty for the cluster's default. open: it takes jobs of one node. default: for
    those that name no partition."""

    name: str
    nodes: frozenset[str]
    topology: str = ""
    open: bool = False
    default: bool = False


def parse_partitions(text: str) -> list[Partition]:
    """:raises BadAnswer: for a line that tells no partition."""
    found = []
    for line in filter(str.strip, text.splitlines()):
        told = dict(reversed(_PARTITION.findall(line)))
        if not line.startswith("PartitionName=") or "Nodes" not in told:
            raise BadAnswer("a line of scontrol show partition that cannot be read", seen=cut(line, 200))
        topology = told.get("Topology", "")
        topology = "" if topology in _NOBODY else topology
        takes = told.get("State") == "UP" and told.get("MinNodes", "1") in ("0", "1")
        is_default = told.get("Default") == "YES"
        found.append(Partition(told["PartitionName"], _names(told["Nodes"]), topology, takes, is_default))
    return found


def lacking(partitions: Collection[Partition], maps: Mapping[str, Mapping[str, Group]]) -> dict[str, str]:
    """The nodes to which no partition of theirs can give work, since its topology lacks them, and why that matters.

    :param maps: by name, what each has; one that has nothing, as a flat one, leaves nobody out.
    """
    found: dict[str, str] = {}
    placed: set[str] = set()
    for one in partitions:
        units = maps.get(one.topology, {})
        has = frozenset().union(*(place.nodes for place in units.values())) if units else one.nodes
        what = f"the topology {one.topology}".rstrip() + f" of Slurm, which its partition {one.name} goes by, lacks it"
        placed |= one.nodes & has
        found.update({node: what for node in sorted(one.nodes - has) if node not in found})
    return {node: what for node, what in found.items() if node not in placed}


def _names(told: str) -> frozenset[str]:
    return frozenset() if told in _NOBODY else frozenset(expand(told))
