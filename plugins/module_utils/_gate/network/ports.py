# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports of this machine as the kernel shows and counts them. PRIVATE to the collection.

Nothing is filled in: what the kernel does not tell is None, and no zero.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.section import ETHERNET, ROCE, Links

#: By error counter of an RDMA port the highest that it can tell: there it stays, and counts no more
#: (InfiniBand Architecture Specification 1.3, PortCounters).
RDMA: Mapping[str, int] = {
    "symbol_error": 65535,
    "link_error_recovery": 255,
    "link_downed": 255,
    "port_rcv_errors": 65535,
    "local_link_integrity_errors": 15,
}
#: The same of a network device (Linux v6.12 Documentation/networking/statistics.rst), which counts in 64 bits.
NETDEV: Mapping[str, int] = dict.fromkeys(
    ("carrier_down_count", "statistics/rx_errors", "statistics/rx_crc_errors", "statistics/tx_errors"), 2**64 - 1
)
_RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec \((\d+)X\b.*\)\Z")
_STATE = re.compile(r"(\d+): (.+)\Z")
_FOLDERS: Mapping[str, str] = {"infiniband": "InfiniBand", "roce": "Ethernet"}


@dataclass(frozen=True)
class Port:
    """there: does the kernel know it? state: its words for it. up: do they say that it carries data? None for words
    that nobody knows."""

    there: bool
    state: str = ""
    up: Optional[bool] = None
    layer: str = ""
    rate: Optional[float] = None
    lanes: Optional[int] = None
    counters: Optional[Mapping[str, Optional[int]]] = None
    #: Of a port whose driver keeps none of the counters of its kind: what helps.
    uncounted: str = ""

    def as_dict(self) -> dict[str, Any]:
        told = {key: getattr(self, key) for key in ("there", "state", "up", "layer", "rate", "lanes")}
        return {**told, "counters": dict(self.counters or {})}


def limits(links: Links) -> Mapping[str, int]:
    """The counters of a port of that kind, each with the highest that it can tell."""
    return NETDEV if links.kind == ETHERNET else RDMA


def layer(links: Links) -> str:
    """What the kernel calls the link layer of such a port."""
    return _FOLDERS.get(links.kind, "")


def shown(sysfs: str, links: Links, port: str) -> Port:
    return _netdev(sysfs, port) if links.kind == ETHERNET else _rdma(sysfs, port, uncounted(sysfs, links, port))


# -- RDMA --------------------------------------------------------------------------------------------------------------

#: What the kernel says of a port that is up: its logical state, and its physical one
#: (Linux v6.12 drivers/infiniband/core/sysfs.c).
_ACTIVE, _LINK_UP = "4", "5"
_STATES, _PHYSICAL = tuple("012345"), tuple("1234567")


def _folder(sysfs: str, port: str) -> str:
    device, _slash, which = port.partition("/")
    return os.path.join(sysfs, "class", "infiniband", device, "ports", which)


def uncounted(sysfs: str, links: Links, port: str) -> str:
    """Where the driver of an RDMA port keeps none of the counters that each of InfiniBand has: what helps.

    bnxt_re, irdma, ionic and others answer no query of them (process_mad), and the kernel then makes no folder (Linux
    v6.12 drivers/infiniband/core/sysfs.c). What they count in hw_counters each names in its own way, and their network
    device need not count what goes past the kernel, so that neither stands for them.
    """
    folder = _folder(sysfs, port)
    if links.kind == ETHERNET or not os.path.isdir(folder) or os.path.isdir(os.path.join(folder, "counters")):
        return ""
    why = "its driver keeps none of the counters of an RDMA port, there is no folder counters"
    if links.kind != ROCE:
        return f"{why}: look at the driver"
    device = _device(folder)
    return f"{why}: give the profile's links the kind ethernet" + (f", and {device} for this port" if device else "")


def _device(folder: str) -> str:
    """The network device of a port of RoCE; an entry without one cannot be read."""
    place = os.path.join(folder, "gid_attrs", "ndevs")
    names = sorted(os.listdir(place)) if os.path.isdir(place) else []
    return next((word for word in (_word(os.path.join(place, name)) for name in names) if word), "")


def _rdma(sysfs: str, port: str, uncounted: str) -> Port:
    folder = _folder(sysfs, port)
    if not os.path.isdir(folder):
        return Port(False)
    words = (_word(os.path.join(folder, "state")), _word(os.path.join(folder, "phys_state")))
    states = [match.group(1) if match else "" for match in map(_STATE.match, words)]
    known = states[0] in _STATES and states[1] in _PHYSICAL
    rate = _RATE.match(_word(os.path.join(folder, "rate")))
    return Port(
        True,
        f"{words[0] or 'unknown'}, {words[1] or 'unknown'}",
        (states[0] == _ACTIVE and states[1] == _LINK_UP) if known else None,
        _word(os.path.join(folder, "link_layer")),
        float(rate.group(1)) if rate else None,
        int(rate.group(2)) if rate else None,
        {name: number(os.path.join(folder, "counters", name)) for name in RDMA},
        uncounted,
    )


# -- network devices ---------------------------------------------------------------------------------------------------

#: By what the kernel calls a network device, does it carry data (RFC 2863)? ``unknown`` is what a driver says that does
#: not tell.
_OPERATIONAL: Mapping[str, bool] = {
    "up": True,
    **dict.fromkeys(("down", "lowerlayerdown", "notpresent", "dormant", "testing"), False),
}


def _netdev(sysfs: str, name: str) -> Port:
    folder = os.path.join(sysfs, "class", "net", name)
    if not os.path.isdir(folder):
        return Port(False)
    state = _word(os.path.join(folder, "operstate"))
    speed = number(os.path.join(folder, "speed"))
    up = _OPERATIONAL.get(state)
    if up and _word(os.path.join(folder, "carrier")) != "1":
        up = None
    return Port(
        True,
        state or "unknown",
        up,
        "",
        speed / 1000 if speed else None,
        None,
        {counter: number(os.path.join(folder, counter)) for counter in NETDEV},
    )


def number(path: str) -> Optional[int]:
    """A counter of the kernel; None for what is none."""
    word = _word(path)
    return int(word) if word.isascii() and word.isdigit() and len(word) < 21 else None


def _word(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
