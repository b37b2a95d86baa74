# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The adapter of an Ironic behind Keystone, both real, with one cloud of clouds.yaml for each of its logins."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ironic_server
import keystone_server
import pytest
from keystone_server import IronicBehindKeystone, KeystoneServer
from openstack.config import loader
from service_sites import IronicSite
from sites import BMC_PASSWORD, patched

PASSWORD = "fleet-Pa55word"
#: Whose nodes these are; who has leased one of them; and who has nothing to do with them.
OWNER, LESSEE, STRANGER = "gpu", "tenant", "stranger"
#: Cloud of clouds.yaml, by the name of its user -> roles, and in which project; in none is in the whole system.
LOGINS = {
    "fleet": (("member", "service"), OWNER),
    "manager": (("manager",), OWNER),
    "reader": (("reader",), OWNER),
    "lessee": (("manager",), LESSEE),
    "stranger": (("member", "service"), STRANGER),
    "landlord": (("admin",), STRANGER),
    "system": (("admin",), ""),
}


class KeystoneSite(IronicSite):
    """It knows who somebody is, and its policy what they may."""

    secrets = (PASSWORD, keystone_server.PASSWORD, BMC_PASSWORD)

    def __init__(self, folder: Path) -> None:
        if keystone_server.missing():
            pytest.skip(keystone_server.missing())
        self.keystone = KeystoneServer(folder / "keystone")
        try:
            super().__init__(folder)
            self._known_to_keystone(folder)
        except BaseException:
            self.keystone.stop()
            raise

    def _known_to_keystone(self, folder: Path) -> None:
        self.keystone.service("baremetal", self.proxy.url)
        self.projects = {name: self.keystone.project(name) for name in (OWNER, LESSEE, STRANGER)}
        self.users = {
            name: self.keystone.user(name, PASSWORD, roles, self.projects.get(project, ""))
            for name, (roles, project) in LOGINS.items()
        }
        self._clouds = folder / "clouds.yaml"
        clouds = {**{name: self._cloud(name) for name in LOGINS}, "wrong": self._cloud("fleet", "not-th1s-one")}
        self._clouds.write_text(json.dumps({"clouds": clouds}), encoding="utf-8")

    def _cloud(self, name: str, password: str = PASSWORD) -> dict[str, Any]:
        project = LOGINS[name][1]
        scope = {"project_name": project, "project_domain_id": "default"} if project else {"system_scope": "all"}
        login = {"username": name, "password": password, "user_domain_id": "default"}
        return {"auth": {"auth_url": self.keystone.url, **login, **scope}, "region_name": "one"}

    def made(self, folder: Path) -> ironic_server.IronicServer:
        self.keystone.start()
        return IronicBehindKeystone(folder, self.keystone)

    def close(self) -> None:
        super().close()
        self.keystone.stop()

    @contextlib.contextmanager
    def in_good_health(self) -> Iterator[Any]:
        """The SDK makes its list of places to look when it is imported."""
        self.keystone.proxy.forget()
        with patched((loader, "CONFIG_FILES", [str(self._clouds)])), super().in_good_health() as site:
            yield site
        self.keystone.proxy.forget()

    def connection(self) -> dict[str, Any]:
        return self.of("fleet")

    def wrong_login(self) -> dict[str, Any]:
        return self.of("wrong")

    def available(self, login: str) -> dict[str, Any]:
        """The options, for this login, of a node of the owner's that is ready, past its conductor."""
        options = self.new()
        made = {"name": options["name"], "driver": "fake-hardware", "owner": self.projects[OWNER]}
        made["extra"] = {"gpufleet_serial": options["serial"]}
        uuid = self.ask("POST", "/nodes", made)["uuid"]
        self.ask("POST", "/ports", {"address": options["boot_mac"], "node_uuid": uuid})
        self.set_state(options["name"], "available", None)
        return {**options, **self.of(login)}

    def lease(self, name: str) -> None:
        self.ask("PATCH", f"/nodes/{name}", [{"op": "add", "path": "/lessee", "value": self.projects[LESSEE]}])

    @contextlib.contextmanager
    def disabled(self, login: str) -> Iterator[None]:
        """Meanwhile this user is nobody; the tokens that it has end for good."""
        path = f"/users/{self.users[login]}"
        self.keystone.ask("PATCH", path, {"user": {"enabled": False}})
        try:
            yield
        finally:
            self.keystone.ask("PATCH", path, {"user": {"enabled": True}})

    def of(self, login: str) -> dict[str, Any]:
        """The options of one of its logins."""
        return {"provisioner": "ironic", "provisioner_cloud": login}
