# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A controller of a few new nodes: a ledger, an inventory, and plays through the actions."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from suite import events, playbook

HERE = Path(__file__).resolve().parent
COLLECTIONS = HERE.parents[2] / "build" / "collections"
CALLBACKS = HERE.parent / "scheduler" / "callback"
ACTIONS = HERE.parent / "action"

READY = {"gpufleet.baremetal.provisioner_node": {"state": "ready"}}
DEPLOYED = {"gpufleet.baremetal.provisioner_node": {"state": "deployed"}}
HELD = {"gpufleet.baremetal.provisioner_node": {"state": "maintenance", "why": "reseat"}}
VERIFIED: dict[str, Any] = {"image_was_verified": {}}
REASON = "a test without a scheduler"
LIFTED = {"gpufleet.baremetal.provisioner_node": {"state": "serviceable"}}


def wait(until: str, **more: Any) -> dict[str, Any]:
    options = {"until": until, "timeout": 30, "interval": 0.2, **more}
    return {"gpufleet.baremetal.provisioner_wait": options, "run_once": True}


class Controller:
    """A ledger, an inventory of new nodes, and plays over them."""

    def __init__(self, site: Any, folder: Path, count: int = 2, ledger_url: str = "") -> None:
        """:param ledger_url: of a ledger that it shares with others."""
        self.folder = folder
        self.ledger = folder / "ledger.sqlite"
        self.nodes = {one["name"]: one for one in (site.new() for _number in range(count))}
        hosts = {
            name: {
                # No node is ever connected to: whatever tried would fail.
                "ansible_host": "127.0.0.250",
                **{f"gpufleet_{key}": value for key, value in one.items() if key not in ("name", "driver")},
            }
            for name, one in self.nodes.items()
        }
        shared = {"gpufleet_ledger_url": ledger_url or f"sqlite:///{self.ledger}", "gpufleet_image": site.image()}
        self._driver = site.extras
        self._own = site.own_driver is not None
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": shared}}), encoding="utf-8")

    def of_play(self, name: str) -> Any:
        """The inventory no longer has this variable; its value, for a play to set."""
        inventory = yaml.safe_load((self.folder / "hosts.yml").read_text(encoding="utf-8"))
        value = inventory["all"]["vars"].pop(name)
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
        return value

    def play(self, *tasks: Mapping[str, Any], ok: bool = True, check: bool = False, forced: bool = True) -> list[Any]:
        named = [self._task(number, task, forced) for number, task in enumerate(tasks)]
        book = [{"name": "test", "hosts": "all", "gather_facts": False, "strategy": "linear", "tasks": named}]
        (self.folder / "play.yml").write_text(yaml.safe_dump(book), encoding="utf-8")
        argv = ["-vvv", "--diff", "-i", str(self.folder / "hosts.yml"), str(self.folder / "play.yml")]
        done = playbook.run([*argv, *(["--check"] if check else [])], env=self.environment())
        self.output = done.stdout + done.stderr
        assert (done.returncode == 0) == ok, self.output[-4000:]
        return [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("RESULT ")]

    def environment(self) -> dict[str, str]:
        """One for all runs, so that the process that forks them is one."""
        return {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_STDOUT_CALLBACK": "gpufleet_json",
            "ANSIBLE_CALLBACK_PLUGINS": f"{CALLBACKS}:{HERE / 'callback'}",
            **({"ANSIBLE_CALLBACKS_ENABLED": "drivers_of_tests"} if self._own else {}),
            "ANSIBLE_ACTION_PLUGINS": str(ACTIONS),
            "ANSIBLE_LOCALHOST_WARNING": "False",
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "home"),
        }

    def _task(self, number: int, task: Mapping[str, Any], forced: bool) -> dict[str, Any]:
        made: dict[str, Any] = {"name": f"task {number}", **task}
        action = next((key for key in made if key.startswith("gpufleet.")), "")
        if not action:
            return made
        said = {"driver": self._driver, **({"force_reason": REASON} if forced else {})}
        if not made[action].get("batch"):
            made[action] = {**made[action], **said}
            return made
        # One for all is refused: each machine names its own.
        made["vars"] = {f"{option}_of_this_one": value for option, value in said.items()}
        named = {option: f"{option}_of_this_one" for option in said}
        made[action] = {**made[action], "each": {**made[action].get("each", {}), **named}}
        return made

    def events(self, kind: str) -> list[tuple[str, str, dict[str, Any]]]:
        return events.of_kind(self.ledger, kind)
