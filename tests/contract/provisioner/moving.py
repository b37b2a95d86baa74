# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node of ours at one provisioner, another provisioner beside it, and the playbook that moves the node."""

from __future__ import annotations

import itertools
import subprocess
import time
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from controller import DEPLOYED, READY, VERIFIED, Controller, wait
from suite import events, playbook

BOOK = "gpufleet.baremetal.migrate_provisioner"
#: Every word of either that goes by a network or a process that may be slow under load.
_MOMENT = 60.0


class _Unheard:
    """A site whose new nodes no other site has seen either: each of them counts for itself."""

    _numbers = itertools.count(1)

    def __init__(self, site: Any) -> None:
        self.image, self.extras, self.own_driver = site.image, site.extras, site.own_driver
        self._site = site

    def new(self) -> dict[str, Any]:
        number = next(self._numbers)
        mac = f"52:54:0a:00:{number >> 8:02x}:{number & 255:02x}"
        return {**self._site.new(), "name": f"moves{number:04d}", "boot_mac": mac, "serial": f"MV{number:05d}"}


class Move:
    def __init__(
        self, old: Any, new: Any, folder: Path, *, deploy: bool = False, scheduler: dict[str, str] | None = None
    ) -> None:
        """:param scheduler: variables of the scheduler that the node serves; without it, it serves none."""
        self.old, self.new, self.folder = old, new, folder
        self.controller = Controller(_Unheard(old), folder, 1)
        [(self.name, self.node)] = self.controller.nodes.items()
        self.inventory = folder / "hosts.yml"
        self.to = {"migrate_to": self.new.connection()}
        self._variables(
            **(scheduler or {"gpufleet_scheduler": "none"}), enroll_driver={old.name: old.extras, new.name: new.extras}
        )
        (folder / "to.yml").write_text(yaml.safe_dump(self.to), encoding="utf-8")
        self.controller.play(READY, wait("ready"))
        if deploy:
            self._deployed()
        with Ledger(f"sqlite:///{self.controller.ledger}") as ledger:
            node = ledger.identify(self.name, aliases=[("serial", self.node["serial"])])
            came = Event("state", "admitted", {"scheduler_node": (scheduler or {}).get("gpufleet_scheduler_node")})
            way = [came] if scheduler else [Event("state", state) for state in ("draining", "drained")]
            ledger.append("r1", [(node, event) for event in (Event("state", "enrolled"), *way)])
        self.forget()

    def _deployed(self) -> None:
        ways = [VERIFIED, DEPLOYED, wait("deployed")]
        verdicts = self.controller.play(*ways)[-1]["result"]["verdicts"]
        if verdicts[self.name]["step"] == "boot":
            self.old.boot(self.name)
            verdicts = self.controller.play(wait("deployed", booted=True))[-1]["result"]["verdicts"]
        assert verdicts[self.name]["ok"], verdicts

    def _variables(self, **more: Any) -> None:
        told = yaml.safe_load(self.inventory.read_text(encoding="utf-8"))
        told["all"]["vars"].update(more)
        self.inventory.write_text(yaml.safe_dump(told), encoding="utf-8")

    def says(self, **more: Any) -> None:
        """The host's row in the inventory."""
        told = yaml.safe_load(self.inventory.read_text(encoding="utf-8"))
        told["all"]["hosts"][self.name].update(more)
        self.inventory.write_text(yaml.safe_dump(told), encoding="utf-8")

    def forget(self) -> None:
        for site in (self.old, self.new):
            site.faults.forget()

    def writes(self) -> list[Any]:
        return [*self.old.faults.writes, *self.new.faults.writes]

    def argv(self, book: str, *more: str) -> list[str]:
        said = ["-e", f"@{self.folder / 'to.yml'}", "-e", "migrate_ask_bmc=false", "-e", "migrate_interval=0.3"]
        return ["-v", "--diff", "-i", str(self.inventory), book, *said, *more]

    def env(self) -> dict[str, str]:
        told = self.controller.environment()
        return {key: value for key, value in told.items() if key not in ("ANSIBLE_STDOUT_CALLBACK",)}

    def play(self, *more: str, ok: bool = True, book: str = BOOK) -> str:
        done = playbook.run(self.argv(book, *more), env=self.env())
        output = done.stdout + done.stderr
        assert (done.returncode == 0) == ok, output[-6000:]
        for site in (self.old, self.new):
            assert not any(secret in output for secret in site.secrets), "a secret in the output"
        return output

    def kill_after(self, write: int) -> None:
        """SIGKILL to the run once so many writes were sent."""
        command = ["ansible-playbook", *self.argv(BOOK)]
        run = subprocess.Popen(command, env=self.env(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + _MOMENT
        while len(self.writes()) < write and run.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        run.kill()
        run.wait()

    def events(self, kind: str = "provisioner") -> list[tuple[str, dict[str, Any]]]:
        return [(name, data) for _node, name, data in events.of_kind(self.controller.ledger, kind)]

    def look(self, site: Any) -> Any:
        """What stands there, past the playbook: by the driver, in check mode."""
        options = {**self.node, **site.connection(), "driver": site.extras}
        return record_of(site, options)


def record_of(site: Any, options: dict[str, Any]) -> Any:
    """The driver's own view of the node."""
    from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import wanted as wants
    from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import connected
    from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

    with connected(options, Context(check_mode=True, node=options["name"])) as driver:
        wanted = wants.of_task(options, driver.name, driver.image_needs, options["name"])
        node = driver.find(wanted)
        return node, (driver.boots(node) if node is not None else ""), (driver.marks(node) if node is not None else {})
