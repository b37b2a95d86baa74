# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A task that watches a batch: who polls, who is polled, and what each host gets to read. Through ansible-playbook."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from fleet import HOSTS, Fleet, Node, nodes_of, process_table

pytestmark = pytest.mark.slow


@pytest.fixture
def nodes() -> Iterator[dict[str, Node]]:
    with nodes_of(HOSTS) as started:
        yield started


@pytest.fixture
def fleet(tmp_path: Path, nodes: dict[str, Node]) -> Fleet:
    return Fleet(tmp_path, nodes)


def wait(**more: Any) -> dict[str, Any]:
    return {"gpufleet.baremetal.node_wait": {"timeout": 60, "interval": 0.1, "connect_timeout": 20.0, **more}}


def looks(nodes: dict[str, Node]) -> dict[str, int]:
    return {name: node.greeted for name, node in nodes.items()}


@pytest.mark.parametrize("forks", [2, 20])
@pytest.mark.parametrize("strategy", ["linear", "free"])
def test_called_by_five_hosts_one_polls(fleet: Fleet, nodes: dict[str, Node], forks: int, strategy: str) -> None:
    answers = fleet.play(wait(), forks=forks, strategy=strategy)
    assert looks(nodes) == dict.fromkeys(HOSTS, 1)
    assert sorted(answers) == list(HOSTS)
    for host in HOSTS:
        assert answers[host][0]["verdicts"][host]["ok"] and set(answers[host][0]["verdicts"]) == set(HOSTS)
    assert len({repr(answers[host][0]["verdicts"]) for host in HOSTS}) == 1, "all have the one answer"


def test_run_once_under_free_polls_once_as_well(fleet: Fleet, nodes: dict[str, Node]) -> None:
    """Ansible runs such a task once a host there."""
    answers = fleet.play({**wait(), "run_once": True}, strategy="free")
    assert looks(nodes) == dict.fromkeys(HOSTS, 1) and sorted(answers) == list(HOSTS)


@pytest.mark.parametrize("strategy", ["linear", "free"])
def test_a_task_for_all_is_done_once_whoever_calls_it(fleet: Fleet, strategy: str) -> None:
    options = {"batch": True, "name": "stage", "data": {"text": "a word"}}
    note = {"gpufleet.baremetal.ledger_event": options, "run_once": True, "register": "told"}
    own = {"ansible.builtin.assert": {"that": "told.verdicts[inventory_hostname].ok"}}
    answers = fleet.play(note, own, strategy=strategy)
    assert sorted(answers) == list(HOSTS) and not any(one[-1].get("failed") for one in answers.values())
    with sqlite3.connect(fleet.folder / "ledger.sqlite") as ledger:
        counted = ledger.execute("SELECT count(*) FROM events WHERE kind = 'note' GROUP BY node_id").fetchall()
    assert counted == [(1,)] * len(HOSTS)


def test_a_second_task_polls_anew(fleet: Fleet, nodes: dict[str, Node]) -> None:
    fleet.play(wait(), wait())
    assert looks(nodes) == dict.fromkeys(HOSTS, 2)


def test_until_polls_anew_at_each_try(fleet: Fleet, nodes: dict[str, Node]) -> None:
    nodes["n3"].silent_for(2)
    repeated = {
        **wait(timeout=0), "register": "seen", "until": "seen.verdicts.values() | map(attribute='ok') is all",
        "retries": 6, "delay": 0.3,
    }  # fmt: skip
    answers = fleet.play(repeated)
    assert all(answers[host][-1]["verdicts"]["n3"]["ok"] for host in HOSTS)
    # Three rounds; a host that comes late in a round may be told the next round's answer, and never an old one.
    assert 3 <= nodes["n3"].greeted <= 5, looks(nodes)


def test_each_turn_of_a_loop_has_its_own_answer(fleet: Fleet, nodes: dict[str, Node]) -> None:
    looped = {**wait(connect_timeout="{{ item }}"), "loop": [20.5, 20.6, 20.7]}
    fleet.play(looped)
    assert looks(nodes) == dict.fromkeys(HOSTS, 3)


def test_every_host_reads_the_result_of_run_once(fleet: Fleet, nodes: dict[str, Node]) -> None:
    own = {"ansible.builtin.debug": {"msg": "{{ seen.verdicts[inventory_hostname].ok }}"}}
    answers = fleet.play({**wait(), "run_once": True, "register": "seen"}, own)
    assert [answers[host][-1]["msg"] for host in HOSTS] == [True] * 5
    assert looks(nodes) == dict.fromkeys(HOSTS, 1)


def test_a_dead_node_is_a_verdict(fleet: Fleet, nodes: dict[str, Node]) -> None:
    nodes["n2"].stop()
    answers = fleet.play({**wait(timeout=1), "run_once": True})
    (answer,) = (found for results in answers.values() for found in results)
    assert not answer.get("failed")
    assert {host for host, verdict in answer["verdicts"].items() if not verdict["ok"]} == {"n2"}
    reason = answer["verdicts"]["n2"]["reason"]
    assert f"port {nodes['n2'].port}" in reason and "refused" in reason.lower()
    assert looks(nodes)["n1"] == 1, "who has answered is not asked again"


def test_batches_of_serial_see_their_own_hosts(fleet: Fleet, nodes: dict[str, Node]) -> None:
    for run_once in (True, False):
        answers = fleet.play({**wait(), "run_once": run_once}, serial=2)
        batches = [sorted(found["verdicts"]) for results in answers.values() for found in results]
        assert {tuple(batch) for batch in batches} == {("n1", "n2"), ("n3", "n4"), ("n5",)}
    assert looks(nodes) == dict.fromkeys(HOSTS, 2)


def test_after_leaves_out_hosts_that_did_not_come_so_far(fleet: Fleet, nodes: dict[str, Node]) -> None:
    """n2 failed and was rescued, n3 was skipped, n4 never got there: Ansible counts all of them as alive."""
    step = {
        "name": "step", "ansible.builtin.assert": {"that": "inventory_hostname != 'n2'"}, "register": "step",
        "when": "inventory_hostname != 'n3'",
    }  # fmt: skip
    tasks = [
        {"ansible.builtin.include_tasks": {"file": "block.yml"}, "when": "inventory_hostname != 'n4'"},
        {**wait(after="step"), "run_once": True},
    ]
    answers = fleet.play(*tasks, files={"block.yml": [{"block": [step], "rescue": [{"ansible.builtin.meta": "noop"}]}]})
    (answer,) = (found for results in answers.values() for found in results if "verdicts" in found)
    assert set(answer["verdicts"]) == {"n1", "n5"}
    assert looks(nodes) == {"n1": 1, "n2": 0, "n3": 0, "n4": 0, "n5": 1}


@pytest.mark.parametrize("registered", [True, False])
def test_after_tells_a_name_that_no_task_registers_from_a_result_that_no_host_has(
    fleet: Fleet, nodes: dict[str, Node], registered: bool
) -> None:
    """All of them failed before it and were rescued: nobody takes part. A misspelt name is an error."""
    tasks = [
        {
            "block": [{"ansible.builtin.fail": {}}, {"ansible.builtin.debug": {"msg": ""}, "register": "step"}],
            "rescue": [{"ansible.builtin.meta": "noop"}],
        },
        {**wait(after="step" if registered else "stepp"), "run_once": True, "ignore_errors": True},
    ]  # fmt: skip
    (answer,) = (one[-1] for one in fleet.play(*tasks).values() if "verdicts" in one[-1] or "error" in one[-1])
    assert sum(looks(nodes).values()) == 0
    assert answer["verdicts"] == {} if registered else "stepp" in answer["msg"]


def test_j5_a_node_of_another_run_is_refused_alone(fleet: Fleet, nodes: dict[str, Node]) -> None:
    """Its lease is that run's, and stays so; the others are leased by this one while they are watched."""
    with Ledger(f"sqlite:///{fleet.folder}/ledger.sqlite") as ledger:
        ids = {host: ledger.identify(host, aliases=[("serial", f"S{host}")]) for host in HOSTS}
        theirs = replace(this_run(os.getpid()), run_id="theirs", host="elsewhere#00000000")
        with ledger.transaction() as conn:
            lease.take_in(conn, ledger, ids["n2"], theirs)
        answers = fleet.play({**wait(), "run_once": True})
        (answer,) = (found for results in answers.values() for found in results)
        assert {host for host, verdict in answer["verdicts"].items() if not verdict["ok"]} == {"n2"}
        assert "theirs" in answer["verdicts"]["n2"]["reason"] and nodes["n2"].greeted == 0
        held = {row["node_id"]: row["run_id"] for row in lease.holders(ledger, list(ids.values())).values()}
    assert held[ids["n2"]] == "theirs" and len(held) == 5 and len(set(held.values())) == 2


def test_u5_under_run_once_what_befell_all_is_each_hosts_own_verdict(fleet: Fleet, nodes: dict[str, Node]) -> None:
    """A task of run_once that fails takes all hosts but one out of the run: Ansible rescues none of them."""
    served = fleet.refusing_provisioner()
    options = {"until": "ready", "timeout": 5, "provisioner": "maas", "provisioner_api_key": "a:b:c"}
    wait = {"gpufleet.baremetal.provisioner_wait": {**options, "provisioner_url": served.url}, "run_once": True}
    with contextlib.closing(served):
        answers = fleet.play(wait)
    [[answer]] = answers.values()
    assert set(answer["verdicts"]) == set(HOSTS) and not answer["changed"]
    for verdict in answer["verdicts"].values():
        assert (verdict["ok"], verdict["kind"], verdict["step"]) == (False, "auth", "") and "401" in verdict["reason"]
        assert not any(host in verdict["reason"] for host in HOSTS), "it is about none of them"
    assert served.requests == 1


def test_an_error_of_the_elected_one_is_the_answer_for_all(fleet: Fleet, nodes: dict[str, Node]) -> None:
    """A password that was refused once is not tried again for each host."""
    served = fleet.refusing_provisioner()
    asked = {
        "gpufleet.baremetal.provisioner_wait": {
            "until": "ready", "timeout": 5, "provisioner": "maas", "provisioner_url": served.url,
            "provisioner_api_key": "a:b:c",
        },
        "ignore_errors": True,
    }  # fmt: skip
    with contextlib.closing(served):
        answers = fleet.play(asked)
    assert {answers[host][0]["error"]["kind"] for host in HOSTS} == {"auth"}
    assert served.requests == 1


# -- killed --------------------------------------------------------------------------------------------------------


#: What is waited for comes in a second, on a quiet machine.
_LONG = 90.0


def _with_those_who_wait(run: int) -> set[int]:
    """The workers, once the elected one is not the only one."""
    end = time.monotonic() + _LONG
    while len(others := process_table(run) - {run}) < 2:
        assert time.monotonic() < end, "nobody waits for the elected one"
        time.sleep(0.05)
    return others


def _elected_worker(run: int, nodes: dict[str, Node]) -> int:
    """The pid that talks to the node which never greets."""
    end = time.monotonic() + _LONG
    while time.monotonic() < end:
        for pid in process_table(run):
            if pid != run and nodes["n5"].talks_to(pid):
                return pid
        time.sleep(0.05)
    raise AssertionError("nobody polls")


@pytest.mark.parametrize("whom", ["the run", "the elected worker"])
def test_after_a_kill_nobody_waits_for_ever(fleet: Fleet, nodes: dict[str, Node], whom: str) -> None:
    nodes["n5"].hang()
    with fleet.start(wait(timeout=300, connect_timeout=2.0), forks=20) as run:
        worker = _elected_worker(run.pid, nodes)
        others = _with_those_who_wait(run.pid)
        os.kill(run.pid if whom == "the run" else worker, signal.SIGKILL)
        if whom == "the elected worker":
            # Ansible gives such a run up; where it would not, the next worker polls.
            run.terminate()
        run.wait(timeout=_LONG)
        end = time.monotonic() + _LONG
        while (left := {pid for pid in others if _alive(pid)}) and time.monotonic() < end:
            time.sleep(0.1)
        assert not left, f"still waiting: {left}"
    nodes["n5"].greet_again()
    assert fleet.play(wait())["n1"][0]["verdicts"]["n5"]["ok"], "nothing of the killed run stands in the way"


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


# -- files ---------------------------------------------------------------------------------------------------------


def test_nothing_is_left_in_the_temporary_folder_and_no_link_is_followed(fleet: Fleet, tmp_path: Path) -> None:
    temporary, elsewhere = tmp_path / "tmp", tmp_path / "elsewhere"
    temporary.mkdir(mode=0o777)
    elsewhere.mkdir()
    (temporary / f"gpufleet-{os.getuid()}").symlink_to(elsewhere)
    fleet.play(wait(), environment={"TMPDIR": str(temporary)})
    assert list(elsewhere.iterdir()) == []
    assert [path.name for path in temporary.iterdir()] == [f"gpufleet-{os.getuid()}"]
    assert list((fleet.folder / "home").rglob("gpufleet-*")) == []
