# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each value of a GPU must be, and what it means where it is not: one rule a cell. PRIVATE to the collection.

A value that is not there, that the driver could not read, or that is a word nobody knows, is not measured. Where a
rule reads several values, the worst of them is the cell's.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Callable, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state import cells_amd, cells_fabric
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.document import (
    Gpu,
    number,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.fields import AMD
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.values import (
    SINCE,
    Reading,
    all_of,
    errors,
    flag,
    slowed,
    told,
    unread,
    word_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, INCONCLUSIVE, PASS

#: How far a size that drivers round may lie below that of the profile.
_NEAR = 0.98
#: NVIDIA/DCGM v4.6.0 limits a GPU to so many retired pages.
_RETIRED_PAGES = 63


# -- memory ------------------------------------------------------------------------------------------------------------


def _ecc_mode(gpu: Gpu, _wanted: Wants) -> Reading:
    off = {"disabled": (FAIL, "ECC is off", "remediate_config")}
    later = {"disabled": (INCONCLUSIVE, "ECC will be off after the next reset", "remediate_config")}
    return all_of(
        [
            word_of(gpu, "ecc", "the ECC mode", ("enabled",), off),
            word_of(gpu, "ecc_pending", "the ECC mode after a reset", ("enabled",), later),
        ]
    )


def _ecc_volatile(gpu: Gpu, _wanted: Wants) -> Reading:
    return all_of(
        [
            errors(gpu, "ecc_volatile_dram", f"uncorrected errors in DRAM {SINCE}", 0, "reset_gpu"),
            errors(gpu, "ecc_volatile_sram", f"uncorrected errors in SRAM {SINCE}", 0, "reset_gpu"),
        ]
    )


def _ecc_aggregate(gpu: Gpu, wanted: Wants) -> Reading:
    """DRAM has rows to replace what failed, and the rules on rows judge it. SRAM has none."""
    sram = errors(gpu, "ecc_aggregate_sram", "uncorrected errors in SRAM in its life", wanted.limit or 0.0, "rma")
    dram = errors(gpu, "ecc_aggregate_dram", "uncorrected errors in DRAM in its life", float("inf"), "none")
    return all_of([sram, dram])


def _sram_threshold(gpu: Gpu, _wanted: Wants) -> Reading:
    name = "whether the limit of errors in SRAM is exceeded"
    return flag(gpu, "sram_threshold", name, "the limit of errors in SRAM is exceeded", "rma")


def _row_remap(gpu: Gpu, _wanted: Wants) -> Reading:
    failed = flag(gpu, "remap_failure", "whether a row remap failed", "a row remap failed", "rma")
    waits = flag(gpu, "remap_pending", "whether a row remap waits", "a row remap waits for a reset", "reset_gpu")
    return all_of([failed, waits, errors(gpu, "remap_uncorrectable", "remapped rows", float("inf"), "none")])


def _row_remap_banks(gpu: Gpu, _wanted: Wants) -> Reading:
    empty = errors(gpu, "banks_none", "banks of memory without a row left to remap", 0, "field_diag", "bank(s)")
    low = errors(gpu, "banks_low", "banks of memory with few rows left", float("inf"), "none", "bank(s)")
    if low.verdict == PASS and low.measured:
        low = replace(low, text=f"{low.measured} banks of memory have few rows left to remap", note=True)
    return all_of([empty, low])


def _retired_pages(gpu: Gpu, _wanted: Wants) -> Reading:
    """GPUs before Ampere retire pages, and remap no rows."""
    both = [*gpu.said("retired_single"), *gpu.said("retired_double")]
    count = number(both)
    if count is None:
        pages = unread("the number of retired pages", both)
    elif count > _RETIRED_PAGES:
        pages = Reading(FAIL, int(count), f"{count:.0f} retired pages, allowed are {_RETIRED_PAGES}", "rma")
    else:
        pages = Reading(PASS, int(count))
    name = "whether a page waits to be retired"
    return all_of([pages, flag(gpu, "retired_pending", name, "a page waits for a reset to be retired", "reset_gpu")])


def _repairs(gpu: Gpu, _wanted: Wants) -> Reading:
    """What drivers since 575 tell besides."""
    rows = [
        ("unrepairable", "memory cannot be repaired", "rma"),
        ("channel_repair", "the repair of a memory channel waits for a reset", "reset_gpu"),
        ("tpc_repair", "the repair of a TPC waits for a reset", "reset_gpu"),
    ]
    readings = [flag(gpu, field, f"whether {text}", text, remedy) for field, text, remedy in rows if told(gpu, field)]
    return all_of(readings) if readings else unread("which repairs are due", [])


_RESETS = (("reset_required", "a reset", "reset it"), ("drain_and_reset", "a drain", "drain and reset it"))


def _recovery(gpu: Gpu, _wanted: Wants) -> Reading:
    """What the driver itself asks for; before 570 only whether a reset is due. Where it tells both, neither may ask."""
    asks = "the driver asks to"
    bad = {
        "reset": (FAIL, f"{asks} reset it", "reset_gpu"),
        "gpu reset": (FAIL, f"{asks} reset it", "reset_gpu"),
        "drain and reset": (FAIL, f"{asks} drain and reset it", "reset_gpu"),
        "drain p2p": (FAIL, f"{asks} drain its peers", "reset_gpu"),
        "reboot": (FAIL, f"{asks} reboot the node", "reboot"),
        "node reboot": (FAIL, f"{asks} reboot the node", "reboot"),
    }
    older = [
        flag(gpu, field, f"whether {words} is asked for", f"{asks} {text}", "reset_gpu")
        for field, words, text in _RESETS
        if told(gpu, field)
    ]
    if older and not told(gpu, "recovery"):
        return all_of(older)
    return all_of([word_of(gpu, "recovery", "which recovery the driver asks for", ("none",), bad), *older])


def _memory(gpu: Gpu, wanted: Wants) -> Reading:
    words = gpu.said("memory")
    size = number(words, "MiB")
    if size is None:
        return unread("the size of its memory", words)
    if size < wanted.figure("memory") * _NEAR:
        text = f"{size:.0f} MiB of memory, wanted {wanted.figure('memory'):.0f}"
        return Reading(FAIL, size, text, "field_diag")
    return Reading(PASS, size)


# -- settings, clocks, power, links ------------------------------------------------------------------------------------


def _mig(gpu: Gpu, _wanted: Wants) -> Reading:
    on = {"enabled": (FAIL, "MIG is on", "remediate_config")}
    later = {"enabled": (FAIL, "MIG will be on after the next reset", "remediate_config")}
    return all_of(
        [
            word_of(gpu, "mig", "the MIG mode", ("disabled",), on),
            word_of(gpu, "mig_pending", "the MIG mode after a reset", ("disabled",), later),
        ]
    )


def _persistence(gpu: Gpu, _wanted: Wants) -> Reading:
    text = "persistence mode is off: a driver that was unloaded has forgotten the errors that it counted"
    return word_of(
        gpu, "persistence", "the persistence mode", ("enabled",), {"disabled": (INCONCLUSIVE, text, "remediate_config")}
    )


_SLOW = {
    "hw_thermal": "too hot: the hardware slows it down",
    "power_brake": "the power supply slows it down (power brake)",
    "hw_slowdown": "the hardware slows it down",
}


def _clocks(gpu: Gpu, _wanted: Wants) -> Reading:
    """Reasons that no healthy GPU has, idle or loaded. The power cap is none: under load it is the rule.

    For moments at the peak of a load the driver does it, and two looks tell for how long; the hardware never does.
    """
    if gpu.form == AMD:
        return cells_amd.clocks(gpu)
    return slowed(gpu, _SLOW, {"sw_thermal": "too hot: the driver slows it down"}, "not active")


def _power(gpu: Gpu, wanted: Wants) -> Reading:
    """The limit must be that of the SKU; a draw that cannot be read is watched by nobody."""
    words = gpu.said("power_limit")
    limit = number(words, "W")
    if limit is None:
        capped = unread("its power limit", words)
    elif limit < wanted.figure("power") - 1:
        text = f"its power limit is {limit:.0f} W, wanted {wanted.figure('power'):.0f}"
        capped = Reading(FAIL, limit, text, "remediate_config")
    else:
        capped = Reading(PASS, limit)
    draw = number(gpu.said("power_draw"), "W")
    drawn = unread("its power draw", gpu.said("power_draw")) if draw is None else Reading(PASS, draw)
    return all_of([capped, drawn])


def _busy(gpu: Gpu) -> Optional[bool]:
    """None where nobody knows."""
    used = number(gpu.said("utilization"), "%")
    return None if used is None else used > 0


def _pcie(gpu: Gpu, wanted: Wants) -> Reading:
    """An idle link steps down to save power; what it trained for is its maximum, and under load it must be there."""
    return all_of([_link_of(gpu, wanted, *row) for row in _PCIE])


_PCIE = (("pcie_generation", "", "PCIe generation", False), ("pcie_width", "x", "PCIe lanes", True))


def _link_of(gpu: Gpu, wanted: Wants, field: str, unit: str, name: str, steady: bool) -> Reading:
    """steady: an idle link keeps it, as far as is known of these GPUs."""
    need = wanted.figure(field)
    most, now = number(gpu.said(f"{field}_max"), unit), number(gpu.said(field), unit)
    if most is None:
        return unread(f"the greatest {name}", gpu.said(f"{field}_max"))
    if now is None:
        return unread(name, gpu.said(field))
    if most < need:
        return Reading(FAIL, most, f"at most {most:.0f} {name}, wanted {need:.0f}", "reseat")
    shown = f"{now:.0f} of {most:.0f} {name}"
    busy = _busy(gpu)
    if now >= need or (not steady and busy is False):
        return Reading(PASS, shown)
    if busy:
        return Reading(FAIL, shown, f"{now:.0f} {name} under load, wanted {need:.0f}", "reseat")
    how = "while idle" if busy is False else "and nobody knows whether it is idle"
    return Reading(INCONCLUSIVE, shown, f"{now:.0f} {name} {how}, wanted {need:.0f}", "retest")


# -- the rules ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wants:
    """What the profile wants of one cell. figures: those of the SKU that the rule reads."""

    name: str
    source: str
    figures: Mapping[str, float]
    limit: Optional[float] = None

    def figure(self, name: str) -> float:
        return self.figures[name]

    @property
    def wanted(self) -> Any:
        """As it is shown beside what was measured."""
        if self.limit is not None:
            return self.limit
        shown = [self.figures[name] for name in RULES[self.name].figures]
        return RULES[self.name].wanted or (shown[0] if len(shown) == 1 else list(shown) or "")


@dataclass(frozen=True)
class Rule:
    """judge: None where the value is read by a call of its own. wanted: in words, where its figures do not say it.

    health: it counts where it fails although the profile does not demand it. limited: the profile gives a limit.
    """

    judge: Optional[Callable[[Gpu, Wants], Reading]]
    wanted: str = ""
    figures: tuple[str, ...] = ()
    health: bool = False
    limited: bool = False


#: The cells of a GPU that a profile may demand.
RULES: Mapping[str, Rule] = {
    "mig": Rule(_mig, "Disabled"),  # first: where it is on, other values are not told
    "ecc_mode": Rule(_ecc_mode, "Enabled"),
    "ecc_volatile": Rule(_ecc_volatile, "0", health=True),
    "ecc_aggregate": Rule(_ecc_aggregate, limited=True),
    "sram_threshold": Rule(_sram_threshold, "No", health=True),
    "row_remap": Rule(_row_remap, "No", health=True),
    "row_remap_banks": Rule(_row_remap_banks, "0", health=True),
    "retired_pages": Rule(_retired_pages, "No", health=True),
    "repairs": Rule(_repairs, "No", health=True),
    "recovery": Rule(_recovery, "None", health=True),
    "ras": Rule(cells_amd.ras, "0", health=True),
    "xgmi": Rule(cells_amd.xgmi, "0", health=True),
    "bad_pages": Rule(cells_amd.bad_pages, "0", health=True),
    "ras_memory": Rule(cells_amd.ras_memory, "ENABLED"),
    "partition": Rule(cells_amd.partition, "SPX, NPS1"),
    "clocks": Rule(_clocks, "Not Active", health=True),
    "memory": Rule(_memory, figures=("memory",)),
    "persistence": Rule(_persistence, "Enabled"),
    "power": Rule(_power, figures=("power",)),
    "pcie": Rule(_pcie, figures=("pcie_generation", "pcie_width")),
    "fabric": Rule(cells_fabric.fabric, "Completed"),
    "fabric_cluster": Rule(cells_fabric.cluster, "a cluster"),
    "nvlink": Rule(None, figures=("nvlink_links", "nvlink_speed")),
    "nvlink_errors": Rule(None, "0", figures=("nvlink_links",)),
}
#: The cells for which a call of their own is made.
OF_LINKS = ("nvlink", "nvlink_errors")
