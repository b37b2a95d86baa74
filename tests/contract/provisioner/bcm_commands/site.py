# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BCM's cmsh, as the contract suite sees it: a tiny program that asks this process, and what can go wrong there."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm import cmsh
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm.install_log import ENVIRONMENT
from calls import lead
from contract.faults import GARBAGE, NO, OUTAGE, REFUSAL, Said
from sites import Site, patched
from xcat_commands.site import SHIM, Server, XcatFaults

from .head import AWAY, Head

WAYS = {
    OUTAGE: Said(1, err=AWAY),
    GARBAGE: Said(0, out="<h1>Wartung</h1>\n"),
    "silence": Said(0),
    "killed": Said(-9),
    REFUSAL: Said(0, err="Error: Permission denied\n"),
    NO: Said(0, err="Error: the object is locked\n"),
}


class CmshFaults(XcatFaults):
    """What becomes of a session is said here, before it comes to the head node."""

    unusable = tuple(way for way in WAYS if way not in (REFUSAL, NO))
    ways: Mapping[str, Said] = WAYS

    def deny(self, command: str) -> None:
        """Its user gets a profile that reads."""
        self._management.profile = "readonly"

    def forget(self) -> None:
        super().forget()
        self._management.profile = "admin"

    def is_write(self, argv: list[str]) -> bool:
        return argv[-1].endswith("commit") or bool(re.search(r"power -n \S+ o(n|ff);", argv[-1]))


class BcmSite(Site):
    name = "bcm"
    many_calls = True
    watcher_writes = True
    destructive_words = ("nextinstallmode FULL", "deployment")
    extras: ClassVar[dict[str, Any]] = {"category": "gpu"}

    def __init__(self, folder: Path) -> None:
        self.head = Head(folder / "node-installer")
        self.head.images.update({f"gold-{version}": {"kernelparameters": "net.ifnames=0"} for version in ("1", "2")})
        self.head.categories.update(default={"softwareimage": "gold-1"}, gpu={"softwareimage": "gold-1"})
        self.faults = CmshFaults(self.head)
        self._server = Server(self.faults)
        self._cmsh = folder / "cmsh"
        shim = SHIM.format(bash=shutil.which("bash"), port=self._server.server_address[1])
        self._cmsh.write_text(shim, encoding="utf-8")
        self._cmsh.chmod(0o755)
        self.marks = (self.closed_by_somebody, self.owned_by_somebody)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @contextlib.contextmanager
    def in_good_health(self) -> Iterator[Site]:
        with pytest.MonkeyPatch.context() as patch, super().in_good_health():
            patch.setenv(ENVIRONMENT, str(self.head.log))
            yield self

    rights = ("commit",)

    def without(self, right: str) -> dict[str, Any]:
        self.faults.deny("commit")
        return {}

    def is_ordered(self, name: str, named: str) -> bool:
        return self.record(name).get("nextinstallmode") == "FULL"

    def patience(self, seconds: float) -> contextlib.AbstractContextManager[Any]:
        return patched((cmsh, "TIMEOUT", seconds), (cmsh, "EACH", 0.0))

    def connection(self) -> dict[str, Any]:
        return {"provisioner": self.name, "provisioner_url": str(self._cmsh)}

    def record(self, name: str) -> dict[str, str]:
        return self.head.nodes[name]

    def closed_by_somebody(self, name: str) -> None:
        self.head.closed[name] = "(fan dead)"

    def owned_by_somebody(self, name: str) -> None:
        self.record(name)["userdefined1"] = f"owner=tenant7 {self.record(name)['userdefined1']}"

    def other_serial(self, name: str, serial: str) -> None:
        self.forget_serial(name)
        self.record(name)["userdefined1"] += f" gpufleet-serial={quote(serial)}"

    def forget_serial(self, name: str) -> None:
        node = self.record(name)
        node["userdefined1"] = re.sub(r" ?gpufleet-serial=\S+", "", node["userdefined1"])

    def other_card(self, name: str, mac: str) -> None:
        self.record(name)["mac"] = mac.upper()

    def strand(self, name: str) -> None:
        self.head.status[name] = ("INSTALLING", "(waiting for user input)")

    def boot(self, name: str) -> None:
        self.head.boots(name)

    def stumbles(self) -> tuple[dict[str, Any], str, str]:
        options = {**self.new(), "image": self.image()}
        lead(options, "ready")
        self.fails_to_deploy(options)
        return options, "deployed", "failed: its status at BCM is"

    def fails_to_deploy(self, options: dict[str, Any]) -> str:
        name = options["name"]
        lead(options, "deployed")
        self.head.failing.add(name)
        self.boot(name)
        self.until(name, "gold-1 FULL INSTALLER_FAILED")
        self.head.failing.discard(name)
        return "its status at BCM is INSTALLER_FAILED"

    def undeployable(self) -> tuple[tuple[dict[str, Any], str], ...]:
        image = self.image("2")
        nowhere = {"driver": {**self.extras, "category": "nowhere"}, "image": image}
        return (
            ({"image": {**image, "named": "gold-9"}}, "BCM has no software image gold-9"),
            ({"image": {**image, "named": "gold-1; reboot"}}, "BCM has no software image"),
            (nowhere, "BCM has no category nowhere"),
        )

    def many(self, count: int) -> list[str]:
        names = [self.new()["name"] for _number in range(count)]
        for name in names:
            self.head.enter(name)
        return names

    def native(self, name: str) -> str:
        self.head.live()
        mode = self.record(name).get("nextinstallmode", "")
        return f"{self.head.inherits(name, 'softwareimage')} {mode} {self.head.status[name][0]}"

    def power(self, name: str) -> str:
        return self.head.power.get(name, "ON").lower()

    def taken_there(self, name: str) -> bytes:
        return self.head.boot_lines[name].encode()

    def deployments(self) -> int:
        return sum(call.what.count('nextinstallmode "FULL"') for call in self.faults.writes)
