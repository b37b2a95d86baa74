# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section ``gpu_burn`` of a SKU's profile. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.floors import chosen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted

NAME = "gpu_burn"
#: By what is multiplied the option that asks for it.
PRECISIONS: Mapping[str, tuple[str, ...]] = {"float": (), "double": ("-d",), "tensor": ("-tc",)}


@dataclass(frozen=True)
class Burn:
    """One run over all GPUs. memory: per cent of what is free. minimum: Gflop/s of each GPU."""

    name: str
    precision: str
    memory: int
    seconds: int
    minimum: float
    source: str

    @property
    def unit(self) -> str:
        """What the figure is, so that nobody compares it with another one."""
        return f"Gflop/s, gpu-burn {self.precision}, {self.memory} % of memory"

    def cell(self, what: str) -> str:
        return f"{self.name}.{what}"


def _read(section: Mapping[str, Any]) -> tuple[Burn, ...]:
    found = tuple(
        Burn(
            str(row["name"]),
            str(row["precision"]),
            int(row["memory_percent"]),
            int(row["seconds"]),
            float(row["minimum"]),
            str(row["source"]),
        )
        for row in section["burns"]
    )
    whole = all(one.precision in PRECISIONS and 1 <= one.memory <= 95 and one.seconds > 0 for one in found)
    if (
        not found
        or not whole
        or any(one.minimum <= 0 for one in found)
        or len({one.name for one in found}) < len(found)
    ):
        raise ValueError("a burn without a name of its own, a precision, a memory, a time or a minimum")
    return found


def burns_of(wanted: Wanted, names: Sequence[str] = ()) -> list[Burn]:
    """The burns of the profile, or those of it that are named.

    :raises ConfigError: where the profile has no such section, or no burn that is named.
    """
    return chosen(wanted, NAME, _read, names)
