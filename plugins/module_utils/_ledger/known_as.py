# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""By what a node is known, as ``node_identity`` is asked for it and shows it. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.aliases import Row
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import utc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.spelling import (
    Pair,
    compared,
    normal,
    spelled,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event


@dataclass(frozen=True)
class Asked:
    """host: the host's name in the inventory. says: the pairs that it names there. node_id: it names that, too.

    others: which other host of the inventory says a pair now, by the pair as it is compared. measured: where a GPU
    that moved was found, and when: pairs of time and node.
    """

    host: str
    says: Sequence[Pair]
    params: Mapping[str, Any]
    node_id: str = ""
    others: Mapping[Pair, str] = field(default_factory=dict)
    measured: Sequence[tuple[float, str]] = ()

    def text(self, option: str) -> str:
        return str(self.params.get(option) or "").strip()

    @property
    def pair(self) -> Pair:
        return self.text("kind"), normal(self.text("kind"), self.text("value"))

    @property
    def machine(self) -> Mapping[str, Any]:
        """How bmc_info has held the machine against the inventory."""
        return (self.params.get("bmc") or {}).get("machine") or {}

    @property
    def told(self) -> list[Pair]:
        """What the BMC tells of the machine."""
        bmc = self.params.get("bmc") or {}
        identity = bmc.get("identity") or {}
        pairs = [("serial", str(identity.get("serial") or "")), ("system_uuid", str(identity.get("uuid") or ""))]
        pairs += [("serial", str(self.machine.get("serial") or ""))]
        return spelled([*pairs, *(("mac", str(one.get("mac") or "")) for one in bmc.get("macs") or [])])


@dataclass
class Plan:
    """node: whom the host is then. drops: rows that fall; puts: pairs by the node that has them then. events: by node.

    nodes: all that are touched; each needs its lease. An id that the ledger has not seen yet is made.
    """

    node: str = ""
    drops: Sequence[Row] = field(default_factory=list)
    puts: dict[str, list[Pair]] = field(default_factory=dict)
    events: list[tuple[str, Event]] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)


def state_of(ledger: Ledger, node: str) -> str:
    found = ledger.latest([node], "state").get(node)
    return str(found["name"]) if found else "discovered"


def pairs_of(ledger: Ledger, node: str) -> list[Pair]:
    return [(row["kind"], row["value"]) for row in ledger.aliases(node)]


def listed(pairs: Sequence[Pair]) -> str:
    return ", ".join(f"{kind} {value}" for kind, value in dict.fromkeys(pairs)) or "nothing"


def shown(ledger: Ledger, node: str) -> list[dict[str, Any]]:
    """The aliases of a node, for people and tasks."""
    return [
        {
            "kind": row["kind"],
            "value": row["value"],
            "confirmed": bool(row["confirmed_by"]),
            "confirmed_by": row["confirmed_by"],
            "confirmed_at": utc(row["confirmed"]) if row["confirmed_by"] else "",
            "source": row["source"],
            "host": row["host"],
            "since": utc(row["seen"]),
        }
        for row in (ledger.aliases(node) if node else [])
    ]


def lines(ledger: Ledger, nodes: Sequence[str]) -> dict[str, list[str]]:
    """By node, its aliases and its state, as a diff shows them."""
    found = {}
    for node in nodes:
        rows = shown(ledger, node)
        told = [f"{one['kind']} {one['value']}{_by(one)}" for one in rows]
        found[f"{ledger.name(node) or 'new'} {node}"] = [*told, f"state {state_of(ledger, node)}"]
    return found


def foretold(ledger: Ledger, plan: Plan, before: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The same, as they will be."""
    gone = {f"{row['kind']} {row['value']}{_by({**row, 'confirmed': row['confirmed_by']})}" for row in plan.drops}
    after = {}
    for name, told in before.items():
        node = name.rpartition(" ")[2]
        states = [event.name for one, event in plan.events if one == node and event.kind == "state"]
        taken = {f"{kind} {value} " for other, pairs in plan.puts.items() if other != node for kind, value in pairs}
        kept = [one for one in told[:-1] if one not in gone and not any(one.startswith(pair) for pair in taken)]
        new = [f"{kind} {value} (claimed)" for kind, value in plan.puts.get(node, [])]
        after[name] = [*sorted([*kept, *new]), f"state {states[-1]}" if states else told[-1]]
    return after


def _by(one: Mapping[str, Any]) -> str:
    return f" (confirmed by {one['confirmed_by']})" if one["confirmed"] else " (claimed)"


def differences(ledger: Ledger, asked: Asked, node: str) -> list[str]:
    """Where inventory, BMC and ledger do not say the same."""
    rows = [(row["kind"], row["value"]) for row in ledger.aliases(node)] if node else []
    known = {compared(pair) for pair in rows}
    told = {compared(pair) for pair in asked.told}
    found = []
    for pair in asked.says:
        owner = ledger.owner(*pair)
        if compared(pair) not in known:
            whose = f"node {owner} ({ledger.name(owner)})" if owner else "nobody"
            found.append(f"the inventory says {pair[0]} {pair[1]}, which in the ledger is {whose}")
    for kind in asked.machine.get("contradicts") or []:
        found.append(f"the BMC tells another {kind} than the inventory: {listed(asked.told)}")
    kinds = {kind for kind, value in told if kind != "mac"}
    found += [
        f"the ledger has {kind} {value}, which the BMC does not tell"
        for kind, value in rows
        if kind in kinds and compared((kind, value)) not in told
    ]
    return found
