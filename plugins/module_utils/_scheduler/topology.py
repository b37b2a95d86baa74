# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The map of the network that a scheduler is to go by, and what is wrong with it. PRIVATE to the collection.

It is checked before anything is written, for no scheduler does: Slurm takes a node of two leaves, of two blocks, or one
that it does not know without a word, leaves one that no leaf has idle for good, and ends itself over switches in a
circle (measured: slurmctld 22.05.8 is gone after that reconfigure).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import folded, in_order

TREE, BLOCK = "tree", "block"
KINDS = (TREE, BLOCK)
#: How many nodes one NVLink domain has: 18 trays of an NVL72. Source: its product page.
TRAYS = 18
#: The switch that joins the leaves where nobody names one. One is enough: to list all spines only slows the scheduler.
TOP = "fabric"
#: man: a name has up to 64 characters. Brackets and commas would make it a list.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_SHOWN = 5


@dataclass(frozen=True)
class Topology:
    """name: empty where there is but one. units: the nodes of each leaf, or block. switches: by switch above the
    leaves, what is right below it. sizes: how many nodes blocks are planned in, and joined to. default: of several, is
    it the cluster's own? most: how many nodes a block can have."""

    kind: str
    units: Mapping[str, Sequence[str]]
    name: str = ""
    switches: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sizes: Sequence[int] = ()
    default: bool = False
    most: int = TRAYS

    @property
    def order(self) -> list[str]:
        """Blocks that follow each other are joined, so they stand as people count them, and the same each time."""
        return in_order(self.units)

    @property
    def nodes(self) -> Counter[str]:
        return Counter(node for nodes in self.units.values() for node in nodes)


class Keeper(ABC):
    """A scheduler's own topology, where it is kept."""

    #: Where, for messages.
    where: str = ""

    @abstractmethod
    def obstacles(self, wanted: Sequence[Topology], *, told: bool) -> Iterator[str]:
        """Why this scheduler would not go by these, whatever stands in them.

        :param told: is it to read them now?
        """

    @abstractmethod
    def needed(self, wanted: Sequence[Topology]) -> Mapping[str, Collection[str]]:
        """By name of each, the nodes that would get no work without it."""

    @abstractmethod
    def known(self) -> Collection[str]:
        """All nodes of the scheduler."""

    @abstractmethod
    def stands(self) -> str | None:
        """What is written there now; None for nothing."""

    @abstractmethod
    def is_ours(self, text: str) -> bool:
        """Was it written here before?"""

    @abstractmethod
    def text(self, wanted: Sequence[Topology]) -> str:
        """What is to stand there."""

    @abstractmethod
    def request(self, *, write: bool) -> str:
        """The write, in words."""

    @abstractmethod
    def keep(self, former: str | None, texts: Sequence[str | None]) -> None:
        """Before a write: what is to stand there again if the scheduler does not go by it, also after a run that was
        killed before it knew.

        :param texts: what stands there now, and what will: with any other text this says nothing.
        """

    def former(self, stands: str | None) -> str | None:
        """What the scheduler went by before this: what was kept, where nobody has seen it go by what stands there."""
        return stands

    @abstractmethod
    def drop(self) -> None:
        """The scheduler goes by what stands there: what was kept is of no use any more."""

    def bereft(self, wanted: Sequence[Topology]) -> Collection[str]:
        """The nodes that have a place now, and would have none without a refusal."""
        return ()

    @abstractmethod
    def put(self, text: str | None, *, over: str | None) -> None:
        """Write it whole, or take it away. The scheduler has not heard of it then.

        :param over: what stands there, as it was read before.
        :raises Changed: where another text stands there by now.
        """

    @abstractmethod
    def tell(self) -> None:
        """Have the scheduler read it.

        :raises FleetError: where it does not take it.
        """

    @abstractmethod
    def amiss(self, wanted: Sequence[Topology]) -> list[str]:
        """Where the topology that the scheduler goes by is another one."""


def topologies(given: Sequence[Mapping[str, Any]]) -> list[Topology]:
    """As a task gives them. :raises ConfigError: for what cannot be meant."""
    found = []
    for one in given:
        units = {str(name): _names(nodes, str(name)) for name, nodes in (one.get("units") or {}).items()}
        switches = {str(name): _names(below, str(name)) for name, below in (one.get("switches") or {}).items()}
        kind = str(one.get("kind") or TREE)
        if kind == TREE and len(units) > 1 and not switches:
            switches = {TOP: tuple(in_order(units))}
        sizes = tuple(one.get("sizes") or ((TRAYS,) if kind == BLOCK else ()))
        name, default, most = str(one.get("name") or ""), bool(one.get("default")), int(one.get("most") or TRAYS)
        found.append(Topology(kind, units, name, switches, sizes, default, most))
    return found


def _names(told: Any, where: str) -> tuple[str, ...]:
    if isinstance(told, (list, tuple)) and all(isinstance(one, str) and one for one in told):
        return tuple(told)
    raise ConfigError(f"{where} has no list of names", wanted="a list", seen=cut(repr(told), 100), do="correct it")


def demand(wanted: Sequence[Topology], keeper: Keeper, *, told: bool) -> None:
    """:raises ConfigError: with what is wrong; nothing was written."""
    known, needed = frozenset(keeper.known()), keeper.needed(wanted)
    found = [*_together(wanted), *keeper.obstacles(wanted, told=told)]
    for one in wanted:
        found += [
            f"{one.name}: {what}" if one.name else what for what in problems(one, needed.get(one.name, ()), known)
        ]
    if found:
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise ConfigError(
            "this topology cannot be: " + "; ".join(found[:_SHOWN]) + more,
            address=keeper.where,
            wanted="each node of the scheduler once, and no other",
            do="correct topology_leaf and topology_block of these hosts, or topologies; nothing was written",
            details={"problems": found},
        )


def _together(wanted: Sequence[Topology]) -> Iterator[str]:
    names = [one.name for one in wanted]
    if not wanted:
        yield "there is none"
    if len(set(names)) != len(names):
        yield "of several each needs a name of its own"
    yield from (f"{name!r} is no name of a topology" for name in names if name and not _NAME.match(name))


def problems(one: Topology, needed: Collection[str], known: Collection[str]) -> Iterator[str]:
    """What is wrong with one of them, whatever keeps it."""
    yield from (f"{name!r} is no name of a switch or block" for name in (*one.units, *one.switches) if not _ok(name))
    yield from (f"{name} has no node" for name, nodes in one.units.items() if not nodes)
    places = one.nodes
    for node in in_order(node for node, times in places.items() if times > 1):
        yield f"{node} is in {' and '.join(name for name in one.order if node in one.units[name])}"
    strangers, missing = set(places) - set(known), set(needed) - set(places)
    if strangers:
        yield f"the scheduler does not know {folded(strangers)}"
    if missing:
        yield f"{folded(missing)} would stand idle for good: in no {'leaf' if one.kind == TREE else 'block'}"
    yield from _of_a_tree(one) if one.kind == TREE else _of_blocks(one)


def _ok(name: str) -> bool:
    return bool(_NAME.match(name)) and name.lower() != "all"


def _of_a_tree(one: Topology) -> Iterator[str]:
    yield from (f"{name} is a leaf and a switch above leaves" for name in in_order({*one.units} & {*one.switches}))
    above: dict[str, list[str]] = {}
    for name, below in one.switches.items():
        if not below:
            yield f"nothing is below {name}"
        for child in below:
            above.setdefault(child, []).append(name)
    for child in in_order(above):
        if child not in one.units and child not in one.switches:
            yield f"{child}, below {above[child][0]}, is no switch of it"
        if len(above[child]) > 1:
            yield f"{child} is below {' and '.join(above[child])}"
    yield from (f"{name} is below itself" for name in in_order(one.switches) if _in_a_circle(name, one.switches))


def _in_a_circle(name: str, switches: Mapping[str, Sequence[str]]) -> bool:
    seen: set[str] = set()
    open_ends = list(switches.get(name, ()))
    while open_ends:
        child = open_ends.pop()
        if child == name:
            return True
        if child not in seen:
            seen.add(child)
            open_ends += switches.get(child, ())
    return False


def _of_blocks(one: Topology) -> Iterator[str]:
    if one.switches:
        yield "blocks have no switches above them"
    base = one.sizes[0] if one.sizes else 0
    powers = [size // base if base > 0 and size % base == 0 else 0 for size in one.sizes]
    doubled = all(power > 0 and power & (power - 1) == 0 for power in powers)
    if not one.sizes or not doubled or powers != sorted(set(powers)):
        sizes = ", ".join(map(str, one.sizes)) or "none"
        yield f"the sizes {sizes} are no blocks of a size, of twice that, of four times that"
    for name in one.order:
        if len(one.units[name]) > one.most:
            yield f"{name} has {len(one.units[name])} nodes, and one NVLink domain no more than {one.most}"
