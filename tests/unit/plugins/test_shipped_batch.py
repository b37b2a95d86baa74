# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch that another machine watches: what it may write there stands in the ledger here, before it is sent."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import node_wait, scheduler_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import registry
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.specs import WAIT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.wait import scheduler_wait as watched
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.modules import scheduler_wait as module
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._batch import BatchAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._looks_there import Looks
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door
from ansible_collections.gpufleet.baremetal.tests.unit.scheduler.test_between_two_looks import BUSY, HELD, Evicting

#: One for each way in which work leaves a node, one of another run, and one that the task names without a machine.
HOSTS = ("evicted", "patient", "taken", "unknown")


class Elsewhere(scheduler_wait.ActionModule):
    """Its tasks are for a jump host, which runs the module and writes down what the ledger knew before it wrote."""

    SPEC = spec(WAIT, scheduler={"type": "str"})
    ledger_file: Path
    sent: list[dict[str, Any]]
    known: list[tuple[str, str]]
    #: Called before the look of that number.
    meanwhile: dict[int, Callable[[], None]]

    def _goes_elsewhere(self) -> bool:
        return True

    def _execute_module(self, *_args: Any, **options: Any) -> dict[str, Any]:
        args: dict[str, Any] = json.loads(json.dumps(options["module_args"]))
        self.sent.append(args)
        self.known.extend(intents(self.ledger_file))
        self.meanwhile.get(len(self.sent), lambda: None)()
        return there({"completing_timeout": 60.0, **args})


class _Said(Exception):
    """A module says one thing, and ends."""


class _Module:
    """What Ansible gives a module on the machine that it runs on: its options, and nothing of a ledger."""

    check_mode = _diff = False

    def __init__(self, params: dict[str, Any]) -> None:
        self.params = params

    def exit_json(self, **told: Any) -> NoReturn:
        raise _Said(told)

    def fail_json(self, **told: Any) -> NoReturn:
        raise _Said({"failed": True, **told})


def there(args: dict[str, Any]) -> dict[str, Any]:
    """What the module says."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(_Said) as said:
        patch.setattr(module, "AnsibleModule", lambda **_about: _Module({**dict.fromkeys(WAIT), **args}))
        module.main()
    return dict(json.loads(json.dumps(said.value.args[0])))


def intents(file: Path) -> list[tuple[str, str]]:
    sql = "SELECT nodes.name, events.name FROM events JOIN nodes USING (node_id) WHERE kind = 'intent'"
    with sqlite3.connect(file) as connection:
        return sorted(connection.execute(sql))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The ledger knows of the holds of an earlier run; one node is another run's."""
    monkeypatch.setitem(registry.DRIVERS, Evicting.NAME, Evicting)
    Evicting.looks, Evicting.said = [BUSY, BUSY, HELD], []
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
        ids = {host: ledger.identify(host, aliases=[("serial", f"S-{host}")]) for host in HOSTS[:3]}
        ledger.append("r1", [(ids[host], Event("intent", "scheduler_node", {})) for host in ("evicted", "patient")])
        with ledger.transaction() as conn:
            lease.take_in(conn, ledger, ids["taken"], Holder("theirs", "elsewhere#1", 1, 1, "boot"), node="taken")
    Elsewhere.ledger_file, Elsewhere.sent, Elsewhere.known = tmp_path / "ledger.sqlite", [], []
    Elsewhere.meanwhile = {}
    yield tmp_path


def taken(site: Path) -> None:
    """Another run has this node from now on."""
    with Ledger(f"sqlite:///{site}/ledger.sqlite") as ledger, ledger.transaction() as conn:
        conn.exec_driver_sql("UPDATE leases SET expires = 1")
        thief = Holder("thief", "elsewhere#1", 1, 1, "boot")
        lease.take_in(conn, ledger, ledger.identify("evicted", aliases=[("serial", "S-evicted")]), thief, node="x")


def run(folder: Path, base: type[BatchAction] = Elsewhere, *, check_mode: bool = False, **args: Any) -> dict[str, Any]:
    hosts = {
        host: {"gpufleet_serial": f"S-{host}" if host != "unknown" else "", "gpufleet_scheduler": "evicting"}
        for host in HOSTS
    }
    hosts["patient"]["gpufleet_scheduler"] = "none"
    shared = {"hostvars": hosts, "ansible_play_hosts": list(HOSTS), "ansible_play_batch": list(HOSTS)}
    own = {"inventory_hostname": "patient", **hosts["patient"], **shared}
    door = Door(folder, watched, base=base, name=base.NAME, own_spec=base.SPEC, check_mode=check_mode, args=args, **own)
    return door.run()


@pytest.mark.parametrize("needs_identity", [True, False])
def test_each_node_whose_work_may_be_made_to_leave_has_its_intent_before_the_module_is_sent(
    site: Path, monkeypatch: pytest.MonkeyPatch, needs_identity: bool
) -> None:
    monkeypatch.setattr(Elsewhere, "NEEDS_IDENTITY", needs_identity)
    found = run(site, interval=0.01, timeout=20)
    assert not found.get("failed"), found
    assert Evicting.said == ["draining", "draining", "evicted", "drained"], "the first look asks for leave"
    assert ("evicted", "scheduler_wait") in Elsewhere.known
    # Not of one whose work ends by itself, nor of one that is not ours to touch.
    assert intents(site / "ledger.sqlite") == [
        ("evicted", "scheduler_node"), ("evicted", "scheduler_wait"), ("patient", "scheduler_node"),
    ]  # fmt: skip
    refused = {node["host"]: node.get("refused", "") for node in Elsewhere.sent[0]["nodes"]}
    assert "theirs" in refused["taken"] and "nothing tells which machine" in refused["unknown"]
    assert not refused["evicted"] and not refused["patient"]


def test_j3_each_eviction_has_leave_of_its_own(site: Path) -> None:
    """A drain takes hours, and who is left of a killed run makes nothing leave."""
    Evicting.looks = [*[BUSY] * 4, HELD]
    found = run(site, interval=0.01, timeout=20)
    assert found["verdicts"]["evicted"]["ok"] and found["changed"], found
    assert Evicting.said == ["draining", *["draining", "evicted"] * 3, "drained"]
    first, *later, _last = [one["slice"] for one in Elsewhere.sent]
    assert "until" not in first and [one["writes"] for one in later] == [["evicted"]] * 3
    ends = [one["until"] for one in later]
    assert ends == sorted(set(ends)), "each is given anew"
    late = {**Elsewhere.sent[1], "slice": {**later[0], "until": 0.0}}
    Evicting.looks, Evicting.said = [BUSY], []
    assert there({"completing_timeout": 60.0, **late})["slice"]["due"] == {"evicted": False}
    assert Evicting.said == ["draining"]


def test_j3_a_node_that_is_lost_between_two_looks_has_no_leave(site: Path) -> None:
    Evicting.looks = [BUSY]
    Elsewhere.meanwhile = {2: lambda: taken(site)}
    found = run(site, interval=0.01, timeout=20)
    assert "another run works on it" in found["verdicts"]["evicted"]["reason"], found
    assert found["verdicts"]["evicted"]["kind"] == "not_ours" and Evicting.said.count("evicted") <= 1, Evicting.said
    assert len(Elsewhere.sent) == 3 and "another run" in Elsewhere.sent[2]["nodes"][0]["refused"], "nobody waits for it"


class SilentOnce(Elsewhere):
    """Its second look cannot ask the scheduler at all."""

    def _execute_module(self, *args: Any, **options: Any) -> dict[str, Any]:
        told = super()._execute_module(*args, **options)
        silent = {"failed": True, "msg": "no answer", "error": {"kind": "unreachable"}}
        return silent if len(self.sent) == 2 else told


def test_j3_a_scheduler_that_is_silent_at_one_look_ends_no_drain(site: Path) -> None:
    Evicting.looks = [BUSY, BUSY, HELD]
    found = run(site, SilentOnce, interval=0.01, timeout=20)
    assert not found.get("failed") and found["verdicts"]["evicted"]["ok"], found
    assert len(SilentOnce.sent) == 3


def test_c8_a_few_looks_at_another_cluster_end_no_drain_and_three_in_a_row_do(site: Path) -> None:
    """It is one look after the other that is sent there, and the controller counts."""
    with Ledger(f"sqlite:///{site}/ledger.sqlite") as ledger:
        node = ledger.identify("evicted", aliases=[("serial", "S-evicted")])
        held = {"hold_token": "gpufleet:r1:reimage", "scheduler_node": "evicted", "cluster": "evicting alpha"}
        ledger.append("r1", [(node, Event("hold", "taken", held))])
    alpha, beta = (replace(HELD, place=Place(f"evicting {name}")) for name in ("alpha", "beta"))
    for odd, ok in ((2, True), (3, False)):
        Evicting.looks, Evicting.said = [replace(alpha, state="draining"), *[beta] * odd, alpha], []
        told = run(site, interval=0.01, timeout=20)["verdicts"]["evicted"]
        assert (told["ok"], told["kind"]) == (ok, "" if ok else "wrong_machine"), told
        assert len(Evicting.said) == odd + (2 if ok else 1), Evicting.said


@pytest.mark.parametrize("args", [{"until": "idle"}, {"check_mode": True}])
def test_a_watch_that_makes_nothing_leave_has_no_intent(site: Path, args: dict[str, Any]) -> None:
    Evicting.looks = [HELD]
    run(site, interval=0.01, timeout=0.1, **args)
    assert Elsewhere.sent and len(intents(site / "ledger.sqlite")) == 2


def test_a_node_that_was_lost_before_the_module_is_sent_is_not_written_there(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while the elected worker was waited for, which may take hours."""
    prepare = Elsewhere.prepare

    def late(self: Elsewhere, params: dict[str, Any]) -> dict[str, Any]:
        prepared = prepare(self, params)
        taken(site)
        self._line.confirm()
        return prepared

    monkeypatch.setattr(Elsewhere, "prepare", late)
    found = run(site, interval=0.01, timeout=20)
    assert not found.get("failed"), found
    assert Evicting.said == [] and "another run works on it" in found["verdicts"]["evicted"]["reason"]
    assert ("evicted", "scheduler_wait") not in intents(site / "ledger.sqlite")


class Whole(BatchAction):
    """A watcher that is sent once, for all of its hosts."""

    NAME, SPEC, NEEDS_IDENTITY = "scheduler_wait", Elsewhere.SPEC, True
    sent: list[list[dict[str, Any]]]
    lost_first = False

    def _goes_elsewhere(self) -> bool:
        return True

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        prepared = super().prepare(params)
        if self.lost_first:
            taken(Elsewhere.ledger_file.parent)
            self._line.confirm()
        return prepared

    def _execute_module(self, *_args: Any, **options: Any) -> dict[str, Any]:
        nodes = options["module_args"]["nodes"]
        self.sent.append(nodes)
        Elsewhere.known.extend(intents(Elsewhere.ledger_file))
        verdicts = {node["host"]: {"ok": not node.get("refused"), "reason": ""} for node in nodes}
        return {"changed": False, "verdicts": verdicts}


@pytest.mark.parametrize("lost", [False, True])
def test_t1_each_host_of_a_batch_that_is_sent_once_has_its_intent_and_one_that_was_lost_is_left_out(
    site: Path, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    monkeypatch.setattr(Whole, "sent", [], raising=False)
    monkeypatch.setattr(Whole, "lost_first", lost)
    found = run(site, Whole, interval=0.01, timeout=20)
    assert not found.get("failed"), found
    written = {host for host, verb in Elsewhere.known if verb == "scheduler_wait"}
    assert written == ({"patient"} if lost else {"patient", "evicted"}), "before it is sent"
    [nodes] = Whole.sent
    refused = {node["host"] for node in nodes if node.get("refused")}
    assert refused == {"taken", "unknown", *(["evicted"] if lost else [])}


def test_a_look_from_another_machine_is_no_write(tmp_path: Path) -> None:
    assert not node_wait.ActionModule.writes(object.__new__(node_wait.ActionModule), {})


def test_what_was_held_again_is_told_to_the_next_look() -> None:
    looks = Looks({"nodes": [{"host": "n1"}], "timeout": 60.0, "interval": 1.0}, "scheduler_wait")
    looks.note({"again": {"n1": "its record"}}, {})
    assert looks.asks({})["slice"]["again"] == {"n1": "its record"}
