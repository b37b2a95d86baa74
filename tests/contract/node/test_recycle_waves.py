# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Day 2 in waves: a canary, then more, within budgets that are counted anew, and none after too many failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import PLAYBOOKS, Nodes, in_service

pytestmark = pytest.mark.slow

ALL = ("-e", "day2_recycle_all=true", "-e", "day2_recycle_waves=true")
TAKEN = ["draining", "drained"]
BACK = [*TAKEN, "imaging", "validating", "admitted"]
EVENT, SCHEDULER = "gpufleet.baremetal.ledger_event", "gpufleet.baremetal.scheduler_node"


def given(**said: Any) -> tuple[str, str]:
    return "-e", json.dumps({f"fleet_plan_{name}": value for name, value in said.items()})


def without_images() -> list[dict[str, Any]]:
    """The shipped playbook, whose nodes come back without an image, but for those that are called broken."""
    plays: list[dict[str, Any]]
    plays = yaml.safe_load((PLAYBOOKS / "day2_recycle.yml").read_text(encoding="utf-8"))
    for play in plays[:2]:
        [looks] = [one for one in play["tasks"] if one["name"] == "Look at nodes in service"]
        looks["block"] = [one for one in looks["block"] if "gpufleet.baremetal.image_verify" not in one]
    [block] = [one for play in plays for one in play["tasks"] if one["name"] == "Recycle one batch"]
    names = [one["name"] for one in block["block"]]
    forced = {"force_reason": "no machine is behind it here"}
    declared = {"deploy_declared": _of_the_role("deploy_declared")}
    told = "{{ deploy_declared if gpufleet_image is defined else {} }}"
    back = [{EVENT: {"state": "imaging", "data": told, **forced}, "vars": declared}]
    back.append({EVENT: {"state": "validating", **forced}})
    back.append({"node_was_admitted": {}})
    broken = {"ansible.builtin.fail": {"msg": "the image"}, "when": "broken | default(false)"}
    begin, end = (
        names.index(name) for name in ("Enrol what its provisioner has no record of", "Join the scheduler again")
    )
    block["block"][begin : end + 1] = [broken, *back, {SCHEDULER: {"state": "resumed", **forced}}]
    return plays


def _of_the_role(name: str) -> Any:
    text = (PLAYBOOKS.parent / "roles" / "deploy" / "vars" / "main.yml").read_text(encoding="utf-8")
    return yaml.safe_load(text)[name]


def day2(nodes: Nodes, *flags: str, ok: bool) -> str:
    return nodes.plays(without_images(), *ALL, *flags, ok=ok)


def taken(nodes: Nodes) -> list[str]:
    return [name for name in nodes.hosts if nodes.states(name)]


def waves(nodes: Nodes) -> list[list[str]]:
    """The hosts of each wave, by what the ledger has of how it began."""
    order: dict[int, list[str]] = {}
    for name in nodes.hosts:
        [planned, *_more] = [data for what, data in nodes.events(name, "wave") if what == "planned"] or [{"wave": 0}]
        if any(what == "begun" for what, _data in nodes.events(name, "wave")):
            order.setdefault(planned["wave"], []).append(name)
    return [hosts for _number, hosts in sorted(order.items())]


def test_waves_grow_after_a_canary_and_all_come_back(tmp_path: Path) -> None:
    with in_service(tmp_path, 6) as nodes:
        world = json.loads(nodes.world.read_text(encoding="utf-8"))
        told = day2(nodes, *given(budgets={"fleet": 2}), ok=True)
        assert [nodes.states(name) for name in nodes.hosts] == [BACK] * 6, told
        assert waves(nodes) == [["gpu001"], ["gpu002", "gpu003"], ["gpu004", "gpu005"], ["gpu006"]]
        assert "6 nodes in 4 waves, 0 left out" in told and {one["state"] for one in world["nodes"].values()} == {
            "IDLE"
        }
        assert all(nodes.scheduler(name) == "IDLE" for name in nodes.hosts)
        ends = [nodes.events(name, "wave")[-1][1]["canary"] for name in nodes.hosts]
        assert ends == [True, *[False] * 5]


def test_a_canary_that_fails_is_the_only_one_that_is_taken(tmp_path: Path) -> None:
    with in_service(tmp_path, 4) as nodes:
        nodes.hosts["gpu001"]["broken"] = True
        told = day2(nodes, *given(budgets={"fleet": 3}), ok=False)
        assert taken(nodes) == ["gpu001"] and "the canary gpu001 is not in service again" in told, told
        assert "No further wave was begun" in told and nodes.scheduler("gpu002") == "IDLE"
        assert "Day 2: 4 nodes" in told, "the report follows"


def test_no_wave_follows_where_more_failed_than_may(tmp_path: Path) -> None:
    with in_service(tmp_path, 6) as nodes:
        nodes.hosts["gpu003"]["broken"] = True
        told = day2(nodes, *given(budgets={"fleet": 4}, failures="30%"), ok=False)
        assert taken(nodes) == ["gpu001", "gpu002", "gpu003"], told
        assert "1 of 3 nodes are not in service again (gpu003), and 30% may" in told, told
        more = day2(nodes, *given(budgets={"fleet": 4}, failures="50%"), "--limit", "!gpu003", ok=True)
        assert taken(nodes) == list(nodes.hosts) and "room" in more, more


def test_what_others_take_meanwhile_counts_before_the_next_wave(tmp_path: Path) -> None:
    """While the canary works, bob drains a node of the last wave: no wave takes another one of its rack."""
    with in_service(tmp_path, 4) as nodes:
        for number, host in enumerate(nodes.hosts.values()):
            host["rack"] = f"r{number // 2}"
        world = json.loads(nodes.world.read_text(encoding="utf-8"))
        bob = {"state": "IDLE+DRAIN", "reason": "riser of bob", "by": "bob"}
        world["after"]["scontrol update NodeName=gpu001"] = {"gpu004": bob}
        nodes.world.write_text(json.dumps(world), encoding="utf-8")
        told = day2(nodes, *given(budgets={"rack": 1}), ok=True)
        assert taken(nodes) == ["gpu001", "gpu002"] and nodes.scheduler("gpu004").endswith("riser of bob"), told
        assert "gpu003: no room in rack r1: 1 of 2 are out of service, and 1 may be" in told, told
        assert waves(nodes) == [["gpu001"], ["gpu002"]], told


@pytest.mark.parametrize("why", ["paused", "window"])
def test_a_fleet_that_is_paused_or_outside_its_windows_is_left_as_it_is(tmp_path: Path, why: str) -> None:
    with in_service(tmp_path, 2) as nodes:
        flags: tuple[str, ...] = ()
        if why == "paused":
            pause = {"waves": "pause", "waves_why": "training", "waves_by": "alice"}
            told = nodes.book("waves", "-e", json.dumps(pause), ok=True)
            assert "no wave begins: paused by alice since" in told and told.count("gpu[001-002]") == 1, told
        else:
            flags = given(windows=[{"days": ["mon"], "from": "3:00", "to": "3:01"}])
        told = day2(nodes, *flags, ok=True)
        wanted = {"paused": "paused by alice since", "window": "the next one opens Mon"}
        assert f"no wave begins: {wanted[why]}" in told or wanted[why] in told, told
        assert taken(nodes) == [] and nodes.events("gpu001", "intent") == []
        if why == "paused":
            nodes.book("waves", "-e", "waves=resume", "-e", "waves_by=bob", ok=True)
            day2(nodes, ok=True)
            assert taken(nodes) == ["gpu001", "gpu002"]


def test_check_mode_shows_the_plan_and_takes_nothing(tmp_path: Path) -> None:
    with in_service(tmp_path, 2) as nodes:
        told = day2(nodes, "--check", ok=True)
        assert "2 nodes in 2 waves" in told and taken(nodes) == [] and nodes.events("gpu001", "wave") == []
        assert nodes.scheduler("gpu001") == "IDLE"
        # The first host of the inventory, which keeps who goes when, need not be in the limit.
        told = day2(nodes, "--check", "--limit", "gpu002", ok=True)
        assert "1 nodes in 1 waves" in told and "ok: [gpu002]" in told.rpartition("TASK [Begin the wave]")[2], told


def test_without_waves_all_go_at_once_as_before(tmp_path: Path) -> None:
    with in_service(tmp_path, 2) as nodes:
        day2(nodes, "-e", "day2_recycle_waves=false", ok=True)
        assert taken(nodes) == ["gpu001", "gpu002"] and nodes.events("gpu001", "wave") == []


def test_who_pauses_says_why_and_who_they_are(tmp_path: Path) -> None:
    with in_service(tmp_path, 1) as nodes:
        told = nodes.book("waves", "-e", "waves=pause", ok=False)
        assert "waves_why not set" in told and nodes.events("gpu001", "wave") == []
        assert "1 nodes in 1 waves" in nodes.book("waves", ok=True) and nodes.events("gpu001", "wave") == []
