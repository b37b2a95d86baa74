# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BCM: the head node of the contract tests, before the rack's own machines and loaders."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm.install_log import ENVIRONMENT
from bcm_commands.head import Head
from bcm_commands.site import CmshFaults
from beside import FROM_DISK, NEW, OLD, Beside, Loaders, answers, entry, once_up
from xcat_commands.site import SHIM, Server


class RackHead(Head):
    """Its installer runs on the machine that has asked for it, and a node is up that answers."""

    def __init__(self, log: Path) -> None:
        super().__init__(log)
        self.liars: set[str] = set()

    def live(self) -> None:
        for name, (word, _told) in list(self.status.items()):
            if not word.startswith("INSTALL"):
                self._is(name, "UP" if answers(name) else "DOWN")

    def asked(self, name: str) -> str:
        """What the node's loader is told: the installer, which installs in the mode that stands there now."""
        if name not in self.nodes:
            return FROM_DISK
        installs = self.nodes[name].get("nextinstallmode") == "FULL"
        self._loads(name)

        def ended() -> None:
            self._installed(name)
            self._is(name, "UP")

        once_up(name, ended)
        if not installs or name in self.liars:
            return FROM_DISK
        return entry(self.boot_lines[name], self.inherits(name, "softwareimage"))


class Bcm(Beside):
    name = "bcm"

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gpufleet-bcm-")
        folder = Path(self._folder.name)
        self.head = RackHead(folder / "node-installer")
        self.head.images.update(
            {f"gpu-golden-{version}": {"kernelparameters": "net.ifnames=0"} for version in (OLD, NEW)}
        )
        image = {"softwareimage": f"gpu-golden-{OLD}"}
        self.head.categories.update(default=dict(image), gpu=dict(image))
        self.faults = CmshFaults(self.head)
        self._server = Server(self.faults)
        self._cmsh = folder / "cmsh"
        shim = SHIM.format(bash=shutil.which("bash"), port=self._server.server_address[1])
        self._cmsh.write_text(shim, encoding="utf-8")
        self._cmsh.chmod(0o755)
        self.env = {ENVIRONMENT: str(self.head.log)}
        self._loaders = Loaders(self.head.asked)

    def close(self) -> None:
        self._loaders.close()
        self._server.shutdown()
        self._server.server_close()
        self._folder.cleanup()

    def variables(self) -> dict[str, Any]:
        return {"gpufleet_provisioner": self.name, "gpufleet_provisioner_url": str(self._cmsh)}

    def options(self) -> dict[str, Any]:
        return {"category": "gpu"}

    def writes(self) -> list[str]:
        return [one.what for one in self.faults.writes]

    def lie(self, node: str, lies: bool) -> None:
        (self.head.liars.add if lies else self.head.liars.discard)(node)
