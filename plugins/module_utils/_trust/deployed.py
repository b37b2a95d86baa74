# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Did this very deployment reach the node? Read there, with the standard library alone. PRIVATE to the collection.

An image of the same version proves nothing: a node that ignored the network boot has it already. What it can only have
from this deployment is its id, which is random; the node is told no more of it than its digest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._deployment import digest, ids_in
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.disks import elsewhere, number_of

CHECK = "deployment"
#: Where a deployment leaves its id, by what that is called: the option that says where it lies.
PLACES: Mapping[str, str] = {
    "kernel command line": "cmdline_path",
    "config drive": "config_drive_path",
    "user data": "user_data_path",
}
#: Ironic makes a partition of this size for a config drive; what lies behind is none of it.
_LIMIT = 64 * 1024 * 1024
_CARD = len("00:00:00:00:00:00")
#: A boot from the network, by what shows it: the card (BOOTIF), or a boot entry that was written for this node.
_NETWORK = "network boot"
#: A drive proves that a disk was written. That the running system came from there is another question.
_DRIVE, _NOT_ITS_OWN = "config drive", "config drive that does not count"
_OVER, _BY_ENTRY = f"{_NETWORK} over", f"{_NETWORK} by the entry of"


def wanted(deploy_id: str, boot_mac: str = "", earlier: Collection[str] = ()) -> dict[str, Any]:
    """What the node is told.

    :param boot_mac: of a stateless node, whose boot from the network since the order is the deployment.
    :param earlier: ids of deployments of this node that its boot entry may still have.
    """
    return {"digest": digest(deploy_id), "boot_mac": boot_mac, "earlier": [digest(one) for one in earlier]}


def right(asked: Mapping[str, Any]) -> Callable[[Any], bool]:
    """Does what was read prove it? Asked on the node, and again by the controller."""

    def proves(seen: Any) -> bool:
        place, _colon, found = seen.partition(": ") if isinstance(seen, str) else ("", "", "")
        if place in PLACES:
            return digest(found) == asked["digest"]
        by_network = {_OVER: bool(found) and found == asked["boot_mac"], _BY_ENTRY: digest(found) in asked["earlier"]}
        return by_network.get(place, False)

    return proves


def proves(check: Mapping[str, Any], deploy_id: str) -> bool:
    """Has this check, of a verdict in the ledger, proven this deployment? What was asked for stands in it."""
    return (check.get("id"), check.get("verdict"), check.get("wanted")) == (CHECK, "pass", digest(deploy_id))


def proof_in(check: Mapping[str, Any]) -> str:
    """By what a passed check proves it: a place, or the network boot."""
    place = str(check.get("measured") or "").partition(": ")[0]
    return place if place in PLACES else _NETWORK


def read(params: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """What proves it; else the deployment that the node tells of, or nothing."""
    proves_it = right(asked)
    found = list(_told(params))
    # Why a drive does not count tells more than an id of before.
    found.sort(key=lambda one: not one.startswith(_NOT_ITS_OWN))
    return next((one for one in found if proves_it(one)), found[0] if found else "")


def _told(params: Mapping[str, Any]) -> Iterator[str]:
    for place, option in PLACES.items():
        content, number = _content(str(params[option]))
        ids = dict.fromkeys(ids_in(content))
        why = elsewhere(number, params["mountinfo_path"], params["sysfs_path"]) if ids and place == _DRIVE else ""
        for one in ids:
            yield f"{_NOT_ITS_OWN} ({why}): {one}" if why else f"{place}: {one}"
        if option == "cmdline_path":
            yield from _network(content)


def _network(cmdline: bytes) -> Iterator[str]:
    """A boot from a disk has neither on its command line."""
    for word in cmdline.split():
        if word.startswith(b"BOOTIF="):
            # pxelinux and iPXE put the kind of the hardware before the address.
            card = word[len(b"BOOTIF=") :].decode("ascii", "replace").lower().replace("-", ":")
            yield f"{_OVER}: {card[-_CARD:]}"
    for one in dict.fromkeys(ids_in(cmdline)):
        yield f"{_BY_ENTRY}: {one}"


def _content(path: str) -> tuple[bytes, str]:
    """And the device that it was read from. A drive is read as it lies on the disk, and mounted nowhere; its label may
    stand in either case."""
    for place in (Path(path), Path(path).with_name(Path(path).name.upper())):
        with suppress(OSError), place.open("rb") as source:
            return source.read(_LIMIT), number_of(os.fstat(source.fileno()))
    return b"", ""
