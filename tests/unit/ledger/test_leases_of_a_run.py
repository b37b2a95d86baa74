# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the leases of a run live: renewed in time, taken in one order, not held again once lost, and by one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import LeaseLost
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease, lifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder, process_start, this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifeline import LedgerLifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

HOSTS = ("gpu001", "gpu002", "gpu003", "gpu004")


@pytest.fixture
def ids(ledger: Ledger) -> dict[str, str]:
    return {host: ledger.identify(host, aliases=[("serial", f"SN-{host}")]) for host in HOSTS}


def line(ledger: Ledger, ids: dict[str, str], holder: Holder) -> LedgerLifeline:
    return LedgerLifeline(
        lambda: ledger, holder, verb="node_wait", intent={}, identify=ids.__getitem__, default_node=HOSTS[0], batch=True
    )


def test_t1_a_lease_outlives_two_renewals_that_did_not_come() -> None:
    """Of the values that ship: one turn that is late and one that failed end no lease."""
    assert 3 * lifeline._RENEW_SECONDS <= lease.LEASE_SECONDS
    assert lifeline._FRESH_SECONDS < lifeline._RENEW_SECONDS


def test_c6_whoever_waits_is_told_once_that_nobody_renews_its_leases(
    ledger: Ledger, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread beside hangs in a ledger that fell silent; the wait itself goes on, since it writes nothing."""
    said: list[str] = []
    now = lifeline.time.monotonic()
    monkeypatch.setattr(lifeline.time, "monotonic", lambda: now)
    mine = LedgerLifeline(
        lambda: ledger, this_run(os.getpid()), verb="node_wait", intent={}, identify=ids.__getitem__,
        default_node=HOSTS[0], batch=True, say=said.append,
    )  # fmt: skip
    began = now
    monkeypatch.setattr(mine, "_beside", True)
    mine.beat()
    mine.hold_each(HOSTS)
    for age, lines in ((39, 0), (41, 1), (50, 1)):
        now = began + age
        mine.beat()
        assert len(said) == lines, age
    assert "renewed 41 s ago" in said[0] and "ledger does not answer" in said[0]
    assert mine.confirm() == {}
    mine.beat()
    now += 41
    mine.beat()
    assert len(said) == 2, "it fell silent again"
    assert lifeline._OVERDUE_SECONDS < lease.LEASE_SECONDS


@pytest.mark.parametrize("ascending", [True, False])
def test_t1_leases_are_taken_in_one_order_whatever_the_order_of_the_hosts(
    ledger: Ledger, ids: dict[str, str], ascending: bool
) -> None:
    """Two batches that take the same nodes the other way round would wait for each other for ever."""
    named = sorted(HOSTS, key=ids.__getitem__, reverse=not ascending)
    line(ledger, ids, this_run(os.getpid())).hold_each(named)
    taken = [row["node_id"] for row in ledger._rows("SELECT node_id FROM lease_log ORDER BY id")]
    assert taken == sorted(ids.values())


def test_t1_a_write_that_has_waited_asks_for_its_lease_once_more(
    ledger: Ledger, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of many, and those before it took a while."""
    here, now = this_run(os.getpid()), lifeline.time.monotonic()
    monkeypatch.setattr(lifeline.time, "monotonic", lambda: now)
    mine = line(ledger, ids, here)
    mine.before_write("a write", destructive=False)
    with ledger.transaction() as conn:
        conn.exec_driver_sql("UPDATE leases SET expires = 1")
        lease.take_in(conn, ledger, ids["gpu001"], replace(here, run_id="theirs", host="elsewhere#1"), node="gpu001")
    now += 6
    with pytest.raises(LeaseLost, match="gpu001"):
        mine.still()


def test_t1_a_node_that_was_lost_is_not_held_again(ledger: Ledger, ids: dict[str, str]) -> None:
    """Nor does the wait for its turn begin, which could take minutes for nothing."""
    here = this_run(os.getpid())
    mine = line(ledger, ids, here)
    assert mine.hold_each(HOSTS) == {}
    theirs = replace(here, run_id="theirs", host="elsewhere#1")
    with ledger.transaction() as conn:
        conn.exec_driver_sql("UPDATE leases SET expires = 1")
        lease.take_in(conn, ledger, ids["gpu002"], theirs, node="gpu002")
    assert list(mine.confirm()) == ["gpu002"]
    with pytest.raises(LeaseLost, match="gpu002"):
        mine.hold(("gpu002",))
    mine.hold(("gpu001", "gpu003"))


def test_t1_a_process_of_the_same_number_is_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers are given out again; a run that lost its lease must never come by it as its own successor."""
    pid = os.getpid()
    for job in ("", "job-7"):
        monkeypatch.setenv("GPUFLEET_RUN_ID", job)
        assert this_run(pid).run_id.endswith(f"-{pid}-{process_start(pid)}")
        assert this_run(1).run_id != this_run(pid).run_id
    assert process_start(pid) > 0


UNSEEN = """
import json, os, sys
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder, process_start, this_run
here = this_run(os.getpid())
os.setgroups([])
os.setgid(65534)
os.setuid(65534)  # of this Python it need not read any more
asked = [(int(sys.argv[1]), 7), (2**22 + 1, 7), (2**70, 7), (here.pid, here.pid_start), (here.pid, 7)]
dead = [Holder("r", here.host, pid, start, here.boot_id).provably_dead_here(here) for pid, start in asked]
print(json.dumps([process_start(asked[0][0]), *dead]))
"""


@pytest.mark.needs_root
def test_w9_a_run_of_another_boot_under_this_hosts_name_is_not_called_dead() -> None:
    """Two controllers that were cloned have one name and one machine id, and both run."""
    here = this_run(os.getpid())
    gone = replace(here, pid=2**30, pid_start=1)
    assert gone.provably_dead_here(here) and not replace(gone, boot_id="another").provably_dead_here(here)


def test_w9_a_live_run_that_this_user_may_not_see_is_not_dead() -> None:
    """With hidepid ``/proc`` tells a user nothing of another one's processes: not that there is none."""
    script = 'set -e; mount -t proc -o hidepid=2 proc /proc; sleep 600 & exec "$0" -c "$1" $!'
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, sys.executable, UNSEEN],
        capture_output=True, check=False, text=True,
        env={"PYTHONPATH": os.environ["PYTHONPATH"], "PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [0, False, True, True, False, True]


NO_PROC = """
import os
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import is_hidden, process_start
print(process_start(os.getpid()), is_hidden(os.getpid()), is_hidden(2**22 + 1))
"""


@pytest.mark.needs_root
def test_w9_a_process_of_which_proc_tells_its_own_user_nothing_is_not_dead() -> None:
    """Where ``/proc`` is not mounted, or hides what may not be traced; the process takes signals all the same."""
    script = 'mount -t tmpfs none /proc && exec "$0" -c "$1"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, sys.executable, NO_PROC],
        capture_output=True, check=False, text=True,
        env={"PYTHONPATH": os.environ["PYTHONPATH"], "PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.stdout.split() == ["0", "True", "False"], done.stderr
