# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run keeps its leases between its tasks, through ansible-playbook itself, with leases of five seconds."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import LeaseHeld
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _run_ends as run_ends
from contract.permit.rig import FORK

HERE = Path(__file__).resolve().parent
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
HOSTS = ("gpu001", "gpu002")
TAKES = {"gpufleet.baremetal.ledger_event": {"state": "enrolled"}}
NOTES = {"gpufleet.baremetal.ledger_event": {"state": "imaging"}}
#: A task of the user's own, which takes no lease and lasts until the test has seen enough.
LASTS = {
    "ansible.builtin.command": {"cmd": "sh -c 'while ! test -e go; do sleep 0.05; done'", "chdir": "{{ playbook_dir }}"}
}


class Run:
    """A play in the background, and what its ledger shows of its leases."""

    def __init__(self, folder: Path, *tasks: Mapping[str, Any]) -> None:
        self.folder = folder
        url = f"sqlite:///{folder}/ledger.sqlite"
        hosts = {
            host: {
                "gpufleet_serial": f"S-{host}",
                "ansible_connection": "local",
                "ansible_python_interpreter": sys.executable,
            }
            for host in HOSTS
        }
        (folder / "hosts.yml").write_text(
            yaml.safe_dump({"all": {"hosts": hosts, "vars": {"gpufleet_ledger_url": url}}})
        )
        play = {"hosts": "all", "gather_facts": False, "tasks": list(tasks)}
        (folder / "play.yml").write_text(yaml.safe_dump([play]))
        env = {
            **os.environ, "ANSIBLE_COLLECTIONS_PATH": str(HERE.parents[2] / "build" / "collections"),
            "ANSIBLE_LOCAL_TEMP": str(folder / "home"), "ANSIBLE_CALLBACK_PLUGINS": str(HERE / "callback"),
            "ANSIBLE_CALLBACKS_ENABLED": "short_leases", "ANSIBLE_FORKS": "1",
        }  # fmt: skip
        argv = [str(PLAYBOOK), "-i", "hosts.yml", "play.yml"]
        self.process = subprocess.Popen(
            argv, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def leases(self) -> list[tuple[float, float, int]]:
        """Renewed, expires and fencing number."""
        if not (self.folder / "ledger.sqlite").exists():
            return []
        with closing(sqlite3.connect(self.folder / "ledger.sqlite")) as ledger:
            try:
                return list(ledger.execute("SELECT renewed, expires, fencing FROM leases ORDER BY node_id"))
            except sqlite3.OperationalError:
                return []

    def until(self, seen: Any, wanted: str, *, killed: bool = False) -> None:
        """It comes while the play runs, however slow the machine; a play that has ended tells why it never will."""

        def come() -> bool:
            if seen(self.leases()):
                return True
            assert killed or self.process.poll() is None, f"{wanted}: {self.told()}"
            return False

        wait_until(come, bool, timeout=120.0, interval=0.05, wanted=wanted)

    def told(self) -> str:
        text, _nothing = self.process.communicate(timeout=30)
        return f"ended with {self.process.returncode}\n{text}"

    def go(self) -> tuple[int, str]:
        (self.folder / "go").touch()
        text, _nothing = self.process.communicate(timeout=120)
        return self.process.returncode, text


@contextmanager
def run(folder: Path, *tasks: Mapping[str, Any]) -> Iterator[Run]:
    made = Run(folder, *tasks)
    try:
        yield made
    finally:
        (folder / "go").touch()
        made.process.kill()
        made.process.wait(30)


def taken(folder: Path, host: str) -> lease.Lease:
    theirs = replace(this_run(os.getpid()), run_id="theirs", host="elsewhere#1")
    with Ledger(f"sqlite:///{folder}/ledger.sqlite") as ledger, ledger.transaction() as conn:
        node = ledger.identify(host, aliases=[("serial", f"S-{host}")], create=False)
        return lease.take_in(conn, ledger, node, theirs)


@pytest.mark.slow
def test_j5_a_long_task_that_takes_no_lease_loses_none(tmp_path: Path) -> None:
    """One of them is taken away by hand: that host alone is out."""
    with run(tmp_path, TAKES, LASTS, NOTES) as made:
        made.until(lambda rows: len(rows) == 2, "both nodes leased")
        first = time.time()
        made.until(lambda rows: min(row[0] for row in rows) > first + 6.0, "leases that outlive their five seconds")
        with pytest.raises(LeaseHeld):
            taken(tmp_path, "gpu001")
        with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger, ledger.transaction() as conn:
            node = ledger.identify("gpu002", aliases=[("serial", "S-gpu002")], create=False)
            conn.exec_driver_sql(f"UPDATE leases SET expires = 1 WHERE node_id = '{node}'")
        assert taken(tmp_path, "gpu002").fencing == 2
        code, text = made.go()
    assert code == 2 and "gpu001" in text and "another run works on this node: theirs" in text, text
    assert "gpu001                     : ok=3" in text and "gpu002                     : ok=2" in text, text
    assert sorted(row[2] for row in made.leases()) == [1, 2], "and the one that was taken stays taken"


@pytest.mark.slow
def test_j5_the_leases_of_a_run_that_was_stopped_or_killed_expire(tmp_path: Path) -> None:
    with run(tmp_path, TAKES, LASTS, NOTES) as made:
        made.until(lambda rows: len(rows) == 2, "both nodes leased")
        made.process.send_signal(signal.SIGSTOP)
        made.until(lambda rows: max(row[1] for row in rows) < time.time(), "leases that nobody renews")
        assert taken(tmp_path, "gpu001").fencing == 2
        made.process.send_signal(signal.SIGCONT)
        code, text = made.go()
        assert code == 2 and "another run works on this node: theirs" in text, text
    (tmp_path / "killed").mkdir()
    with run(tmp_path / "killed", TAKES, LASTS) as made:
        made.until(lambda rows: len(rows) == 2, "both nodes leased")
        made.process.kill()
        made.until(lambda rows: max(row[1] for row in rows) < time.time(), "leases that nobody renews", killed=True)


def test_j5_a_lease_that_has_expired_is_not_brought_back(tmp_path: Path) -> None:
    """Its node may have been somebody else's since, who has ended."""
    ours = this_run(os.getpid())
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
        nodes = [ledger.identify(host, aliases=[("serial", f"S-{host}")]) for host in HOSTS]
        with ledger.transaction() as conn:
            for node in nodes:
                lease.take_in(conn, ledger, node, ours)
            conn.exec_driver_sql(f"UPDATE leases SET expires = renewed - 1 WHERE node_id = '{nodes[0]}'")
            conn.exec_driver_sql(f"UPDATE leases SET expires = renewed + 1 WHERE node_id = '{nodes[1]}'")
        lease.renew_all(ledger, replace(ours, run_id="another"))
        assert all(row["expires"] <= row["renewed"] + 1 for row in lease.holders(ledger, nodes).values())
        lease.renew_all(ledger, ours)
        held = lease.holders(ledger, nodes)
        assert held[nodes[0]]["expires"] < held[nodes[0]]["renewed"] < held[nodes[1]]["expires"] - 30


#: Another process, which has the file locked until it is told.
LOCKS = """
import sqlite3, sys
ledger = sqlite3.connect(sys.argv[1], isolation_level=None)
ledger.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
ledger.execute("COMMIT")
ledger.close()
"""


def opened(file: Path) -> list[str]:
    """What this process has open of that ledger."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [name for name in found if name.startswith(str(file))]


def another(file: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", LOCKS, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline()
    return process


def beats_beside_another(file: Path, node: str, tells: Any) -> None:
    """The main process of a run: it forks a worker while its beat meets a locked file."""
    warnings.simplefilter("ignore")  # Python's own, of a fork beside threads
    run = this_run(os.getpid())
    with Ledger(f"sqlite:///{file}") as ledger, ledger.transaction() as conn:
        lease.take_in(conn, ledger, node, run)
        conn.exec_driver_sql("UPDATE leases SET expires = renewed + 30")
    locker = another(file)
    run_ends.watch()
    run_ends._URLS.append(f"sqlite:///{file}")
    run_ends.keep(os.getpid())
    wait_until(lambda: opened(file), bool, timeout=20.0, interval=0.001, wanted="a beat")
    goes, go = FORK.Pipe(duplex=False)
    worker = FORK.Process(target=works_beside_another, args=(file, node, goes, run.run_id, tells), daemon=True)
    worker.start()
    locker.communicate(b"\n", timeout=30)
    wait_until(lambda: held_for(file), lambda seconds: seconds > 31, timeout=10.0, interval=0.05, wanted="another beat")
    wait_until(lambda: opened(file), lambda found: not found, timeout=20.0, interval=0.01, wanted="its end")
    go.send("")
    worker.join(60)
    os._exit(0)


def held_for(file: Path) -> float:
    with closing(sqlite3.connect(file)) as ledger:
        return float(ledger.execute("SELECT expires - renewed FROM leases").fetchone()[0])


def works_beside_another(file: Path, node: str, goes: Any, run_id: str, tells: Any) -> None:
    """A worker: between its two writes another process is the last one that closes the file, by what it can see."""
    inherited = opened(file)
    goes.recv()
    with Ledger(f"sqlite:///{file}") as ledger:
        for name in ("before", "after"):
            ledger.append(run_id, [(node, Event("note", name, {}))])
            another(file).communicate(b"\n", timeout=30)
    tells.send(inherited)
    os._exit(0)


def test_j5_what_a_worker_writes_is_kept_that_was_forked_while_the_file_was_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take the lock of the beat for its own and hold none; the next one that closes the file removes its
    journal, and what it commits from then on nobody else ever sees: not its leases, and not its intents."""
    monkeypatch.setattr(run_ends, "_FORK_SECONDS", 0.01)
    file = tmp_path / "ledger.sqlite"
    with Ledger(f"sqlite:///{file}") as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "S-gpu001")])
    told, tells = FORK.Pipe(duplex=False)
    main = FORK.Process(target=beats_beside_another, args=(file, node, tells))
    main.start()
    try:
        assert told.poll(90), "the worker is through"
    finally:
        main.kill()
        main.join(30)
    with Ledger(f"sqlite:///{file}") as ledger:
        assert [event["name"] for event in ledger.history(node, kinds=["note"])] == ["before", "after"]
    assert told.recv() == [], "no connection was open when it was forked"


def test_j5_nothing_is_forked_while_a_beat_asks_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it holds then would be locked in the fork for ever; and a server that is silent stops no run."""
    monkeypatch.setattr(run_ends, "_FORK_SECONDS", 0.01)
    got: list[bool] = []
    run_ends._before_a_fork()
    try:
        got.append(run_ends._asks.acquire(blocking=False))
    finally:
        run_ends._after_a_fork()
    assert got == [False] and run_ends._asks.acquire(blocking=False)
    try:
        run_ends._before_a_fork()
        run_ends._after_a_fork()
        assert run_ends._asks.locked(), "it is not the fork's to give back"
    finally:
        run_ends._asks.release()
