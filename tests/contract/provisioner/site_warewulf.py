# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Warewulf: what the contract suite needs."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf import api
from calls import lead
from contract.faults import HttpFaults
from contract.provisioner.sites import BMC_PASSWORD, Site, patched
from contract.proxy import Proxy
from warewulf_server.conf import Record, with_profiles
from warewulf_server.server import Config, WarewulfServer, image

USER, PASSWORD = "fleet", "warewulf-S3cret"


class WarewulfSite(Site):
    name = "warewulf"
    own_tls = True
    secrets = (PASSWORD, BMC_PASSWORD)
    #: The list of the nodes, and what they asked for.
    blocks_of_60 = 2
    destructive_words = ("image name=", "without image name")
    #: That a machine was booted is noted by who watched it.
    watcher_writes = True
    version = "4.7.0"

    def __init__(self, folder: Path) -> None:
        images = {f"gold-{version}": image() for version in ("1", "2")}
        config = Config(users={USER: PASSWORD}, images=images, thinks=0.005, version=self.version)
        self.server = WarewulfServer(config)
        overlays = {"system overlay": ["wwinit"], "runtime overlay": ["hosts"]}
        self.server.conf.change("default", lambda one: one.update(overlays), "nodeprofiles")
        self.server.start()
        self.proxy = Proxy(self.server.url)
        self.faults = HttpFaults(self.proxy)
        self.marks = (self.hold_by_somebody, self.owned_by_somebody)

    def close(self) -> None:
        self.proxy.close()
        self.server.close()

    def connection(self) -> dict[str, Any]:
        login = {"provisioner_username": USER, "provisioner_password": PASSWORD}
        return {"provisioner": self.name, "provisioner_url": self.proxy.url, **login}

    def wrong_login(self) -> dict[str, Any]:
        return {"provisioner_password": "not-th1s-one"}

    rights = ("write",)

    def without(self, right: str) -> dict[str, Any]:
        """Its API knows no rights: somebody has put a proxy before it that passes on what reads."""
        self.proxy.fault = lambda asked: (403, {}, b"<h1>Forbidden</h1>") if asked.is_write else None
        return {}

    def is_ordered(self, name: str, named: str) -> bool:
        return str(self.record(name).get("image name")) == named

    def patience(self, seconds: float) -> contextlib.AbstractContextManager[Any]:
        return patched((api.WarewulfApi.__init__.__kwdefaults__, "timeout", seconds))

    def nowhere(self) -> dict[str, Any]:
        return {"provisioner_url": "http://127.0.0.1:9"}

    def new_image(self, url: str, content: bytes) -> dict[str, Any]:
        """In its registry."""
        found = super().new_image(url, content)
        reference = f"docker://registry.example.com/gold@sha256:{found['sha256']}"
        self.server.registry[reference] = image()
        return {**found, "url": reference}

    def record(self, name: str) -> Record:
        """With what its profiles say."""
        return with_profiles(self.server.conf.load(), name)

    def tag(self, name: str, key: str, value: str) -> None:
        """As a person does it with wwctl; an empty value takes it away."""

        def change(node: Record) -> None:
            tags = {**node.get("tags", {}), key: value}
            node["tags"] = {key: one for key, one in tags.items() if one}

        self.server.conf.change(name, change)

    def hold_by_somebody(self, name: str) -> None:
        self.tag(name, "gpufleet-hold", "Anna swaps a DIMM")

    def owned_by_somebody(self, name: str) -> None:
        self.tag(name, "owner", "tenant-7")

    def other_serial(self, name: str, serial: str) -> None:
        self.tag(name, "gpufleet-serial", serial)

    def forget_serial(self, name: str) -> None:
        self.tag(name, "gpufleet-serial", "")

    def other_card(self, name: str, mac: str) -> None:
        self.server.conf.change(name, lambda node: node["network devices"]["default"].update(hwaddr=mac))

    def forget_shared(self) -> None:
        """Of what nodes share only what it had at first."""
        self.server.site_overlays.clear()
        content = self.server.conf.load()
        content["nodeprofiles"] = {"default": content["nodeprofiles"]["default"]}
        self.server.conf.save(content)

    def strand(self, name: str) -> None:
        self.server.conf.change(name, lambda node: node.update(discoverable="true"))

    def stumbles(self) -> tuple[dict[str, Any], str, str]:
        options = {**self.new(), "image": self.image()}
        lead(options, "ready")
        self.fails_to_deploy(options)
        return options, "deployed", "not served: it asked for"

    def fails_to_deploy(self, options: dict[str, Any]) -> str:
        lead(options, "deployed")
        self.server.asks("image", options["boot_mac"], "NOT_FOUND")
        return "it asked for image, and was answered NOT_FOUND"

    def undeployable(self) -> tuple[tuple[dict[str, Any], str], ...]:
        self.server.config.images.update(bare=image(kernels=[]), raw=image(buildtime=0))
        absent, bare, raw = ({"image": {**self.image("2"), "named": named}} for named in ("gold-9", "bare", "raw"))
        return (absent, "Warewulf has no image gold-9"), (bare, "it lacks a kernel"), (raw, "it lacks a build")

    def many(self, count: int) -> list[str]:
        names = [self.new()["name"] for _number in range(count)]
        for name in names:
            self.server.conf.change(name, lambda node: node.update(profiles=["default"]))
        return names

    def native(self, name: str) -> str:
        return f"{self.record(name).get('image name', '')} {self.server.status.get(name, {}).get('stage', '')}".strip()

    def taken_there(self, name: str) -> bytes:
        return " ".join(self.record(name).get("kernel", {}).get("args", ())).encode()

    def boot(self, name: str) -> None:
        assert self.record(name)["image name"], "nothing to boot"
        self.server.boots(name)

    def deployments(self) -> int:
        notes = [json.loads(one.body)["node"].get("tags", {}) for one in self.proxy.writes if one.method == "PATCH"]
        told = [json.loads(tags.get("gpufleet-deployment", "{}")) for tags in notes]
        return sum("before" in one and "booted" not in one and "next" not in one for one in told)
