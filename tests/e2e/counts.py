# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has been written, to whom: the rack's own records, read past the collection's code."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
from collections import Counter
from typing import Any

from lab import NODES, RACK, ironic, node_state


def counters(inventory: str = "inventory") -> dict[str, Any]:
    """Whatever a write would move, by whom it was sent to. Names stand for ids, which are others each time."""
    return {
        "bmc": {node: [(line["method"], line["path"], line["body"]) for line in bmc_writes(node)] for node in NODES},
        "provisioner": sorted(provisioner_writes(inventory)),
        "slurm": {node: slurm_writes(node) for node in NODES},
        "boots": {node: network_boots(node) for node in NODES},
        "passports": per_node("SELECT name FROM passports JOIN nodes USING (node_id)"),
        "attempts": events_of("attempt"),
        "states": events_of("state"),
    }


def bmc_writes(node: str) -> list[dict[str, Any]]:
    """Each write that reached the node's BMC, from anybody, oldest first."""
    path = RACK / "nodes" / node / "bmc_writes.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


LOGS = {"inventory": "ironic", "inventory-maas": "maas"}


def provisioner_writes(inventory: str = "inventory") -> list[str]:
    """Requests other than reads that the provisioner was sent, as its log has them, with names for its ids."""
    log = (RACK / "log" / f"{LOGS[inventory]}.log").read_text(encoding="utf-8", errors="replace")
    found = re.findall(r"(?:PUT|POST|PATCH|DELETE) (?:/v1|/MAAS)\S*", log)
    if LOGS[inventory] == "maas":
        return found
    nodes = {node["uuid"]: node["name"] for node in ironic("GET", "/nodes?fields=uuid,name")["nodes"]}
    ports = {port["uuid"]: nodes.get(port["node_uuid"], "") for port in ironic("GET", "/ports/detail")["ports"]}
    named = {**{uuid: f"port-of-{name}" for uuid, name in ports.items()}, **nodes}
    return [re.sub(r"[0-9a-f-]{36}", lambda found: named.get(found[0], found[0]), line) for line in found]


def slurm_writes(node: str) -> list[str]:
    """What each update of a node at Slurm set its state to, from anybody, as the controller's log has them.

    Without the "*" behind it: whether the node has answered of late is no part of what was written.
    """
    log = (RACK / "log" / "slurmctld.log").read_text(encoding="utf-8", errors="replace")
    return re.findall(rf"update_node: node {node} state set to ([A-Z+_]+)", log)


def intents(node: str) -> int:
    """How often a verb noted in our ledger that it is about to write to something of this node."""
    return len(events_of("intent")[node])


def written(node: str) -> dict[str, int]:
    """How many writes have reached whom about this node, from anybody."""
    provisioner = [
        line for line in provisioner_writes() if line.endswith((f"/{node}", f"-of-{node}")) or f"/{node}/" in line
    ]
    return {"BMC": len(bmc_writes(node)), "provisioner": len(provisioner), "scheduler": len(slurm_writes(node))}


def network_boots(node: str) -> int:
    """How often the node has booted from the network and unpacked an image."""
    path = RACK / "nodes" / node / "boots.jsonl"
    if not path.exists():
        return 0
    boots = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return sum(1 for boot in boots if boot["device"] == "network")


def ledger_rows(query: str) -> list[tuple[Any, ...]]:
    """A read of the ledger's file, past our own code."""
    with sqlite3.connect(f"file:{RACK / 'ledger.sqlite'}?mode=ro", uri=True) as connection:
        return connection.execute(query).fetchall()


def rows_if_any(table: str, query: str) -> list[tuple[Any, ...]]:
    """A read of the ledger; a new rack has none, or one without tables."""
    if not (RACK / "ledger.sqlite").exists():
        return []
    there = ledger_rows(f"SELECT name FROM sqlite_master WHERE name = '{table}'")
    return ledger_rows(query) if there else []


def events_of(kind: str) -> dict[str, list[str]]:
    """By node: the names of its events of a kind, oldest first."""
    rows = rows_if_any(
        "events",
        "SELECT nodes.name, events.name FROM events JOIN nodes USING (node_id)"
        f" WHERE kind = '{kind}' ORDER BY events.id",
    )
    return {node: [str(name) for found, name in rows if found.partition(".")[0] == node] for node in NODES}


def failures(node: str) -> int:
    """How many looks at the node our ledger has that failed."""
    rows = rows_if_any(
        "events", "SELECT nodes.name, events.data FROM events JOIN nodes USING (node_id) WHERE kind = 'verdict'"
    )
    return sum(1 for name, data in rows if name.partition(".")[0] == node and json.loads(data).get("verdict") == "fail")


def per_node(query: str) -> dict[str, int]:
    """How many of the query's rows name each node."""
    found = [row[0] for row in rows_if_any("passports", query)]
    return {node: found.count(node) for node in NODES}


def payload(envelope: str) -> str:
    """What a signed envelope says, as it was signed."""
    return base64.b64decode(json.loads(envelope)["payload"]).decode()


def events() -> int:
    """How much the ledger tells; there is none yet on a new rack."""
    rows = rows_if_any("events", "SELECT count(*) FROM events")
    return int(rows[0][0]) if rows else 0


def world(*nodes: str) -> dict[str, Any]:
    """All that a write would move."""
    return {
        "bmc": {node: len(bmc_writes(node)) for node in nodes or NODES},
        "slurm": {node: node_state(node) for node in nodes or NODES},
        "slurm writes": {node: slurm_writes(node) for node in nodes or NODES},
        "boots": {node: network_boots(node) for node in nodes or NODES},
        "provisioner": len(provisioner_writes()) if not nodes else 0,
        "events": 0 if nodes else events(),
    }


NOTHING: dict[str, Any] = {
    "provisioner": [],
    **{name: dict.fromkeys(NODES, []) for name in ("bmc", "slurm", "attempts", "states")},
    **{name: dict.fromkeys(NODES, 0) for name in ("boots", "passports")},
}


def done_since(before: dict[str, Any]) -> dict[str, Any]:
    """What has been counted since."""
    now = counters()
    told: dict[str, Any] = {"provisioner": Counter(now.pop("provisioner")) - Counter(before["provisioner"])}
    for name, by_node in now.items():
        told[name] = {node: since(value, before[name][node]) for node, value in by_node.items()}
    return told


def since(value: Any, before: Any) -> Any:
    return value[len(before) :] if isinstance(value, list) else value - before
