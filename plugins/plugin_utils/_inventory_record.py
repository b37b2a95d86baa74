# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One machine as one source knows it. PRIVATE to the collection."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _net as net
from ansible_collections.gpufleet.baremetal.plugins.module_utils._serial import serial_of, uuid_of

_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
#: Names that mean something else to ansible-core: all hosts, and the controller, to which tasks are delegated.
_MEANT_OTHERWISE = re.compile(r"all|ungrouped|localhost(\..*)?|127(\.\d+){1,3}|ip6-localhost|ip6-loopback", re.I)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


def uuid(text: str) -> str:
    """One spelling, in lower case; empty for one that is on many boards.

    :raises ValueError: for what is no UUID.
    """
    lower = text.strip().lower()
    if not _UUID.match(lower):
        raise ValueError("not a UUID")
    return uuid_of(lower)


def serial(text: str) -> str:
    """Without blanks around; empty for what boards say that have none."""
    return serial_of(text)


def is_host_name(text: str) -> bool:
    """Can a host of an inventory be called so?"""
    return bool(_HOST_NAME.match(text)) and not _MEANT_OTHERWISE.fullmatch(text)


def macs(texts: Iterable[Any]) -> list[str]:
    """Those that are addresses of one card; a machine's own records hold others too (bonds, InfiniBand)."""
    found = []
    for text in texts:
        try:
            found.append(net.mac(str(text)))
        except ValueError:
            continue
    return found


@dataclass
class Record:
    """where: what a person finds the row by. name: the source's name for it, which identifies nothing.

    variables: host variables; None and empty strings are left out of the inventory.
    dpu: a card within a node that its source has as a machine of its own. It is no node, and left out unless its source
    names a group for it.
    """

    where: str
    name: str = ""
    serial: str = ""
    system_uuid: str = ""
    macs: list[str] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)
    dpu: bool = False
    group: str = ""

    def identities(self) -> list[tuple[str, str]]:
        """What identifies it, strongest first."""
        pairs = [("serial", self.serial.upper()), ("system UUID", self.system_uuid)]
        return [pair for pair in pairs if pair[1]] + [("MAC", address) for address in self.macs]

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Record:
        return cls(**content)
