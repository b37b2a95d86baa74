# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fleet_plan over a real ledger and a scheduler: what is out counts whoever took it, and who may go when."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import Nodes, in_service

pytestmark = pytest.mark.slow

PLAN = "gpufleet.baremetal.fleet_plan"


def asked(nodes: Nodes, *tasks: dict[str, Any], flags: tuple[str, ...] = (), ok: bool = True) -> list[dict[str, Any]]:
    """The results of these tasks of the verb, each run once."""
    file = nodes.folder / "results.json"
    play: dict[str, Any] = {"hosts": "all", "gather_facts": False, "tasks": []}
    for number, options in enumerate(tasks):
        play["tasks"].append({PLAN: options, "run_once": True, "register": f"told{number}"})
    told = "[" + ", ".join(f"told{number}" for number in range(len(tasks))) + "]"
    copied = {"content": f"{{{{ {told} | to_json }}}}", "dest": str(file)}
    write = {"ansible.builtin.copy": copied, "delegate_to": "localhost", "run_once": True, "check_mode": False}
    play["tasks"].append({**write, "vars": {"ansible_connection": "local"}})
    nodes.plays([play], *flags, ok=ok)
    found: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if ok else []
    return found


def recorded(nodes: Nodes) -> list[tuple[str, str, dict[str, Any]]]:
    with contextlib.closing(sqlite3.connect(nodes.ledger)) as ledger:
        waves = "SELECT events.name, nodes.name, data FROM events JOIN nodes USING (node_id) WHERE kind = 'wave'"
        rows = ledger.execute(f"{waves} ORDER BY id")
        return [(what, host, json.loads(data)) for what, host, data in rows]


def jobs(nodes: Nodes, **runs: str) -> None:
    """A job on each of these nodes, which has run for so long."""
    world = json.loads(nodes.world.read_text(encoding="utf-8"))
    for number, (host, time_used) in enumerate(runs.items()):
        world["nodes"][host]["state"] = "ALLOCATED"
        world["jobs"].append({"id": str(number), "node": host, "runs": time_used})
    nodes.world.write_text(json.dumps(world), encoding="utf-8")


def happened(nodes: Nodes, run: str, *events: tuple[str, Event]) -> None:
    with Ledger(nodes.url) as ledger:
        ledger.append(run, [(nodes.node_id(host), event) for host, event in events])


def test_idle_nodes_go_first_and_what_others_took_counts_and_is_left(tmp_path: Path) -> None:
    with in_service(tmp_path, 7) as nodes:
        jobs(nodes, gpu001="2-00:00:00", gpu002="10:00")
        nodes.scheduler("gpu003", state="IDLE+DRAIN", reason="riser of bob", by="bob")
        nodes.scheduler("gpu004", state="DOWN", reason="Not responding", by="slurm")
        happened(nodes, "r2", ("gpu005", Event("state", "quarantined", {"reason": "Xid 79", "from": "admitted"})))
        for number, host in enumerate(nodes.hosts.values()):
            host["rack"] = "a" if number < 2 else "b"
        options = {"budgets": {"fleet": 4, "rack": {"nodes": 3, "percent": 50}}, "report": True}
        check, told = asked(nodes, {**options}, {**options})
        assert {**check, "events": []} == {**told, "events": []}
        assert told["out"] == ["gpu003", "gpu004", "gpu005"]
        # Of rack b more than half is out: what is out may be brought back, and nobody else be taken.
        assert told["waves"] == [["gpu004"], ["gpu005", "gpu002"], ["gpu001"]] and told["sizes"] == [1, 2, 1]
        assert "held by somebody else" in told["left"]["gpu003"] and "riser of bob" in told["left"]["gpu003"]
        full = "no room in rack b: 3 of 5 are out of service, and 2 may be"
        assert {host: told["left"][host] for host in ("gpu006", "gpu007")} == dict.fromkeys(("gpu006", "gpu007"), full)
        assert told["budgets"][0] == {"budget": "fleet", "value": "", "nodes": 7, "out": 3, "may": 4, "room": 1}
        assert "gpu[006-007]: no room in rack b" in nodes.output and told["halted"] == ""
        assert [(what, host, data["wave"]) for what, host, data in recorded(nodes) if what == "planned"][:4] == [
            ("planned", "gpu004", 1), ("planned", "gpu005", 2), ("planned", "gpu002", 2), ("planned", "gpu001", 3)
        ]  # fmt: skip
        assert nodes.scheduler("gpu006") == "IDLE" and not any(bmc.paths for bmc in nodes.bmcs.values())


def test_check_mode_tells_the_same_and_records_nothing(tmp_path: Path) -> None:
    with in_service(tmp_path, 3) as nodes:
        verbs = [{"state": "planned"}, {"state": "paused", "reason": "x", "by": "alice"}]
        told = asked(nodes, *verbs, flags=("--check",))
        assert recorded(nodes) == []
        assert [{**one, "events": 0} for one in asked(nodes, *verbs)] == [{**one, "events": 0} for one in told]
        assert [what for what, _host, _data in recorded(nodes)] == ["planned"] * 3 + ["paused"] * 3


def test_a_wave_begins_with_a_canary_and_goes_on_once_it_came_through(tmp_path: Path) -> None:
    with in_service(tmp_path, 4) as nodes:
        options = {"state": "begun", "budgets": {"fleet": 2}}
        first, again = asked(nodes, options, options)
        assert first["order"] == ["gpu001"] and "no canary has come through" in first["left"]["gpu002"]
        assert again["order"] == ["gpu001"], "it was left in service: that shows nothing"
        [(_what, _host, data), *_more] = [one for one in recorded(nodes) if one[0] == "begun"]
        assert (data["canary"], data["out"]) == (True, False) and sorted(data["holder"]) == [
            "boot_id", "host", "pid", "pid_start"
        ]  # fmt: skip
        [later] = asked(nodes, options, flags=("--limit", "gpu001"))
        assert later["order"] == ["gpu001"] and later["out"] == [], "the run before has ended, as can be seen here"
        # What a run elsewhere has begun counts, until it has recorded what it did or its time is over.
        elsewhere = {"canary": True, "out": False, "holder": {**data["holder"], "host": "other#1"}}
        happened(nodes, "r9", ("gpu001", Event("wave", "begun", elsewhere)))
        [other] = asked(nodes, {**options, "hosts": ["gpu001", "gpu002"]})
        assert other["out"] == ["gpu001"] and other["order"] == ["gpu002"]
        assert other["left"] == {"gpu001": "the run r9 has begun a wave with it"}
        happened(nodes, "r8", ("gpu004", Event("wave", "begun", {"canary": True})))
        [full] = asked(nodes, {**options, "hosts": ["gpu003"]})
        assert full["order"] == [] and "no room in fleet: 2 of 4" in full["left"]["gpu003"]
        happened(nodes, "r9", ("gpu001", Event("state", "admitted", {"from": "validating"})))
        [free] = asked(nodes, {**options, "hosts": ["gpu003"]})
        assert free["order"] == ["gpu003"] and free["out"] == ["gpu004"]


def test_the_later_of_two_runs_that_saw_the_same_room_gives_its_part_back(tmp_path: Path) -> None:
    """Between its look and its note another one has begun; its row comes in right before."""
    with in_service(tmp_path, 3) as nodes:
        with contextlib.closing(sqlite3.connect(nodes.ledger)) as ledger:
            ledger.execute(
                "CREATE TRIGGER rival BEFORE INSERT ON events WHEN NEW.kind = 'wave' AND NEW.name = 'begun'"
                " AND NEW.run_id != 'rival' AND NOT EXISTS (SELECT 1 FROM events WHERE run_id = 'rival') BEGIN"
                " INSERT INTO events (node_id, run_id, at, kind, name, data)"
                f" VALUES ('{nodes.node_id('gpu003')}', 'rival', NEW.at, 'wave', 'begun', '{{}}'); END"
            )
        first, again = asked(nodes, *[{"state": "begun", "budgets": {"fleet": limit}} for limit in (1, 2)])
        assert first["order"] == [] and "no room in fleet: 1 of 3" in first["left"]["gpu001"]
        assert again["order"] == ["gpu001"] and again["left"]["gpu003"] == "the run rival has begun a wave with it"
        assert [one[:2] for one in recorded(nodes)] == [
            ("begun", "gpu003"), ("begun", "gpu001"), ("withdrawn", "gpu001"), ("begun", "gpu001")
        ]  # fmt: skip


def test_a_paused_fleet_begins_nothing_and_says_who_paused_it_and_why(tmp_path: Path) -> None:
    with in_service(tmp_path, 3) as nodes:
        pause = {"state": "paused", "reason": "training run of the year", "by": "alice"}
        first, again, planned, begun = asked(nodes, pause, pause, {}, {"state": "begun"})
        assert (first["changed"], again["changed"]) == (True, False)
        for told in (planned, begun):
            assert told["order"] == [] and told["halted"].startswith("paused by alice since 20")
            assert told["halted"].endswith(": training run of the year")
        # Who came after it is paused as well; who is given back one by one is not.
        with Ledger(nodes.url) as ledger:
            node = ledger.identify("gpu009", aliases=[("serial", "SN0009")])
            ledger.append("r1", [(node, Event("state", "admitted"))])
        nodes.hosts["gpu009"] = {"gpufleet_serial": "SN0009", "gpufleet_scheduler": "none"}
        [late] = asked(nodes, {"hosts": ["gpu009"]})
        assert late["halted"].startswith("paused by alice")
        [some] = asked(nodes, {"state": "resumed", "by": "bob"}, flags=("--limit", "gpu002"))
        [part] = asked(nodes, {"budgets": {"fleet": 1}})
        assert some["marked"] == ["gpu002"] and part["order"] == ["gpu002"] and part["halted"] == ""
        assert all(part["left"][host].startswith("paused by alice") for host in ("gpu001", "gpu003", "gpu009"))
        resumed, free = asked(nodes, {"state": "resumed", "by": "bob"}, {"budgets": {"fleet": 1}})
        assert resumed["changed"] and free["halted"] == "" and len(free["order"]) == 4


def test_some_hosts_can_be_paused_and_the_others_go(tmp_path: Path) -> None:
    with in_service(tmp_path, 3) as nodes:
        asked(nodes, {"state": "paused", "reason": "x", "by": "alice"}, flags=("--limit", "gpu002"))
        [told] = asked(nodes, {"budgets": {"fleet": 1}})
        assert told["order"] == ["gpu001", "gpu003"] and told["left"]["gpu002"].startswith("paused by alice")


def test_outside_its_windows_no_wave_begins_and_the_next_one_is_named(tmp_path: Path) -> None:
    with in_service(tmp_path, 1) as nodes:
        day = time.strftime("%a", time.gmtime(time.time() + 3 * 86400)).lower()
        closed, open_now = ({"windows": [{"days": days, "from": "00:00", "to": "24:00"}]} for days in ([day], []))
        told, free = asked(nodes, {**closed, "state": "begun"}, open_now)
        assert told["order"] == [] and "the next one opens " in told["halted"] and told["halted"].endswith("00:00 UTC")
        assert free["order"] == ["gpu001"] and free["limits"] == ["gpu001"]


def test_a_plan_is_over_one_ledger_and_of_hosts_that_there_are(tmp_path: Path) -> None:
    with in_service(tmp_path, 2) as nodes:
        asked(nodes, {"hosts": ["gpu008"]}, ok=False)
        assert "no such host in the inventory: gpu008" in nodes.output
        asked(nodes, {"canary": 0}, ok=False)
        assert "waves begin with a node" in nodes.output
        nodes.hosts["gpu002"]["gpufleet_ledger_url"] = f"sqlite:///{tmp_path}/other.sqlite"
        asked(nodes, {}, ok=False)
        assert "a plan is over one ledger" in nodes.output


def test_a_canary_that_was_brought_back_without_the_image_has_shown_nothing_to_its_own_run_either(
    tmp_path: Path,
) -> None:
    """It was stopped in its drain, and a person readmitted it while the others of its wave were still at work."""
    with in_service(tmp_path, 4) as nodes:
        nodes.shared["gpufleet_image"] = {"name": "gpu-golden", "version": "2", "url": "https://images.example.com/x"}
        told = (("NEW.run_id", "state", "draining"), ("NEW.run_id", "note", "stopped"), ("'p'", "state", "admitted"))
        rows = "".join(
            "INSERT INTO events (node_id, run_id, at, kind, name, data)"
            f" VALUES (NEW.node_id, {run}, NEW.at, '{kind}', '{name}', '{{}}'); "
            for run, kind, name in told
        )
        with contextlib.closing(sqlite3.connect(nodes.ledger)) as ledger:
            ledger.execute(
                "CREATE TRIGGER back AFTER INSERT ON events WHEN NEW.kind = 'wave' AND NEW.name = 'begun'"
                f" AND NOT EXISTS (SELECT 1 FROM events WHERE run_id = 'p') BEGIN {rows}END"
            )
        options = {"state": "begun", "rollout": True, "budgets": {"fleet": 4}}
        first, again = asked(nodes, options, options)
        assert first["order"] == ["gpu001"]
        assert again["order"] == [] and again["through"] == [] and "the canary gpu001" in again["halted"], again
        left = again["ansible_stats"]["data"]["gpufleet_waves"]
        assert left["broken_off"] and "the canary gpu001" in left["halted"] and len(left["halted"]) <= 300
