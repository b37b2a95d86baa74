# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section ``gpu_bandwidth`` of a SKU's profile. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.floors import chosen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted

NAME = "gpu_bandwidth"


@dataclass(frozen=True)
class Floor:
    """A case of nvbandwidth and what each GPU must reach in it.

    between: ``host``, one number a GPU; ``gpus``, one for each pair of them. minimum: GB/s.
    """

    name: str
    between: str
    minimum: float
    source: str


def _read(section: Mapping[str, Any]) -> tuple[Floor, ...]:
    rows = section["cases"]
    floors = tuple(
        Floor(str(row["name"]), str(row["between"]), float(row["minimum"]), str(row["source"])) for row in rows
    )
    if not floors or any(floor.minimum <= 0 or floor.between not in ("host", "gpus") for floor in floors):
        raise ValueError("a case without a minimum")
    return floors


def floors_of(wanted: Wanted, names: Sequence[str] = ()) -> list[Floor]:
    """The cases of the profile, or those of it that are named.

    :raises ConfigError: where the profile has no such section, or no floor for a case that is named.
    """
    return chosen(wanted, NAME, _read, names)
