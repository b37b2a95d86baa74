# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section ``network`` of a SKU's profile. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.floors import chosen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted

NAME = "network"
INFINIBAND, ROCE, ETHERNET = "infiniband", "roce", "ethernet"
KINDS = (INFINIBAND, ROCE, ETHERNET)
#: A port of an RDMA device, or a network device of the kernel; never a way to another folder.
_PORT: Mapping[str, re.Pattern[str]] = {
    INFINIBAND: re.compile(r"[A-Za-z0-9_-]+/[1-9]\d?\Z"),
    ROCE: re.compile(r"[A-Za-z0-9_-]+/[1-9]\d?\Z"),
    ETHERNET: re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,14}\Z"),
}


@dataclass(frozen=True)
class Links:
    """Ports of one kind, each by its name. rate: Gb/s. lanes: None where nobody demands them. errors: so many of each
    counter at most in so many seconds. effective_ber, symbol_ber: of how many bits one may be wrong, None where nobody
    asks."""

    name: str
    kind: str
    ports: tuple[str, ...]
    rate: float
    lanes: Optional[int]
    errors: int
    seconds: float
    source: str
    effective_ber: Optional[float] = None
    symbol_ber: Optional[float] = None


def links_of(section: Mapping[str, Any]) -> tuple[Links, ...]:
    found = tuple(_row(row) for row in section["links"])
    names, ports = [one.name for one in found], [port for one in found for port in one.ports]
    whole = found and all(_readable(one) for one in found)
    if not whole or len(set(names)) != len(names) or len(set(ports)) != len(ports):
        raise ValueError("links without a name of their own, a kind, ports of their own, a rate or a time")
    return found


def _row(row: Mapping[str, Any]) -> Links:
    return Links(
        str(row["name"]),
        str(row["kind"]),
        tuple(str(port) for port in row["ports"]),
        float(row["rate_gbps"]),
        None if row.get("lanes") is None else int(row["lanes"]),
        int(row["errors"]),
        float(row["seconds"]),
        str(row["source"]),
        *(None if row.get(key) is None else float(row[key]) for key in ("effective_ber", "symbol_ber")),
    )


def _readable(one: Links) -> bool:
    named = one.kind in KINDS and bool(one.ports) and all(_PORT[one.kind].match(port) for port in one.ports)
    lanes = one.lanes is None or (one.kind != ETHERNET and one.lanes > 0)
    told = [rate for rate in (one.effective_ber, one.symbol_ber) if rate is not None]
    rates = all(0 < rate < 1 for rate in told) and (one.kind != ETHERNET or not told)
    return named and lanes and rates and one.rate > 0 and one.seconds > 0 and one.errors >= 0


def section_of(wanted: Wanted, names: Sequence[str] = ()) -> list[Links]:
    """The links of the profile, all or those named.

    :raises ConfigError: where the profile has no such section, or no links that are named.
    """
    return chosen(wanted, NAME, links_of, names)
