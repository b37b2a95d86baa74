# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section ``collective`` of a SKU's profile. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.floors import chosen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.on_bus import AMD, NVIDIA
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted

NAME = "collective"
#: What each algorithm is to NCCL. A figure of one says nothing of another: with NVLS the NVSwitches add up, and less
#: goes over the links than the figure says (NVIDIA/nccl-tests#212).
ENVIRONMENT: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "ring": {"NCCL_ALGO": "RING", "NCCL_NVLS_ENABLE": "0"},
    "nvls": {"NCCL_ALGO": "NVLS", "NCCL_NVLS_ENABLE": "1"},
}
NCCL, RCCL = "nccl", "rccl"
#: By library whose tests measure it, and who made the GPUs. Both have one shape, and RCCL heeds the variables of NCCL;
#: no switch adds up between GPUs of AMD.
TOOLS: Mapping[str, str] = {NCCL: "nccl-tests", RCCL: "rccl-tests"}
VENDORS: Mapping[str, str] = {NCCL: NVIDIA, RCCL: AMD}
GIB = 2**30


@dataclass(frozen=True)
class Floor:
    """A collective over all GPUs of the node, and the bus bandwidth in GB/s that each of its sizes must reach."""

    name: str
    program: str
    algorithm: str
    smallest: int
    largest: int
    minimum: float
    source: str
    library: str = NCCL

    @property
    def sizes(self) -> list[int]:
        """Those that the tool must show: doubled from the smallest one on, as it is asked, up to the largest."""
        return [self.smallest << times for times in range((self.largest // self.smallest).bit_length())]

    @property
    def unit(self) -> str:
        """What the figure is, so that nobody compares it with another one."""
        return f"GB/s busbw, {self.smallest // GIB} to {self.largest // GIB} GiB, {self.algorithm}"


def _read(section: Mapping[str, Any]) -> tuple[Floor, ...]:
    floors = tuple(
        Floor(
            str(row["name"]),
            str(row["program"]),
            str(row["algorithm"]),
            int(row["from_gib"]) * GIB,
            int(row["to_gib"]) * GIB,
            float(row["minimum"]),
            str(row["source"]),
            str(row.get("library") or NCCL),
        )
        for row in section["tests"]
    )
    if len({one.library for one in floors}) > 1:
        raise ValueError("collectives of two libraries, and a node has GPUs of one maker")
    if not floors or not all(map(usable, floors)):
        raise ValueError("a collective without a minimum, an algorithm or sizes")
    return floors


def usable(one: Floor) -> bool:
    """Can it be run and judged by?"""
    run = one.algorithm in ENVIRONMENT and one.library in TOOLS and (one.library, one.algorithm) != (RCCL, "nvls")
    return run and one.minimum > 0 and GIB <= one.smallest <= one.largest and one.largest in one.sizes


def floors_of(wanted: Wanted, names: Sequence[str] = ()) -> list[Floor]:
    """The collectives of the profile, or those of it that are named.

    :raises ConfigError: where the profile has no such section, or no floor for one that is named.
    """
    return chosen(wanted, NAME, _read, names)
