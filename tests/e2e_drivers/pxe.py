# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PXE alone: the boot server that the role netboot sets up, and its own programs."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import lab
import yaml
from beside import ADDRESS, Beside, card, lead, tell
from suite import playbook

PORT = 8090
URL = f"http://{ADDRESS}:{PORT}"
_WRITES = ("put", "boot", "unboot", "out", "in", "remove")
#: Before the command of the role: it writes down what it was called with.
_COUNTED = '#!/bin/sh\necho "$*" >> {log}\nexec {command} "$@"\n'


class Pxe(Beside):
    name = "pxe"

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gpufleet-pxe-")
        self.folder = Path(self._folder.name)
        self._role()
        self._log = self.folder / "called"
        self._log.touch()
        self._command = self.folder / "counted"
        text = _COUNTED.format(log=self._log, command=self.folder / "gpufleet-netboot")
        self._command.write_text(text, encoding="utf-8")
        self._command.chmod(0o755)
        root = self.folder / "srv"
        argv = [sys.executable, str(root / "bin" / "serve.py"), "--root", str(root), "--listen", f"{ADDRESS}:{PORT}"]
        with (self.folder / "web.log").open("wb") as log:
            self._web = subprocess.Popen(argv, stdout=log, stderr=log)
        lead(f"{URL}/boot.ipxe")

    def _role(self) -> None:
        """As a site runs it, but for packages and units: no machine here asks a dnsmasq anything."""
        loaders = {kind: self.folder / f"{kind}.bin" for kind in ("bios", "efi64")}
        for path in loaders.values():
            path.touch()
        settings = {
            "netboot_dir": str(self.folder / "srv"),
            "netboot_interface": "gfrack0",
            "netboot_address": ADDRESS,
            "netboot_port": PORT,
            "netboot_mode": "proxy",
            "netboot_subnet": "10.77.0.0",
            "netboot_loaders": {kind: str(path) for kind, path in loaders.items()},
            "netboot_command": str(self.folder / "gpufleet-netboot"),
            "netboot_packages": False,
            "netboot_units": False,
            "ansible_python_interpreter": sys.executable,
        }
        roles = [{"role": "gpufleet.baremetal.netboot"}]
        play = {
            "name": "The boot server",
            "hosts": "localhost",
            "gather_facts": False,
            "vars": settings,
            "roles": roles,
        }
        (self.folder / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
        collections = str(lab.CHECKOUT / "build" / "collections")
        env = {**lab.clean_env(), "ANSIBLE_COLLECTIONS_PATH": collections, "ANSIBLE_LOCALHOST_WARNING": "False"}
        done = playbook.run(["-i", "localhost,", "-c", "local", str(self.folder / "play.yml")], env=env)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]

    def close(self) -> None:
        self._web.terminate()
        self._web.wait(timeout=10)
        self._folder.cleanup()

    def variables(self) -> dict[str, Any]:
        return {"gpufleet_provisioner": self.name, "gpufleet_provisioner_url": str(self._command)}

    def image(self, version: str) -> dict[str, Any]:
        """It has no names for images: an entry has their addresses."""
        return {}

    def writes(self) -> list[str]:
        called = self._log.read_text(encoding="utf-8").splitlines()
        return [line for line in called if line.startswith(_WRITES)]

    def lie(self, node: str, lies: bool) -> None:
        """Its loader asks for the entry, which is all that the server knows of a boot, and boots its disk."""
        asks = (f"kernel {URL}/entries/{card(node)}.ipxe", "sanboot --no-describe")
        tell(node, *(asks if lies else (f"chain {URL}/boot.ipxe",)))
