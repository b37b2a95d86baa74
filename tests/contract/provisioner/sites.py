# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two provisioners, seen alike by the contract suite. What it does behind the driver's back is done here."""

from __future__ import annotations

import base64
import itertools
import json
import time
import urllib.request
from pathlib import Path
from typing import Any

from contract.proxy import Proxy
from ironic_server import PASSWORD, USER, IronicServer
from maas_server.config import Config, User
from maas_server.server import MaasServer
from maas_server.statuses import NAMES
from maas_server.store import Machine

BMC_PASSWORD = "bmc-Sup3rSecret"
_numbers = itertools.count(int(time.time()) % 100000 * 100)

SHA = {"1": "1" * 64, "2": "2" * 64}


class Site:
    """What the suite needs of a provisioner."""

    name: str
    secrets: tuple[str, ...]
    #: driver-specific extras of each task
    extras: dict[str, Any]
    #: GETs a poll of 60 nodes takes
    blocks_of_60: int
    list_path: str

    def __init__(self, url: str) -> None:
        self.proxy = Proxy(url)

    def connection(self) -> dict[str, Any]:
        raise NotImplementedError

    def new(self) -> dict[str, Any]:
        """The options of a node nobody has seen yet."""
        number = next(_numbers)
        mac = f"52:54:{number >> 24 & 255:02x}:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
        return {
            **self.connection(),
            "name": f"gpu{number:07d}",
            "boot_mac": mac,
            "serial": f"S{number}",
            "bmc_protocol": "redfish",
            "bmc_address": f"https://127.0.0.9:{8000 + number % 1000}",
            "bmc_username": "bmcadmin",
            "bmc_password": BMC_PASSWORD,
            "driver": self.extras,
        }

    def image(self, version: str = "1", format: str = "ramdisk") -> dict[str, Any]:
        return {
            "name": "gold",
            "version": version,
            "url": f"http://127.0.0.1:9/gold-{version}.img",
            "kernel_url": "http://127.0.0.1:9/vmlinuz",
            "sha256": SHA[version],
            "format": format,
        }

    def hold_by_somebody(self, name: str) -> None:
        raise NotImplementedError

    def owned_by_somebody(self, name: str) -> None:
        raise NotImplementedError

    def protect(self, name: str) -> None:
        """What keeps a node from being touched on purpose."""
        raise NotImplementedError

    def fails_to_become_ready(self, options: dict[str, Any]) -> dict[str, Any]:
        """Options of a node whose hardware the provisioner cannot reach."""
        raise NotImplementedError

    def many(self, count: int) -> list[str]:
        raise NotImplementedError

    def native(self, name: str) -> str:
        raise NotImplementedError

    def deployments(self) -> int:
        """Deployments that were asked for, through the proxy."""
        raise NotImplementedError


class IronicSite(Site):
    name = "ironic"
    secrets = (PASSWORD, BMC_PASSWORD)
    extras = {"driver": "fake-hardware", "deploy_interface": "fake"}
    blocks_of_60 = 1
    list_path = "/v1/nodes"

    def __init__(self, server: IronicServer) -> None:
        super().__init__(server.url)
        self._url = server.url

    def connection(self) -> dict[str, Any]:
        return {
            "provisioner": "ironic",
            "provisioner_url": self.proxy.url,
            "provisioner_username": USER,
            "provisioner_password": PASSWORD,
        }

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Past the proxy."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + "/v1" + path, data=data, method=method)
        token = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        request.add_header("Authorization", f"Basic {token}")
        request.add_header("X-OpenStack-Ironic-API-Version", "1.81")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as answer:
            content = answer.read()
        return json.loads(content) if content else None

    def hold_by_somebody(self, name: str) -> None:
        self.ask("PUT", f"/nodes/{name}/maintenance", {"reason": "Anna swaps a DIMM"})

    def owned_by_somebody(self, name: str) -> None:
        self.ask("PATCH", f"/nodes/{name}", [{"op": "add", "path": "/lessee", "value": "tenant-7"}])

    def protect(self, name: str) -> None:
        self.ask("PATCH", f"/nodes/{name}", [{"op": "add", "path": "/protected", "value": True}])

    def fails_to_become_ready(self, options: dict[str, Any]) -> dict[str, Any]:
        # What listens there speaks no Redfish: the login is never verified, and Ironic goes back to `enroll`.
        return {**options, "driver": {"driver": "redfish"}, "bmc_address": self._url}

    def many(self, count: int) -> list[str]:
        names = [self.new()["name"] for _number in range(count)]
        for name in names:
            self.ask("POST", "/nodes", {"name": name, "driver": "fake-hardware"})
        return names

    def native(self, name: str) -> str:
        return str(self.ask("GET", f"/nodes/{name}")["provision_state"])

    def deployments(self) -> int:
        targets = [json.loads(one.body)["target"] for one in self.proxy.writes if one.path.endswith("/provision")]
        return sum(target in ("active", "rebuild") for target in targets)


class MaasSite(Site):
    name = "maas"
    secrets = ("maas-S3cret-part", BMC_PASSWORD)
    extras: dict[str, Any] = {}
    blocks_of_60 = 2
    list_path = "/machines"

    def __init__(self, folder: Path) -> None:
        config = Config(
            users=(User("fleet", "fleetkey:token:maas-S3cret-part"), User("tenant", "tenant:token:other", admin=False)),
            state_dir=folder,
            images={f"gold-{version}": {"url": "http://127.0.0.1:9/", "sha256": SHA[version]} for version in SHA},
            delays={"commission": 0.05, "deploy": 0.05, "release": 0.05, "erase": 0.05},
        )
        self.server = MaasServer(config)
        self.server.start()
        super().__init__(self.server.url)

    def connection(self) -> dict[str, Any]:
        return {
            "provisioner": "maas",
            "provisioner_url": self.proxy.url,
            "provisioner_api_key": "fleetkey:token:maas-S3cret-part",
        }

    def machine(self, name: str) -> Machine:
        return next(one for one in self.server.store.machines.values() if one.hostname == name)

    def hold_by_somebody(self, name: str) -> None:
        self.machine(name).locked = True

    def owned_by_somebody(self, name: str) -> None:
        machine = self.machine(name)
        machine.owner = "tenant"

    def protect(self, name: str) -> None:
        machine = self.machine(name)
        machine.status, machine.error_description = 8, "Anna: GPU 3 smells of smoke"

    def fails_to_become_ready(self, options: dict[str, Any]) -> dict[str, Any]:
        self.server.jobs.faults[("commission", options["name"])] = "connection to the BMC timed out"
        return options

    def many(self, count: int) -> list[str]:
        names = [self.new()["name"] for _number in range(count)]
        with self.server.store.changing() as machines:
            for name in names:
                system_id = self.server.store.new_id()
                machines[system_id] = Machine(system_id=system_id, hostname=name, status=4, commissioning_status=2)
        return names

    def native(self, name: str) -> str:
        return NAMES[self.machine(name).status]

    def deployments(self) -> int:
        return sum("op=deploy" in one.query for one in self.proxy.writes)
