# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which machines a GPU was found, as their passports tell. PRIVATE to the collection."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.dsse import payload_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.statement import identity_of


def where_measured(ledger: Ledger, gpu: str) -> list[tuple[float, str]]:
    """Time and node of each newest passport that names it; one that was issued without it speaks of later."""
    found = ((one, _gpus(one["envelope"])) for one in ledger.newest_passports())
    return [(one["issued"], one["node_id"]) for one, gpus in found if gpu.lower() in gpus]


def _gpus(envelope: Mapping[str, Any]) -> list[str]:
    try:
        statement = json.loads(payload_of(envelope))
    except (FleetError, ValueError):  # it is judged where it is to admit a node
        return []
    who = identity_of(statement) if isinstance(statement, Mapping) else None
    return [name.lower() for name in (who or {}).get("gpu_uuids", [])]
