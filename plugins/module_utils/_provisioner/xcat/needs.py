# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What xCAT must know before it can deploy a node or give it back, asked before the first write. PRIVATE.

``nodeset`` finds most of this as well, and by then the node's record is changed; what a group says of ``provmethod`` it
does not find at all: a node of that group has the group's where its own was cleared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image, Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat import record, tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat.cli import Cli

#: What an osimage is known by; nodeset writes all but the first into the node's record.
_OF_IMAGE = ("provmethod", "osvers", "osarch", "profile")
#: One architecture under two names.
_SAME_ARCH = {"ppc64el": "ppc64le"}


class Needs:
    """Of groups and images, each asked for once."""

    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        self._groups: dict[str, Mapping[str, str]] = {}
        self._images: dict[str, Mapping[str, str]] = {}

    # -- reading -----------------------------------------------------------------------------------------------

    def image(self, named: str) -> Mapping[str, str] | None:
        if not record.NAME.match(named):
            return None
        if named not in self._images:
            found = self._cli.image(named)
            if found is None:
                return None
            self._images[named] = found
        return self._images[named]

    def method(self, named: str) -> str:
        """How this image comes to a node."""
        return (self.image(named) or {}).get("provmethod", "")

    def _of(self, groups: Iterable[str]) -> list[tuple[str, Mapping[str, str]]]:
        """What these groups say of the nodes in them. One that has no definition says nothing."""
        names = list(dict.fromkeys(groups))
        unknown = [name for name in names if name not in self._groups]
        if unknown:
            found = self._cli.groups(unknown)
            self._groups.update({name: found.get(name, {}) for name in unknown})
        return [(name, self._groups[name]) for name in names]

    # -- what stands against it --------------------------------------------------------------------------------

    def lacking(self, wanted: Wanted, node: NodeState | None) -> FleetError | None:
        """Why this node cannot be deployed with this image."""
        image, raw = wanted.image, node.raw if node is not None else {}
        if image is None:
            return None
        if not wanted.boot_mac and not record.macs(raw):
            return ConfigError(
                "neither xCAT nor the inventory knows by which card the node boots",
                wanted="a MAC address: without one nodeset writes no boot configuration",
                do="set gpufleet_boot_mac",
            )
        groups = list(record.all_groups(wanted, raw if node is not None else None))
        return (
            self.no_image(image)
            or self.overridden(wanted.key, groups)
            or self._no_loader(wanted, raw, groups)
            or self._other_arch(wanted, raw, image)
        )

    def overridden(self, name: str, groups: Sequence[str]) -> FleetError | None:
        """A node without a ``provmethod`` of its own has its group's, and reads as one that is to be deployed."""
        told = [(group, said["provmethod"]) for group, said in self._of(groups) if said.get("provmethod")]
        if not told:
            return None
        return ConfigError(
            "a group of the node has a provmethod, so that the node's own can neither be cleared nor be told from it",
            wanted="provmethod on no group of these nodes",
            seen=", ".join(f"group {group}: provmethod={method}" for group, method in told),
            do=f"chdef -t group {told[0][0]} provmethod=   or take {name} out of that group",
        )

    def no_image(self, wanted: Image) -> FleetError | None:
        image = self.image(wanted.named)
        if image is None:
            return Refused(
                f"xCAT has no image {wanted.named}",
                wanted=f"an osimage of the name {wanted.named}",
                do="copycds or mkdef it (and genimage, packimage), or correct named in gpufleet_image",
            )
        method = image.get("provmethod", "")
        kind = tables.FORMATS.get(method, "")
        if kind != wanted.format:
            return ConfigError(
                f"the osimage {wanted.named} is no image of the format {wanted.format}",
                wanted=f"format: {kind} in gpufleet_image" if kind else "an osimage of provmethod install or netboot",
                seen=f"its provmethod is {method or 'not set'}",
                do="correct format or named in gpufleet_image",
            )
        lacks = [key for key in _OF_IMAGE if not image.get(key)]
        if not lacks:
            return None
        return Refused(
            f"xCAT's osimage {wanted.named} cannot be given to a node",
            wanted=", ".join(_OF_IMAGE),
            seen=f"it lacks {', '.join(lacks)}",
            do=f"chdef -t osimage {wanted.named} {' '.join(f'{key}=...' for key in lacks)}",
        )

    def _no_loader(self, wanted: Wanted, raw: Mapping[str, str], groups: Sequence[str]) -> FleetError | None:
        """Which of its parts answers nodeset xCAT chooses by ``netboot``."""
        told = (said.get("netboot") for _group, said in self._of(groups))
        if wanted.extras.get("netboot") or raw.get("netboot") or any(told):
            return None
        return ConfigError(
            "xCAT does not know by which loader the node boots",
            wanted="netboot of the node or of a group of it: xnba, grub2, pxe or petitboot",
            seen="it is not set: without it nodeset writes no boot configuration",
            do=f"say netboot in the option driver (enroll_driver), or chdef -t node {wanted.key} netboot=xnba",
        )

    def _other_arch(self, wanted: Wanted, raw: Mapping[str, str], image: Image) -> FleetError | None:
        """nodeset writes the image's over it, and sets up a system that the machine cannot boot."""
        own, arch = str(wanted.extras.get("arch") or raw.get("arch", "")), (self.image(image.named) or {})["osarch"]
        if not own or _SAME_ARCH.get(own, own) == _SAME_ARCH.get(arch, arch):
            return None
        return ConfigError(
            f"the osimage {image.named} is of another architecture than the node",
            wanted=f"an osimage of osarch {own}",
            seen=f"its osarch is {arch}",
            do=f"correct named in gpufleet_image, or arch in the option driver, or chdef -t node {wanted.key} arch=",
        )
