# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MAAS: the rack's own, which drives the rack's BMCs and writes its boot entries."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import counts
import lab
import yaml
from beside import Beside, disk

_SHOWN = re.compile(r"gpufleet\.deploy=([0-9a-f]+)")


class Maas(Beside):
    name = "maas"
    settings: ClassVar[tuple[str, ...]] = ("MAAS=true",)

    def close(self) -> None:
        """It stays with the rack."""

    def variables(self) -> dict[str, Any]:
        text = (lab.RACK / "inventory-maas" / "group_vars" / "all.yml").read_text(encoding="utf-8")
        return {key: value for key, value in yaml.safe_load(text).items() if key.startswith("gpufleet_provisioner")}

    def image(self, version: str) -> dict[str, Any]:
        """It has the golden images by the names that are made of name and version."""
        return {}

    def writes(self) -> list[str]:
        return counts.provisioner_writes("inventory-maas")

    def shown(self, node: str) -> str:
        """What cloud-init has kept."""
        text = (disk(node) / "var/lib/cloud/instance/user-data.txt").read_text(encoding="utf-8")
        return "".join(_SHOWN.findall(text)[-1:])

    def lie(self, node: str, lies: bool) -> None:
        """Its machine boots what lies on its disk, whatever its BMC was told; MAAS says Deployed of it."""
        lab.fault(node, "ignore_netboot" if lies else "none")
