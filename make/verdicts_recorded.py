# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One output that was recorded, with what its list says of it, and the machine that it tells of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import Diagnosis
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    Sheet,
    Tool,
    as_verdict,
    digest,
    now_utc,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._in_force import profile_of

#: What the levels of DCGM ask of every machine, for outputs of a machine that nobody named.
_OF_EACH = (("software", 1), ("pcie", 2), ("memory", 2))
ABOUT = {"source": "the recording", "date": "2026-01-01", "conditions": "no SKU was named"}


class NotAsked(Exception):
    """An output of a call that no gate makes."""


@dataclass(frozen=True)
class Recorded:
    """One output. row: what its list says of it. sku: where the list names none."""

    path: Path
    row: Mapping[str, str]
    sku: str

    @property
    def profile(self) -> dict[str, Any]:
        """The SKU's profile; empty where nobody named a SKU."""
        sku = self.row.get("sku") or self.sku
        return profile_of({"sku": sku}).data if sku else {}

    def number(self, column: str, default: int) -> int:
        """:raises ConfigError: where the list says something else than a number."""
        said = self.row.get(column) or ""
        if said and not re.fullmatch(r"-?\d+", said):
            raise ConfigError(f"{column} is no number", seen=said, address=str(self.path))
        return int(said) if said else default


def verdict_of(gate: str, sheet: Sheet, tool: Tool, run: Run, wanted: Wanted | None = None) -> dict[str, Any]:
    """What the gate would have answered of a run whose cells stand on the sheet."""
    profile = wanted.reference() if wanted else None
    return as_verdict(gate, sheet, tool=tool, started=now_utc(), evidence=digest(*run.parts()), profile=profile)


def counted(seen: Diagnosis) -> dict[str, Any]:
    """A profile of the machine that the output itself tells of."""
    ids, devices = seen.gpu_ids(), sorted({device for device in seen.devices().values() if device})
    return {
        "schema": 1,
        "sku": "as-recorded",
        "title": "The machine that the recording tells of",
        "gpu": {
            "count": {"value": max(1, len(ids)), **ABOUT},
            "device_ids": {"value": devices or ["ffff"], **ABOUT},
        },
        "dcgm": {"tests": [{"name": name, "level": level, **ABOUT} for name, level in _OF_EACH]},
    }
