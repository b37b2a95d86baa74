# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The queue behind a proxy, as the contract suite sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from calls import lead
from service_sites import ServiceSite
from sites import BMC_PASSWORD

from . import server
from .driver import OPTIONS, TaskQueueDriver


class TaskQueueSite(ServiceSite):
    name = "taskqueue"
    own_driver = TaskQueueDriver
    own_options = OPTIONS
    secrets = (server.TOKEN, BMC_PASSWORD)
    destructive_words = ("discover", "install", "clear")

    def __init__(self, folder: Path) -> None:
        self.queue = server.Queue(images=("gold-1", "gold-2"))
        self.behind_proxy(self.queue.url)
        self.marks = (self.locked_by_somebody, self.owned_by_somebody)

    def close(self) -> None:
        self.proxy.close()
        self.queue.close()

    def connection(self) -> dict[str, Any]:
        return {"provisioner": self.name, "provisioner_url": self.proxy.url, "provisioner_password": server.TOKEN}

    def wrong_login(self) -> dict[str, Any]:
        return {"provisioner_password": "not-th1s-one"}

    def _set(self, name: str, **fields: Any) -> None:
        with self.queue.lock:
            self.queue.nodes[name].update(fields)

    def locked_by_somebody(self, name: str) -> None:
        self._set(name, locked_by="Anna")

    def owned_by_somebody(self, name: str) -> None:
        self._set(name, owner="tenant-7")

    def other_serial(self, name: str, serial: str) -> None:
        self._set(name, serial=serial)

    def other_card(self, name: str, mac: str) -> None:
        self._set(name, mac=mac)

    def forget_serial(self, name: str) -> None:
        self._set(name, serial="")

    def strand(self, name: str) -> None:
        with self.queue.lock:
            self.queue.say(self.queue.nodes[name], "stuck")

    def stumbles(self) -> tuple[dict[str, Any], str, str]:
        options = self.new()
        self.queue.dead.add(options["name"])
        lead(options, "ready")
        return options, "ready", "failed: "

    def fails_to_deploy(self, options: dict[str, Any]) -> str:
        self.queue.dead.add(options["name"])
        lead(options, "deployed")
        self.until(options["name"], "failed")
        self.queue.dead.discard(options["name"])
        return "the BMC does not answer"

    def undeployable(self) -> tuple[tuple[dict[str, Any], str], ...]:
        return (({"image": {**self.image("2"), "named": "gold-9"}}, "no image gold-9"),)

    def many(self, count: int) -> list[str]:
        names = [self.new()["name"] for _number in range(count)]
        for name in names:
            self.queue.put(name, {})
            with self.queue.lock:
                self.queue.say(self.queue.nodes[name], "ready")
        return names

    def native(self, name: str) -> str:
        return str(self.queue.nodes[name]["status"])

    def deployments(self) -> int:
        """Nodes that an order to install was sent for."""
        orders = [json.loads(call.body) for call in self.faults.writes if call.what == "POST /orders"]
        return sum(len(order["nodes"]) for order in orders if order["action"] == "install")
