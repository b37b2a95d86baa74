# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``nvidia-smi -q -x`` prints of the same values: an element each, in the order and by the names of DTD v13."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

Values = Mapping[str, "tuple[str, str]"]

# path of the element: the field of --query-gpu that it shows, or ``=`` and a value of its own.
ELEMENTS: dict[str, str] = {
    "product_name": "name",
    "product_brand": "=NVIDIA",
    "product_architecture": "=Hopper",
    "persistence_mode": "persistence_mode",
    "addressing_mode": "=None",
    "mig_mode/current_mig": "mig.mode.current",
    "mig_mode/pending_mig": "mig.mode.pending",
    "mig_devices": "=None",
    "serial": "serial",
    "uuid": "uuid",
    "vbios_version": "vbios_version",
    "inforom_version/img_version": "inforom.img",
    "inforom_version/oem_object": "inforom.oem",
    "inforom_version/ecc_object": "inforom.ecc",
    "inforom_version/pwr_object": "=N/A",
    "c2c_mode": "c2c.mode",
    "gpu_recovery_action": "gpu_recovery_action",
    "gsp_firmware_version": "driver_version",
    "pci/pci_bus": "pci.bus",
    "pci/pci_device": "pci.device",
    "pci/pci_domain": "pci.domain",
    "pci/pci_device_id": "pci.device_id",
    "pci/pci_bus_id": "pci.bus_id",
    "pci/pci_sub_system_id": "pci.sub_device_id",
    "pci/pci_gpu_link_info/pcie_gen/max_link_gen": "pcie.link.gen.max",
    "pci/pci_gpu_link_info/pcie_gen/current_link_gen": "pcie.link.gen.current",
    "pci/pci_gpu_link_info/pcie_gen/device_current_link_gen": "pcie.link.gen.current",
    "pci/pci_gpu_link_info/pcie_gen/max_device_link_gen": "pcie.link.gen.gpumax",
    "pci/pci_gpu_link_info/pcie_gen/max_host_link_gen": "pcie.link.gen.hostmax",
    "pci/pci_gpu_link_info/link_widths/max_link_width": "pcie.link.width.max",
    "pci/pci_gpu_link_info/link_widths/current_link_width": "pcie.link.width.current",
    "pci/replay_counter": "=0",
    "performance_state": "pstate",
    "clocks_event_reasons/clocks_event_reason_gpu_idle": "=Active",
    "clocks_event_reasons/clocks_event_reason_applications_clocks_setting": "=Not Active",
    "clocks_event_reasons/clocks_event_reason_sw_power_cap": "=Not Active",
    "clocks_event_reasons/clocks_event_reason_hw_slowdown": "=Not Active",
    "clocks_event_reasons/clocks_event_reason_hw_thermal_slowdown": "=Not Active",
    "clocks_event_reasons/clocks_event_reason_hw_power_brake_slowdown": "=Not Active",
    "clocks_event_reasons/clocks_event_reason_sync_boost": "=Not Active",
    "clocks_event_reasons/clocks_event_reason_sw_thermal_slowdown": "=Not Active",
    "clocks_event_reasons_counters/clocks_event_reasons_counters_sw_power_cap": (
        "clocks_event_reasons_counters.sw_power_cap"
    ),
    "clocks_event_reasons_counters/clocks_event_reasons_counters_sync_boost": (
        "clocks_event_reasons_counters.sync_boost"
    ),
    "clocks_event_reasons_counters/clocks_event_reasons_counters_sw_therm_slowdown": (
        "clocks_event_reasons_counters.sw_thermal_slowdown"
    ),
    "clocks_event_reasons_counters/clocks_event_reasons_counters_hw_therm_slowdown": (
        "clocks_event_reasons_counters.hw_thermal_slowdown"
    ),
    "clocks_event_reasons_counters/clocks_event_reasons_counters_hw_power_brake": (
        "clocks_event_reasons_counters.hw_power_brake_slowdown"
    ),
    "fb_memory_usage/total": "memory.total",
    "fb_memory_usage/reserved": "memory.reserved",
    "fb_memory_usage/used": "memory.used",
    "fb_memory_usage/free": "memory.free",
    "compute_mode": "compute_mode",
    "utilization/gpu_util": "utilization.gpu",
    "utilization/memory_util": "utilization.memory",
    "ecc_mode/current_ecc": "ecc.mode.current",
    "ecc_mode/pending_ecc": "ecc.mode.pending",
    "ecc_errors/volatile/sram_correctable": "ecc.errors.corrected.volatile.sram",
    "ecc_errors/volatile/sram_uncorrectable_parity": "ecc.errors.uncorrected.volatile.sram",
    "ecc_errors/volatile/sram_uncorrectable_secded": "=0",
    "ecc_errors/volatile/dram_correctable": "ecc.errors.corrected.volatile.dram",
    "ecc_errors/volatile/dram_uncorrectable": "ecc.errors.uncorrected.volatile.dram",
    "ecc_errors/aggregate/sram_correctable": "ecc.errors.corrected.aggregate.sram",
    "ecc_errors/aggregate/sram_uncorrectable_parity": "ecc.errors.uncorrected.aggregate.sram",
    "ecc_errors/aggregate/sram_uncorrectable_secded": "=0",
    "ecc_errors/aggregate/dram_correctable": "ecc.errors.corrected.aggregate.dram",
    "ecc_errors/aggregate/dram_uncorrectable": "ecc.errors.uncorrected.aggregate.dram",
    "ecc_errors/aggregate/sram_threshold_exceeded": "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded",
    "ecc_errors/channel_repair_pending": "=No",
    "ecc_errors/tpc_repair_pending": "=No",
    "ecc_errors/unrepairable_memory": "=No",
    "retired_pages/multiple_single_bit_retirement/retired_count": "=N/A",
    "retired_pages/double_bit_retirement/retired_count": "=N/A",
    "retired_pages/pending_blacklist": "retired_pages.pending",
    "retired_pages/pending_retirement": "retired_pages.pending",
    "remapped_rows/remapped_row_corr": "remapped_rows.correctable",
    "remapped_rows/remapped_row_unc": "remapped_rows.uncorrectable",
    "remapped_rows/remapped_row_pending": "remapped_rows.pending",
    "remapped_rows/remapped_row_failure": "remapped_rows.failure",
    "remapped_rows/row_remapper_histogram/row_remapper_histogram_max": "remapped_rows.histogram.max",
    "remapped_rows/row_remapper_histogram/row_remapper_histogram_high": "remapped_rows.histogram.high",
    "remapped_rows/row_remapper_histogram/row_remapper_histogram_partial": "remapped_rows.histogram.partial",
    "remapped_rows/row_remapper_histogram/row_remapper_histogram_low": "remapped_rows.histogram.low",
    "remapped_rows/row_remapper_histogram/row_remapper_histogram_none": "remapped_rows.histogram.none",
    "temperature/gpu_temp": "temperature.gpu",
    "temperature/gpu_temp_tlimit": "temperature.gpu.tlimit",
    "temperature/memory_temp": "temperature.memory",
    "gpu_power_readings/average_power_draw": "power.draw.average",
    "gpu_power_readings/instant_power_draw": "power.draw.instant",
    "gpu_power_readings/current_power_limit": "enforced.power.limit",
    "gpu_power_readings/requested_power_limit": "power.limit",
    "gpu_power_readings/default_power_limit": "power.default_limit",
    "gpu_power_readings/min_power_limit": "power.min_limit",
    "gpu_power_readings/max_power_limit": "power.max_limit",
    "clocks/sm_clock": "clocks.current.sm",
    "clocks/mem_clock": "clocks.current.memory",
    "max_clocks/graphics_clock": "clocks.max.graphics",
    "max_clocks/sm_clock": "clocks.max.sm",
    "max_clocks/mem_clock": "clocks.max.memory",
    "fabric/state": "fabric.state",
    "fabric/status": "fabric.status",
    "fabric/cliqueId": "fabric.cliqueId",
    "fabric/clusterUuid": "fabric.clusterUuid",
    "fabric/health/summary": "fabric.health.summary",
    "fabric/health/bandwidth": "fabric.health.bandwidth",
    "processes": "=",
}
# Units that the table of --query-gpu leaves out, and spellings that differ between the two.
_UNITS = {
    "max_link_width": "x",
    "current_link_width": "x",
    "gpu_temp": " C",
    "gpu_temp_tlimit": " C",
    "memory_temp": " C",
}


def document(values: Callable[[int], Values], found: list[int], driver: str, cuda: str, told: str) -> str:
    """All GPUs, as the tool prints them."""
    lines = [
        '<?xml version="1.0" ?>',
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">',
        "<nvidia_smi_log>",
        f"\t<timestamp>{told}</timestamp>",
        f"\t<driver_version>{driver}</driver_version>",
        f"\t<cuda_version>{cuda}</cuda_version>",
        f"\t<attached_gpus>{len(found)}</attached_gpus>",
    ]
    for number in found:
        own = values(number)
        lines += [f'\t<gpu id="{own["pci.bus_id"][0]}">', *_elements(own), "\t</gpu>", ""]
    return "\n".join([*lines, "</nvidia_smi_log>"])


def _elements(values: Values) -> Iterator[str]:
    """Nested as the paths say."""
    open_now: list[str] = []
    for path, source in ELEMENTS.items():
        *above, name = path.split("/")
        while open_now != above[: len(open_now)]:
            yield f"{_tabs(open_now, -1)}</{open_now.pop()}>"
        for group in above[len(open_now) :]:
            yield f"{_tabs(open_now)}<{group}>"
            open_now.append(group)
        yield f"{_tabs(open_now)}<{name}>{_shown(name, source, values)}</{name}>"
    while open_now:
        yield f"{_tabs(open_now, -1)}</{open_now.pop()}>"


def _tabs(open_now: list[str], more: int = 0) -> str:
    return "\t" * (2 + len(open_now) + more)


def _shown(name: str, source: str, values: Values) -> str:
    """A value without the brackets and prefixes of the table."""
    if source.startswith("="):
        return source[1:]
    value, unit = values[source]
    if name.startswith("pci_"):
        value = value.removeprefix("0x")
    value = value.strip("[]")
    if name.startswith("row_remapper"):
        return f"{value} bank(s)"
    return f"{value} {unit}" if unit else f"{value}{_UNITS.get(name, '')}"
