# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Three hundred hosts: five forks, writes of 2.5 s and deploys of twenty minutes, by a clock that the tests drive."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible_collections.gpufleet.baremetal.plugins.action import provisioner_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FLEET, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._image import declaration
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import registry
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.cells import DONE, WAIT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction
from contract.permit.rig import Controller
from unit.plugins.doors import hostvars
from unit.provisioner.memory import STATES, Memory, forget

pytestmark = pytest.mark.slow

HOSTS = tuple(f"gpu{number:03d}" for number in range(300))
FORKS, WRITE, DEPLOY = 5, 2.5, 1200.0
IMAGE = {"name": "gold", "version": "1", "named": "gold-1", "sha256": "a" * 64, "url": "http://127.0.0.1:9/gold"}


class Fleet(Controller):
    """As an earlier stage of the same run leaves it: each node held by it, and drained."""

    def __init__(self, folder: Path) -> None:
        self.clock = 0.0
        held = {"state": "IDLE+DRAIN", "reason": "", "by": "root"}
        super().__init__(folder, {}, nodes={host: {**held, "reason": f"gpufleet:r1:{host}"} for host in HOSTS})
        self.hosts = {
            host: {
                "gpufleet_serial": f"S-{host}", "gpufleet_scheduler": "slurm", "gpufleet_scheduler_node": host,
                "gpufleet_ledger_url": f"sqlite:///{folder}/ledger.sqlite", "gpufleet_image": IMAGE,
                "gpufleet_boot_mac": f"52:54:00:00:{number >> 8:02x}:{number & 255:02x}",
            }
            for number, host in enumerate(HOSTS)
        }  # fmt: skip
        verified = {"verdict": "pass", "image": {"declared": declaration(IMAGE)}}
        with Ledger(f"sqlite:///{folder}/ledger.sqlite") as ledger:
            self.ids = {host: ledger.identify(host, aliases=[("serial", f"S-{host}")]) for host in HOSTS}
            run, told = this_run(os.getpid()).run_id, []
            for host, node in self.ids.items():
                token = Event("hold", "taken", {"hold_token": f"gpufleet:r1:{host}", "hold_author": "root"})
                told += [(node, Event("intent", "scheduler_node")), (node, token)]
            ledger.append("r1", told)
            ledger.append(run, [(node, Event("verdict", "image_artifact", verified)) for node in self.ids.values()])

    def passes(self, seconds: float) -> None:
        self.clock += seconds
        self.later(self.clock)

    def looks(self) -> int:
        """How often Slurm was asked for nodes."""
        return len(self.asked("scontrol", "--all", "-o", "show", "node"))

    def proofs(self) -> dict[str, list[str]]:
        with Ledger(f"sqlite:///{self.folder}/ledger.sqlite") as ledger:
            found = {host: ledger.history(node, kinds=["evidence"]) for host, node in self.ids.items()}
        return {host: [event["name"] for event in events] for host, events in found.items()}

    def holders(self) -> set[tuple[str, int]]:
        with Ledger(f"sqlite:///{self.folder}/ledger.sqlite") as ledger:
            held = lease.holders(ledger, list(self.ids.values()))
        return {(row["run_id"], row["fencing"]) for row in held.values()}


@pytest.fixture
def fleet(controller: Callable[..., Controller], tmp_path: Path) -> Fleet:
    """``controller`` puts Slurm's commands before all others."""
    return Fleet(tmp_path)


def wipe(params: Mapping[str, Any], ctx: Context) -> Result:
    """A verb of one destructive write."""
    return Result(changed=ctx.may_write("POST /wipe", destructive=True))


class Wipe(VerbAction):
    NAME = "wipe"
    SPEC = spec(FLEET)
    verb = staticmethod(wipe)


class Forked(Wipe):
    """What one of five forks does: every fifth host, one after the other, in one worker; the others do the same beside
    it, and a process for each task would cost more than all the rest."""

    site: Fleet

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        loader, done = DataLoader(), {}
        inventory = hostvars(loader, self.site.hosts)
        play = {"ansible_play_hosts": list(HOSTS), "ansible_play_batch": list(HOSTS), "inventory": inventory}
        for host in HOSTS[::FORKS]:
            own = {**self.site.hosts[host], **play, "inventory_hostname": host}
            done[host] = self.site.door(Wipe, {}, **own).run()
            self.site.passes(WRITE)
        return done


class Slow(Memory):
    """Each write takes 2.5 s, one after the other, and a deploy twenty minutes."""

    name = "slow"
    serial = False
    steps: ClassVar[Any] = {"deployed": {"new": "deploy", "going": WAIT, "active": DONE}}
    states_map: ClassVar[Any] = STATES
    site: ClassVar[Fleet]
    ready: ClassVar[dict[str, float]] = {}

    def states(self, ids: Sequence[str]) -> dict[str, c.NodeState]:
        if len(self.ready) == len(HOSTS):  # the controller has nothing to do meanwhile
            self.site.passes(DEPLOY)
        found = {host: self._native(host) for host in ids}
        return {host: c.NodeState(host, host, state, self.states_map[state]) for host, state in found.items()}

    def serials(self, node: c.NodeState, *, ask: bool) -> dict[str, str]:
        return {"record": f"S-{node.name}"}

    def _native(self, host: str) -> str:
        if host not in self.ready:
            return "new"
        return "active" if self.ready[host] <= self.site.clock else "going"

    def start(self, step: str, node: c.NodeState, wanted: Wanted) -> None:
        super().start(step, node, wanted)
        self.site.passes(WRITE)
        self.ready[wanted.host] = self.site.clock + DEPLOY


class Waits(provisioner_wait.ActionModule):
    SPEC: ClassVar[Any] = {**provisioner_wait.ActionModule.SPEC, "provisioner": {"type": "str"}}


def test_j2_a_batch_of_three_hundred_loses_nothing_and_is_refused_nothing(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deployed in one wait, whose last write comes twelve minutes after the proof, and wiped by tasks after that."""
    forget()
    monkeypatch.setitem(registry.DRIVERS, "slow", type("Driver", (Slow,), {"site": fleet, "ready": {}}))
    for own in fleet.hosts.values():
        own["gpufleet_provisioner"] = "slow"
    assert fleet.run("scheduler_wait", HOSTS[0], timeout=60.0)["not_ok"] == []
    done = fleet.run("provisioner_wait", HOSTS[0], action=Waits, until="deployed", timeout=600.0, interval=0.05)
    assert {host: one["reason"] for host, one in done["verdicts"].items() if not one["ok"]} == {}
    assert set(map(tuple, done["steps"].values())) == {("deploy",)} and len(done["steps"]) == len(HOSTS)
    looks, proofs = fleet.looks(), fleet.proofs()
    assert looks == max(map(len, proofs.values())) <= 2 + len(HOSTS) * WRITE / 60, "one question for all"
    wiped = fleet.run("wipe", HOSTS[0], action=type("Action", (Forked,), {"site": fleet}))
    assert {host for host, result in wiped.items() if not result.get("evidence", "").startswith("event:")} == set()
    assert fleet.looks() - looks <= 8, "one question serves those whose turn comes next"
    assert {name for names in fleet.proofs().values() for name in names} == {"drained"}
    assert len(fleet.holders()) == 1
