# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our own boot server: the very programs of the role netboot, as the contract suite sees them."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import command
from contract.faults import GARBAGE, NO, OUTAGE, REFUSAL, Said, ToolFaults
from sites import Site, patched

FILES = Path(__file__).resolve().parents[4] / "roles" / "netboot" / "files"
sys.path.insert(0, str(FILES))

import netboot
import serve

WAYS = {
    OUTAGE: Said(1, out='{"error": "OSError: [Errno 5] Input/output error: /srv/netboot/nodes", "kind": "io"}\n'),
    GARBAGE: Said(0, out="<h1>Wartung</h1>\n"),
    "odd json": Said(0, out='{"nodes": 7}\n'),
    "silence": Said(0),
    "killed": Said(-9),
    REFUSAL: Said(1, out='{"error": "[Errno 13] Permission denied: nodes", "kind": "denied"}\n'),
    NO: Said(1, out='{"error": "no MAC, or no address", "kind": "refused"}\n'),
}


class PxeSite(Site):
    name = "pxe"
    many_calls = True
    destructive_words = (" boot ", " unboot ")
    refuses_late = True
    #: That a machine was booted is noted by who watched it.
    watcher_writes = True
    tells_failures = False
    program = netboot

    def __init__(self, folder: Path) -> None:
        self.root = folder / "netboot"
        for name in netboot.FOLDERS:
            (self.root / name).mkdir(parents=True)
        writes = [r"^netboot (put|boot|unboot)\b"]
        self.faults = ToolFaults(folder, {"netboot": self._called}, writes, WAYS, reads=True)
        self.server = serve.Server(self.root, ("127.0.0.1", 0))
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self._thread.start()
        self.store = netboot.Store(self.root)
        self.marks = (self.hold_by_somebody, self.owned_by_somebody)

    #: A program that was killed does nothing more.
    done_late = False

    def patience(self, seconds: float) -> contextlib.AbstractContextManager[Any]:
        return patched((command.run.__kwdefaults__, "timeout", seconds))

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join(timeout=10)
        self.server.server_close()

    def _called(self, given: str, *argv: str) -> tuple[int, str, str]:
        """The program itself, without a Python of its own for each call."""
        return *netboot.answered(["--root", str(self.root), *argv], lambda: given), ""

    def connection(self) -> dict[str, Any]:
        return {"provisioner": self.name, "provisioner_url": str(self.faults.path / "netboot")}

    def image(self, version: str = "1", format: str = "ramdisk") -> dict[str, Any]:
        """It boots what runs from memory, and nothing else."""
        return super().image(version, "ramdisk")

    def new_image(self, url: str, content: bytes) -> dict[str, Any]:
        return {**super().new_image(url, content), "kernel_url": url}

    def _changed(self, name: str, **fields: Any) -> None:
        path = self.root / "nodes" / f"{name}.json"
        record = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**record, **fields, "version": record["version"] + 1}), encoding="utf-8")

    def hold_by_somebody(self, name: str) -> None:
        self._changed(name, hold="Anna swaps a DIMM")

    def owned_by_somebody(self, name: str) -> None:
        self._changed(name, owner="tenant-7")

    def other_serial(self, name: str, serial: str) -> None:
        self._changed(name, serial=serial)

    def forget_serial(self, name: str) -> None:
        self._changed(name, serial="")

    def other_card(self, name: str, mac: str) -> None:
        """Somebody moves the node to another card by hand, and what it boots along with it."""
        record = self.store.record(name)
        if self.store.entry(record["mac"]).exists():
            self.store.entry(record["mac"]).rename(self.store.entry(mac))
        self.store._host(name, {**record, "mac": mac})
        self._changed(name, mac=mac)

    def strand(self, name: str) -> None:
        self.store.keep_out(name, True)

    def ask(self, path: str) -> bytes:
        """As a loader does."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.server.server_address[1]}{path}", timeout=10) as answer:
            content: bytes = answer.read()
        return content

    def card(self, name: str) -> str:
        return str(self.store.record(name)["mac"]).replace(":", "-")

    def boot(self, name: str) -> None:
        assert b"kernel " in self.ask(f"/entries/{self.card(name)}.ipxe")

    def says_that_it_failed(self, name: str, part: str = "image") -> None:
        """Its loader, or whoever is on that network."""
        self.ask(f"/failed/{self.card(name)}/{part}")

    def undeployable(self) -> tuple[tuple[dict[str, Any], str], ...]:
        image = self.image("2")
        return (
            ({"image": {**image, "format": "whole-disk"}}, "deploys no disk image"),
            ({"image": {**image, "url": "http://127.0.0.1:9/a b.img"}}, "no loader fetches url"),
            ({"image": {**image, "kernel_url": "file:///vmlinuz"}}, "no loader fetches kernel_url"),
        )

    def many(self, count: int) -> list[str]:
        """Written as the store writes them, but for its look for who else has the card, and its wait for the disk."""
        new = [self.new() for _number in range(count)]
        for one in new:
            record = {"mac": one["boot_mac"], "name": one["name"], "version": 1}
            (self.root / "nodes" / f"{one['name']}.json").write_text(json.dumps(record), encoding="utf-8")
            (self.root / "dhcp-hosts" / one["name"]).write_text(f"{one['boot_mac']},{one['name']}\n", encoding="utf-8")
        return [one["name"] for one in new]

    def native(self, name: str) -> str:
        found = self.store.shown(name)
        return f"{found['entry'][:8]} {found['seen'].get('what', '')}".strip()

    def taken_there(self, name: str) -> bytes:
        return self.ask(f"/entries/{self.card(name)}.ipxe")

    def deployments(self) -> int:
        return sum(call.what.startswith("netboot boot ") for call in self.faults.calls)
