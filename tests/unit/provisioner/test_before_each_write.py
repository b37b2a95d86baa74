# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is looked at before a write and while others write: whose hold it is, which serial, which of two records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import EvidenceMissing, NotOurs, WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import guard, registry
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import node as one
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import turn as turns
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import watch as verb
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline
from ansible_collections.gpufleet.baremetal.tests.unit.provisioner.test_each_line import MINE, OTHER, Memory, at


class Records(Memory):
    """A provisioner whose records have names as well as ids; a name can be given to another one."""

    name = "records"
    address = "records://"
    serial = True
    by_id: ClassVar[dict[str, c.NodeState]]
    recorded: ClassVar[dict[str, str]]
    inspected: ClassVar[dict[str, str]]
    reached: ClassVar[tuple[str, str]]

    def find(self, wanted: Wanted) -> c.NodeState | None:
        if wanted.provisioner_id:
            return self.by_id.get(wanted.provisioner_id)
        return next((one for one in self.by_id.values() if one.name == wanted.host), None)

    def states(self, ids: Sequence[str]) -> dict[str, c.NodeState]:
        named = {one.name: one for one in self.by_id.values()}
        return {id: named[id] for id in ids if id in named}

    def serials(self, node: c.NodeState, *, ask: bool) -> Mapping[str, str]:
        found = {"record": self.recorded.get(node.id, "")}
        if ask:
            found["inspection"] = self.inspected.get(node.id, "")
        return {source: serial for source, serial in found.items() if serial}

    def network(self, node: c.NodeState, *, ask: bool) -> c.Network:
        return c.Network()

    def bmc(self, node: c.NodeState) -> tuple[str, str]:
        return self.reached


class Meanwhile(Lifeline):
    """Something happens once the leases are taken, while the turn is waited for."""

    def __init__(self, happens: Callable[[], Any]) -> None:
        self._happens = happens

    def hold(self, nodes: Sequence[str]) -> None:
        self._happens()


@pytest.fixture(autouse=True)
def provisioner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(registry.DRIVERS, Records.name, Records)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    Records.by_id = {"x": replace(at("new"), id="x", name="n1")}
    Records.recorded, Records.inspected, Records.reached = {"x": "S1", "y": "S1"}, {}, ("", "")
    Records.sent, Records.refusals = [], {}


def test_t1_a_hold_of_another_site_is_not_ours_where_our_ledger_knows_no_run() -> None:
    """No known run is a word of the ledger; only no ledger at all is none."""
    wanted = replace(MINE, runs=frozenset())
    with pytest.raises(NotOurs, match="another controller"):
        guard.leave_foreign_alone(Records({}, Context()), at("new", hold=OTHER), wanted)
    assert guard.not_ours(Records({}, Context()), at("new", hold="gpufleet:r2:x"), wanted) == ""


@pytest.mark.parametrize(("more", "words"), [({"foreign": "carol keeps it"}, "holds it"), ({}, "release it")])
def test_j7_who_is_asked_about_a_failed_deployment_is_who_keeps_the_node_from_us(
    more: dict[str, str], words: str
) -> None:
    """A person's hold is lifted by no reason of ours, whoever deployed what failed."""
    failed = at("new", deploy_failed=True, **more)
    with pytest.raises(NotOurs) as told:
        guard.leave_foreign_alone(Records({}, Context()), failed, replace(MINE, deployed=False))
    assert words in told.value.do and ("force_reason" in told.value.do) is (not more)


@pytest.mark.parametrize(("known", "wanted"), [("S1", "S10"), ("S10", "S1"), ("10S", "S"), ("S", "10S")])
def test_t1_a_serial_that_begins_or_ends_like_another_is_another(known: str, wanted: str) -> None:
    Records.recorded = {"x": known}
    driver = Records({}, Context())
    with pytest.raises(WrongMachine, match=known) as refused:
        guard.right_machine(driver, at("new"), replace(MINE, serial=wanted))
    # Of a node whose board was swapped the inventory is right, and it is the record that is of before.
    assert "identity_part=board" in refused.value.do and "correct the record there, or delete it" in refused.value.do


def test_u3_the_serial_of_a_board_that_was_swapped_out_is_this_machines_and_no_other() -> None:
    driver, told = Records({}, Context()), replace(MINE, serial="S9", former_serials=frozenset(["S0", "S1"]))
    Records.recorded = {"x": "S1"}
    guard.right_machine(driver, at("new"), told)
    Records.inspected = {"x": "S10"}
    with pytest.raises(WrongMachine, match="S10"):
        guard.right_machine(driver, at("new"), told)


def test_t1_what_an_inspection_found_while_others_wrote_is_asked_for_before_the_write() -> None:
    """The record at hand still says the right serial; only a further request shows what is behind it now."""

    def another_machine() -> None:
        Records.inspected = {"x": "S2"}

    driver = Records({}, Context(lifeline=Meanwhile(another_machine)))
    with pytest.raises(WrongMachine, match="inspection"), guard.recording(driver, Records.by_id["x"], MINE):
        raise AssertionError("another machine was written to")


def test_t1_a_name_that_moved_to_another_record_takes_no_write_along() -> None:
    """The node that was judged is known by its id: the one that bears its name now was never judged."""

    def renamed() -> None:
        Records.by_id = {
            "y": replace(at("new"), id="y", name="n1"),
            "x": replace(Records.by_id["x"], name="n1-old"),
        }

    driver = Records({}, Context(lifeline=Meanwhile(renamed)))
    with guard.recording(driver, Records.by_id["x"], MINE) as now:
        assert now is not None and (now.id, now.name) == ("x", "n1-old")


BMC = {"bmc_address": "https://10.0.0.1", "bmc_system_id": "2"}


@pytest.mark.parametrize(
    ("reached", "ours", "known"),
    [
        (("10.0.0.1:443", ""), BMC, True),
        (("https://[FD00:0:0::1]", ""), {"bmc_address": "fd00::1"}, True),
        (("https://[fd00::2]", ""), {"bmc_address": "fd00::1"}, False),
        (("BMC1.example.com.", ""), {"bmc_address": "https://bmc1.example.com"}, True),
        (("https://10.0.0.1/", "/redfish/v1/Systems/2"), BMC, True),
        (("10.0.0.1:623", "2"), {"bmc_address": "10.0.0.1", "bmc_system_id": "/redfish/v1/Systems/2/"}, True),
        (("https://10.0.0.1", "1"), BMC, False),
        (("https://10.0.0.1:8443", "2"), BMC, False),
        (("https://10.99.99.99", "2"), BMC, False),
        (("", ""), BMC, False),
        (("", ""), {}, False),
        (("https://10.0.0.1:x", "2"), {"bmc_address": "https://10.0.0.1:x"}, False),
    ],
)
def test_r3_where_nothing_else_agrees_one_bmc_is_one_machine(
    reached: tuple[str, str], ours: dict[str, str], known: bool
) -> None:
    Records.recorded, Records.reached = {}, reached
    driver, wanted = Records({}, Context()), replace(MINE, serial="S1", bmc=ours)
    assert guard.agreed(driver, at("new"), wanted) == (("bmc_address",) if known else ())
    if known:
        guard.demand_known(driver, at("new"), wanted)
        return
    with pytest.raises(EvidenceMissing, match="nothing shows"):
        guard.demand_known(driver, at("new"), wanted)
    guard.demand_known(driver, at("new"), replace(wanted, forced=True))
    assert len(driver.ctx.warnings) == 1


@pytest.mark.parametrize(
    ("reached", "ours", "system"),
    [
        (("https://10.0.0.1", "/redfish/v1/Systems/1/"), {"bmc_address": "10.0.0.1"}, "1"),
        (("https://10.0.0.1", "1"), BMC, "1"),
        (("https://10.0.0.9", "1"), BMC, ""),
        (("", "1"), {}, ""),
    ],
)
def test_r3_where_only_the_system_of_the_same_bmc_differs_it_is_named(
    reached: tuple[str, str], ours: dict[str, str], system: str
) -> None:
    """The address is equal: what is missing is the variable that names the system."""
    Records.recorded, Records.reached = {}, reached
    with pytest.raises(EvidenceMissing) as told:
        guard.demand_known(Records({}, Context()), at("active"), replace(MINE, bmc=ours, serial="S1"))
    named = f"gpufleet_bmc_system_id: {system}," in told.value.do
    assert named == ("the same one" in told.value.seen) == bool(system)


def test_r3_a_record_that_is_at_work_is_known_before_it_is_written_to_at_all() -> None:
    """What was written into it would agree from then on."""
    Records.recorded = {}
    driver, mine = Records({}, Context()), replace(MINE, deployed=True)
    with guard.recording(driver, Records.by_id["x"], mine) as now:
        assert now is not None
    for native, hits in (("active", False), ("going", False), ("new", True)):
        with pytest.raises(EvidenceMissing), guard.recording(driver, at(native), mine, hits=hits):
            raise AssertionError(native)


def test_t1_a_node_that_the_batch_was_refused_is_not_touched_and_the_other_one_is() -> None:
    Records.by_id["y"] = replace(at("new"), id="y", name="n2")
    nodes = [{"host": "n1", "serial": "S1", "refused": "another run works on it"}, {"host": "n2", "serial": "S1"}]
    params = {"provisioner": "records", "until": "deployed", "timeout": 0.1, "interval": 0.01, "run_id": "r2"}
    verdicts = verb.watch({**params, "nodes": nodes}, Context()).data["verdicts"]
    assert (verdicts["n1"]["ok"], verdicts["n1"]["reason"]) == (False, "another run works on it")
    assert Records.sent == ["n2"] and "still new" in verdicts["n2"]["reason"]


GOLD = {"name": "gold", "version": "1", "url": "http://127.0.0.1:9/gold"}


def test_v9_a_batch_sends_no_node_on_whose_image_this_run_has_not_verified() -> None:
    Records.by_id["y"] = replace(at("new"), id="y", name="n2")
    told = {"n1": False, "n2": True}
    nodes = [{"host": host, "serial": "S1", "image": GOLD, "image_verified": said} for host, said in told.items()]
    params = {"provisioner": "records", "until": "deployed", "timeout": 0.1, "interval": 0.01, "run_id": "r2"}
    verdicts = verb.watch({**params, "nodes": nodes}, Context()).data["verdicts"]
    assert Records.sent == ["n2"] and not verdicts["n1"]["ok"]
    assert "no image_verify of this run" in verdicts["n1"]["reason"]
    assert (verdicts["n1"]["kind"], verdicts["n2"]["kind"]) == ("evidence_missing", ""), "the second one is only late"


def test_v9_the_wait_says_whether_its_verdict_is_one_on_the_node() -> None:
    """By it the roles leave a node as it is, and quarantine none for what others hold, or for what the site has set."""
    Records.by_id["y"] = replace(at("new"), id="y", name="n2")
    Records.by_id["z"] = replace(at("new"), id="z", name="n3", foreign="locked by alice")
    Records.by_id["w"] = replace(at("bad"), id="w", name="n4")
    Records.inspected = {"y": "S9"}
    told = {
        "n2": {},
        "n3": {},
        "n4": {},
        "n5": {"provisioner_url": "http://elsewhere"},
        "n6": {"refused": "theirs"},
        "n7": {"refused": "x", "refused_kind": "config"},
    }
    nodes = [{"host": host, "serial": "S1", **more} for host, more in told.items()]
    params = {"provisioner": "records", "until": "deployed", "timeout": 0.1, "interval": 0.01, "run_id": "r2"}
    verdicts = verb.watch({**params, "nodes": nodes}, Context()).data["verdicts"]
    kinds = {host: verdict["kind"] for host, verdict in verdicts.items()}
    assert kinds == {
        "n2": "wrong_machine",
        "n3": "not_ours",
        "n4": "",
        "n5": "config",
        "n6": "not_ours",
        "n7": "config",
    }, verdicts


def tasks_of(role: str, file: str = "main.yml") -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = yaml.safe_load(
        (Path(__file__).resolve().parents[3] / "roles" / role / "tasks" / file).read_text(encoding="utf-8")
    )
    return tasks + [inner for task in tasks for inner in task.get("block", [])]


@pytest.mark.parametrize("role", ["deploy", "enroll"])
def test_v9_the_roles_stop_where_a_verdict_is_not_the_nodes_own(role: str) -> None:
    tasks = tasks_of(role)
    [at] = [number for number, task in enumerate(tasks) if task["name"].startswith("Stop here where")]
    assert tasks[at]["when"][1].endswith(" is not gpufleet.baremetal.quarantines")
    assert "ansible.builtin.assert" in tasks[at + 1], "what asserts nothing quarantines nothing"
    assert "ansible.builtin.fail" in tasks[at]


def test_v9_a_node_that_may_be_in_service_already_is_held_before_the_role_stops() -> None:
    resume, admission = [task for task in tasks_of("join") if "rescue" in task]
    [resumed] = resume["block"]
    assert resumed["failed_when"] == "join_node is failed or join_node.error is defined or (join_marked | bool)"
    unasked, *_last = resume["rescue"]
    assert unasked["when"] == "join_node.asked is not defined or (join_marked | bool)"
    of = str(unasked["gpufleet.baremetal.host_verdict"]["of"])
    assert "'join_unmarked'" in of and "{'join_node': ''}" in of, "it ends as it would by itself"
    [read] = admission["block"]
    assert list(read["gpufleet.baremetal.host_verdict"]["of"]) == ["join_wait", "join_admitted"]
    for part in (resume, admission):
        assert part["rescue"][-1]["ansible.builtin.import_tasks"] == "held_again.yml"
    hold, theirs, _in_service, stop, verdict = tasks_of("join", "held_again.yml")
    assert hold["gpufleet.baremetal.scheduler_node"]["state"] == "held"
    assert hold["until"].startswith("join_held is not failed or join_held.error.holds")
    assert "ansible.builtin.fail" in theirs and theirs["when"][0] == "join_held is failed"
    assert stop["when"] == "join_refused is not gpufleet.baremetal.quarantines" and "ansible.builtin.fail" in stop
    assert "ansible.builtin.assert" in verdict, "what asserts nothing quarantines nothing"


def test_v9_one_node_whose_image_this_run_has_not_verified_is_not_begun_and_one_that_has_it_is_done() -> None:
    asked = {"provisioner": "records", "state": "deployed", "name": "n1", "serial": "S1", "image": GOLD, "run_id": "r2"}
    with pytest.raises(EvidenceMissing, match="no image_verify of this run has passed"):
        one.node({**asked, "image_verified": False}, Context(node="n1"))
    assert Records.sent == []
    Records.by_id["x"] = replace(at("active"), id="x", name="n1")
    assert not one.node({**asked, "image_verified": False}, Context(node="n1")).changed


class Leaving(Lifeline):
    """The other writer leaves between the first look at the turn and the second."""

    def __init__(self, leave: Callable[[], Any]) -> None:
        self._leave: list[Callable[[], Any]] = [lambda: None, leave]

    def beat(self) -> None:
        if self._leave:
            self._leave.pop(0)()


def test_t1_a_turn_that_becomes_free_while_it_is_waited_for_is_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TIMEOUT", 30.0)
    first = Records({}, Context())
    holding = turns.turn(first, first.ctx)
    holding.__enter__()
    line = Leaving(lambda: holding.__exit__(None, None, None))
    second = Records({}, Context(lifeline=line))
    with turns.turn(second, second.ctx) as waited:
        assert waited and not line._leave
