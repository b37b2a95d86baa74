# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section ``gpu_state`` of a SKU's profile, and the figures of the SKU that it uses. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.cells import RULES, Wants
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted, version_of

Version = tuple[int, int, int]
NAME = "gpu_state"
NVIDIA, AMD = "nvidia-smi", "amd-smi"
#: What leaves the gate out of the role that runs it.
_WITHOUT = "gate_gpu_state: false"


@dataclass(frozen=True)
class Row:
    """One cell that the SKU demands, from one driver on and up to another."""

    wants: Wants
    since: Version
    until: Optional[Version]

    def holds(self, version: Optional[Version]) -> bool:
        """Where the driver's version is not known, everything is demanded."""
        if version is None:
            return True
        return version >= self.since and (self.until is None or version < self.until)


def _row(row: Mapping[str, Any], gpu: Mapping[str, Any]) -> Row:
    name, limit = str(row["name"]), row.get("limit")
    rule = RULES[name]
    if rule.limited and limit is None:
        raise ValueError(f"the cell {name} of {NAME} needs a limit")
    figures = {figure: float(gpu[figure]["value"]) for figure in rule.figures}
    wants = Wants(name, str(row["source"]), figures, None if limit is None else float(limit))
    return Row(wants, version_of(row.get("since", "0")), version_of(row["until"]) if "until" in row else None)


def section_of(wanted: Wanted) -> tuple[Row, ...]:
    """:raises ConfigError: where the profile has no such section, or lacks a figure that one of its cells needs."""
    gpu = wanted.profile["gpu"]
    return wanted.section(NAME, lambda section: tuple(_row(row, gpu) for row in section["cells"]), _WITHOUT)


def tool_of(wanted: Wanted) -> str:
    """What tells of the GPUs of this SKU.

    :raises ConfigError: where the section cannot be read.
    """
    return wanted.section(NAME, lambda section: str(section.get("tool", NVIDIA)), _WITHOUT)


def demanded(wanted: Wanted, version: Optional[Version]) -> list[Wants]:
    """The cells that each GPU must fill under this driver."""
    return [row.wants for row in section_of(wanted) if row.holds(version)]


def parse_version(text: str) -> Optional[Version]:
    """A driver's version; None where this is none."""
    parts = text.strip().split(".")
    if not 2 <= len(parts) <= 4 or not all(part.isdigit() and len(part) < 6 for part in parts):
        return None
    return version_of(".".join(parts[:3]))
