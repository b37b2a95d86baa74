# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nvidia-smi calls the values that are judged, in each form in which it prints them: a table. PRIVATE.

PRIVATE to the collection. One name here, and beside it the paths of the XML (``-q -x``), the columns of
``--query-gpu``, and the headings of ``-q``. Where a driver spells a value in another way, ``|`` stands between the
spellings, the newest first; where it tells a value in parts that are added up, ``+`` stands between the parts.

Sources: nvidia-smi 515.105.01 (DTD v11), 535.54.03 (v12) and 590.44.01 (v13) for the XML, 590.48.01 and 595.80 for the
other two.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

XML, CSV, TEXT, AMD = "xml", "csv", "text", "amd"


class Spelling(NamedTuple):
    """amd: the path of what amd-smi tells, with its call before it (``amd.py``)."""

    xml: str
    csv: str
    text: str
    amd: str = ""


def _ecc(span: str, place: str) -> Spelling:
    """Uncorrected errors of one kind of memory: in SRAM of two kinds since 545, added up before."""
    parts = ("Parity", "SEC-DED") if place == "sram" else ()
    old = f"{place}_uncorrectable"
    xml = [f"ecc_errors/{span}/{old}"]
    text = [f"ECC Errors/{span.title()}/{place.upper()} Uncorrectable"]
    if parts:
        xml.insert(0, " + ".join(f"ecc_errors/{span}/{old}_{part}" for part in ("parity", "secded")))
        text.insert(0, " + ".join(f"{text[0]} {part}" for part in parts))
    return Spelling(" | ".join(xml), f"ecc.errors.uncorrected.{span}.{place}", " | ".join(text))


def _clocks(xml: str, csv: str, text: str) -> Spelling:
    """A reason for which clocks are low; up to 530 they were called throttle reasons."""
    return Spelling(
        f"clocks_event_reasons/clocks_event_reason_{xml} | clocks_throttle_reasons/clocks_throttle_reason_{xml}",
        f"clocks_event_reasons.{csv} | clocks_throttle_reasons.{csv}",
        f"Clocks Event Reasons/{text} | Clocks Throttle Reasons/{text}",
    )


def _counted(xml: str, csv: str, text: str) -> Spelling:
    name = "clocks_event_reasons_counters"
    return Spelling(f"{name}/{name}_{xml}", f"{name}.{csv}", f"Clocks Event Reasons Counters/{text}")


def _of_fabric(name: str, text: str) -> Spelling:
    """Drivers from 570 on tell the health of the fabric, each some more of it."""
    return Spelling(f"fabric/health/{name}", f"fabric.health.{name}", f"Fabric/Health/{text}")


_PCI = "pci/pci_gpu_link_info"
_LINK = "PCI/GPU Link Info"
_HISTOGRAM = "Remapped Rows/Bank Remap Availability Histogram"

#: Of the machine as a whole.
WHOLE: Mapping[str, Spelling] = {
    "driver": Spelling("driver_version", "driver_version", "Driver Version", "driver"),
    "attached": Spelling("attached_gpus", "count", "Attached GPUs", "attached"),
}

#: Of each GPU.
FIELDS: Mapping[str, Spelling] = {
    "uuid": Spelling("uuid", "uuid", "GPU UUID", "list/uuid"),
    "bus_id": Spelling("pci/pci_bus_id", "pci.bus_id", "PCI/Bus Id", "list/bdf"),
    "device_id": Spelling("pci/pci_device_id", "pci.device_id", "PCI/Device Id", "static/asic/device_id"),
    "vendor": Spelling("", "", "", "static/asic/vendor_id"),
    "memory": Spelling("fb_memory_usage/total", "memory.total", "FB Memory Usage/Total", "derived/memory"),
    "ras_uncorrectable": Spelling("", "", "", "metric/ecc/total_uncorrectable_count"),
    "ras_deferred": Spelling("", "", "", "metric/ecc/total_deferred_count"),
    "blocks_uncorrectable": Spelling("", "", "", "derived/blocks_uncorrectable_count"),
    "blocks_deferred": Spelling("", "", "", "derived/blocks_deferred_count"),
    "prochot": Spelling("", "", "", "metric/throttle/prochot_violation_status"),
    "regulator_thermal": Spelling("", "", "", "metric/throttle/vr_thermal_violation_status"),
    "socket_thermal": Spelling("", "", "", "metric/throttle/socket_thermal_violation_status"),
    "memory_thermal": Spelling("", "", "", "metric/throttle/hbm_thermal_violation_status"),
    "xgmi_uncorrectable": Spelling("", "", "", "metric/ecc_blocks/XGMI_WAFL/uncorrectable_count"),
    "ras_memory": Spelling("", "", "", "static/ras/ecc_block_state/UMC"),
    "pages_retired": Spelling("", "", "", "derived/retired"),
    "pages_pending": Spelling("", "", "", "derived/pending"),
    "pages_unreservable": Spelling("", "", "", "derived/un_res"),
    "compute_partition": Spelling(
        "", "", "", "static/partition/accelerator_partition | static/partition/compute_partition"
    ),
    "memory_partition": Spelling("", "", "", "static/partition/memory_partition"),
    "persistence": Spelling("persistence_mode", "persistence_mode", "Persistence Mode"),
    "mig": Spelling("mig_mode/current_mig", "mig.mode.current", "MIG Mode/Current"),
    "mig_pending": Spelling("mig_mode/pending_mig", "mig.mode.pending", "MIG Mode/Pending"),
    "ecc": Spelling("ecc_mode/current_ecc", "ecc.mode.current", "ECC Mode/Current"),
    "ecc_pending": Spelling("ecc_mode/pending_ecc", "ecc.mode.pending", "ECC Mode/Pending"),
    "ecc_volatile_sram": _ecc("volatile", "sram"),
    "ecc_volatile_dram": _ecc("volatile", "dram"),
    "ecc_aggregate_sram": _ecc("aggregate", "sram"),
    "ecc_aggregate_dram": _ecc("aggregate", "dram"),
    "sram_threshold": Spelling(
        "ecc_errors/aggregate/sram_threshold_exceeded",
        "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded",
        "ECC Errors/Aggregate/SRAM Threshold Exceeded",
    ),
    "channel_repair": Spelling("ecc_errors/channel_repair_pending", "", "ECC Errors/Channel Repair Pending"),
    "tpc_repair": Spelling("ecc_errors/tpc_repair_pending", "", "ECC Errors/TPC Repair Pending"),
    "unrepairable": Spelling("ecc_errors/unrepairable_memory", "", "ECC Errors/Unrepairable Memory"),
    "remap_failure": Spelling(
        "remapped_rows/remapped_row_failure", "remapped_rows.failure", "Remapped Rows/Remapping Failure Occurred"
    ),
    "remap_pending": Spelling("remapped_rows/remapped_row_pending", "remapped_rows.pending", "Remapped Rows/Pending"),
    "remap_uncorrectable": Spelling(
        "remapped_rows/remapped_row_unc", "remapped_rows.uncorrectable", "Remapped Rows/Uncorrectable Error"
    ),
    "banks_low": Spelling(
        "remapped_rows/row_remapper_histogram/row_remapper_histogram_low",
        "remapped_rows.histogram.low",
        f"{_HISTOGRAM}/Low",
    ),
    "banks_none": Spelling(
        "remapped_rows/row_remapper_histogram/row_remapper_histogram_none",
        "remapped_rows.histogram.none",
        f"{_HISTOGRAM}/None",
    ),
    "retired_single": Spelling(
        "retired_pages/multiple_single_bit_retirement/retired_count",
        "retired_pages.single_bit_ecc.count",
        "Retired Pages/Single Bit ECC",
    ),
    "retired_double": Spelling(
        "retired_pages/double_bit_retirement/retired_count",
        "retired_pages.double_bit.count",
        "Retired Pages/Double Bit ECC",
    ),
    "retired_pending": Spelling(
        "retired_pages/pending_retirement | retired_pages/pending_blacklist",
        "retired_pages.pending",
        "Retired Pages/Pending Page Blacklist",
    ),
    "pcie_generation": Spelling(
        f"{_PCI}/pcie_gen/current_link_gen",
        "pcie.link.gen.current",
        f"{_LINK}/PCIe Generation/Current",
        "derived/pcie_generation",
    ),
    "pcie_generation_max": Spelling(
        f"{_PCI}/pcie_gen/max_link_gen",
        "pcie.link.gen.max",
        f"{_LINK}/PCIe Generation/Max",
        "derived/pcie_generation_max",
    ),
    "pcie_width": Spelling(
        f"{_PCI}/link_widths/current_link_width",
        "pcie.link.width.current",
        f"{_LINK}/Link Width/Current",
        "metric/pcie/width",
    ),
    "pcie_width_max": Spelling(
        f"{_PCI}/link_widths/max_link_width",
        "pcie.link.width.max",
        f"{_LINK}/Link Width/Max",
        "static/bus/max_pcie_width",
    ),
    "utilization": Spelling("utilization/gpu_util", "utilization.gpu", "Utilization/GPU", "metric/usage/gfx_activity"),
    "hw_slowdown": _clocks("hw_slowdown", "hw_slowdown", "HW Slowdown"),
    "hw_thermal": _clocks("hw_thermal_slowdown", "hw_thermal_slowdown", "HW Slowdown/HW Thermal Slowdown"),
    "power_brake": _clocks("hw_power_brake_slowdown", "hw_power_brake_slowdown", "HW Slowdown/HW Power Brake Slowdown"),
    "sw_thermal": _clocks("sw_thermal_slowdown", "sw_thermal_slowdown", "SW Thermal Slowdown"),
    "hw_thermal_us": _counted("hw_therm_slowdown", "hw_thermal_slowdown", "HW Thermal Slowdown"),
    "power_brake_us": _counted("hw_power_brake", "hw_power_brake_slowdown", "HW Power Braking"),
    "sw_thermal_us": _counted("sw_therm_slowdown", "sw_thermal_slowdown", "SW Thermal Slowdown"),
    "power_limit": Spelling(
        "gpu_power_readings/current_power_limit | power_readings/enforced_power_limit | power_readings/power_limit",
        "enforced.power.limit | power.limit",
        "GPU Power Readings/Current Power Limit | Power Readings/Enforced Power Limit",
        "static/limit/socket_power | static/limit/ppt0/socket_power_limit",
    ),
    "power_default": Spelling(
        "gpu_power_readings/default_power_limit | power_readings/default_power_limit",
        "power.default_limit",
        "GPU Power Readings/Default Power Limit | Power Readings/Default Power Limit",
    ),
    "power_draw": Spelling(
        "gpu_power_readings/average_power_draw | gpu_power_readings/power_draw | gpu_power_readings/instant_power_draw"
        " | power_readings/power_draw",
        "power.draw.average | power.draw",
        "GPU Power Readings/Average Power Draw | GPU Power Readings/Power Draw | Power Readings/Power Draw",
        "metric/power/socket_power",
    ),
    "temperature": Spelling(
        "temperature/gpu_temp", "temperature.gpu", "Temperature/GPU Current Temp", "metric/temperature/hotspot"
    ),
    "memory_temperature": Spelling(
        "temperature/memory_temp",
        "temperature.memory",
        "Temperature/Memory Current Temp",
        "metric/temperature/mem",
    ),
    "clock": Spelling("clocks/sm_clock", "clocks.current.sm | clocks.sm", "Clocks/SM", "metric/clock/gfx_0/clk"),
    "memory_clock": Spelling(
        "clocks/mem_clock", "clocks.current.memory | clocks.mem", "Clocks/Memory", "metric/clock/mem_0/clk"
    ),
    "fabric_state": Spelling("fabric/state", "fabric.state", "Fabric/State"),
    "fabric_status": Spelling("fabric/status", "fabric.status", "Fabric/Status"),
    "fabric_health": _of_fabric("summary", "Summary"),
    "fabric_bandwidth": _of_fabric("bandwidth", "Bandwidth"),
    "fabric_route": _of_fabric("route_unhealthy", "Route Unhealthy"),
    "fabric_recovering": _of_fabric("route_recovery_in_progress", "Route Recovery in progress"),
    "fabric_timeout": _of_fabric("access_timeout_recovery", "Access Timeout Recovery"),
    "fabric_config": _of_fabric("incorrect_configuration", "Incorrect Configuration"),
    "fabric_cluster": Spelling("fabric/clusterUuid", "fabric.clusterUuid", "Fabric/ClusterUUID"),
    "recovery": Spelling("gpu_recovery_action", "gpu_recovery_action", "GPU Recovery Action"),
    "reset_required": Spelling(
        "gpu_reset_status/reset_required", "reset_status.reset_required", "GPU Reset Status/Reset Required"
    ),
    "drain_and_reset": Spelling(
        "gpu_reset_status/drain_and_reset_recommended",
        "reset_status.drain_and_reset_recommended",
        "GPU Reset Status/Drain and Reset Recommended",
    ),
}
