# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people are told of where nodes stand: host by host. PRIVATE to the collection."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

#: So many hosts of a state an artifact names, however big the fleet is: a message to people has to stay one.
NAMED = 10
#: There nothing is to be done about a node, or nobody has begun with it.
_AT_REST = ("admitted", "discovered", "enrolled", "retired")


def report(title: str, nodes: Mapping[str, Mapping[str, Any]], width: int = 100) -> list[str]:
    """Counts, then each node: what there is to say of it, and the next command."""
    lines = wrapped("", headline(title, nodes), width)
    widest = max((len(host) for host in nodes), default=4)
    for host, node in sorted(nodes.items()):
        if node["foretold"]:
            lines += wrapped(f"  {host:<{widest}}  ", node["foretold"], width)
            continue
        lines += wrapped(f"  {host:<{widest}}  {node['state']:<11}  ", standing(node), width)
        indent = " " * (widest + 17)
        if remedy_due(node):
            lines.append(f"{indent}remedy: {node['remedy']}")
        if node["left"]:
            lines += wrapped(f"{indent}left: ", node["left"], width)
        if node["next"]:
            lines += _command(f"{indent}next: ", str(node["next"]), width)
    return lines


def headline(title: str, nodes: Mapping[str, Mapping[str, Any]]) -> str:
    total = ", ".join(f"{count} {state}" for state, count in sorted(counts(nodes).items()))
    stopped = sum(1 for node in nodes.values() if node["stopped"] and not node["foretold"])
    total += f"; stopped at {stopped}" if stopped else ""
    due = sum(1 for node in nodes.values() if node["passport_due"])
    total += f"; passports to be renewed: {due}" if due else ""
    foretold = sum(1 for node in nodes.values() if node["foretold"])
    total += f"; check mode, nothing was written: a run would bring {foretold} into service" if foretold else ""
    return f"{title}: {len(nodes)} nodes: {total}"


def artifact(title: str, nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A few numbers and names for the jobs that follow in a workflow, as ``set_stats`` gives them. Whoever goes by them
    asks the ledger anew: they are of the moment, and of the last slice."""
    stopped = [host for host, node in nodes.items() if node["stopped"]]
    told: dict[str, Any] = {"nodes": len(nodes), "states": counts(nodes), "stopped": len(stopped)}
    hosts = {state: some for state, some in _by_state(nodes).items() if state not in _AT_REST}
    named = {state: sorted(some)[:NAMED] for state, some in sorted(hosts.items())}
    told["hosts"] = {**named, **({"stopped": sorted(stopped)[:NAMED]} if stopped else {})}
    name = re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_") or "fleet"
    return {"data": {f"gpufleet_{name}": told}, "per_host": False, "aggregate": False}


def counts(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """How many are in each state."""
    return {state: len(hosts) for state, hosts in _by_state(nodes).items()}


def _by_state(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for host, node in nodes.items():
        found.setdefault(str(node["state"]), []).append(host)
    return found


def remedy_due(node: Mapping[str, Any]) -> str:
    return str(node["remedy"]) if node["state"] != "admitted" else ""


def standing(node: Mapping[str, Any]) -> str:
    """Why a node stands where it stands, or what it stands on."""
    admitted = node["state"] == "admitted"
    since = f"since {node['since']}" if node["since"] else "never seen"
    shown = _papers(node) if admitted else node["reason"] or since
    if node["tenant"]:
        shown = f"of the tenant {node['tenant']}, and left alone ({shown})"
    if node["kept"]:
        shown = f"kept by a person: {node['kept']}"
    if node["busy"] and not admitted:
        shown = f"the run {node['lease']} works on it ({shown})"
    if node["stopped"] and (node["kept"] or node["tenant"]):  # whose it is goes first, whatever met a run there
        shown = f"{shown}; stopped: {node['stopped']}"
    elif node["stopped"]:
        shown = f"{node['stopped']} ({shown})" if admitted else node["stopped"]
    if node["served"] == "yes" and not admitted:  # whatever else is to be said of it
        shown += "; its scheduler has it in service all the same"
    if node["unheard"]:
        shown += f"; unknown to the scheduler: {node['unheard']}"
    if admitted and node["outlier"]:
        shown += f"; slower than its peers: {node['outlier']}"
    return str(shown)


def _papers(node: Mapping[str, Any]) -> str:
    """What a node is in service on."""
    passport = f"passport until {node['passport_expires']}" if node["passport_expires"] else "no passport"
    if node["passport_due"]:
        which = f", which no renewal can: {node['unproven']}" if node["unproven"] else ""
        passport += f", to be renewed{which}"
    if not node["adopted"]:
        return passport
    unknown = "; its provisioner has no record of it" if node["unrecorded"] else ""
    return f"adopted: {node['reason'] or 'the gates that need a drain are due'}{unknown}; {passport}"


def _command(head: str, command: str, width: int) -> list[str]:
    """A command on one line, or on several that a shell takes as one."""
    if len(head) + len(command) <= width:
        return [head + command]
    if not command.startswith("ansible"):
        return wrapped(head, command, width)
    start, option, limit = command.rpartition(" --limit ")
    return [f"    {head.strip()} {start} \\", f"      {(option + limit).strip()}"]


def wrapped(head: str, text: str, width: int) -> list[str]:
    """Break at blanks so that a line fits a terminal; a word longer than the line stays whole."""
    lines, line = [], head
    for word in text.split():
        if len(line) + len(word) > width and line.strip() and line != head:
            lines.append(line.rstrip())
            line = " " * len(head)
        line += word + " "
    return [*lines, line.rstrip()]
