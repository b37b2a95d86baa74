# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""xCAT: the management node of the contract tests, before the rack's own BMCs and loaders."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from beside import FROM_DISK, NEW, OLD, Beside, Loaders, bmc, entry, once_up
from maas_server.hardware import Bmc, power_until
from xcat_commands.management import Answer, Management, of_image
from xcat_commands.site import COMMANDS, SHIM, Server, XcatFaults

_NAMED = re.compile(r"imgurl=http://mn:80/(\S+)")


class RackManagement(Management):
    """What it switches is switched, and what it tells of a node the node has done."""

    def __init__(self) -> None:
        super().__init__()
        self.liars: set[str] = set()

    def _bmc(self, name: str) -> Bmc:
        node = self.nodes[name]
        return bmc(name, node.get("bmcusername", ""), node.get("bmcpassword", ""))

    def _switched(self, name: str, verb: str) -> str:
        its = self._bmc(name)
        was = its.power()
        if verb in ("off", "boot", "cycle") and was == "on":
            power_until(its, "off")
            self.tells(name, "powering-off")
        if verb in ("on", "boot", "cycle"):
            power_until(its, "on")
            self.tells(name, "powering-on")
        if verb == "boot":
            return "on reset" if was == "on" else "off on"
        return verb if verb in ("on", "off") else was

    def run(self, argv: Sequence[str], stdin: str = "") -> Answer:
        if argv[0] == "rsetboot" and argv[2] == "net":
            for name in argv[1].split(","):
                self._bmc(name).boot_from_network()
        return super().run(argv, stdin)

    def asked(self, name: str) -> str:
        """What the node's loader is told."""
        self.overridden.discard(name)
        line, named = self.boot_lines.get(name, ""), _NAMED.search(self.boot_lines.get(name, ""))
        if named is None:
            return FROM_DISK
        self.tells(name, "netbooting")
        once_up(name, lambda: self.tells(name, "booted"))
        return FROM_DISK if name in self.liars else entry(line, named[1])


class Xcat(Beside):
    name = "xcat"

    def __init__(self) -> None:
        self.management = RackManagement()
        self.management.images.update({f"gpu-golden-{version}": of_image("netboot") for version in (OLD, NEW)})
        self.faults = XcatFaults(self.management)
        self._server = Server(self.faults)
        self._folder = tempfile.TemporaryDirectory(prefix="gpufleet-xcat-")
        shim = SHIM.format(bash=shutil.which("bash"), port=self._server.server_address[1])
        for place, names in COMMANDS.items():
            (Path(self._folder.name) / place).mkdir()
            for name in names:
                path = Path(self._folder.name) / place / name
                path.write_text(shim, encoding="utf-8")
                path.chmod(0o755)
        self._loaders = Loaders(self.management.asked)

    def close(self) -> None:
        self._loaders.close()
        self._server.shutdown()
        self._server.server_close()
        self._folder.cleanup()

    def variables(self) -> dict[str, Any]:
        return {"gpufleet_provisioner": self.name, "gpufleet_provisioner_url": self._folder.name}

    def options(self) -> dict[str, Any]:
        return {"netboot": "xnba", "arch": "x86_64", "ip": "{{ ansible_host }}"}

    def writes(self) -> list[str]:
        return [one.what for one in self.faults.writes]

    def lie(self, node: str, lies: bool) -> None:
        (self.management.liars.add if lies else self.management.liars.discard)(node)
