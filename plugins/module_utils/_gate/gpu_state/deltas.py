# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What GPUs counted between two looks. PRIVATE to the collection.

A counter says little by itself: of errors before a repair it tells as of those of today. Two looks around a load tell
what the load has shaken loose.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.document import Gpu, number
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.links import HARMFUL, Links
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.values import Reading
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, INCONCLUSIVE, PASS

#: What is counted, with what more of it means and the remedy.
COUNTED: Mapping[str, tuple[str, str]] = {
    "ecc_volatile_dram": ("uncorrected errors in DRAM", "reset_gpu"),
    "ecc_volatile_sram": ("uncorrected errors in SRAM", "reset_gpu"),
    "ecc_aggregate_dram": ("uncorrected errors in DRAM", "reset_gpu"),
    "ecc_aggregate_sram": ("uncorrected errors in SRAM", "reset_gpu"),
    "ras_uncorrectable": ("uncorrected errors", "reboot"),
    "ras_deferred": ("deferred errors", "reset_gpu"),
    "xgmi_uncorrectable": ("uncorrected errors of XGMI", "reset_gpu"),
    "remap_uncorrectable": ("rows remapped for uncorrected errors", "reset_gpu"),
    "hw_thermal_us": ("µs slowed down by the hardware, too hot", "field_diag"),
    "power_brake_us": ("µs slowed down by the power supply (power brake)", "field_diag"),
    "sw_thermal_us": ("µs slowed down by the driver, too hot", "field_diag"),
    "nvlink": ("errors of NVLinks", "reset_gpu"),
}
#: The driver slows a GPU down at its limit of temperature. For moments at the peak of a load that is its work; this
#: part of the time is a cooling that does not do. Own rule.
_WARM = 0.01
_UNIT = {name: "us" for name in COUNTED if name.endswith("_us")}


def counters(gpu: Gpu, links: Optional[Links]) -> dict[str, int]:
    """What this GPU has counted so far; what it does not tell is not there."""
    found = {name: number(gpu.said(name), _UNIT.get(name, "")) for name in COUNTED if name != "nvlink"}
    told = {name: int(count) for name, count in found.items() if count is not None}
    harmful = [links.counted[name] for name in HARMFUL if links and name in links.counted]
    return {**told, "nvlink": sum(harmful)} if harmful else told


def judge(now: Mapping[str, Any], before: Sequence[Mapping[str, Any]]) -> Reading:
    """A GPU's row of this look against that of the earlier one.

    A row is what :func:`counters` gives, with ``uuid``, ``boot_id`` and ``uptime``.
    """
    rows = [row for row in before if row.get("uuid") == now["uuid"]]
    if len(rows) != 1:
        return Reading(INCONCLUSIVE, None, "the earlier look does not tell of it", "retest")
    [old] = rows
    if old.get("boot_id") != now["boot_id"]:
        return Reading(INCONCLUSIVE, None, "the node was rebooted since the earlier look", "retest")
    if all(_whole(now, name) is None for name in COUNTED):
        return Reading(INCONCLUSIVE, None, "no counter of it is told", "retest")
    wrong = [_compared(name, now, old) for name in COUNTED]
    found = [one for one in wrong if one is not None]
    failed = next((one for one in found if one.verdict == FAIL), None)
    return failed or next(iter(found), Reading(PASS, 0))


def _whole(row: Mapping[str, Any], name: str) -> Optional[int]:
    value = row.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _compared(name: str, now: Mapping[str, Any], old: Mapping[str, Any]) -> Optional[Reading]:
    """None where nothing came to it, or where neither look tells it."""
    before, after = _whole(old, name), _whole(now, name)
    words, remedy = COUNTED[name]
    if before is None:
        return None if after is None else Reading(INCONCLUSIVE, after, f"{words} were not told before", "retest")
    if after is None or after < before:
        told = "are not told any more" if after is None else "are fewer than before: it was reset in between"
        return Reading(INCONCLUSIVE, after, f"{words} {told}", "retest")
    grown = after - before
    if grown <= _allowed(name, now, old):
        return None
    return Reading(FAIL, grown, f"{grown} {words} since the earlier look", remedy)


def _allowed(name: str, now: Mapping[str, Any], old: Mapping[str, Any]) -> float:
    if name != "sw_thermal_us":
        return 0
    try:
        return max(0.0, float(now["uptime"]) - float(old["uptime"])) * 1e6 * _WARM
    except (KeyError, TypeError, ValueError):
        return 0
