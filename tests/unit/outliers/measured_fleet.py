# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleets whose gates have measured something, as their verdicts tell it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event

UNIT, CHECK = "GB/s", "bandwidth.host_to_device_memcpy_ce"
DRIVER, DIGEST = "550.54.15", "sha256:" + "5" * 64
#: What is near enough to each other that nobody is an outlier.
EVEN = (53.0, 53.1, 52.9, 53.2, 52.8, 53.05, 52.95, 53.15, 52.85, 53.0)


def row(check: str, entity: str, measured: Any, unit: str = "") -> dict[str, Any]:
    more = {"wanted": 48.0, "source": "s", "verdict": "pass"}
    return {"id": check, "entity": entity, "measured": measured, "unit": unit, **more}


def state(*uuids: str, driver: str = DRIVER) -> Event:
    """What gpu_state_gate tells of these GPUs."""
    rows = [row("driver", "node", driver), *(row("uuid", f"GPU {at}", uuid) for at, uuid in enumerate(uuids))]
    return Event("verdict", "gpu_state_gate", {"verdict": "pass", "checks": rows})


def speeds(
    *values: Any,
    gate: str = "gpu_bandwidth_gate",
    check: str = CHECK,
    unit: str = UNIT,
    sku: str = "h100-sxm-8",
    version: str = "v0.8",
    entity: str = "",
) -> Event:
    """What a gate measured of GPU 0 and so on, or of one entity."""
    rows = [row(check, entity or f"GPU {at}", value, unit) for at, value in enumerate(values)]
    profile, tool = {"sku": sku, "digest": DIGEST}, {"name": "nvbandwidth", "version": version}
    return Event("verdict", gate, {"verdict": "pass", "checks": rows, "profile": profile, "tool": tool})


def add(ledger: Ledger, host: str, *events: Event, serial: str = "") -> str:
    node = ledger.identify(host, aliases=[("serial", serial or f"S-{host}")])
    for event in events:  # each with an id and a time of its own
        ledger.append("r1", [(node, event)])
    return node


def even(ledger: Ledger, values: Sequence[float] = EVEN) -> dict[str, str]:
    """gpu001 and so on, each with one GPU that was measured once."""
    names = [f"gpu{number:03d}" for number in range(1, len(values) + 1)]
    return {
        name: add(ledger, name, state(f"GPU-{name}"), speeds(value)) for name, value in zip(names, values, strict=True)
    }
