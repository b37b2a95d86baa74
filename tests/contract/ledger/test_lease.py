# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run at a time works on a node, and a run that is gone writes nothing more."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    EvidenceMissing,
    Fenced,
    LeaseHeld,
    NotOurs,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease, lifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder, this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifeline import LedgerLifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import PERMITS, VOIDS, Context, Event

FORK = multiprocessing.get_context("fork")
SECRET = "hunter2-of-the-bmc"


@pytest.fixture
def node(ledger: Ledger) -> str:
    return ledger.identify("gpu001", aliases=[("serial", "GF0001")])


def kill(holder: Holder) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    os.waitpid(holder.pid, 0)


def take(ledger: Ledger, node: str, holder: Holder) -> lease.Lease:
    with ledger.transaction() as conn:
        return lease.take_in(conn, ledger, node, holder, node="gpu001")


def expire(ledger: Ledger, node: str) -> None:
    with ledger.transaction() as conn:
        conn.execute(sa.text("UPDATE leases SET expires = 1 WHERE node_id = :node"), {"node": node})


def line(ledger: Ledger, holder: Holder, node: str, **more: Any) -> LedgerLifeline:
    return LedgerLifeline(
        lambda: ledger,
        holder,
        verb="redfish_power",
        intent={"options": {"state": "off"}},
        identify=lambda name: node,
        default_node="gpu001",
        **more,
    )


# -- the lease ---------------------------------------------------------------------------------------------------------


def test_the_second_run_is_told_the_first(ledger: Ledger, node: str, run: Callable[[], Holder]) -> None:
    first, second = run(), run()
    take(ledger, node, first)
    with pytest.raises(LeaseHeld) as caught:
        take(ledger, node, second)
    text = str(caught.value)
    assert first.run_id in text and str(first.pid) in text and first.host_name in text and "#" not in text
    assert caught.value.details["holder"] == first.run_id


def test_the_same_run_takes_it_again(ledger: Ledger, node: str, run: Callable[[], Holder]) -> None:
    holder = run()
    assert take(ledger, node, holder) == take(ledger, node, holder)


def test_a_dead_holder_on_this_host_blocks_nobody(ledger: Ledger, node: str, run: Callable[[], Holder]) -> None:
    first, second = run(), run()
    mine = take(ledger, node, first)
    kill(first)
    assert take(ledger, node, second).fencing == mine.fencing + 1


def test_a_zombie_is_dead(ledger: Ledger, node: str, run: Callable[[], Holder]) -> None:
    first, second = run(), run()
    take(ledger, node, first)
    os.kill(first.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{first.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline
    assert take(ledger, node, second).run_id == second.run_id


def test_a_reused_process_id_is_another_run(ledger: Ledger, node: str, run: Callable[[], Holder]) -> None:
    first, second = run(), run()
    take(ledger, node, replace(first, pid_start=first.pid_start - 1))
    assert take(ledger, node, second).run_id == second.run_id


@pytest.mark.parametrize("field", ["host", "host_and_boot"])
def test_elsewhere_nobody_is_known_to_be_dead(ledger: Ledger, node: str, run: Callable[[], Holder], field: str) -> None:
    """A process id says nothing on another host; not even where it has this host's name."""
    first, second = run(), run()
    boot = "another-boot" if field == "host_and_boot" else first.boot_id
    name = first.host.partition("#")[0] + "#another1"
    take(ledger, node, replace(first, host=name, pid=2**22 + 1, boot_id=boot))
    with pytest.raises(LeaseHeld):
        take(ledger, node, second)
    expire(ledger, node)
    assert take(ledger, node, second).fencing == 2


def test_w9_a_clone_of_the_controller_takes_no_live_lease(ledger: Ledger, node: str, run: Callable[[], Holder]) -> None:
    """It has this host's name and machine id, and another boot: so has this host after a reboot."""
    first, second = run(), run()
    take(ledger, node, replace(first, boot_id="of-the-clone"))
    with pytest.raises(LeaseHeld):
        take(ledger, node, second)
    expire(ledger, node)
    assert take(ledger, node, second).fencing == 2


def test_who_lost_a_lease_does_not_get_it_back(ledger: Ledger, node: str, run: Callable[[], Holder]) -> None:
    first, second = run(), run()
    mine = take(ledger, node, first)
    expire(ledger, node)
    take(ledger, node, second)
    assert second.run_id in lease.renew(ledger, [mine], first)[node]
    expire(ledger, node)
    with pytest.raises(Fenced, match="lost the node's lease"):
        take(ledger, node, first)


def test_an_expired_lease_that_nobody_took_goes_on(ledger: Ledger, node: str, run: Callable[[], Holder]) -> None:
    holder = run()
    mine = take(ledger, node, holder)
    expire(ledger, node)
    assert take(ledger, node, holder) == mine


def _race(url: str, node: str, start: Any, answers: Any) -> None:
    holder = this_run(os.getpid())
    with Ledger(url) as ledger:
        start.wait()
        try:
            answers.put(("taken", take(ledger, node, holder).run_id))
        except LeaseHeld as exc:
            answers.put(("held", exc.details["holder"]))
        start.wait()  # nobody dies before everybody has tried


def test_of_many_at_once_one_gets_it(url: str, ledger: Ledger) -> None:
    """The very first lease of a node is where a row is not there to be locked."""
    for turn in range(5):
        node = ledger.identify("gpu001", aliases=[("serial", f"race{turn}")])
        start, answers = FORK.Barrier(6), FORK.Queue()
        group = [FORK.Process(target=_race, args=(url, node, start, answers)) for _number in range(6)]
        for process in group:
            process.start()
        told = [answers.get(timeout=300) for _process in group]
        for process in group:
            process.join(60)
        winners = [run for what, run in told if what == "taken"]
        assert len(winners) == 1
        assert {run for what, run in told if what == "held"} == set(winners)


# -- the lifeline ------------------------------------------------------------------------------------------------------


def test_the_first_write_takes_the_lease_and_records_the_intent(
    ledger: Ledger, node: str, run: Callable[[], Holder]
) -> None:
    ctx = Context(lifeline=line(ledger, run(), node, secrets=frozenset({SECRET})))
    assert ctx.may_write(f"POST /power {SECRET}") and ctx.may_write("POST /boot")
    events = ledger.history(node)
    assert [(event["kind"], event["name"]) for event in events] == [("intent", "redfish_power")]
    assert SECRET not in str(events) and "POST /power" in events[0]["data"]["write"]
    assert lease.holder_of(ledger, node) is not None


def test_check_mode_touches_nothing(ledger: Ledger, node: str, run: Callable[[], Holder]) -> None:
    ctx = Context(check_mode=True, lifeline=line(ledger, run(), node))
    assert not ctx.may_write("POST /power", destructive=True)
    assert ledger.history(node) == [] and lease.holder_of(ledger, node) is None


def test_waits_renew_the_lease(
    ledger: Ledger, node: str, run: Callable[[], Holder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifeline, "_RENEW_SECONDS", 0.0)
    ctx = Context(lifeline=line(ledger, run(), node))
    ctx.may_write("POST /power")
    expire(ledger, node)
    ctx.wait(lambda: True, bool, timeout=1, interval=1, wanted="nothing")
    held = lease.holder_of(ledger, node)
    assert held is not None and held["expires"] > time.time() + lease.LEASE_SECONDS / 2


def test_a_wait_ends_where_the_lease_is_lost(
    ledger: Ledger, node: str, run: Callable[[], Holder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifeline, "_RENEW_SECONDS", 0.0)
    ctx = Context(lifeline=line(ledger, run(), node))
    ctx.may_write("POST /power")
    expire(ledger, node)
    take(ledger, node, run())
    with pytest.raises(Fenced):
        ctx.wait(lambda: False, bool, timeout=5, interval=1, wanted="nothing")


def test_a_batch_is_held_before_its_wait(ledger: Ledger, node: str, run: Callable[[], Holder]) -> None:
    first, second = line(ledger, run(), node), line(ledger, run(), node)
    first.hold(["gpu001"])
    assert ledger.history(node) == []
    with pytest.raises(LeaseHeld):
        second.hold(["gpu001"])
    first.before_write("POST /power", destructive=False)
    assert [event["kind"] for event in ledger.history(node)] == ["intent"], "the intent is told with the first write"


@pytest.mark.parametrize("name", PERMITS)
def test_fresh_evidence_allows_a_destructive_write(
    ledger: Ledger, node: str, run: Callable[[], Holder], name: str
) -> None:
    [number] = ledger.append("run", [(node, Event("evidence", name))])
    assert line(ledger, run(), node).before_write("POST /off", destructive=True) == f"event:{number}"


@pytest.mark.parametrize("seen", [[], *(["drained", name] for name in (*VOIDS, "of_a_later_release"))])
def test_without_evidence_nothing_destructive_happens(
    ledger: Ledger, node: str, run: Callable[[], Holder], seen: list[str]
) -> None:
    ledger.append("run", [(node, Event("evidence", name)) for name in seen])
    with pytest.raises(EvidenceMissing):
        line(ledger, run(), node).before_write("POST /off", destructive=True)


@pytest.mark.parametrize("age", [61, -61, -10])
def test_stale_evidence_is_none(
    ledger: Ledger, node: str, run: Callable[[], Holder], shift: Callable[[float], None], age: int
) -> None:
    """Nor is evidence from the future: two clocks differ, and which of them is right is unknown."""
    ledger.append("run", [(node, Event("evidence", "drained"))])
    mine = line(ledger, run(), node)
    shift(age)
    with pytest.raises(EvidenceMissing, match="s old" if age > 0 else "set back"):
        mine.before_write("POST /off", destructive=True)


def test_evidence_of_another_node_is_none(ledger: Ledger, node: str, run: Callable[[], Holder]) -> None:
    other = ledger.identify("gpu002", aliases=[("serial", "GF0002")])
    ledger.append("run", [(other, Event("evidence", "drained"))])
    with pytest.raises(EvidenceMissing):
        line(ledger, run(), node).before_write("POST /off", destructive=True)


def test_force_is_recorded(ledger: Ledger, node: str, run: Callable[[], Holder]) -> None:
    holder = run()
    forced = line(ledger, holder, node, force_reason="smoke in the rack")
    assert forced.before_write("POST /off", destructive=True) == "forced:smoke in the rack"
    note = ledger.latest([node], "note")[node]
    assert (note["name"], note["run_id"]) == ("forced", holder.run_id)
    assert note["data"] == {"verb": "redfish_power", "write": "POST /off", "reason": "smoke in the rack"}


@pytest.mark.parametrize("seen,allowed", [([], False), (["held"], True), (["held", "lifted"], False)])
def test_past_the_provisioner_only_under_its_maintenance(
    ledger: Ledger, node: str, run: Callable[[], Holder], seen: list[str], allowed: bool
) -> None:
    ledger.append("run", [(node, Event("maintenance", name)) for name in seen])
    managed = line(ledger, run(), node, managed_by="ironic")
    if allowed:
        managed.before_write("POST /boot", destructive=False)
        return
    with pytest.raises(NotOurs, match="ironic"):
        managed.before_write("POST /boot", destructive=False)


def test_past_a_provisioner_without_maintenance_nobody_is_told_to_set_one(
    ledger: Ledger, node: str, run: Callable[[], Holder]
) -> None:
    for maintained, word in ((True, "state maintenance"), (False, "state deployed or released")):
        managed = line(ledger, run(), node, managed_by="tasks", maintained=maintained)
        with pytest.raises(NotOurs) as caught:
            managed.before_write("POST /boot", destructive=False)
        assert word in caught.value.do and "force_reason" in caught.value.do
        assert ("with state maintenance" in str(caught.value)) is maintained


ORPHAN = """
import os, sys, time
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Fenced
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifeline import LedgerLifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
url, node, done = sys.argv[1:]
if os.fork():
    time.sleep(60)  # the run's main process, until it is killed
    os._exit(0)
holder = this_run(os.getppid())
ledger = Ledger(url)
line = LedgerLifeline(lambda: ledger, holder, verb="v", intent={}, identify=lambda name: node, default_node="n")
line.before_write("first", destructive=False)
print(os.getpid(), flush=True)
try:
    while True:
        line.beat()
        line.before_write("more", destructive=False)
        time.sleep(0.01)
except Fenced as exc:
    with open(done, "w") as out:
        out.write(exc.what)
"""


def test_an_orphaned_worker_writes_nothing(ledger: Ledger, url: str, node: str, tmp_path: Path) -> None:
    done = tmp_path / "done"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    main = subprocess.Popen(
        [sys.executable, "-c", ORPHAN, url, node, str(done)], stdout=subprocess.PIPE, env=environment
    )
    assert main.stdout is not None
    main.stdout.readline()  # the worker has written once
    main.kill()
    main.wait()
    deadline = time.monotonic() + 10
    while not done.exists() or not done.read_text():
        assert time.monotonic() < deadline, "the worker goes on without its run"
    main.stdout.close()
    assert "gone" in done.read_text()
    assert take(ledger, node, this_run(os.getpid())).fencing == 2, "and its lease is free at once"
