# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where each node of a fleet stands, read from the ledger in a handful of queries. PRIVATE to the collection."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FLEET, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lease import holders
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import KEEP, kind_of, why_of

#: Seconds before its end at which a passport is due where nobody says otherwise.
_DUE_WITHIN = 14 * 86400
SPEC = spec(
    FLEET,
    hosts={"type": "list", "elements": "str"},
    report={"type": "bool", "default": False},
    title={"type": "str", "default": "Fleet"},
    expire_within={"type": "int", "default": _DUE_WITHIN},
    issued_within={"type": "int", "default": 0},
)

_AGAIN = "ansible-playbook gpufleet.baremetal.{playbook} -i INVENTORY --limit {host}"
#: What a person does next, by lifecycle state; empty where nothing is to be done.
_NEXT = {
    "discovered": "day0_bringup",
    "enrolled": "day0_bringup",
    "imaging": "",
    "validating": "",
    "admitted": None,
    "draining": "day2_recycle",
    "drained": "day2_recycle",
    "wiping": "day2_recycle",
    "quarantined": "day2_recycle",
    "retired": None,
}

#: As the playbook passports names itself in the ledger, why it took a node where nobody says otherwise (older releases
#: wrote no more), and the states in which it goes on with one.
PASSPORTS = "passports"
RENEWAL = "passport renewal"
_RENEWED_FROM = frozenset({"draining", "drained", "validating"})
_RENEW = f"{_AGAIN} -e passports_renew=true".replace("{playbook}", PASSPORTS)
#: What takes a node back that a person keeps: no run does of its own accord.
_GIVEN_BACK = f"{_AGAIN} -e maintenance=off".replace("{playbook}", "maintenance")


def status(
    ledger: Ledger, nodes: Mapping[str, str], run_id: str = "", expire_within: float = 0.0, issued_within: float = 0.0
) -> dict[str, dict[str, Any]]:
    """Where each node stands, by host name, with the keys that the module fleet_status documents.

    :param nodes: node id by host name; an empty id is a machine that the ledger has never seen.
    :param run_id: the run that asks.
    :param expire_within: seconds; a node in service whose passport ends within them is due.
    :param issued_within: seconds; a passport that was issued within them is fresh.
    """
    ids = [node_id for node_id in nodes.values() if node_id]
    states = ledger.latest(ids, "state")
    admitted = ledger.latest(ids, "state", ["admitted"])
    imaging = ledger.latest(ids, "state", ["imaging"])
    holds = ledger.latest(ids, "hold")
    stopped = ledger.latest(ids, "note", ["stopped"])
    passports, leases = ledger.passport_times(ids), holders(ledger, ids)
    now = ledger.now()
    found = {}
    for host, node_id in nodes.items():
        one = _one(host, node_id, states.get(node_id), node_id in admitted, holds.get(node_id))
        issued, ends = passports.get(node_id, (0.0, 0.0))
        one["passport_expires"] = utc(ends) if node_id in passports else ""
        one["passport_due"] = one["state"] == "admitted" and ends <= now + expire_within
        one["passport_fresh"] = now - issued < issued_within
        if one["passport_due"]:
            one["next"] = _RENEW.format(host=host) + _days(expire_within)
        one["lease"] = _live(leases.get(node_id), now)
        if one["kept"]:
            one["next"] = _GIVEN_BACK.format(host=host)
        one["stopped"] = _stopped(states.get(node_id), stopped.get(node_id), run_id)
        if one["stopped"]:
            one["next"] = one["next"] or _again(host, stopped[node_id]["data"])
        one["imaging_event"] = imaging[node_id]["id"] if node_id in imaging else 0
        one["imaging_at"] = imaging[node_id]["at"] if node_id in imaging else 0.0
        found[host] = one
    return found


def _days(expire_within: float) -> str:
    """The playbook must ask for as many days as the list did, or it finds the node not due."""
    return "" if expire_within <= _DUE_WITHIN else f" -e passports_days={ceil(expire_within / 86400)}"


def _stopped(state: Mapping[str, Any] | None, note: Mapping[str, Any] | None, run_id: str) -> str:
    """Why the newest run went no further, where nothing has come of the node since.

    A node in service that a later run finds healthy changes nothing in the ledger, so there a note is only its own
    run's.
    """
    if note is None or (state is not None and state["id"] > note["id"]):
        return ""
    if state is not None and state["name"] == "admitted" and note["run_id"] != run_id:
        return ""
    return str(note["data"].get("reason") or "")


def _again(host: str, note: Mapping[str, Any]) -> str:
    """What was stopped before it did anything, once more. A renewal that was asked for is not due by itself."""
    if note.get("playbook") == PASSPORTS:
        return f"{_RENEW.format(host=host)} -e passports_all=true"
    return _AGAIN.format(playbook="day2_recycle", host=host)


def _live(lease: Mapping[str, Any] | None, now: float) -> str:
    """The run that holds a lease now, by the ledger's clock."""
    return str(lease["run_id"]) if lease and lease["expires"] > now else ""


def _one(
    host: str,
    node_id: str,
    event: Mapping[str, Any] | None,
    admitted_before: bool,
    hold: Mapping[str, Any] | None,
) -> dict[str, Any]:
    state = event["name"] if event else "discovered"
    data = event["data"] if event else {}
    token = str(hold["data"].get("hold_token") or "") if hold and hold["name"] == "taken" else ""
    return {
        "node_id": node_id,
        "state": state,
        "event": event["id"] if event else 0,
        "since": utc(event["at"]) if event else "",
        "run": event["run_id"] if event else "",
        "reason": str(data.get("reason") or ""),
        "remedy": str(data.get("remedy") or ""),
        "admitted_before": admitted_before,
        "hold": token,
        "kept": why_of(token) if kind_of(token) == KEEP else "",
        "renewing": renewing(state, data),
        "passport_expires": "",
        "passport_due": False,
        "passport_fresh": False,
        "lease": "",
        "stopped": "",
        "imaging_event": 0,
        "imaging_at": 0.0,
        "next": next_command(host, state, admitted_before, data),
    }


def not_told(host: str, why: str) -> dict[str, Any]:
    """A host whose ledger cannot be read, or does not say which of its nodes this is. It is no new one: nothing is
    to be done with it before that is known."""
    return {**_one(host, "", None, False, None), "state": "unknown", "stopped": why, "next": ""}


def renewing(state: str, data: Mapping[str, Any]) -> bool:
    """Did a renewal of its passport leave it so? Then it goes on as one, which images nothing.

    :param data: what was recorded with the state.
    """
    return state in _RENEWED_FROM and (data.get("playbook") == PASSPORTS or data.get("reason") == RENEWAL)


def next_command(host: str, state: str, admitted_before: bool, data: Mapping[str, Any]) -> str:
    """The command that takes the node on from here; empty where there is nothing to do."""
    if renewing(state, data):
        return _RENEW.format(host=host)
    playbook = _NEXT.get(state, "day0_bringup")
    if playbook is None:
        return ""
    if not playbook:
        playbook = "day2_recycle" if admitted_before else "day0_bringup"
    return _AGAIN.format(playbook=playbook, host=host)


def utc(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def report(title: str, nodes: Mapping[str, Mapping[str, Any]], width: int = 100) -> list[str]:
    """The same for people: counts, then each node that is not admitted with its reason and the next command."""
    counts: dict[str, int] = {}
    for node in nodes.values():
        counts[str(node["state"])] = counts.get(str(node["state"]), 0) + 1
    total = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    stopped = sum(1 for node in nodes.values() if node["stopped"])
    total += f"; stopped at {stopped}" if stopped else ""
    due = sum(1 for node in nodes.values() if node["passport_due"])
    total += f"; passports to be renewed: {due}" if due else ""
    lines = _wrapped("", f"{title}: {len(nodes)} nodes: {total}", width)
    widest = max((len(host) for host in nodes), default=4)
    for host, node in sorted(nodes.items()):
        passport = f"passport until {node['passport_expires']}" if node["passport_expires"] else "no passport"
        if node["passport_due"]:
            passport += ", to be renewed"
        shown = passport if node["state"] == "admitted" else node["reason"] or f"since {node['since'] or 'never seen'}"
        if node["kept"]:
            shown = f"kept by a person: {node['kept']}"
        if node["stopped"]:
            shown = f"{node['stopped']} ({shown})" if node["state"] == "admitted" else node["stopped"]
        lines += _wrapped(f"  {host:<{widest}}  {node['state']:<11}  ", shown, width)
        indent = " " * (widest + 17)
        if node["remedy"] and node["state"] != "admitted":
            lines.append(f"{indent}remedy: {node['remedy']}")
        if node["next"]:
            lines += _command(f"{indent}next: ", str(node["next"]), width)
    return lines


def _command(head: str, command: str, width: int) -> list[str]:
    """A command on one line, or on several that a shell takes as one."""
    if len(head) + len(command) <= width:
        return [head + command]
    start, option, limit = command.rpartition(" --limit ")
    return [f"    {head.strip()} {start} \\", f"      {(option + limit).strip()}"]


def _wrapped(head: str, text: str, width: int) -> list[str]:
    """Break at blanks so that a line fits a terminal; a word longer than the line stays whole."""
    lines, line = [], head
    for word in text.split():
        if len(line) + len(word) > width and line.strip() and line != head:
            lines.append(line.rstrip())
            line = " " * len(head)
        line += word + " "
    return [*lines, line.rstrip()]


def known_hosts(requested: Sequence[str] | None, batch: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(requested or batch))
