# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that is none of its scheduler's nodes yet is not given work, nor held, as one that is called otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import scheduler_node
from contract.permit.rig import ADOPTED, IDLE, Controller, sent
from contract.permit.test_renamed import OWN, SERVES, UNUSED, Make, named

MODULE = "ansible_collections.gpufleet.baremetal.plugins.modules.scheduler_node"

AT_WORK = {**SERVES, "booted": "2026-11-20T10:12:58"}


def not_shown(site: Controller, result: dict[str, Any], *words: str) -> str:
    """Refused, without a write, an event or a switch."""
    assert result.get("failed") and result["error"]["kind"] == "wrong_machine" and not result["changed"], result
    for word in (*words, "gpufleet_scheduler_node", "force_reason"):
        assert word in result["msg"], result["msg"]
    assert site.asked("scontrol", "update") == [] and not site.events("evidence") and not site.events("named")
    return str(result["msg"])


def test_r5_a_machine_is_not_given_work_as_a_node_that_its_row_alone_names(controller: Make) -> None:
    """Nor bound to it, by being seen in service there. As the node that bears its name it is, and where it says so."""
    site = controller(
        "gpu001", "gpu003", known=False, nodes={"gpu001": AT_WORK, "gpu003": AT_WORK, "n7": IDLE, OWN: IDLE}
    )
    for host in site.hosts:
        site.tells(host, "state", "validating")
    named(site, "n7")
    not_shown(site, site.run("scheduler_node", state="resumed"), " there")
    calls_itself(site, "")
    not_shown(site, site.run("scheduler_node", state="resumed"), "nothing but the inventory says")
    (site.folder / "bin" / "cat").unlink()
    named(site, OWN)
    site.proves()
    assert site.run("scheduler_node", state="resumed")["state"] == "idle" and OWN in site.data("named")[0]
    calls_itself(site, "gpu003")
    assert site.run("scheduler_node", "gpu003", state="resumed")["state"] == "allocated"
    assert site.events("evidence", "gpu003") == ["in_service"] and not site.events("named", "gpu003")


@pytest.mark.parametrize("state", ["", "validating", "admitted"])
def test_r5_a_node_of_the_same_short_name_in_another_domain_is_another_one(controller: Make, state: str) -> None:
    """Also for a machine that calls itself by the short name; its own works for somebody."""
    own, other = f"{OWN}.a", f"{OWN}.b"
    site = controller(own, known=False, nodes={own: AT_WORK, other: UNUSED}, jobs=[{"id": "4711", "node": own}])
    site.hosts[own]["gpufleet_scheduler_node"] = other
    if state:
        site.tells(own, "state", state)
        site.proves(own)
    told = not_shown(site, site.run("scheduler_node", own, state="held"), f"is {own} there")
    assert not site.events("evidence", own) and not site.events("hold", own)
    assert ("delegate_to" in told) == bool(state), "a stranger is not asked for that, so it is not told to answer"
    assert site.power(own).get("failed") and not site.switched(own)


def calls_itself(site: Controller, name: str) -> None:
    """The machine that answers."""
    command = site.folder / "bin" / "cat"
    command.write_text(f'#!/bin/sh\n[ "$*" = /proc/sys/kernel/hostname ] && exec echo {name}\nexec /bin/cat "$@"\n')
    command.chmod(0o755)


@pytest.mark.parametrize(
    ("nodes", "shown"),
    [
        (["x"], "by its name"),
        (["x", "y.a"], "by its name"),
        (["x", "x.a"], ""),
        (["x", "x.b"], "by its row"),
        (["x", "n7:x.a"], ""),
        (["x:x.a", "x.b"], "by its name"),
    ],
)
@pytest.mark.parametrize(("host", "was"), [("gpu001", ""), ("gpu001", "n9"), ("x", "")])
def test_r5_a_machines_whole_name_is_its_nodes_short_one_where_no_other_node_could_be_meant(
    controller: Make, nodes: list[str], shown: str, host: str, was: str
) -> None:
    """Also of one that the site has renamed; a row that is called like the node decides where no other node has the
    machine's whole name. A node is NAME, or NAME:HOST_NAME."""
    there = {name: {**UNUSED, "host_name": other or name} for name, _, other in (one.partition(":") for one in nodes)}
    site = controller(host, known=False, nodes=there)
    if was:
        site.tells(host, "state", "admitted", {**ADOPTED, "scheduler_node": was})
    calls_itself(site, "x.a")
    site.proves(host)
    site.tells(host, "state", "validating")
    site.hosts[host]["gpufleet_scheduler_node"] = "x"
    held = site.run("scheduler_node", host, state="held")
    if shown == "by its name" or (shown == "by its row" and host == "x"):
        assert held["changed"] and "DRAIN" in site.node("x")["state"], held
        assert bool(site.events("named", host)) is (shown == "by its name")
        return
    not_shown(site, held, was or "the machine is ")
    assert not site.events("evidence", host) and site.power(host).get("failed") and not site.switched(host)


@pytest.mark.parametrize("state", ["held", "resumed"])
def test_r5_a_machine_that_bears_another_nodes_whole_name_is_not_the_node_that_its_row_is_called_like(
    controller: Make, state: str
) -> None:
    """That other one has its jobs."""
    nodes = {"gpu001": {**UNUSED} if state == "held" else {**IDLE}, "gpu001.a": {**AT_WORK}}
    site = controller("gpu001", known=False, nodes=nodes, jobs=[{"id": "4711", "node": "gpu001.a"}])
    calls_itself(site, "gpu001.a")
    site.proves()
    site.tells("gpu001", "state", "validating")
    not_shown(site, site.run("scheduler_node", state=state), "the machine is gpu001.a there")
    assert not site.events("hold") and site.power().get("failed") and not site.switched()
    if state == "held":
        assert site.run("scheduler_node", state=state, force_reason="gpu001.a is its twin, ticket 9")["changed"]


@pytest.mark.parametrize(("nodes", "first"), [(["gpu001.b"], True), (["gpu001.b", "gpu001.a"], False)])
def test_r5_a_short_name_is_that_of_the_only_node_that_is_called_so(
    controller: Make, nodes: list[str], first: bool
) -> None:
    site = controller("gpu001", known=False, nodes=dict.fromkeys(nodes, UNUSED))
    named(site, "gpu001.b")
    held = site.run("scheduler_node", state="held")
    assert held["changed"] if first else not_shown(site, held, "is gpu001.a there")


def test_r5_a_persons_word_for_a_machine_that_nobody_knows_yet_is_remembered(controller: Make) -> None:
    """Until it is retired."""
    site = controller("gpu001", known=False, nodes={"gpu001": AT_WORK, "n7": UNUSED, "n8": UNUSED})
    named(site, "n7")
    assert "delegate_to" in not_shown(site, site.run("scheduler_node", state="held"), "is gpu001 there")
    assert site.run("scheduler_node", state="held", force_reason="labelled anew, ticket 9")["changed"]
    assert site.run("scheduler_node", state="held", why="reimage")["changed"] and len(site.events("named")) == 1
    named(site, "n8")
    slipped = site.run("scheduler_node", state="held")
    assert slipped["error"]["kind"] == "wrong_machine" and "n7" in slipped["error"]["wanted"], slipped
    named(site, "n7")
    site.tells("gpu001", "state", "retired")
    assert "is gpu001 there" in site.run("scheduler_node", state="held")["msg"]


@pytest.mark.parametrize(
    ("host", "ours"), [("rack1-u3", True), ("gpu001.cluster.example.com", True), ("gpu001.cluster.example.com", False)]
)
def test_r6_what_a_machine_calls_itself_that_nothing_proves_shows_no_node(
    controller: Make, host: str, ours: bool
) -> None:
    """It may be any that answers at that address; the node of the inventory's name has jobs. Proven, it counts."""
    site = controller(host, known=False, nodes={"gpu001": AT_WORK, "n7": {**UNUSED, "host_name": OWN}})
    site.jobs([{"id": "4711", "node": "gpu001"}])
    if ours:
        site.tells(host, "state", "validating")
    site.hosts[host]["gpufleet_scheduler_node"] = "n7"
    held = site.run("scheduler_node", host, state="held")
    not_shown(site, held, "under no name or address" if host == "rack1-u3" else "is gpu001 there")
    assert not site.events("evidence", host) and site.power(host).get("failed") and not site.switched(host)
    if ours:
        site.proves(host)
        assert site.run("scheduler_node", host, state="held")["changed"]


class There(scheduler_node.ActionModule):
    """Through a jump host: its intent is written before its module looks."""

    def _goes_elsewhere(self) -> bool:
        return True

    def _execute_module(self, *_args: Any, **options: Any) -> dict[str, Any]:
        return sent(dict(options["module_args"]), module=MODULE)


@pytest.mark.parametrize("state", ["held", "resumed"])
def test_r6_a_call_through_a_jump_host_that_wrote_nothing_makes_no_hold_of_its_run_the_hosts_own(
    controller: Make, state: str
) -> None:
    """Its scheduler did not have the node then, or had it in service; then this run holds it for its own machine."""
    away = state == "held"
    site = controller("gpu001", "gpu002", known=False, nodes={} if away else {"n2": {**AT_WORK, "state": "IDLE"}})
    for host in site.hosts.values():
        host["gpufleet_scheduler_node"] = "n2"
    if not away:
        for one in ("enrolled", "imaging", "validating"):
            site.tells("gpu001", "state", one)
        site.passport()
    first = site.run("scheduler_node", action=There, state=state, **({} if away else {"force_reason": "a slip"}))
    assert not first.get("failed") and not first["changed"], first
    site.node("n2", **IDLE, booted="2026-11-20T10:12:58")
    site.tells("gpu002", "state", "admitted", {**ADOPTED, "scheduler_node": "n2"})
    assert site.run("scheduler_node", "gpu002", state="held")["state"] == "drained"
    seen = site.run("scheduler_node", state="present")
    assert seen["owner"] == "foreign" and "drained" not in site.events("evidence"), seen
    assert site.power().get("failed") and not site.switched()
    assert site.power("gpu002")["changed"], "the machine that it is held for goes on"


def still_another_hosts(site: Controller) -> None:
    """The hold of n2, for gpu001, whatever this run has announced for it."""
    again = site.run("scheduler_node", state="held")
    assert again.get("failed") and again["error"]["kind"] == "wrong_machine", again
    assert site.run("scheduler_node", state="present")["owner"] == "foreign"
    assert "drained" not in site.events("evidence") and not site.events("hold")
    assert site.power().get("failed") and not site.switched()
    assert site.power("gpu002")["changed"], "the machine that it is held for goes on"


@pytest.mark.parametrize("ours", [False, True])
def test_r6_a_hold_that_was_refused_through_a_jump_host_makes_no_later_one_ours(
    neighbours: Controller, ours: bool
) -> None:
    for state in ("enrolled", "imaging", "validating") if ours else ():
        neighbours.tells("gpu001", "state", state)
    for _time in range(2):
        held = neighbours.run("scheduler_node", action=There, state="held")
        assert held.get("failed") and held["error"]["kind"] == "wrong_machine", held
    assert neighbours.events("intent")
    still_another_hosts(neighbours)


def test_r6_a_hold_that_came_too_late_makes_the_one_that_was_first_not_ours(neighbours: Controller) -> None:
    """Here: it had announced its write to a node that nobody held yet."""
    held = dict(neighbours.node("n2"))
    neighbours.node("n2", **UNUSED)
    neighbours.meanwhile(
        "reservation",
        f"import json; path = {str(neighbours.slurm)!r}; world = json.load(open(path));"
        f" world['nodes']['n2'].update({held!r}); json.dump(world, open(path, 'w'))",
    )
    late = neighbours.run("scheduler_node", state="held")
    assert late.get("failed") and late["error"]["kind"] == "wrong_machine", late
    still_another_hosts(neighbours)


def test_r6_a_hold_that_was_taken_stays_ours_whatever_is_refused_after_it(controller: Make) -> None:
    """Also where its run was killed before it could tell, and another call of it finds a person's hold beside it."""
    site = controller("gpu001", known=False, nodes={"gpu001": UNUSED})
    site.kill_after("update")
    assert site.run("scheduler_node", state="held") == {} and not site.events("hold")
    reason = site.node("gpu001")["reason"]
    site.node("gpu001", reason="burnt fan, tom", by="tom")
    assert site.run("scheduler_node", action=There, state="held")["error"]["kind"] == "not_ours"
    site.node("gpu001", reason=reason, by="root")
    assert site.run("scheduler_node", action=There, state="present")["owner"] == "ours"
