# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One task for all hosts of a play: whom it serves, with which options, and what it tells of each."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import scheduler_node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import BMC, FLEET, FOR_ALL, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import DeadlineExceeded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import quarantines
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._batch import own, succeeded
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._certificate import CertifiedAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._for_all import ForAll
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import SECRET, Door

FORK = multiprocessing.get_context("fork")
HOSTS = ("gpu001", "gpu002", "gpu003", "gpu004")
SPEC = spec(
    FLEET, FOR_ALL, BMC, serial={"type": "str"}, state={"type": "str", "required": True, "choices": ["on", "off"]},
    count={"type": "int"}, driver={"type": "dict"}, properties={"type": "dict"},
    carry={"type": "dict", "default": {}}, annotations={"type": "dict"}, moved_to={"type": "dict"},
    known_mark={"type": "str"}, known_runs={"type": "list"}, looked_gpus={"type": "int"}, lacks={"type": "str"},
    image_verified={"type": "bool"},
)  # fmt: skip
Verb = Callable[[Mapping[str, Any], Context], Result]


def switched(params: Mapping[str, Any], ctx: Context) -> Result:
    """Writes once, and tells with what it was called."""
    ctx.may_write(f"POST {params['bmc_address']} {params['state']}")
    seen = {key: params.get(key) for key in ("bmc_address", "serial", "count", "bmc_username", "carry")}
    return Result(
        before={"power": "?"}, after={"power": params["state"]}, data={"seen": seen}, events=[Event("note", "switched")]
    )


def play(
    folder: Path, verb: Verb = switched, *, own: Mapping[str, Mapping[str, Any]] | None = None, run_once: bool = True,
    delegate_to: str | None = None, base: type = ForAll, live: tuple[str, ...] = HOSTS, check_mode: bool = False,
    diff: bool = False, batch: Any = True, **args: Any,
) -> tuple[dict[str, Any], Door]:  # fmt: skip
    hosts: dict[str, dict[str, Any]] = {
        host: {
            "gpufleet_serial": f"S-{host}", "gpufleet_bmc_address": f"https://{host}.bmc",
            "gpufleet_bmc_password": SECRET, **(own or {}).get(host, {}),
        }
        for host in HOSTS
    }  # fmt: skip
    shared = {"ansible_play_hosts": list(live), "ansible_play_batch": list(HOSTS)}
    door = Door(
        folder, verb, base=base, own_spec=SPEC, args={"batch": batch, "state": "on", **args}, hostvars=hosts,
        check_mode=check_mode, diff=diff, **hosts["gpu001"], **shared,
    )  # fmt: skip
    door.task.run_once = run_once
    if delegate_to:  # to another machine
        door.task.delegate_to, door._action._connection.transport = delegate_to, "ssh"
    return door.run(), door


def of_hosts(door: Door, kind: str) -> list[str]:
    with sqlite3.connect(door.ledger) as ledger:
        sql = "SELECT nodes.name FROM events JOIN nodes USING (node_id) WHERE kind = ? ORDER BY nodes.name"
        return [name for (name,) in ledger.execute(sql, (kind,))]


# -- whom, and with what -----------------------------------------------------------------------------------------------


def test_each_host_is_served_with_what_its_own_task_would_see(tmp_path: Path) -> None:
    own = {"gpu002": {"gpufleet_bmc_username": "two"}, "gpu003": {"wanted": {"count": 3}}}
    found, door = play(tmp_path, own=own, count=7)
    assert found["changed"] and list(found["verdicts"]) == list(HOSTS) and not found.get("failed")
    for host, verdict in found["verdicts"].items():
        assert verdict["ok"] and verdict["changed"] and (verdict["reason"], verdict["kind"]) == ("", ""), verdict
        seen = verdict["result"]["seen"]
        assert (seen["bmc_address"], seen["serial"]) == (f"https://{host}.bmc", f"S-{host}"), seen
        assert seen["count"] == 7, "what the task says it says of all"
        assert seen["bmc_username"] == own.get(host, {}).get("gpufleet_bmc_username"), seen
        assert verdict["result"]["asked"] == [f"POST https://{host}.bmc on"]
    for kind in ("intent", "outcome", "note"):
        assert of_hosts(door, kind) == list(HOSTS), kind


def test_what_each_says_is_read_of_that_host(tmp_path: Path) -> None:
    before = {"verdicts": {"gpu002": {"result": {"n": 2}}, "gpu001": {"result": {"n": 1}}, "gpu003": {"result": {}}}}
    own = {host: {"before": before, "name_here": host.upper()} for host in HOSTS[:3]}
    found, _door = play(tmp_path, own=own, each={"count": "before.verdicts.*.result.n", "bmc_username": "name_here"})
    told = {host: verdict["result"].get("seen", {}) for host, verdict in found["verdicts"].items()}
    assert (told["gpu001"]["count"], told["gpu002"]["count"]) == (1, 2)
    assert (told["gpu001"]["bmc_username"], told["gpu002"]["bmc_username"]) == ("GPU001", "GPU002")
    for host in ("gpu003", "gpu004"):
        verdict = found["verdicts"][host]
        assert not verdict["ok"] and verdict["kind"] == "config" and "count" in verdict["reason"], verdict


def test_what_was_told_of_each_is_carried_for_that_one_alone(tmp_path: Path) -> None:
    own = {host: {"left": {"tells": {"macs": [f"card-of-{host}"]}}} for host in HOSTS}
    found, _door = play(tmp_path, own=own, each={"carry": "left.tells"})
    told = {host: verdict["result"]["seen"]["carry"]["macs"] for host, verdict in found["verdicts"].items()}
    assert told == {host: [f"card-of-{host}"] for host in HOSTS}


def test_a_variable_that_is_null_leaves_the_option_out(tmp_path: Path) -> None:
    found, _door = play(tmp_path, own={host: {"told": {"count": None}} for host in HOSTS}, each={"count": "told.count"})
    assert {verdict["result"]["seen"]["count"] for verdict in found["verdicts"].values()} == {None}


def test_a_template_of_a_host_variable_is_that_hosts(tmp_path: Path) -> None:
    from ansible.template import trust_as_template

    name = trust_as_template("https://{{ inventory_hostname }}.example")
    found, _door = play(tmp_path, own={"gpu002": {"gpufleet_bmc_address": name}})
    assert found["verdicts"]["gpu002"]["result"]["seen"]["bmc_address"] == "https://gpu002.example"


def test_hosts_that_left_or_did_not_come_so_far_are_not_served(tmp_path: Path) -> None:
    came = {"verdicts": {"gpu002": {"ok": False}, "gpu003": {"ok": True}}}
    own = {host: {"came": came} for host in HOSTS}
    found, door = play(tmp_path, own=own, live=HOSTS[1:], after=["came"])
    assert list(found["verdicts"]) == ["gpu003"] and of_hosts(door, "intent") == ["gpu003"]


def test_a_host_whose_word_cannot_be_read_is_not_served_and_stops_nobody(tmp_path: Path) -> None:
    """Where each says whether it takes part, the mistake in one row is that row's."""
    from ansible.template import trust_as_template

    told = {host: {"takes_part": trust_as_template("{{ 1 == 1 }}")} for host in HOSTS}
    told["gpu001"]["takes_part"] = trust_as_template("{{ nobody_says_this }}")
    told["gpu003"]["takes_part"] = trust_as_template("{{ 1 == 2 }}")
    found, door = play(tmp_path, own=told, after=["takes_part"])
    assert not found.get("failed") and list(found["verdicts"]) == ["gpu002", "gpu004"], found
    assert of_hosts(door, "intent") == ["gpu002", "gpu004"]


def test_a_watcher_hears_of_each_host_what_a_task_for_all_has_told_of_it() -> None:
    told = {"verdicts": {"gpu001": {"ok": True, "result": {"deploy_id": "d1"}}, "gpu002": {"ok": False}}}
    assert own(told, "gpu001") == {"deploy_id": "d1"}
    assert own(told, "gpu002").get("deploy_id") is None and own({"deploy_id": "d3"}, "gpu001") == {"deploy_id": "d3"}


@pytest.mark.parametrize(
    "said, word",
    [
        ({"run_once": False}, "run_once: true"), ({"delegate_to": "jump"}, "not by another machine"),
        ({"bmc_address": "https://one.bmc"}, "bmc_address"), ({"serial": "S-1"}, "serial"),
        ({"bmc_username": "root"}, "gpufleet_bmc_username of each host"), ({"bmc_password": "p"}, "bmc_password"),
        ({"bmc_ipmi_kg": "k"}, "bmc_ipmi_kg"), ({"bmc_tls_fingerprint": "f"}, "bmc_tls_fingerprint"),
        ({"force_reason": "a leave"}, "each: {force_reason: a_name}"),
        ({"driver": {"ip": "10.0.0.7"}}, "driver: a_name"), ({"properties": {"cpus": 2}}, "properties: a_name"),
        ({"carry": {"macs": ["ca:11:00:00:00:02"]}}, "carry: a_name"), ({"carry": {}}, "carry: a_name"),
        ({"annotations": {"rack": "r1"}}, "annotations: a_name"), ({"moved_to": {"a": "b"}}, "moved_to: a_name"),
        ({"known_mark": ""}, "known_mark: a_name"), ({"known_runs": []}, "known_runs: a_name"),
        ({"looked_gpus": 0}, "looked_gpus: a_name"), ({"lacks": ""}, "lacks: a_name"),
        ({"image_verified": True}, "image_verified: a_name"),
        ({"no_such": 1}, "no_such"), ({"state": "maybe"}, "maybe"), ({"at_once": 0}, "at_once"),
        ({"each": {"no_such": "a"}}, "no_such"), ({"each": {"state": "a"}}, "said of all"),
        ({"each": {"count": "{{ a }}"}}, "no name of a variable"), ({"each": {"after": "a"}}, "after"),
        ({"after": ["nobody_registers_it"]}, "nobody_registers_it"), ({"batch": "perhaps"}, "perhaps"),
        ({"batch": False, "each": {"count": "a"}}, "batch: true"), ({"batch": None, "at_once": 3}, "batch: true"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_task_fails_it_before_anybody_is_asked(
    tmp_path: Path, said: dict[str, Any], word: str
) -> None:
    found, door = play(tmp_path, **said)
    assert found["failed"] and found["error"]["kind"] == "config" and word in found["msg"], found
    assert "verdicts" not in found and not [event for event in door.events() if event[0] == "intent"]


# -- one host's trouble is its own -------------------------------------------------------------------------------------


def test_one_hosts_trouble_is_its_own_verdict(tmp_path: Path) -> None:
    from ansible.template import trust_as_template

    def verb(params: Mapping[str, Any], ctx: Context) -> Result:
        if ctx.node == "gpu002":
            ctx.may_write("POST something")
            raise DeadlineExceeded("it never came", node=ctx.node)
        if ctx.node == "gpu003":
            raise ZeroDivisionError(f"a surprise with {SECRET}")
        return switched(params, ctx)

    broken = {"gpufleet_bmc_username": trust_as_template("{{ nobody_knows }}")}
    found, door = play(tmp_path, verb, own={"gpu004": broken})
    verdicts = found["verdicts"]
    assert not found.get("failed") and {host: one["ok"] for host, one in verdicts.items()} == {
        "gpu001": True, "gpu002": False, "gpu003": False, "gpu004": False,
    }  # fmt: skip
    assert [verdicts[host]["kind"] for host in HOSTS[1:]] == ["deadline", "bad_answer", "config"]
    assert [quarantines(verdicts[host]) for host in HOSTS[1:]] == [True, False, False]
    assert [succeeded(found, host) for host in HOSTS] == [True, False, False, False]
    assert verdicts["gpu002"]["changed"] and verdicts["gpu002"]["result"]["asked"] == ["POST something"]
    assert of_hosts(door, "intent") == ["gpu001", "gpu002"] == of_hosts(door, "outcome")
    assert "gpu003" in verdicts["gpu003"]["reason"] and SECRET not in json.dumps(found)


def test_no_secret_is_in_a_verdict(tmp_path: Path) -> None:
    def verb(params: Mapping[str, Any], ctx: Context) -> Result:
        return Result(changed=False, data={"said": f"it said {params['bmc_password']}"})

    own = {host: {"gpufleet_bmc_password": f"secret-of-{host}"} for host in HOSTS}
    found, _door = play(tmp_path, verb, own=own)
    assert all(verdict["ok"] for verdict in found["verdicts"].values())
    assert "secret-of-gpu" not in json.dumps(found)


def test_check_mode_writes_nothing_and_tells_of_each(tmp_path: Path) -> None:
    found, door = play(tmp_path, check_mode=True, diff=True)
    assert [one["before_header"] for one in found["diff"]] == list(HOSTS)
    assert all(verdict["ok"] and verdict["result"]["asked"] == [] for verdict in found["verdicts"].values())
    assert not door.ledger.exists()


def test_a_host_with_another_ledger_has_its_events_there(tmp_path: Path) -> None:
    found, door = play(tmp_path, own={"gpu002": {"gpufleet_ledger_url": f"sqlite:///{tmp_path}/other.sqlite"}})
    assert all(verdict["ok"] for verdict in found["verdicts"].values())
    assert of_hosts(door, "intent") == ["gpu001", "gpu003", "gpu004"]
    door.ledger = tmp_path / "other.sqlite"
    assert of_hosts(door, "intent") == ["gpu002"]


# -- at once -----------------------------------------------------------------------------------------------------------


class Counting:
    """How many are at work at once. Each waits until as many are as may be, however busy the machine is."""

    def __init__(self, may_be: int = 1) -> None:
        self.now = self.most = 0
        self._may_be = may_be
        self._moves = threading.Condition()

    def __call__(self, params: Mapping[str, Any], ctx: Context) -> Result:
        with self._moves:
            self.now += 1
            self.most = max(self.most, self.now)
            self._moves.notify_all()
            self._moves.wait_for(lambda: self.most >= self._may_be, 20)
        time.sleep(0.1)  # for those that may not come
        with self._moves:
            self.now -= 1
        return switched(params, ctx)


@pytest.mark.parametrize("at_once, most", [(1, 1), (2, 2), (None, 4)])
def test_no_more_are_worked_on_at_once_than_the_task_says(tmp_path: Path, at_once: int | None, most: int) -> None:
    counting = Counting(most)
    found, _door = play(tmp_path, counting, at_once=at_once)
    assert counting.most == most and all(verdict["ok"] for verdict in found["verdicts"].values())


@pytest.mark.parametrize(
    "told, number",
    [
        ({"scheduler": "slurm", "state": "held"}, 1000), ({"scheduler": "slurm", "state": "present"}, 1000),
        ({"scheduler": "slurm", "scheduler_url": "http://a", "state": "held"}, 1000),
        ({"scheduler": "kubernetes", "state": "resumed"}, 32), ({"scheduler": "kubernetes", "state": "present"}, 1000),
    ],
)  # fmt: skip
def test_nodes_that_are_written_to_one_by_one_do_not_wait_for_a_thousand(told: dict[str, str], number: int) -> None:
    assert scheduler_node.ActionModule.at_once(lambda name: told.get(name, "")) == number


@pytest.mark.parametrize("protocol, most", [("ipmi", 2), ("redfish", 4)])
def test_of_machines_that_need_a_process_each_no_more_are_served_at_once_than_may_run(
    tmp_path: Path, protocol: str, most: int
) -> None:
    counting = Counting(most)
    found, _door = play(tmp_path, counting, base=Certified, bmc_protocol=protocol)
    assert all(verdict["ok"] for verdict in found["verdicts"].values()), found
    assert counting.most == most


def test_who_waits_for_a_process_holds_up_nobody_who_needs_none(tmp_path: Path) -> None:
    """Three BMCs of which nothing is heard stand before one that answers, and two of them may have a process."""
    answered = threading.Event()
    counting = Counting()

    def verb(params: Mapping[str, Any], ctx: Context) -> Result:
        if ctx.node == HOSTS[-1]:
            answered.set()
            return switched(params, ctx)
        assert answered.wait(10), "nobody served the one that answers meanwhile"
        return counting(params, ctx)

    protocols = {host: {"gpufleet_bmc_protocol": "ipmi"} for host in HOSTS[:-1]}
    found, _door = play(tmp_path, verb, base=Certified, own=protocols, at_once=3)
    assert [verdict["reason"] for verdict in found["verdicts"].values()] == [""] * len(HOSTS)
    assert counting.most == 2


def test_who_is_told_to_end_lets_those_at_work_give_back_what_they_have(tmp_path: Path) -> None:
    """A session that one of them has open would stay at its BMC."""

    def verb(params: Mapping[str, Any], ctx: Context) -> Result:
        (tmp_path / f"begun-{ctx.node}").touch()
        try:
            ctx.wait(lambda: 0, bool, timeout=60, interval=0.1, wanted="something that never comes")
        finally:
            (tmp_path / f"over-{ctx.node}").touch()
        return Result()

    worker = FORK.Process(target=play, args=(tmp_path, verb))
    worker.start()
    end_of(worker, tmp_path, "begun-*")
    assert len(list(tmp_path.glob("over-*"))) == len(HOSTS)


class Taken(ForAll):
    """A host takes a while between its turn and its first question."""

    def _validated(self) -> dict[str, Any]:
        if self.OF_ALL:
            (Path(self._task.args["serial"]) / f"taken-{self._host}").touch()
            time.sleep(1.5)
        return super()._validated()


def test_who_is_told_to_end_lets_nobody_go_on_whose_turn_had_just_come(tmp_path: Path) -> None:
    def verb(params: Mapping[str, Any], ctx: Context) -> Result:
        ctx.may_write("POST something")
        (tmp_path / f"wrote-{ctx.node}").touch()
        return Result()

    own, more = {host: {"place": str(tmp_path)} for host in HOSTS}, {"base": Taken, "each": {"serial": "place"}}
    worker = FORK.Process(target=play, args=(tmp_path, verb), kwargs={"own": own, **more})
    worker.start()
    end_of(worker, tmp_path, "taken-*")
    assert not list(tmp_path.glob("wrote-*"))


def end_of(worker: Any, folder: Path, begun: str) -> None:
    """It is told to end once all hosts have come so far."""
    end = time.monotonic() + 30
    while len(list(folder.glob(begun))) < len(HOSTS) and time.monotonic() < end:
        time.sleep(0.05)
    assert worker.pid
    os.kill(worker.pid, signal.SIGTERM)
    worker.join(30)
    assert worker.exitcode == -signal.SIGTERM


class Certified(ForAll, CertifiedAction):
    """A verb on a BMC."""

    APART = replace(CertifiedAction.APART, most=2)
