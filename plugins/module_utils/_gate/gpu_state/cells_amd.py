# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each value of an AMD GPU must be, and what it means where it is not: one rule a cell. PRIVATE.

PRIVATE to the collection. Runs on nodes: standard library only.
"""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.document import Gpu
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.values import (
    SINCE,
    Reading,
    all_of,
    errors,
    slowed,
    told,
    word_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL


def ras(gpu: Gpu, _wanted: object) -> Reading:
    """What goes on after an error that was not corrected is not defined (ROCm/rocm-systems#3766): more than a reset."""
    wrong = errors(gpu, "ras_uncorrectable", f"uncorrected errors {SINCE}", 0, "reboot")
    more = [
        ("blocks_uncorrectable", "uncorrected errors of its blocks", "reboot"),
        ("ras_deferred", "deferred errors", "reset_gpu"),
        ("blocks_deferred", "deferred errors of its blocks", "reset_gpu"),
    ]
    rest = [errors(gpu, field, f"{name} {SINCE}", 0, remedy) for field, name, remedy in more if told(gpu, field)]
    return all_of([wrong, *rest])


def clocks(gpu: Gpu) -> Reading:
    """A violation of the limit of power is none: under load it is the rule. At a limit of heat it holds itself."""
    hard = {
        "prochot": "the hardware slows it down (PROCHOT)",
        "regulator_thermal": "its voltage regulators are too hot",
    }
    soft = {"socket_thermal": "too hot: it slows itself down", "memory_thermal": "its memory is too hot"}
    return slowed(gpu, hard, soft, "not active")


def xgmi(gpu: Gpu, _wanted: object) -> Reading:
    """The counter of XGMI itself tells nothing on MI300 (ROCm/rocm-systems#11468); that of its block does."""
    return errors(gpu, "xgmi_uncorrectable", f"uncorrected errors of XGMI {SINCE}", 0, "reset_gpu")


def bad_pages(gpu: Gpu, _wanted: object) -> Reading:
    """How many are too many the driver itself says, in the kernel's log."""
    gone = errors(gpu, "pages_retired", "retired pages", float("inf"), "none")
    waits = errors(gpu, "pages_pending", "pages that wait for a reset to be retired", 0, "reset_gpu")
    kept = errors(gpu, "pages_unreservable", "bad pages that could not be retired", 0, "rma")
    return all_of([kept, waits, gone])


def ras_memory(gpu: Gpu, _wanted: object) -> Reading:
    off = {"disabled": (FAIL, "ECC of its memory is off", "remediate_config")}
    return word_of(gpu, "ras_memory", "whether ECC of its memory is on", ("enabled",), off)


def partition(gpu: Gpu, _wanted: object) -> Reading:
    cut = {one: (FAIL, f"it is divided ({one.upper()})", "remediate_config") for one in ("dpx", "tpx", "qpx", "cpx")}
    parts = {f"nps{at}": (FAIL, f"its memory is divided (NPS{at})", "remediate_config") for at in (2, 4, 8)}
    return all_of(
        [
            word_of(gpu, "compute_partition", "how it is divided", ("spx",), cut),
            word_of(gpu, "memory_partition", "how its memory is divided", ("nps1",), parts),
        ]
    )
