# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What BCM must know before it can deploy a node, asked before the first write. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm import record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm.cmsh import Cmsh
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm.record import Record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted

_YES = ("yes", "true", "on", "1")


class Needs:
    """Of software images and categories, each list asked for once."""

    def __init__(self, cmsh: Cmsh) -> None:
        self._cmsh = cmsh
        self._lists: dict[str, dict[str, Record]] = {}

    def _list(self, mode: str, *properties: str) -> dict[str, Record]:
        if mode not in self._lists:
            self._lists[mode] = self._cmsh.objects(mode, *properties)
        return self._lists[mode]

    def images(self) -> dict[str, Record]:
        return self._list("softwareimage", "kernelparameters")

    def categories(self) -> dict[str, Record]:
        return self._list("category", "softwareimage", "datanode", "kernelparameters")

    # -- the kernel's parameters -------------------------------------------------------------------------------

    def passed_on(self, node: Mapping[str, str], named: str) -> tuple[str, ...]:
        """The kernel parameters that a node has which sets none itself, with this image; then those that it may show as
        its own by now, of the image that it has."""
        category = self.categories().get(node.get("category", ""), {})
        images = self.images()
        of_image = images.get(named, {}).get("kernelparameters", "")
        told = category.get("kernelparameters", "")
        theirs = images.get(category.get("softwareimage", ""), {}).get("kernelparameters", "")
        standing = images.get(node.get("softwareimage", ""), {}).get("kernelparameters", "")
        # A category that sets none shows those of its own image, which may be another one than this node's.
        return (told if told and told != theirs else of_image), told, standing

    # -- what stands against it --------------------------------------------------------------------------------

    def lacking(self, wanted: Wanted, node: NodeState | None) -> FleetError | None:
        """Why this node cannot be deployed with this image."""
        if wanted.image is None:
            return None
        raw = node.raw if node is not None else {}
        return self._no_image(wanted.image.named) or self._wrong_category(wanted, raw) or self._kept(wanted, raw)

    def _no_image(self, named: str) -> FleetError | None:
        if record.OBJECT.match(named) and named in self.images():
            return None
        return Refused(
            f"BCM has no software image {named}",
            wanted="one of " + ", ".join(sorted(self.images())),
            do="clone or create it there (softwareimage), or correct named in gpufleet_image",
        )

    def _wrong_category(self, wanted: Wanted, raw: Mapping[str, str]) -> FleetError | None:
        asked = str(wanted.extras.get("category") or "")
        if asked and asked not in self.categories():
            return ConfigError(
                f"BCM has no category {asked}",
                wanted="one of " + ", ".join(sorted(self.categories())),
                do="correct category in the option driver (enroll_driver)",
            )
        if not asked or raw.get("category", asked) == asked:
            return None
        return ConfigError(
            f"BCM has the node in another category than {asked}",
            wanted=asked,
            seen=raw["category"],
            do="move it there by hand, since a category brings roles and mounts of its own, or correct category in the"
            " option driver (enroll_driver)",
        )

    def _kept(self, wanted: Wanted, raw: Mapping[str, str]) -> FleetError | None:
        """Whoever set this wants to be asked before its disks are wiped: its installer waits for a person."""
        name = raw.get("category") or str(wanted.extras.get("category") or "")
        category = self.categories().get(name, {})
        where = [
            text
            for text, one in ((f"the node {wanted.key}", raw), (f"its category {name}", category))
            if one.get("datanode", "").lower() in _YES
        ]
        if not where:
            return None
        return Refused(
            "it is a data node at BCM: its installer waits for a person before it wipes its disks",
            wanted="datanode=no of the node and of its category",
            seen=f"datanode=yes of {' and of '.join(where)}",
            do="ask who set it, and set datanode no there",
        )
