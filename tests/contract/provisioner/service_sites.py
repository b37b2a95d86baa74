# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The adapters of the two services that the collection drives: a real Ironic, and this project's MAAS server."""

from __future__ import annotations

import base64
import contextlib
import json
import sqlite3
import time
import urllib.request
from pathlib import Path
from typing import Any, ClassVar, Optional

import ironic_server
import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic import api as ironic_api
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import api as maas_api
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from calls import lead
from contract.faults import HttpFaults
from contract.proxy import Proxy
from ironic_server import PASSWORD, USER
from maas_server.config import Config, User
from maas_server.server import MaasServer
from maas_server.statuses import NAMES
from maas_server.store import Machine
from sites import BMC_PASSWORD, SHA, Site, patched


class ServiceSite(Site):
    """Behind a proxy; its driver is a client of HTTP."""

    own_tls = True

    def behind_proxy(self, url: str) -> None:
        self.proxy = Proxy(url)
        self.faults = HttpFaults(self.proxy)

    def nowhere(self) -> dict[str, Any]:
        return {"provisioner_url": "http://127.0.0.1:9/MAAS"}

    def close(self) -> None:
        self.proxy.close()


FIRMWARE = {
    "interface": "firmware",
    "step": "update",
    "args": {"settings": [{"component": "bmc", "url": "http://x/y"}]},
}
LOG = {"interface": "vendor", "step": "log_passthrough"}


class IronicSite(ServiceSite):
    name = "ironic"
    real = True
    interval = 0.25
    secrets = (PASSWORD, BMC_PASSWORD)
    extras = {"driver": "fake-hardware", "deploy_interface": "fake"}
    destructive_words = ("target=provide", "target=active", "target=deleted")
    watcher_writes = True
    work: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "inspected": ("target=inspect", {}),
        "cleaned": ("target=clean", {"driver": {**extras, "clean_steps": [FIRMWARE]}}),
        "serviced": ("target=service", {"driver": {**extras, "service_steps": [LOG]}}),
        "rescued": ("target=rescue", {"rescue_password": "R3scue-Passw0rd"}),
        "unrescued": ("target=unrescue", {}),
    }

    def __init__(self, folder: Path) -> None:
        if ironic_server.missing():
            pytest.skip(ironic_server.missing())
        self._server = self.made(folder)
        try:
            self._server.start()
        except BaseException:
            self._server.stop()
            raise
        self._url = self._server.url
        self.behind_proxy(self._url)
        self.marks = (self.hold_by_somebody, self.owned_by_somebody, self.protect)
        for name in ("held", "owned", "protected"):  # in each listing, as somebody's are at a site
            self.ask("POST", "/nodes", {"name": f"neighbour-{name}", "driver": "fake-hardware"})
        self.hold_by_somebody("neighbour-held")
        self.owned_by_somebody("neighbour-owned")
        with sqlite3.connect(
            self._server.home / "ironic.sqlite", timeout=30
        ) as database:  # its API: a deployed one alone
            database.execute("UPDATE nodes SET protected = 1 WHERE name = 'neighbour-protected'")
        self._neighbours, self._last = self.newest(), 0

    def made(self, folder: Path) -> ironic_server.IronicServer:
        """It is started by whoever asks for it."""
        return ironic_server.IronicServer(folder)

    def close(self) -> None:
        super().close()
        self._server.stop()

    def connection(self) -> dict[str, Any]:
        login = {"provisioner_username": USER, "provisioner_password": PASSWORD}
        return {"provisioner": "ironic", "provisioner_url": self.proxy.url, **login}

    def wrong_login(self) -> dict[str, Any]:
        return {"provisioner_password": "not-th1s-one"}

    rights = ("baremetal:node:update", "baremetal:node:set_provision_state")

    def without(self, right: str) -> dict[str, Any]:
        """As its policy answers behind a Keystone (ironic/common/policy.py, authorize); alone it has none."""
        method = "PATCH" if right.endswith(":update") else "PUT"
        told = {"faultcode": "Client", "faultstring": f"Access was denied to the following resource: {right}"}
        body = json.dumps({"error_message": json.dumps(told)}).encode()
        answer = (403, {"Content-Type": "application/json"}, body)
        self.proxy.fault = lambda asked: answer if asked.method == method else None
        return {}

    def is_ordered(self, name: str, named: str) -> bool:
        return self.native(name) != "active"

    def patience(self, seconds: float) -> contextlib.AbstractContextManager[Any]:
        return patched((ironic_api, "TIMEOUT", seconds))

    def ask(self, method: str, path: str, body: Any = None, *, version: str = "1.81") -> Any:
        """Past the proxy."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._url + "/v1" + path, data=data, method=method, headers=self._server.login()
        )
        request.add_header("X-OpenStack-Ironic-API-Version", version)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as answer:
            content = answer.read()
        return json.loads(content) if content else None

    def moved_bmc(self, options: dict[str, Any]) -> dict[str, Any]:
        return {**super().moved_bmc(options), "driver": {**self.extras, "driver_info": {"note": "moved"}}}

    def new_password(self, options: dict[str, Any], password: str) -> dict[str, Any]:
        return {**options, "driver": {**self.extras, "driver_info": {"fake_password": password}}}

    def hold_by_somebody(self, name: str) -> None:
        self.ask("PUT", f"/nodes/{name}/maintenance", {"reason": "Anna swaps a DIMM"})

    def owned_by_somebody(self, name: str) -> None:
        self.ask("PATCH", f"/nodes/{name}", [{"op": "add", "path": "/lessee", "value": "tenant-7"}])

    def protect(self, name: str) -> None:
        self.ask("PATCH", f"/nodes/{name}", [{"op": "add", "path": "/protected", "value": True}])

    def other_serial(self, name: str, serial: str) -> None:
        """As its inspection would have found it: fake hardware has no inventory of its own."""
        uuid = self.ask("GET", f"/nodes/{name}")["uuid"]
        found = json.dumps({"system_vendor": {"serial_number": serial}})
        with sqlite3.connect(self._server.home / "ironic.sqlite", timeout=30) as database:
            (number,) = database.execute("SELECT id FROM nodes WHERE uuid = ?", (uuid,)).fetchone()
            database.execute("DELETE FROM node_inventory WHERE node_id = ?", (number,))
            database.execute(
                "INSERT INTO node_inventory (version, inventory_data, plugin_data, node_id) VALUES ('1.0', ?, '{}', ?)",
                (found, number),
            )

    def other_card(self, name: str, mac: str) -> None:
        uuid = self.ask("GET", f"/nodes/{name}")["uuid"]
        for port in self.ask("GET", f"/ports?node={uuid}")["ports"]:
            self._in_maintenance(name, "DELETE", f"/ports/{port['uuid']}")
        self._in_maintenance(name, "POST", "/ports", {"address": mac, "node_uuid": uuid})

    def forget_serial(self, name: str) -> None:
        self.ask("PATCH", f"/nodes/{name}", [{"op": "remove", "path": "/extra/gpufleet_serial"}])

    def _in_maintenance(self, name: str, method: str, path: str, body: Any = None) -> None:
        self.ask("PUT", f"/nodes/{name}/maintenance", {"reason": "gpufleet:test:x"})
        self.ask(method, path, body)
        self.ask("DELETE", f"/nodes/{name}/maintenance")

    def strand(self, name: str) -> None:
        self.ask("PUT", f"/nodes/{name}/states/provision", {"target": "rescue", "rescue_password": "x1Y2z3W4"})
        end = time.monotonic() + 30
        while self.native(name) not in ("rescue", "rescue failed"):
            assert time.monotonic() < end, self.native(name)
            time.sleep(0.1)

    def stumbles(self) -> tuple[dict[str, Any], str, str]:
        # What listens there speaks no Redfish: the login is never verified, and Ironic goes back to `enroll`.
        options = {**self.new(), "driver": {"driver": "redfish"}, "bmc_address": self._url}
        lead(options, "ready")
        return options, "ready", "manage led back to enroll: "

    def fails_to_deploy(
        self, options: dict[str, Any], words: str = "Deploy step deploy.write_image failed: no space left on device"
    ) -> str:
        """As its conductor notes it: fake hardware has no deployment that fails."""
        lead(options, "deployed")
        self.until(options["name"], "active")
        values = ("deploy failed", "active", words, options["name"])
        with sqlite3.connect(self._server.home / "ironic.sqlite", timeout=30) as database:
            database.execute(
                "UPDATE nodes SET provision_state = ?, target_provision_state = ?, last_error = ? WHERE name = ?",
                values,
            )
        return words

    def set_state(self, name: str, native: str, target: Optional[str]) -> None:
        """As its conductor notes it; nothing goes on from there."""
        with sqlite3.connect(self._server.home / "ironic.sqlite", timeout=30) as database:
            database.execute(
                "UPDATE nodes SET provision_state = ?, target_provision_state = ? WHERE name = ?",
                (native, target, name),
            )

    def restarted_amid(self, name: str, native: str) -> None:
        """It ended while the node was in this state, and begins anew."""
        self._server.ended()
        with sqlite3.connect(self._server.home / "ironic.sqlite", timeout=30) as database:
            database.execute("UPDATE nodes SET provision_state = ? WHERE name = ?", (native, name))
        self._server.go_on()

    def undeployable(self) -> tuple[tuple[dict[str, Any], str], ...]:
        disk = {**self.image("2", format="whole-disk"), "sha256": ""}
        return ({"image": disk}, "needs sha256"), ({"image": {**self.image("2"), "kernel_url": ""}}, "needs kernel_url")

    def many(self, count: int) -> list[str]:
        names = [self.new()["name"] for _number in range(count)]
        for name in names:
            self.ask("POST", "/nodes", {"name": name, "driver": "fake-hardware"})
        return names

    def newest(self) -> int:
        with sqlite3.connect(self._server.home / "ironic.sqlite", timeout=30) as database:
            return int(database.execute("SELECT COALESCE(MAX(id), 0) FROM nodes").fetchone()[0])

    def forget_since(self, number: int) -> None:
        """Past its API, which keeps a node that is protected or held. Not amid its conductor's work, which goes by ids.

        The last one stays until another one came after it: SQLite would give its id to the next node.
        """
        number, last = max(number, self._neighbours), self.newest()
        if last <= number:
            return
        with sqlite3.connect(self._server.home / "ironic.sqlite", timeout=30) as database:
            busy = "SELECT name FROM nodes WHERE id > ? AND reservation IS NOT NULL"
            wait_until(lambda: database.execute(busy, (number,)).fetchall(), lambda names: not names, timeout=60,
                       interval=0.05, wanted="no node that its conductor works on")  # fmt: skip
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            columns = {name: [one[1] for one in database.execute(f"PRAGMA table_info({name})")] for name in tables}
            of_node = [(name, "node_id") for name in tables if "node_id" in columns[name]]
            for table, column in [*of_node, ("nodes", "id")]:
                database.execute(
                    f"DELETE FROM {table} WHERE {column} > ? AND {column} < ? OR {column} = ?",
                    (number, last, self._last),
                )
        self._last = last

    def native(self, name: str) -> str:
        return str(self.ask("GET", f"/nodes/{name}")["provision_state"])

    def power(self, name: str) -> str:
        return str(self.ask("GET", f"/nodes/{name}")["power_state"]).removeprefix("power ")

    def taken_there(self, name: str) -> bytes:
        """Its API masks a config drive."""
        with sqlite3.connect(self._server.home / "ironic.sqlite", timeout=30) as database:
            (info,) = database.execute("SELECT instance_info FROM nodes WHERE name = ?", (name,)).fetchone()
        told = json.loads(info)
        return json.dumps([told.get("ramdisk_kernel_arguments"), told.get("configdrive")]).encode()

    def orders_taken(self) -> int:
        taken = [asked for asked, code in self.proxy.answered if code < 300 and asked.path.endswith("/provision")]
        return sum(json.loads(one.body)["target"] in ("active", "rebuild") for one in taken if one.is_write)

    def deployments(self) -> int:
        targets = [json.loads(one.body)["target"] for one in self.proxy.writes if one.path.endswith("/provision")]
        return sum(target in ("active", "rebuild") for target in targets)


class MaasSite(ServiceSite):
    name = "maas"
    secrets = ("maas-S3cret-part", BMC_PASSWORD)
    blocks_of_60 = 2
    lookups = 1
    destructive_words = ("op=commission", "op=deploy", "op=release")
    work: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "inspected": ("op=commission", {}),
        "tested": ("op=test", {"driver": {"testing_scripts": ["memtester"]}}),
        "rescued": ("op=rescue_mode", {}),
        "unrescued": ("op=exit_rescue_mode", {}),
        "aborted": ("op=abort", {}),
    }

    def __init__(self, folder: Path) -> None:
        config = Config(
            users=(User("fleet", "fleetkey:token:maas-S3cret-part"), User("tenant", "tenant:token:other", admin=False)),
            state_dir=folder,
            domains=("maas", "dc1.example.com"),
            images={f"gold-{version}": {"url": "http://127.0.0.1:9/", "sha256": SHA[version]} for version in SHA},
            delays={"commission": 0.05, "test": 0.05, "deploy": 0.05, "release": 0.05, "erase": 0.05},
        )
        self.server = MaasServer(config)
        self.server.start()
        self.behind_proxy(self.server.url)
        self.marks = (self.hold_by_somebody, self.owned_by_somebody, self.protect)

    def connection(self) -> dict[str, Any]:
        key = "fleetkey:token:maas-S3cret-part"
        return {"provisioner": "maas", "provisioner_url": self.proxy.url, "provisioner_api_key": key}

    def wrong_login(self) -> dict[str, Any]:
        return {"provisioner_api_key": "fleetkey:token:not-th1s-one"}

    rights = ("administrator",)

    def without(self, right: str) -> dict[str, Any]:
        """The key of a user, whom MAAS shows no machine of another one's, and does not say so."""
        return {"provisioner_api_key": "tenant:token:other"}

    def is_ordered(self, name: str, named: str) -> bool:
        return self.native(name) != "Deployed"

    def patience(self, seconds: float) -> contextlib.AbstractContextManager[Any]:
        return patched((maas_api.MaasApi.__init__.__kwdefaults__, "timeout", seconds))

    def machine(self, name: str) -> Machine:
        return next(one for one in self.server.store.machines.values() if one.hostname == name)

    def hold_by_somebody(self, name: str) -> None:
        self.machine(name).locked = True

    def owned_by_somebody(self, name: str) -> None:
        self.machine(name).owner = "tenant"

    def protect(self, name: str) -> None:
        machine = self.machine(name)
        machine.status, machine.error_description = 8, "Anna: GPU 3 smells of smoke"

    def other_serial(self, name: str, serial: str) -> None:
        self.machine(name).hardware["system_serial"] = serial

    def other_card(self, name: str, mac: str) -> None:
        self.machine(name).macs[:] = [mac]

    def forget_serial(self, name: str) -> None:
        self.machine(name).hardware.pop("system_serial", None)

    def strand(self, name: str) -> None:
        self.machine(name).status = 16  # Rescue mode

    def stumbles(self) -> tuple[dict[str, Any], str, str]:
        options = self.new()
        self.server.jobs.faults[("commission", options["name"])] = "connection to the BMC timed out"
        lead(options, "ready")
        return options, "ready", "Failed commissioning: "

    def fails_to_deploy(self, options: dict[str, Any]) -> str:
        fault = ("deploy", options["name"])
        self.server.jobs.faults[fault] = "curtin: no space left on device"
        lead(options, "deployed")
        self.until(options["name"], "Failed deployment")
        del self.server.jobs.faults[fault]
        return "Installation failed"  # it says no more of it than where its log is

    def undeployable(self) -> tuple[tuple[dict[str, Any], str], ...]:
        image = self.image("2")
        return (
            ({"image": {**image, "version": "9"}}, "MAAS has no image gold-9"),
            ({"image": {**image, "sha256": "f" * 64}}, "not the file that the inventory names"),
        )

    def many(self, count: int) -> list[str]:
        names = [self.new()["name"] for _number in range(count)]
        with self.server.store.changing() as machines:
            for name in names:
                system_id = self.server.store.new_id()
                machines[system_id] = Machine(system_id=system_id, hostname=name, status=4, commissioning_status=2)
        return names

    def native(self, name: str) -> str:
        return NAMES[self.machine(name).status]

    def power(self, name: str) -> str:
        return self.machine(name).power_state

    def taken_there(self, name: str) -> bytes:
        return base64.b64decode(self.machine(name).user_data)

    def orders_taken(self) -> int:
        return sum("op=deploy" in asked.query for asked, code in self.proxy.answered if code < 300)

    def deployments(self) -> int:
        return sum("op=deploy" in one.query for one in self.proxy.writes)

    def close(self) -> None:
        super().close()
        self.server.close()
