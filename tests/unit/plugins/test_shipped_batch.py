# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch that another machine watches: what it may write there stands in the ledger here, before it is sent."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import node_wait, scheduler_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import registry
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.specs import WAIT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.wait import scheduler_wait as watched
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._batch import BatchAction
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

    def _goes_elsewhere(self) -> bool:
        return True

    def _execute_module(self, *_args: Any, **options: Any) -> dict[str, Any]:
        args: dict[str, Any] = json.loads(json.dumps(options["module_args"]))
        self.sent.append(args)
        self.known.extend(intents(self.ledger_file))
        ctx = Context()
        return watched({"completing_timeout": 60.0, **args}, ctx).as_dict(ctx)


def intents(file: Path) -> list[tuple[str, str]]:
    sql = "SELECT nodes.name, events.name FROM events JOIN nodes USING (node_id) WHERE kind = 'intent'"
    with sqlite3.connect(file) as connection:
        return sorted(connection.execute(sql))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The ledger knows of the holds of an earlier run; one node is another run's."""
    monkeypatch.setitem(registry.DRIVERS, Evicting.NAME, Evicting)
    Evicting.looks, Evicting.said = [BUSY, HELD], []
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
        ids = {host: ledger.identify(host, aliases=[("serial", f"S-{host}")]) for host in HOSTS[:3]}
        ledger.append("r1", [(ids[host], Event("intent", "scheduler_node", {})) for host in ("evicted", "patient")])
        with ledger.transaction() as conn:
            lease.take_in(conn, ledger, ids["taken"], Holder("theirs", "elsewhere#1", 1, 1, "boot"), node="taken")
    Elsewhere.ledger_file, Elsewhere.sent, Elsewhere.known = tmp_path / "ledger.sqlite", [], []
    yield tmp_path


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
    assert Evicting.said == ["draining", "evicted", "drained"]
    assert ("evicted", "scheduler_wait") in Elsewhere.known
    # Not of one whose work ends by itself, nor of one that is not ours to touch.
    assert intents(site / "ledger.sqlite") == [
        ("evicted", "scheduler_node"), ("evicted", "scheduler_wait"), ("patient", "scheduler_node"),
    ]  # fmt: skip
    refused = {node["host"]: node.get("refused", "") for node in Elsewhere.sent[0]["nodes"]}
    assert "theirs" in refused["taken"] and "nothing tells which machine" in refused["unknown"]
    assert not refused["evicted"] and not refused["patient"]


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
        with Ledger(f"sqlite:///{site}/ledger.sqlite") as ledger, ledger.transaction() as conn:
            conn.exec_driver_sql("UPDATE leases SET expires = 1")
            thief = Holder("thief", "elsewhere#1", 1, 1, "boot")
            lease.take_in(conn, ledger, ledger.identify("evicted", aliases=[("serial", "S-evicted")]), thief, node="x")
        self._line.confirm()
        return prepared

    monkeypatch.setattr(Elsewhere, "prepare", late)
    found = run(site, interval=0.01, timeout=20)
    assert not found.get("failed"), found
    assert Evicting.said == [] and "another run works on it" in found["verdicts"]["evicted"]["reason"]
    assert ("evicted", "scheduler_wait") not in intents(site / "ledger.sqlite")


def test_a_look_from_another_machine_is_no_write(tmp_path: Path) -> None:
    assert not node_wait.ActionModule.writes(object.__new__(node_wait.ActionModule), {})
