# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The day 0 that nobody disturbs, which several files need, and a rack in service, which others begin with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import counts
import lab
from contract.docs.blocks import README
from reader import COMMANDS, Reader, commands


@dataclass(frozen=True)
class FirstDay:
    """What a reader of README types on the first day: preflight, a rehearsal in check mode, and day 0 itself, each with
    what it moved, and the rack that they ran on."""

    reader: Reader
    preflight: lab.Run
    rehearsal: lab.Run
    rehearsed: tuple[dict[str, Any], dict[str, Any]]
    run: lab.Run
    done: dict[str, Any]
    rack: int


def first_day(folder: Path) -> FirstDay:
    """Day 0 with certificate bundles in the environment that hold no certificate, which must change nothing."""
    lab.new_rack()
    reader = Reader(folder)
    preflight, rehearse, day0, *_later = commands(README, COMMANDS)
    before = counts.world()
    looked = reader.types(preflight)
    rehearsal = reader.types(rehearse)
    after = counts.world()
    empty = folder / "empty.pem"
    empty.touch()
    run = reader.types(day0, {"REQUESTS_CA_BUNDLE": str(empty), "CURL_CA_BUNDLE": "/nonexistent.pem"})
    return FirstDay(reader, looked, rehearsal, (before, after), run, counts.done_since(counts.NOTHING), lab.RACKS.seen)


def in_service() -> None:
    """Four nodes in service, on the image that the inventory declares.

    Where the file before has left them in service, day 2 finds what is left to do, which is nothing or little; any
    other rack is a new one. A BMC that it killed answers again.
    """
    if lab.RACKS.seen:
        lab.machines_up()
    if not all_serve():
        lab.new_rack()
        brought_up("day0_bringup")
    elif not runs_as_declared():
        brought_up("day2_recycle")
    assert all_serve() and runs_as_declared()


def brought_up(playbook: str) -> None:
    run = lab.play(playbook)
    assert run.rc == 0, run.tail()


def all_serve() -> bool:
    """Whether ledger, scheduler and provisioner have all nodes in service, and nothing is broken."""
    if not lab.RACKS.seen:
        return False
    states = counts.events_of("state")
    if any(states[node][-1:] != ["admitted"] for node in lab.NODES):
        return False
    known = {
        node["name"]: node for node in lab.ironic("GET", "/nodes?fields=name,maintenance,provision_state")["nodes"]
    }
    return all(
        lab.node_state(node) == {"state": "IDLE", "reason": ""}
        and not lab.faults_of(node)
        and known.get(node, {}).get("provision_state") == "active"
        and not known[node]["maintenance"]
        for node in lab.NODES
    )


def runs_as_declared() -> bool:
    """Whether each node's newest passport is one for the image that the inventory declares."""
    rows = counts.ledger_rows(
        "SELECT nodes.name, envelope FROM passports JOIN nodes USING (node_id) ORDER BY passports.id"
    )
    newest = {str(name): counts.payload(str(text)) for name, text in rows}
    return all(lab.DECLARED in newest.get(node, "") for node in lab.NODES)
