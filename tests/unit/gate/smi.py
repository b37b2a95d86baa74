# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Outputs of nvidia-smi of our own making, in the shape of drivers 535 to 590, and a program that prints them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

DRIVER = "580.105.08"
ABOUT = {"source": "written for tests", "date": "2026-11-25", "conditions": "none at all"}
#: The cells that the profile of these tests demands.
CELLS = (
    *("ecc_mode", "ecc_volatile", "ecc_aggregate", "sram_threshold", "row_remap", "row_remap_banks", "recovery"),
    *("clocks", "memory", "mig", "persistence", "power", "pcie", "fabric", "nvlink", "nvlink_errors"),
)
LINKS = 18
_COUNTERS = "clocks_event_reasons_counters"
#: A healthy, idle H100.
HEALTHY: dict[str, str] = {
    "product_name": "NVIDIA H100 80GB HBM3",
    "persistence_mode": "Enabled",
    "mig_mode/current_mig": "Disabled",
    "mig_mode/pending_mig": "Disabled",
    "gpu_recovery_action": "None",
    "pci/pci_device_id": "233010DE",
    "pci/pci_gpu_link_info/pcie_gen/max_link_gen": "5",
    "pci/pci_gpu_link_info/pcie_gen/current_link_gen": "5",
    "pci/pci_gpu_link_info/link_widths/max_link_width": "16x",
    "pci/pci_gpu_link_info/link_widths/current_link_width": "16x",
    "clocks_event_reasons/clocks_event_reason_gpu_idle": "Active",
    "clocks_event_reasons/clocks_event_reason_sw_power_cap": "Not Active",
    "clocks_event_reasons/clocks_event_reason_hw_slowdown": "Not Active",
    "clocks_event_reasons/clocks_event_reason_hw_thermal_slowdown": "Not Active",
    "clocks_event_reasons/clocks_event_reason_hw_power_brake_slowdown": "Not Active",
    "clocks_event_reasons/clocks_event_reason_sw_thermal_slowdown": "Not Active",
    f"{_COUNTERS}/{_COUNTERS}_sw_therm_slowdown": "0 us",
    f"{_COUNTERS}/{_COUNTERS}_hw_therm_slowdown": "0 us",
    f"{_COUNTERS}/{_COUNTERS}_hw_power_brake": "0 us",
    "fb_memory_usage/total": "81559 MiB",
    "utilization/gpu_util": "0 %",
    "ecc_mode/current_ecc": "Enabled",
    "ecc_mode/pending_ecc": "Enabled",
    "ecc_errors/volatile/sram_uncorrectable_parity": "0",
    "ecc_errors/volatile/sram_uncorrectable_secded": "0",
    "ecc_errors/volatile/dram_uncorrectable": "0",
    "ecc_errors/aggregate/sram_uncorrectable_parity": "0",
    "ecc_errors/aggregate/sram_uncorrectable_secded": "0",
    "ecc_errors/aggregate/dram_uncorrectable": "0",
    "ecc_errors/aggregate/sram_threshold_exceeded": "No",
    "ecc_errors/channel_repair_pending": "No",
    "ecc_errors/tpc_repair_pending": "No",
    "ecc_errors/unrepairable_memory": "No",
    "retired_pages/multiple_single_bit_retirement/retired_count": "N/A",
    "retired_pages/double_bit_retirement/retired_count": "N/A",
    "retired_pages/pending_retirement": "N/A",
    "remapped_rows/remapped_row_unc": "0",
    "remapped_rows/remapped_row_pending": "No",
    "remapped_rows/remapped_row_failure": "No",
    "remapped_rows/row_remapper_histogram/row_remapper_histogram_low": "0 bank(s)",
    "remapped_rows/row_remapper_histogram/row_remapper_histogram_none": "0 bank(s)",
    "gpu_power_readings/average_power_draw": "70.12 W",
    "gpu_power_readings/current_power_limit": "700.00 W",
    "fabric/state": "Completed",
    "fabric/status": "Success",
    "fabric/clusterUuid": "00000000-0000-0000-0000-000000000000",
    "fabric/health/summary": "N/A",
}
Values = Mapping[str, Optional[str]]


UNITS = {"memory": "MiB", "power": "W", "pcie_generation": "generation", "pcie_width": "lanes"}
UNITS |= {"nvlink_links": "links", "nvlink_speed": "GB/s"}


def profile(*cells: str, count: int = 8) -> dict[str, Any]:
    """The profile of this suite's SKU with what the gate on the GPUs' state asks for."""
    own = made.profile(count)
    figures = {"memory": 81559, "power": 700, "pcie_generation": 5, "pcie_width": 16}
    figures.update({"nvlink_links": LINKS, "nvlink_speed": 26.562})  # type: ignore[dict-item]
    own["gpu"].update({name: {"value": value, "unit": UNITS[name], **ABOUT} for name, value in figures.items()})
    rows = [{"name": name, **({"limit": 4} if name == "ecc_aggregate" else {}), **ABOUT} for name in cells or CELLS]
    return {**own, "gpu_state": {"cells": rows}}


def uuid(number: int) -> str:
    return f"GPU-00000000-0000-4000-8000-{number:012d}"


def _nested(values: Values) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in values.items():
        *above, name = path.split("/")
        inner = tree
        for group in above:
            inner = inner.setdefault(group, {})
        if value is not None:
            inner[name] = value
    return tree


def _printed(tree: Mapping[str, Any]) -> str:
    return "".join(
        f"<{name}>{_printed(inner) if isinstance(inner, dict) else inner}</{name}>\n" for name, inner in tree.items()
    )


def gpu(number: int, **changed: Optional[str]) -> str:
    """One GPU. changed: by the path, with ``__`` for the slash; None takes a value away."""
    bus = f"00000000:{number + 16:02X}:00.0"
    own = {"uuid": uuid(number), "pci/pci_bus_id": bus, **HEALTHY}
    own.update({path.replace("__", "/"): value for path, value in changed.items()})  # type: ignore[dict-item]
    return f'<gpu id="{bus}">\n{_printed(_nested(own))}</gpu>\n'


def xml(*broken: Mapping[str, Optional[str]], gpus: int = 8, at: int = 3, driver: str = DRIVER) -> str:
    """A document. broken: what is changed of one GPU, the one called ``at``."""
    changed = dict(broken[0]) if broken else {}
    rows = "".join(gpu(number, **(changed if number == at else {})) for number in range(gpus))
    head = f"<driver_version>{driver}</driver_version>\n<attached_gpus>{gpus}</attached_gpus>\n"
    doctype = '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">'
    return f'<?xml version="1.0" ?>\n{doctype}\n<nvidia_smi_log>\n{head}{rows}</nvidia_smi_log>\n'


def state(gpus: int = 8, *, down: Optional[int] = None, speed: str = "26.562 GB/s") -> str:
    """What ``nvidia-smi nvlink -s`` prints. down: the GPU of which link 5 is down."""
    lines = []
    for number in range(gpus):
        lines.append(f"GPU {number}: NVIDIA H100 80GB HBM3 (UUID: {uuid(number)})")
        lines += [f"\t Link {link}: {'<inactive>' if (number, link) == (down, 5) else speed}" for link in range(LINKS)]
    return "\n".join(lines) + "\n"


def errors(gpus: int = 8, *, replays: int = 0, at: int = 3) -> str:
    """What ``nvidia-smi nvlink -e`` prints."""
    lines = []
    for number in range(gpus):
        lines.append(f"GPU {number}: NVIDIA H100 80GB HBM3 (UUID: {uuid(number)})")
        for link in range(LINKS):
            counts = {"Replay": replays if (number, link) == (at, 7) else 0, "Recovery": 0, "CRC": 0}
            lines += [f"\t Link {link}: {name} Errors: {count}" for name, count in counts.items()] + [""]
    return "\n".join(lines) + "\n"


def tool(folder: Path, document: str, *, links: str = "", counted: str = "", rc: int = 0, body: str = "") -> str:
    """An nvidia-smi that prints these. body: shell before it."""
    gpus = document.count("<gpu id=") or 8
    outputs = {"q": document, "s": links or state(gpus), "e": counted or errors(gpus)}
    for name, text in outputs.items():
        (folder / f"smi.{name}").write_text(text, encoding="utf-8")
    return made.program(
        folder / "nvidia-smi",
        f'{body}\ncase "$*" in "-q -x") cat {folder}/smi.q; exit {rc};; "nvlink -s") cat {folder}/smi.s;;'
        f' "nvlink -e") cat {folder}/smi.e;; *) exit 2;; esac',
    )


def params(folder: Path, document: str, **how: Any) -> dict[str, Any]:
    """The options of a gpu_state_gate over this machine."""
    return {
        "nvidia_smi": tool(folder, document, **how),
        "profile": profile(),
        "timeout": 20,
        "again_timeout": 0,
    }
