# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes in service with a BMC and a scheduler each, and no machine: for whole playbooks that leave or take them."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import ssl
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._deployment import digest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import Moment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from fake_bmc.redfish_server import PASSWORD, USER, FakeBmc
from suite import playbook
from unit.scheduler import slurm_commands

CHECKOUT = Path(__file__).resolve().parents[3]
PLAYBOOKS = CHECKOUT / "playbooks"


class Nodes:
    """gpu001 and so on: admitted in the ledger, idle in Slurm; no SSH server answers at their address."""

    def __init__(self, folder: Path, bmcs: Mapping[str, FakeBmc]) -> None:
        self.folder, self.bmcs = folder, bmcs
        self.ledger = folder / "ledger.sqlite"
        self.url = f"sqlite:///{self.ledger}"
        self.hosts: dict[str, dict[str, Any]] = {}
        #: Of each module of ours, the options that every task of a playbook has.
        self.options: dict[str, dict[str, Any]] = {}
        #: What Ansible is told besides, by its environment.
        self.settings: dict[str, str] = {}
        self.output = ""
        with Ledger(self.url) as ledger:
            for name, bmc in bmcs.items():
                serial = bmc.vendor["system"]["SerialNumber"]
                node = ledger.identify(name, aliases=[("serial", serial)])
                told = [Event("state", "enrolled"), Event("state", "imaging", {"deploy_id": f"d-{name}"})]
                *_before, imaged = ledger.append("r1", [(node, event) for event in told])
                ledger.append("r1", [(node, proven(f"d-{name}", imaged)), (node, Event("state", "admitted"))])
                self.hosts[name] = {
                    "gpufleet_serial": serial, "gpufleet_scheduler_node": name, "gpufleet_bmc_address": bmc.url,
                }  # fmt: skip
        self.shared: dict[str, Any] = {
            "ansible_host": "127.0.0.250", "ansible_port": 9, "ansible_python_interpreter": sys.executable,
            "gpufleet_ledger_url": self.url, "gpufleet_scheduler": "slurm", "gpufleet_sku": "h100-sxm-8",
            "gpufleet_bmc_protocol": "redfish", "gpufleet_bmc_username": USER, "gpufleet_bmc_password": PASSWORD,
        }  # fmt: skip
        idle = {"state": "IDLE", "reason": "", "by": ""}
        self.world = slurm_commands.install(folder, nodes={name: dict(idle) for name in bmcs})

    def scheduler(self, name: str, **change: str) -> str:
        """The node's state and reason there, once it was changed."""
        world = json.loads(self.world.read_text(encoding="utf-8"))
        world["nodes"][name].update(change)
        self.world.write_text(json.dumps(world), encoding="utf-8")
        return " ".join(filter(None, (world["nodes"][name]["state"], world["nodes"][name]["reason"])))

    def book(self, name: str, *flags: str, ok: bool) -> str:
        """A shipped playbook over these nodes; what it printed, as one line."""
        plays = yaml.safe_load((PLAYBOOKS / f"{name}.yml").read_text(encoding="utf-8"))
        return self.plays(plays, *flags, ok=ok)

    def plays(self, plays: list[dict[str, Any]], *flags: str, ok: bool) -> str:
        for play in plays:
            play["module_defaults"] = {f"gpufleet.baremetal.{verb}": given for verb, given in self.options.items()}
        (self.folder / "plays.yml").write_text(yaml.safe_dump(plays, sort_keys=False), encoding="utf-8")
        inventory = {"all": {"hosts": self.hosts, "vars": self.shared}}
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
        env = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "SLURM_"))},
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "collections"),
            "ANSIBLE_ACTION_PLUGINS": str(CHECKOUT / "tests" / "contract" / "action"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "home"), "XDG_STATE_HOME": str(self.folder / "state"),
            **self.settings,
        }  # fmt: skip
        done = playbook.run(["-i", "hosts.yml", "plays.yml", *flags], cwd=self.folder, env=env)
        self.output = done.stdout + done.stderr
        assert (done.returncode == 0) == ok, self.output[-6000:]
        return " ".join(self.output.replace("\\n", " ").replace("\\", " ").split())

    def events(self, name: str, kind: str) -> list[tuple[str, dict[str, Any]]]:
        """Of this node, since it was admitted."""
        asked = "SELECT events.name, data FROM events JOIN nodes USING (node_id) WHERE run_id != 'r1'"
        with contextlib.closing(sqlite3.connect(self.ledger)) as ledger:
            rows = ledger.execute(f"{asked} AND nodes.name = ? AND kind = ? ORDER BY id", (name, kind))
            return [(what, json.loads(data)) for what, data in rows]

    def artifacts(self) -> dict[str, Any]:
        """What the last playbook has left for other jobs; settings is to ask for it."""
        _before, _words, told = self.output.partition("CUSTOM STATS:")
        return dict(json.loads(told.partition("RUN: ")[2])) if told else {}

    def node_id(self, name: str) -> str:
        with contextlib.closing(sqlite3.connect(self.ledger)) as ledger:
            return str(ledger.execute("SELECT node_id FROM nodes WHERE name = ?", (name,)).fetchone()[0])

    def states(self, name: str) -> list[str]:
        return [state for state, _data in self.events(name, "state")]


def proven(deploy_id: str, imaged: int) -> Event:
    """A look at the node, after this event, that has found this deployment there."""
    found = {"id": "deployment", "verdict": "pass", "wanted": digest(deploy_id), "measured": f"user data: {deploy_id}"}
    return Event("verdict", "image_verify", {"verdict": "pass", "checks": [found], **Moment(imaged).as_data()})


@contextlib.contextmanager
def in_service(folder: Path, count: int = 1, *, context: Optional[ssl.SSLContext] = None) -> Iterator[Nodes]:
    with contextlib.ExitStack() as stack:
        bmcs = {}
        for number in range(1, count + 1):
            bmc = stack.enter_context(FakeBmc("plain", context=context))
            its = {"SerialNumber": f"SN000{number}", "UUID": f"5ac00000-0000-4000-8000-00000000000{number}"}
            bmc.vendor = {**bmc.vendor, "system": {**bmc.vendor["system"], **its}}
            bmcs[f"gpu00{number}"] = bmc
        yield Nodes(folder, bmcs)
