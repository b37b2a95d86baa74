# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A controller whose tasks run as Ansible runs them: each in a worker of its own, forked from one run.

Their ledger is a real one; Slurm's commands work over a file, and each host's BMC is a server.
"""

from __future__ import annotations

import base64
import json
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.action import (
    bmc_info,
    ledger_event,
    pxe_boot,
    redfish_power,
    scheduler_node,
    scheduler_wait,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._for_all import verdict
from fake_bmc.redfish_server import PASSWORD, USER, FakeBmc
from suite import events
from unit.plugins.doors import Door
from unit.scheduler.slurm_commands import install

FORK = multiprocessing.get_context("fork")
IDLE = {"state": "IDLE", "reason": "", "by": ""}
#: What the ledger has of gpu001 that was adopted as the scheduler's node of that name.
ADOPTED = {"adopted": True, "scheduler_node": "gpu001", "machine_name": "gpu001"}
_VERBS = (bmc_info, ledger_event, pxe_boot, redfish_power, scheduler_node, scheduler_wait)
ACTIONS = {one.ActionModule.NAME: one.ActionModule for one in _VERBS}


def sent(args: Mapping[str, Any], *, module: str) -> dict[str, Any]:
    """What the module says that is a process of its own."""
    given = {key: value for key, value in args.items() if value is not None}
    done = subprocess.run(
        [sys.executable, "-m", module], input=json.dumps({"ANSIBLE_MODULE_ARGS": {**given, "_ansible_no_log": False}}),
        env={**os.environ, "_ANSIBLE_PROFILE": "legacy"}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


class Controller:
    """One run over some hosts, which Slurm knows as idle nodes."""

    def __init__(self, folder: Path, bmcs: Mapping[str, FakeBmc], known: bool = True, **world: Any) -> None:
        self.folder = folder
        self.bmcs = bmcs
        nodes = {host: {"state": "IDLE", "reason": "", "by": ""} for host in bmcs}
        #: The play's module_defaults, by the name of a module of ours.
        self.defaults: dict[str, dict[str, Any]] = {}
        #: Do they run in check mode?
        self.checks = False
        self._now = time.time
        self._clock = folder / "ahead"
        self.later(0)
        self.slurm = install(folder, **{"nodes": nodes, **world})
        self.hosts: dict[str, dict[str, Any]] = {
            host: {
                "gpufleet_serial": f"S-{host}", "gpufleet_scheduler": "slurm", "gpufleet_scheduler_node": host,
                "gpufleet_bmc_protocol": "redfish", "gpufleet_bmc_address": bmc.url, "gpufleet_bmc_username": USER,
                "gpufleet_bmc_password": PASSWORD, "ansible_connection": "local",
            }
            for host, bmc in bmcs.items()
        }  # fmt: skip
        for host in bmcs if known else ():
            events.known(folder / "ledger.sqlite", host, f"S-{host}")

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def run(self, verb: str, host: str = "gpu001", *, action: Any = None, **args: Any) -> dict[str, Any]:
        """The result of a task of this host; empty where its worker was killed."""
        told, tells = FORK.Pipe(duplex=False)
        worker = FORK.Process(target=self._work, args=(tells, action or ACTIONS[verb], host, args))
        worker.start()
        tells.close()
        try:
            result: dict[str, Any] = told.recv()
        except EOFError:
            result = {}
        worker.join(60)
        assert worker.exitcode == (0 if result else -signal.SIGKILL), worker.exitcode
        return result

    def _work(self, tells: Any, action: Any, host: str, args: Mapping[str, Any]) -> None:
        now = self._now
        time.time = lambda: now() + float(self._clock.read_text(encoding="ascii"))
        batch = {"ansible_play_hosts": list(self.hosts), "ansible_play_batch": list(self.hosts)}
        own = {**self.hosts[host], **batch, "inventory_hostname": host}
        door = self.door(action, args, hostvars=self.hosts, check_mode=self.checks, **own)
        door.task.run_once = bool(args.get("batch"))
        door.task.module_defaults = [{f"gpufleet.baremetal.{verb}": given for verb, given in self.defaults.items()}]
        tells.send(door.run())

    def of_all(self, verb: str, **args: Any) -> dict[str, dict[str, Any]]:
        """The verdicts of one task for all hosts; empty where its worker was killed. A leave is given to each."""
        if "force_reason" in args:
            for own in self.hosts.values():
                own["its_leave"] = args["force_reason"]
            args = {**args, "force_reason": None, "each": {"force_reason": "its_leave"}}
        done = self.run(verb, next(iter(self.hosts)), batch=True, **args)
        assert not done.get("failed"), done
        return dict(done.get("verdicts") or {})

    def of_each(self, verb: str, **args: Any) -> dict[str, dict[str, Any]]:
        """The same, of a task of each host's own."""
        return {host: verdict(self.run(verb, host, **args)) for host in self.hosts}

    def door(self, action: Any, args: Mapping[str, Any], **more: Any) -> Door:
        return Door(self.folder, action.verb, base=action, name=action.NAME, own_spec=action.SPEC, args=args, **more)

    def hold(self, host: str = "gpu001") -> None:
        """Held and drained, as the roles hold and drain do it."""
        held = self.run("scheduler_node", host, state="held", why="reimage")
        assert held.get("state") == "drained", held

    def power(self, host: str = "gpu001", **more: Any) -> dict[str, Any]:
        return self.run("redfish_power", host, state="force_off", timeout=60.0, **more)

    # -- what happens beside it ----------------------------------------------------------------------------------------

    def later(self, seconds: float) -> str:
        """From now on it is so much later for the tasks; the same in words, for a program that runs beside them."""
        self._clock.write_text(str(seconds), encoding="ascii")
        return f"import pathlib; pathlib.Path({str(self._clock)!r}).write_text('{seconds + 100}')"

    def stands_still(self) -> None:
        """From now on no time passes for the tasks, however slow this machine is, but what ``later`` says."""
        at = time.time()
        self._now = lambda: at

    def kill_after(self, words: str) -> None:
        """From now on the worker dies right after Slurm has done what these words ask for."""
        script = self.folder / "bin" / "scontrol"
        text = script.read_text(encoding="utf-8")
        command = text.splitlines()[1].removeprefix("exec ")
        script.write_text(f'#!/bin/sh\n{command}\ncase "$*" in *"{words}"*) kill -9 $PPID;; esac\n', encoding="utf-8")

    def meanwhile(self, words: str, program: str) -> None:
        """From now on this program runs while Slurm answers what begins with these words; once."""
        script = self.folder / "bin" / "scontrol"
        text = script.read_text(encoding="utf-8")
        (self.folder / "meanwhile.py").write_text(program, encoding="utf-8")
        once = f"mv {self.folder}/meanwhile.py {self.folder}/done.py && {sys.executable} {self.folder}/done.py"
        script.write_text(text.replace("exec", f'case "$*" in *"{words}"*) {once};; esac\nexec'), encoding="utf-8")

    def node(self, host: str = "gpu001", **change: Any) -> dict[str, Any]:
        """The scheduler's own books; a person changes them."""
        world = json.loads(self.slurm.read_text(encoding="utf-8"))
        world["nodes"].setdefault(host, {}).update(change)
        self.slurm.write_text(json.dumps(world), encoding="utf-8")
        found: dict[str, Any] = world["nodes"][host]
        return found

    def jobs(self, jobs: list[dict[str, str]]) -> None:
        world = json.loads(self.slurm.read_text(encoding="utf-8"))
        self.slurm.write_text(json.dumps({**world, "jobs": jobs}), encoding="utf-8")

    def away(self) -> None:
        """slurmctld answers nobody any more."""
        script = self.folder / "bin" / "scontrol"
        told = "slurm_load_node error: Unable to contact slurm controller (connect failure)"
        script.write_text(f"#!/bin/sh\necho '{told}' >&2\nexit 1\n", encoding="utf-8")

    def restarts(self, *, after: str = "") -> None:
        """slurmctld has no answer to the next question, and then it is back.

        :param after: the name of a file; it is silent to that question until this file is there.
        """
        script = self.folder / "bin" / "scontrol"
        good = script.rename(script.with_name("scontrol.real"))
        self.away()
        told = script.read_text(encoding="utf-8").partition("\n")[2]
        waits = f"for n in $(seq 1200); do [ -e {self.folder / after} ] && break; sleep 0.05; done\n" if after else ""
        asked = f'#!/bin/sh\nmkdir {good}.asked 2>/dev/null || exec {good} "$@"\n'
        script.write_text(f"{asked}{waits}{told}", encoding="utf-8")
        script.chmod(0o755)

    def asked(self, *words: str) -> list[list[str]]:
        """The calls of Slurm's commands that begin so."""
        calls = json.loads(self.slurm.read_text(encoding="utf-8"))["calls"]
        return [call for call in calls if call[: len(words)] == list(words)]

    def tells(self, host: str, kind: str, name: str, data: Mapping[str, Any] | None = None) -> None:
        """An earlier run has left this event."""
        with self._node_of(host) as (ledger, node):
            ledger.append("an earlier run", [(node, Event(kind, name, dict(data or {})))])

    def passport(self, host: str = "gpu001", expires: float = 9e6, looked: bool = True, of: str = "") -> None:
        """of: the deployment that it names."""
        predicate = {"deployment": {"id": of}} if of else {}
        payload = base64.b64encode(json.dumps({"predicate": predicate}).encode()).decode()
        with self._node_of(host) as (ledger, node):
            envelope = {"payload": payload, "payloadType": "application/vnd.in-toto+json", "signatures": []}
            now = ledger.now()
            about = {"issued": now, "expires": now + expires, "digest": "sha256:1", "envelope": envelope}
            ledger.save_passport("an earlier run", node, **about)
        if looked:
            self.look(host)

    def look(self, host: str = "gpu001", passport: str = "sha256:1", run: str = "an earlier run", **more: Any) -> None:
        """The node runs the boot of this passport still."""
        with self._node_of(host) as (ledger, node):
            ledger.append(run, [(node, Event("look", "last", {"passport": passport, **more}))])

    def proves(self, host: str = "gpu001") -> None:
        """A look of this run has held the machine that answers against its BMC."""
        with self._node_of(host) as (ledger, node):
            seen = {"checks": [{"id": "machine", "verdict": "pass"}]}
            ledger.append(this_run(os.getpid()).run_id, [(node, Event("verdict", "image_verify", seen))])

    def taken(self, host: str = "gpu001") -> None:
        """Another run has the node from now on."""
        with self._node_of(host) as (ledger, node), ledger.transaction() as conn:
            conn.exec_driver_sql("UPDATE leases SET expires = 1")
            lease.take_in(conn, ledger, node, replace(this_run(os.getpid()), run_id="theirs", host="elsewhere#1"))

    @contextmanager
    def _node_of(self, host: str) -> Iterator[tuple[Ledger, str]]:
        with Ledger(f"sqlite:///{self.folder}/ledger.sqlite") as ledger:
            yield ledger, ledger.identify(host, aliases=[("serial", str(self.hosts[host]["gpufleet_serial"]))])

    def writer(self, host: str = "gpu001") -> str:
        """The run that last announced a write on the node."""
        with self._node_of(host) as (ledger, node):
            return str(ledger.history(node, kinds=["intent"])[-1]["run_id"])

    def data(self, kind: str, host: str = "gpu001") -> list[str]:
        """What the events of a kind say, as it is written."""
        with self._node_of(host) as (ledger, node):
            return [json.dumps(event["data"]) for event in ledger.history(node, kinds=[kind])]

    def events(self, kind: str, host: str = "gpu001") -> list[str]:
        with sqlite3.connect(self.folder / "ledger.sqlite") as ledger:
            rows = ledger.execute(
                "SELECT events.name FROM events JOIN nodes USING (node_id) WHERE kind = ? AND nodes.name = ?"
                " AND run_id != ? ORDER BY id",
                (kind, host, events.BEFORE),
            )
            return [name for (name,) in rows]

    def switched(self, host: str = "gpu001") -> bool:
        return bool(self.bmcs[host].writes)
