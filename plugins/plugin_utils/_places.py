# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where hosts are in the network: as the inventory plans it, and as they were seen last. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import folded, in_order
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event

#: Variables of a host, and budgets of waves: a host without one is where it was seen last.
LEAF, BLOCK = "topology_leaf", "topology_block"
KEYS = (LEAF, BLOCK)
_OF_KIND = {"tree": LEAF, "block": BLOCK}
#: What the ledger has of a look at a host's neighbours.
KIND, SEEN = "topology", "seen"
_SHOWN = 5
Variable = Callable[[str, str], Any]


#: A pair that is one switch to its nodes is one leaf, called by both.
_AND = "_"


@dataclass(frozen=True)
class Host:
    """node: its name in the scheduler. leaf, block: as the inventory has them, empty where it does not; of a pair that
    is one switch to the node it has both. switches, domain: as they were seen; of each switch its name, and its id
    where it told one."""

    node: str
    leaf: tuple[str, ...] = ()
    block: str = ""
    switches: tuple[tuple[str, str], ...] = ()
    domain: str = ""

    @property
    def leaves(self) -> tuple[str, ...]:
        return tuple(in_order({name for name, _id in self.switches}))

    def unit(self, key: str, called: Mapping[str, str]) -> str:
        """:param called: by id the name of each switch, of :func:`names_of`."""
        if key == BLOCK:
            return self.block or self.domain
        if self.leaf:
            return _AND.join(in_order({called.get(one, one) for one in self.leaf}))
        return self.leaves[0] if len(self.leaves) == 1 else ""


def names(told: Any) -> tuple[str, ...]:
    """A name, or several as a list."""
    every = told if isinstance(told, (list, tuple)) else [told]
    return tuple(str(one) for one in every if one not in (None, ""))


def names_of(hosts: Iterable[Host]) -> dict[str, str]:
    """By id what a switch calls itself: a plan may have either."""
    return {switch: name for one in hosts for name, switch in one.switches if switch}


def seen(event: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a look has told: the switches, and the NVLink domain."""
    data = event["data"] if event else {}
    rows = [row for row in data.get("neighbours") or () if isinstance(row, Mapping) and row.get("leaf")]
    switches = tuple(dict.fromkeys((str(row["leaf"]), str(row.get("leaf_id") or "")) for row in rows))
    return {"switches": switches, "domain": str(data.get("domain") or "")}


def looked(neighbours: list[dict[str, str]], domain: str) -> Event:
    return Event(KIND, SEEN, {"neighbours": neighbours, "domain": domain})


def newest(ledger: Ledger, ids: Mapping[str, str]) -> dict[str, Mapping[str, Any]]:
    """By host, its last look; in one query."""
    events = ledger.latest(sorted({one for one in ids.values() if one}), KIND, (SEEN,))
    return {host: events[node_id] for host, node_id in ids.items() if node_id in events}


def planned(ledger: Ledger, ids: Mapping[str, str], nodes: Mapping[str, str], variable: Variable) -> dict[str, Host]:
    """:param nodes: by host its name in the scheduler."""
    looks = newest(ledger, ids)
    found = {}
    for host, node in nodes.items():
        leaf, block = (names(variable(key, host)) for key in KEYS)
        found[host] = Host(node, leaf=leaf, block=_AND.join(block), **seen(looks.get(host)))
    return found


def domains(key: str, look: Mapping[str, Any] | None) -> list[str]:
    """Of a host that the inventory does not place: each leaf that it was seen at, or its NVLink domain."""
    one = Host("", **seen(look))
    return [one.domain] if key == BLOCK and one.domain else list(one.leaves) if key == LEAF else []


def filled(topology: Mapping[str, Any], hosts: Mapping[str, Host]) -> dict[str, Any]:
    """With the nodes of each leaf or block. :raises ConfigError: where no host has any."""
    if topology.get("units"):
        return dict(topology)
    key, units = _OF_KIND[str(topology.get("kind") or "tree")], dict[str, list[str]]()
    called = names_of(hosts.values())
    for one in hosts.values():
        unit = one.unit(key, called)
        if unit:
            units.setdefault(unit, []).append(one.node)
    if not units:
        raise ConfigError(
            f"no host has {key}, and none was seen where that could be told from",
            wanted=f"{key} in the inventory, or a look with topology_info",
            do="run the playbook topology, which looks, or set the variable; or give units",
        )
    return {**topology, "units": units}


def demand(hosts: Mapping[str, Host]) -> None:
    """:raises ConfigError: where hosts were seen elsewhere than they are planned: a file says so to Slurm for good."""
    found = [*_leaves(hosts), *_switches(hosts), *_domains(hosts)]
    if found:
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise ConfigError(
            "the plan and what was seen of the cables differ: " + "; ".join(found[:_SHOWN]) + more,
            wanted="each node where the inventory has it",
            do="mend the cable and look again (playbook topology), or correct topology_leaf and topology_block; or give"
            " force_reason, which is recorded, and the plan counts",
            details={"problems": found},
        )


def _leaves(hosts: Mapping[str, Host]) -> list[str]:
    return [
        f"{name} is planned at {' or '.join(one.leaf)}, and was seen at {', '.join(one.leaves)}"
        for name, one in hosts.items()
        if one.leaf and one.leaves and not {*one.leaf} & {told for switch in one.switches for told in switch}
    ]


def _switches(hosts: Mapping[str, Host]) -> Iterator[str]:
    """One switch is one leaf, and no leaf is two: neither by what it is called nor by a plan."""
    named: dict[str, set[str]] = {}
    ids: dict[str, list[set[str]]] = {}
    for name, switch, beside in (row for one in hosts.values() for row in _told(one)):
        named.setdefault(switch, set()).add(name)
        ids[name] = _joined(ids.get(name, []), beside)
    for switch, names in named.items():
        if len(names) > 1:
            yield f"{' and '.join(in_order(names))} are one switch, {switch}"
    for name, groups in ids.items():
        if len(groups) > 1:
            yield f"{name} is what several switches call themselves: {', '.join(in_order(map(min, groups)))}"
    for name, units in _units(hosts).items():
        if len(units) > 1:
            yield f"{name} is in {' and '.join(in_order(units))}"


def _told(one: Host) -> Iterator[tuple[str, str, set[str]]]:
    """Name and id of each switch that told both, and the ids of those of that name at this host."""
    for name, switch in one.switches:
        if switch:
            yield name, switch, {other for called, other in one.switches if called == name and other}


def _units(hosts: Mapping[str, Host]) -> dict[str, set[str]]:
    """By name of each switch the leaves that it would be in."""
    called = names_of(hosts.values())
    found: dict[str, set[str]] = {}
    for one in hosts.values():
        unit = one.unit(LEAF, called)
        for name in (one.leaf or one.leaves) if unit else ():
            found.setdefault(called.get(name, name), set()).add(unit)
    return found


def _joined(groups: list[set[str]], ids: set[str]) -> list[set[str]]:
    """A node that is at both of a pair shows that they are one."""
    apart = [one for one in groups if not one & ids]
    return [*apart, ids.union(*(one for one in groups if one & ids))]


def _domains(hosts: Mapping[str, Host]) -> list[str]:
    """What an NVLink domain is called is no name of a block; but one block is one domain, and no two are."""
    blocks: dict[str, dict[str, list[str]]] = {}
    for name, one in hosts.items():
        if one.domain:
            blocks.setdefault(one.unit(BLOCK, {}), {}).setdefault(one.domain, []).append(name)
    found = [
        f"{block} was seen in {len(domains)} NVLink domains: {' and '.join(map(folded, domains.values()))}"
        for block, domains in blocks.items()
        if len(domains) > 1
    ]
    owners: dict[str, list[str]] = {}
    for block, domains in blocks.items():
        for domain in domains:
            owners.setdefault(domain, []).append(block)
    return found + [
        f"{' and '.join(in_order(names))} were seen in one NVLink domain, {domain}"
        for domain, names in owners.items()
        if len(names) > 1
    ]
