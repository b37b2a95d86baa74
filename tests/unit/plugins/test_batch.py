# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verbs for a batch: who takes part, who asks, and who only gets the answer; over real objects and a real ledger."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from ansible import constants as C
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import BATCH
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import AuthFailed, Fenced
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease, lifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._batch import BatchAction
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door

HOSTS = ("gpu001", "gpu002", "gpu003")


class Batch:
    """One task that several hosts run, each in a worker of its own."""

    def __init__(self, folder: Path, **host_vars: dict[str, Any]) -> None:
        self.folder = folder
        self.asked: list[list[dict[str, Any]]] = []
        self.task = str(uuid.uuid4())
        self.problem: Exception | None = None
        self.told: dict[str, Any] = {}
        self.stolen: list[str] = []
        #: Both set by a test in which somebody works for long: its work has begun; it may end.
        self.working: threading.Event | None = None
        self.patience = threading.Event()
        self.hosts = {
            host: {"gpufleet_serial": f"S-{host}", **host_vars.get(host, {})} for host in (*HOSTS, "elsewhere")
        }

    def _verb(self, params: Any, ctx: Context) -> Result:
        self.asked.append([dict(node) for node in params["nodes"]])
        if self.problem is not None:
            raise self.problem
        if self.working is not None:
            self.working.set()
            assert self.patience.wait(60)
        for host in self.stolen:
            self.stolen_by_another(host)
            ctx.lifeline.confirm()
        told = [Event("note", "told", {}, node["host"]) for node in params["nodes"]]
        verdicts = {node["host"]: {"ok": True, **self.told} for node in params["nodes"]}
        return Result(changed=True, data={"verdicts": verdicts}, events=told)

    def run(self, host: str = "gpu001", *, batch: tuple[str, ...] = HOSTS, **args: Any) -> dict[str, Any]:
        shared = {"hostvars": self.hosts, "ansible_play_hosts": list(HOSTS), "ansible_play_batch": list(batch)}
        door = Door(
            self.folder, self._verb, base=BatchAction, more=BATCH, args=args,
            **{"inventory_hostname": host, **self.hosts[host], **shared},
        )  # fmt: skip
        door.task._uuid = self.task
        return door.run()

    def notes(self) -> int:
        with sqlite3.connect(self.folder / "ledger.sqlite") as connection:
            (count,) = connection.execute("SELECT count(*) FROM events WHERE kind = 'note'").fetchone()
        return int(count)

    def stolen_by_another(self, host: str) -> None:
        with Ledger(f"sqlite:///{self.folder}/ledger.sqlite") as ledger, ledger.transaction() as conn:
            conn.execute(sa.text("UPDATE leases SET expires = 1"))
        self.taken_by_another(host)

    def taken_by_another(self, host: str) -> None:
        with Ledger(f"sqlite:///{self.folder}/ledger.sqlite") as ledger:
            node = ledger.identify(host, aliases=[("serial", f"S-{host}")])
            with ledger.transaction() as conn:
                lease.take_in(conn, ledger, node, Holder("theirs", "elsewhere#1", 1, 1, "boot"), node=host)


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    return Batch(tmp_path)


def hosts(nodes: list[dict[str, Any]]) -> list[str]:
    return [node["host"] for node in nodes]


def test_t1_the_hosts_of_the_batch_take_part_and_no_others(batch: Batch) -> None:
    batch.run(batch=("gpu001", "gpu003"))
    assert [hosts(nodes) for nodes in batch.asked] == [["gpu001", "gpu003"]]


@pytest.mark.parametrize(
    ("result", "takes_part"),
    [
        ({"changed": True}, True),
        ({"failed": True}, False),
        ({"skipped": True}, False),
        ({"unreachable": True}, False),
        (None, False),
        ({"verdicts": {"gpu002": {"ok": True}}}, True),
        ({"verdicts": {"gpu002": {"ok": False}}}, False),
        ({"verdicts": {"gpu001": {"ok": True}}}, False),
    ],
)
def test_t1_a_host_takes_part_that_came_so_far(tmp_path: Path, result: Any, takes_part: bool) -> None:
    good = {"started": {"changed": False}}
    batch = Batch(tmp_path, gpu001=good, gpu003=good, gpu002={"started": result})
    batch.run(after=["started"])
    assert ("gpu002" in hosts(batch.asked[0])) is takes_part


@pytest.mark.parametrize(
    ("judged", "read", "takes_part"),
    [
        ({"changed": True}, {"failed": True}, True),
        ({"skipped": True}, {"changed": True}, True),
        ({"skipped": True}, {"failed": True}, False),
        ({"skipped": True}, {"skipped": True}, False),
        ({"skipped": True}, None, False),
        ({"failed": True}, {"changed": True}, False),
        # It ended before that task.
        (None, {"changed": True}, False),
    ],
)
def test_of_several_results_the_first_counts_that_a_host_did_not_skip(
    tmp_path: Path, judged: Any, read: Any, takes_part: bool
) -> None:
    good = {"judged": {"changed": False}, "read": {"changed": False}}
    batch = Batch(tmp_path, gpu001=good, gpu003=good, gpu002={"judged": judged, "read": read})
    batch.run(after=["judged or read"])
    assert ("gpu002" in hosts(batch.asked[0])) is takes_part
    found = batch.run(after=["judged or raed"])
    assert found["failed"] and "registers raed," in found["msg"], "each of them is one that some task registers"


def test_a_result_that_nobody_registers_is_an_error_that_names_it(tmp_path: Path) -> None:
    batch = Batch(tmp_path, gpu001={"started": {"changed": False}})
    found = batch.run(after=["started", "startet"])
    assert found["failed"] and found["error"]["kind"] == "config" and "startet" in found["msg"]
    assert not batch.asked and "started," not in found["msg"]
    assert batch.run(after=["started"])["verdicts"]


def test_t1_one_asks_and_the_others_get_its_answer(batch: Batch) -> None:
    found = [batch.run(host) for host in HOSTS]
    assert len(batch.asked) == 1
    assert all(one["verdicts"] == found[0]["verdicts"] for one in found)
    assert [one["events"] for one in found[1:]] == [[], []]
    assert batch.notes() == len(HOSTS), "what was recorded once is not recorded again"


def test_t1_a_task_that_is_repeated_asks_anew(batch: Batch) -> None:
    batch.run("gpu001")
    batch.run("gpu001")
    assert len(batch.asked) == 2


def test_t1_an_answer_about_others_is_none(batch: Batch) -> None:
    batch.run("gpu001", batch=("gpu001", "gpu002"))
    batch.run("gpu003", batch=("gpu001", "gpu003"))
    assert [hosts(nodes) for nodes in batch.asked] == [["gpu001", "gpu002"], ["gpu001", "gpu003"]]


def test_t1_another_question_of_the_same_task_is_asked(batch: Batch) -> None:
    """A loop, or an option that is a template."""
    batch.run("gpu001", force_reason="one")
    batch.run("gpu002", force_reason="two")
    assert len(batch.asked) == 2


def test_t1_a_login_that_was_refused_is_not_tried_for_each_host(batch: Batch) -> None:
    batch.problem = AuthFailed("refused")
    found = [batch.run(host) for host in HOSTS]
    assert len(batch.asked) == 1
    assert all(one["failed"] and one["error"]["kind"] == "auth" for one in found)


def test_t1_a_run_that_is_gone_leaves_no_answer(batch: Batch) -> None:
    batch.problem = Fenced("the run is gone")
    assert batch.run("gpu001")["error"]["kind"] == "fenced"
    batch.problem = None
    assert batch.run("gpu002")["verdicts"] and len(batch.asked) == 2


def test_t1_a_node_of_another_run_is_refused_alone(batch: Batch) -> None:
    batch.taken_by_another("gpu002")
    batch.run(nodes=[{"host": host} for host in HOSTS])
    [nodes] = batch.asked
    refused = {node["host"]: node.get("refused", "") for node in nodes}
    assert "theirs" in refused.pop("gpu002") and not any(refused.values())


def test_t1_a_node_whose_lease_was_lost_has_no_verdict_no_step_and_no_event(batch: Batch) -> None:
    batch.told = {"verdict": "pass", "step": "boot", "findings": ["x"], "seconds": 2.5, "reason": "", "kind": ""}
    batch.stolen = ["gpu002"]
    with Ledger(f"sqlite:///{batch.folder}/ledger.sqlite") as ledger:  # a machine that it does not know has no lease
        nodes = [ledger.identify(host, aliases=[("serial", f"S-{host}")]) for host in HOSTS]
    found = batch.run()
    lost = found["verdicts"]["gpu002"]
    assert "another run works on it" in lost.pop("reason")
    assert lost == {"ok": False, "verdict": "", "step": "", "findings": [], "seconds": 0.0, "kind": "not_ours"}
    assert found["verdicts"]["gpu001"] == {"ok": True, **batch.told}
    assert [event["node"] for event in found["events"]] == ["gpu001", "gpu003"]
    with Ledger(f"sqlite:///{batch.folder}/ledger.sqlite") as ledger:
        assert set(ledger.latest(nodes, "note")) == {nodes[0], nodes[2]}


def seats() -> int:
    """How often this process has the lock of an election open."""
    prefix = os.path.join(C.DEFAULT_LOCAL_TMP, "gpufleet-")
    links = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            links.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return sum(1 for link in links if link.startswith(prefix) and link.endswith(".lock"))


def test_who_waits_for_the_elected_one_outlasts_a_ledger_that_is_away(
    batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the elected one does: its leases are renewed beside the wait, and nothing that passes ends it."""
    monkeypatch.setattr(lifeline, "_RENEW_SECONDS", 0.1)
    monkeypatch.setattr(lifeline, "_FRESH_SECONDS", 0.0)
    batch.working = threading.Event()
    with Ledger(f"sqlite:///{batch.folder}/ledger.sqlite") as ledger:
        for host in HOSTS:
            ledger.identify(host, aliases=[("serial", f"S-{host}")])
    found: list[dict[str, Any]] = []
    threads = [threading.Thread(target=lambda host=host: found.append(batch.run(host))) for host in HOSTS[:2]]
    threads[0].start()
    assert batch.working.wait(60)
    threads[1].start()
    wait_until(lambda: seats() == 2, bool, timeout=60, interval=0.05, wanted="the second one waits")
    with contextlib.closing(sqlite3.connect(batch.folder / "ledger.sqlite", isolation_level=None)) as connection:
        connection.execute("ALTER TABLE leases RENAME TO away")
        threads[1].join(timeout=1.5)
        connection.execute("ALTER TABLE away RENAME TO leases")
    batch.patience.set()
    for thread in threads:
        thread.join(timeout=60)
    assert [one.get("failed") for one in found] == [None, None], found
    assert len(batch.asked) == 1
