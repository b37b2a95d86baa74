# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which holds and runs are ours, read from a real ledger: of this very node, and as long as they last."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _own_name as own_name
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._holds import holds, writers
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._served import look
from sqlalchemy import event as hooks

TOKEN = {"hold_token": "gpufleet:r1:work"}


def unset(_name: str, _host: str) -> None:
    """Of a host whose row says nothing."""


@pytest.fixture
def ids(ledger: Ledger) -> dict[str, str]:
    return {name: ledger.identify(name, aliases=[("serial", name)]) for name in ("n1", "n2")}


def test_t1_a_hold_is_known_until_it_is_released(ledger: Ledger, ids: dict[str, str]) -> None:
    ledger.append("r1", [(ids["n1"], Event("hold", "taken", TOKEN))])
    assert holds(ledger, ids, unset)["n1"]["known_token"] == "gpufleet:r1:work"
    assert holds(ledger, ids, unset)["n2"]["known_token"] == ""
    ledger.append("r1", [(ids["n1"], Event("hold", "released", TOKEN))])
    assert holds(ledger, ids, unset)["n1"]["known_token"] == ""


def test_t1_a_run_is_ours_on_the_node_for_which_it_announced_a_hold(ledger: Ledger, ids: dict[str, str]) -> None:
    ledger.append("r1", [(ids["n1"], Event("intent", "scheduler_node"))])
    ledger.append(
        "r2", [(ids["n1"], Event("intent", "redfish_power")), (ids["n2"], Event("outcome", "scheduler_node"))]
    )
    assert {host: found["known_runs"] for host, found in holds(ledger, ids, unset).items()} == {"n1": ["r1"], "n2": []}


def test_t1_writers_are_those_who_announced_a_write_to_the_provisioner(ledger: Ledger, ids: dict[str, str]) -> None:
    for run, verb in (("r1", "provisioner_node"), ("r2", "provisioner_wait"), ("r3", "scheduler_node")):
        ledger.append(run, [(ids["n1"], Event("intent", verb))])
    assert writers(ledger, {**ids, "stranger": ""}) == {"n1": ["r1", "r2"], "n2": [], "stranger": []}


def test_r5_the_looks_of_those_alone_are_read_that_were_never_held(ledger: Ledger, ids: dict[str, str]) -> None:
    """All looks of all nodes would be read for each report of the fleet."""
    for host, node_id in ids.items():
        ledger.append("r1", [(node_id, Event("evidence", "in_service", {"scheduler_node": f"{host}.x"}))])
        ledger.append("r1", [(node_id, Event("state", "admitted"))])
    ledger.append("r1", [(ids["n1"], Event("hold", "taken", {**TOKEN, "scheduler_node": "n1"}))])
    asked: list[str] = []

    def listen(*args: object) -> None:
        if "in_service" in str(args[2]):
            asked.append(str(args[3]))

    hooks.listen(ledger._conn, "before_cursor_execute", listen)
    found = holds(ledger, ids, unset)
    hooks.remove(ledger._conn, "before_cursor_execute", listen)
    assert {host: one["known_scheduler_node"] for host, one in found.items()} == {"n1": "n1", "n2": "n2.x"}
    assert len(asked) == 1 and ids["n2"] in asked[0] and ids["n1"] not in asked[0], asked


def test_r5_what_was_adopted_without_a_scheduler_is_the_node_that_it_was(ledger: Ledger, ids: dict[str, str]) -> None:
    """Only a person's word takes it out of there, until it is held there again."""
    node = ids["n1"]

    def bound() -> str:
        return str(holds(ledger, ids, unset)["n1"]["known_scheduler_node"])

    ledger.append("r1", [(node, Event("hold", "taken", {**TOKEN, "scheduler_node": "n1"}))])
    ledger.append("r1", [(node, Event("state", "admitted", {"adopted": True, "scheduler_node": ""}))])
    assert bound() == "n1"
    ledger.append("r2", [(node, Event("named", "scheduler_node", {"was": "n1", "given_up": True}))])
    ledger.append("r2", [(node, Event("state", "admitted"))])
    assert bound() == ""
    ledger.append("r3", [(node, Event("hold", "taken", {**TOKEN, "scheduler_node": "n1"}))])
    assert bound() == "n1"


def test_r5_of_which_cluster_a_machine_is_the_newest_word_says(ledger: Ledger, ids: dict[str, str]) -> None:
    node = ids["n1"]

    def place() -> tuple[str, str]:
        found = holds(ledger, ids, unset)["n1"]
        return found["known_cluster"], found["known_scheduler_at"]

    ledger.append("r1", [(node, Event("state", "admitted", {"scheduler_node": "n1", "cluster": "slurm alpha"}))])
    assert place() == ("slurm alpha", "")
    ledger.append("r1", [(node, Event("hold", "taken", {**TOKEN, "scheduler_node": "n1"}))])
    assert place() == ("slurm alpha", ""), "a hold that was noted by an older release says nothing of it"
    ledger.append("r2", [(node, Event("named", "scheduler_node", {"was": "n1", "given_up": True}))])
    assert place() == ("", "")
    there = {"scheduler_node": "n1", "cluster": "kubernetes uid", "scheduler_at": "https://api"}
    ledger.append("r3", [(node, Event("hold", "taken", {**TOKEN, **there}))])
    assert place() == ("kubernetes uid", "https://api")
    ledger.append("r4", [(node, Event("state", "retired"))])
    for state in ("discovered", "enrolled", "imaging", "validating"):
        ledger.append("r5", [(node, Event("state", state))])
        assert place() == ("", ""), f"{state}: what it was before counts no more"
    ledger.append("r6", [(node, Event("hold", "taken", {**TOKEN, "scheduler_node": "n1"}))])
    assert place() == ("", "")
    for name, cluster in (("n9", "slurm nine"), ("n1", "slurm alpha")):
        ledger.append("r7", [(node, Event("evidence", "in_service", {"scheduler_node": name, "cluster": cluster}))])
    assert place() == ("slurm alpha", ""), "by the newest look that saw it serve as that node"


def test_r5_what_was_never_held_and_was_taken_out_is_not_what_it_was_seen_as(
    ledger: Ledger, ids: dict[str, str]
) -> None:
    for event in (Event("evidence", "in_service", {"scheduler_node": "n1"}), Event("state", "admitted")):
        ledger.append("r1", [(ids["n1"], event)])
    assert holds(ledger, ids, unset)["n1"]["known_scheduler_node"] == "n1"
    ledger.append("r2", [(ids["n1"], Event("named", "scheduler_node", {"was": "n1", "given_up": True}))])
    assert holds(ledger, ids, unset)["n1"]["known_scheduler_node"] == ""


def test_j1_the_status_tells_that_a_node_was_taken_out_of_its_scheduler_by_its_row_alone(
    ledger: Ledger, ids: dict[str, str]
) -> None:
    for node in ids.values():
        ledger.append("r1", [(node, Event("state", "admitted", {"adopted": True}))])
    ledger.append("r1", [(ids["n1"], Event("hold", "taken", {**TOKEN, "scheduler_node": "n1"}))])
    seen = look(ledger, ids, lambda name, host: "none" if name == "gpufleet_scheduler" else None)
    assert list(seen) == ["n1"] and "as a node of a scheduler" in seen["n1"].problem


@pytest.mark.parametrize(
    ("own", "name", "was", "shown"),
    [
        ("gpu001", "GPU001", "", True),
        ("gpu001.a", "gpu001", "", True),
        ("gpu001.a", "gpu001.b", "", False),
        ("gpu001", "gpu001.b", "", False),
        ("gpu001", "gpu001.b", "n7", True),
        ("gpu001", "gpu001.b", "gpu001.a", False),
        ("gpu002", "gpu001", "n7", False),
        ("", "", "", False),
    ],
)
def test_r5_by_what_a_machine_calls_itself_it_is_the_one_node_that_is_called_so(
    own: str, name: str, was: str, shown: bool
) -> None:
    assert own_name.shows(own, name, was) is shown


def test_many_holds_that_nobody_noted_are_read_in_a_few_queries(ledger: Ledger) -> None:
    """As of a jump host that was away during the hold of a batch."""
    names = [f"gpu{number:03d}" for number in range(40)]
    ids = {name: ledger.identify(name, aliases=[("serial", name)]) for name in names}
    for host, node_id in ids.items():
        told = {"announces": ["gpufleet:r1:day0"], "scheduler_node": host, "options": {"state": "held", "why": "day0"}}
        ledger.append("r1", [(node_id, Event("intent", "scheduler_node", told))])
    asked: list[str] = []

    def listen(*args: object) -> None:
        asked.append(str(args[2]))

    hooks.listen(ledger._conn, "before_cursor_execute", listen)
    found = holds(ledger, ids, unset)
    hooks.remove(ledger._conn, "before_cursor_execute", listen)
    assert all(one["known_announced"] == ["gpufleet:r1:day0"] for one in found.values())
    assert len(asked) < 30, len(asked)
