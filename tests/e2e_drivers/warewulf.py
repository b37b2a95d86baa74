# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Warewulf: a server that gives loaders the bytes as well."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from typing import Any

from beside import ADDRESS, FROM_DISK, IMAGES, NEW, OLD, Beside, golden, lead, node_of
from contract.proxy import Proxy
from warewulf_server.conf import Record, with_profiles
from warewulf_server.server import BOOT, Answer, Config, WarewulfServer, image

USER, PASSWORD = "fleet", "warewulf-S3cret"
_ENTRY = """#!ipxe
imgfree
kernel --name kernel {url}/kernel/{mac} initrd=image initrd=system initrd=runtime wwid={mac} {args} || exit 1
initrd --name image {url}/image/{mac}?compress=gz || exit 1
initrd --name system {url}/system/{mac}?compress=gz || exit 1
initrd --name runtime {url}/runtime/{mac}?compress=gz || exit 1
boot
"""


class Booting(WarewulfServer):
    """What it tells of a node is what it has answered; what it answers is made of the node's record."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.liars: set[str] = set()

    def asks(self, stage: str, hwaddr: str, sent: str = "", *, packed: bool = True, asset: str = "") -> Answer:
        said = super().asks(stage, hwaddr, sent, packed=packed, asset=asset)
        node = node_of(hwaddr)
        if said.code != 200 or not node:
            return said
        if node in self.liars:
            for later in BOOT[BOOT.index(stage) + 1 :]:
                super().asks(later, hwaddr)
            return replace(said, body=FROM_DISK.encode())
        return replace(said, body=_BODY[stage](self, with_profiles(self.conf.load(), node), hwaddr))

    def _entry(self, record: Record, mac: str) -> bytes:
        args = " ".join(record.get("kernel", {}).get("args", ()))
        return _ENTRY.format(url=self.url, mac=mac, args=args).encode()


def _overlay(name: str) -> Any:
    """An overlay: one file, which tells whose it is and of which image it was told."""

    def packed(_server: Booting, record: Record, mac: str) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as archive:
            content = f"{mac} {record.get('image name', '')}\n".encode()
            member = tarfile.TarInfo(f"etc/warewulf/{name}")
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
        return out.getvalue()

    return packed


_BODY: dict[str, Any] = {
    "ipxe": Booting._entry,
    "kernel": lambda _server, _record, _mac: (IMAGES / "vmlinuz").read_bytes(),
    "image": lambda _server, record, _mac: golden(record["image name"]),
    "system": _overlay("system"),
    "runtime": _overlay("runtime"),
}


class Warewulf(Beside):
    name = "warewulf"

    def __init__(self) -> None:
        images = {f"gpu-golden-{version}": image() for version in (OLD, NEW)}
        self.server = Booting(Config(users={USER: PASSWORD}, images=images, thinks=0.005, address=ADDRESS))
        overlays = {"system overlay": ["wwinit"], "runtime overlay": ["hosts"]}
        self.server.conf.change("default", lambda one: one.update(overlays), "nodeprofiles")
        self.server.start()
        self.proxy = Proxy(self.server.url)
        lead(f"{self.server.url}/ipxe/${{mac:hexhyp}}")

    def close(self) -> None:
        self.proxy.close()
        self.server.close()

    def variables(self) -> dict[str, Any]:
        return {
            "gpufleet_provisioner": self.name,
            "gpufleet_provisioner_url": self.proxy.url,
            "gpufleet_provisioner_username": USER,
            "gpufleet_provisioner_password": PASSWORD,
        }

    def writes(self) -> list[str]:
        return [f"{one.method} {one.path}" for one in self.proxy.writes]

    def lie(self, node: str, lies: bool) -> None:
        (self.server.liars.add if lies else self.server.liars.discard)(node)
