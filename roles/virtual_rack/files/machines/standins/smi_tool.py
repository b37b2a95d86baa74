# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``nvidia-smi`` as it prints and exits, over the state of this node's GPUs."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Sequence

import gpu_state
import smi_xml

# Source: nvidia-smi's manual, "RETURN VALUE".
OK = 0
INVALID_ARGUMENT = 2
DRIVER_NOT_LOADED = 9
GPU_LOST = 15

NOT_AVAILABLE = "[N/A]"
_DEPRECATED = "[Requested functionality has been deprecated]"

# field: (value, unit); what differs from GPU to GPU or by fault is in _own().
FIELDS: dict[str, tuple[str, str]] = {
    "name": (gpu_state.NAME, ""),
    "gpu_name": (gpu_state.NAME, ""),
    "pci.domain": ("0x0000", ""),
    "pci.device": ("0x00", ""),
    "pci.device_id": ("0x233010DE", ""),
    "pci.sub_device_id": ("0x16C110DE", ""),
    "vbios_version": ("96.00.A5.00.01", ""),
    "inforom.img": ("G520.0200.00.05", ""),
    "inforom.oem": ("2.1", ""),
    "inforom.ecc": ("7.16", ""),
    "inforom.checksum_validation": ("valid", ""),
    "gpu_recovery_action": ("None", ""),
    "persistence_mode": ("Enabled", ""),
    "display_mode": (_DEPRECATED, ""),
    "pstate": ("P0", ""),
    "compute_mode": ("Default", ""),
    "compute_cap": ("9.0", ""),
    "mig.mode.current": ("Disabled", ""),
    "mig.mode.pending": ("Disabled", ""),
    "ecc.mode.current": ("Enabled", ""),
    "ecc.mode.pending": ("Enabled", ""),
    "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded": ("No", ""),
    "retired_pages.pending": (NOT_AVAILABLE, ""),
    "remapped_rows.correctable": ("0", ""),
    "remapped_rows.uncorrectable": ("0", ""),
    "remapped_rows.pending": ("No", ""),
    "remapped_rows.failure": ("No", ""),
    "remapped_rows.histogram.max": ("2560", ""),
    "remapped_rows.histogram.high": ("0", ""),
    "remapped_rows.histogram.partial": ("0", ""),
    "remapped_rows.histogram.low": ("0", ""),
    "remapped_rows.histogram.none": ("0", ""),
    "clocks_event_reasons.active": ("0x0000000000000001", ""),
    "clocks_event_reasons_counters.sw_power_cap": ("0", "us"),
    "clocks_event_reasons_counters.sync_boost": ("0", "us"),
    "clocks_event_reasons_counters.sw_thermal_slowdown": ("0", "us"),
    "clocks_event_reasons_counters.hw_thermal_slowdown": ("0", "us"),
    "clocks_event_reasons_counters.hw_power_brake_slowdown": ("0", "us"),
    "pcie.link.gen.current": ("5", ""),
    "pcie.link.gen.max": ("5", ""),
    "pcie.link.gen.gpumax": ("5", ""),
    "pcie.link.gen.hostmax": ("5", ""),
    "pcie.link.width.current": ("16", ""),
    "pcie.link.width.max": ("16", ""),
    "temperature.gpu": ("36", ""),
    "temperature.gpu.tlimit": ("51", ""),
    "temperature.memory": ("44", ""),
    "power.draw": ("70.12", "W"),
    "power.draw.average": ("70.12", "W"),
    "power.draw.instant": ("69.88", "W"),
    "power.limit": ("700.00", "W"),
    "enforced.power.limit": ("700.00", "W"),
    "power.default_limit": ("700.00", "W"),
    "power.min_limit": ("200.00", "W"),
    "power.max_limit": ("700.00", "W"),
    "clocks.current.sm": ("345", "MHz"),
    "clocks.current.memory": ("2619", "MHz"),
    "clocks.max.graphics": ("1980", "MHz"),
    "clocks.max.sm": ("1980", "MHz"),
    "clocks.max.memory": ("2619", "MHz"),
    "memory.total": (str(gpu_state.MEMORY_MIB), "MiB"),
    "memory.reserved": ("479", "MiB"),
    "memory.used": ("0", "MiB"),
    "memory.free": (str(gpu_state.MEMORY_MIB - 479), "MiB"),
    "utilization.gpu": ("0", "%"),
    "utilization.memory": ("0", "%"),
    "gsp.mode.current": ("Enabled", ""),
    "gsp.mode.default": ("Enabled", ""),
    "c2c.mode": ("Disabled", ""),
    "fabric.state": ("Completed", ""),
    "fabric.status": ("Success", ""),
    "fabric.cliqueId": ("0", ""),
    "fabric.clusterUuid": ("00000000-0000-0000-0000-000000000000", ""),
    "fabric.health.summary": ("N/A", ""),
    "fabric.health.bandwidth": ("N/A", ""),
}
_SPANS = ("volatile", "aggregate")
_KINDS = ("corrected", "uncorrected")
_PLACES = ("dram", "sram", "total")


def _own(number: int, found: list[int]) -> dict[str, tuple[str, str]]:
    """The values that are this GPU's own."""
    faults = gpu_state.faults()
    own = {
        "timestamp": (datetime.datetime.now().strftime("%Y/%m/%d %H:%M:%S.%f")[:-3], ""),
        "driver_version": (gpu_state.manifest()["driver"], ""),
        "count": (str(len(found)), ""),
        "index": (str(found.index(number)), ""),
        "serial": (gpu_state.serial(number), ""),
        "gpu_serial": (gpu_state.serial(number), ""),
        "uuid": (gpu_state.gpu_uuid(number), ""),
        "gpu_uuid": (gpu_state.gpu_uuid(number), ""),
        "pci.bus_id": (gpu_state.bus_id(number), ""),
        "gpu_bus_id": (gpu_state.bus_id(number), ""),
        "pci.bus": (f"0x{gpu_state.BUSES[number].upper()}", ""),
        "platform.module_id": (str(number + 1), ""),
    }
    for kind in _KINDS:
        for span in _SPANS:
            own.update({f"ecc.errors.{kind}.{span}.{place}": ("0", "") for place in _PLACES})
    ecc = faults.get("ecc_uncorrected", {})
    if ecc.get("gpu") == number:
        count = (str(ecc.get("count", 3)), "")
        own.update({f"ecc.errors.uncorrected.{span}.{place}": count for span in _SPANS for place in ("dram", "total")})
    if faults.get("row_remap_failure", {}).get("gpu") == number:
        own.update({"remapped_rows.failure": ("Yes", ""), "remapped_rows.uncorrectable": ("8", "")})
    return own


def main(arguments: Sequence[str] | None = None) -> int:
    """Run."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not gpu_state.manifest().get("driver"):
        print(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
            "Make sure that the latest NVIDIA driver is installed and running.\n"
        )
        return DRIVER_NOT_LOADED
    if words == ["--version"]:
        return _version()
    lost = gpu_state.lost()
    if lost is not None:
        print(
            f"Unable to determine the device handle for GPU{lost}: "
            f"{gpu_state.bus_id(lost)}: GPU is lost.  Reboot the system to recover this GPU"
        )
        return GPU_LOST
    queries = [word for word in words if word.startswith("--query-gpu=")]
    if queries:
        return _query(queries[0].partition("=")[2], words)
    action = ACTIONS.get(tuple(words))
    if action is None:
        print(f"Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n{' '.join(words)}")
        return INVALID_ARGUMENT
    return action()


def _version() -> int:
    told = gpu_state.manifest()
    print(f"NVIDIA-SMI version  : {told['driver']}\nNVML version        : {'.'.join(told['driver'].split('.')[:2])}")
    print(f"DRIVER version      : {told['driver']}\nCUDA Version        : {told.get('cuda', 'N/A')}")
    return OK


def _query(fields: str, words: list[str]) -> int:
    names = fields.split(",")
    form = next((word.partition("=")[2].split(",") for word in words if word.startswith("--format=")), [])
    if "csv" not in form:
        print("Format must be specified as csv.")
        return INVALID_ARGUMENT
    found = _selected(words)
    rows = []
    for number in found:
        values = {**FIELDS, **_own(number, gpu_state.present())}
        unknown = [name for name in names if name not in values]
        if unknown:
            print(f'Field "{unknown[0]}" is not a valid field to query.\n')
            return INVALID_ARGUMENT
        rows.append([values[name] for name in names])
    if "noheader" not in form and rows:
        print(", ".join(f"{name} [{unit}]" if unit else name for name, (_value, unit) in zip(names, rows[0])))
    for row in rows:
        print(", ".join(value if not unit or "nounits" in form else f"{value} {unit}" for value, unit in row))
    return OK if rows else INVALID_ARGUMENT


def _selected(words: list[str]) -> list[int]:
    found = gpu_state.present()
    for at, word in enumerate(words):
        value = words[at + 1] if word in ("-i", "--id") and at + 1 < len(words) else ""
        value = word.partition("=")[2] if word.startswith("--id=") else value
        if value:
            return [found[int(item)] for item in value.split(",") if item.isdigit() and int(item) < len(found)]
    return found


def _list() -> int:
    for index, number in enumerate(gpu_state.present()):
        print(f"GPU {index}: {gpu_state.NAME} (UUID: {gpu_state.gpu_uuid(number)})")
    return OK


def _nvlink() -> int:
    for index, number in enumerate(gpu_state.present()):
        print(f"GPU {index}: {gpu_state.NAME} (UUID: {gpu_state.gpu_uuid(number)})")
        for link in range(18):
            print(f"\t Link {link}: 26.562 GB/s")
    return OK


def _nvlink_errors() -> int:
    for index, number in enumerate(gpu_state.present()):
        print(f"GPU {index}: {gpu_state.NAME} (UUID: {gpu_state.gpu_uuid(number)})")
        for link in range(18):
            print("".join(f"\t Link {link}: {name} Errors: 0\n" for name in ("Replay", "Recovery", "CRC")))
    return OK


def _xml() -> int:
    told, found = gpu_state.manifest(), gpu_state.present()
    now = datetime.datetime.now().strftime("%a %b %e %H:%M:%S %Y")
    values = {number: {**FIELDS, **_own(number, found)} for number in found}
    print(smi_xml.document(values.__getitem__, found, told["driver"], told.get("cuda", "N/A"), now))
    return OK


def _plain() -> int:
    told = gpu_state.manifest()
    rule = f"+{'-' * 41}+{'-' * 24}+{'-' * 22}+"
    versions = (
        f"NVIDIA-SMI {told['driver']:<22} Driver Version: {told['driver']:<14} CUDA Version: {told.get('cuda', 'N/A')}"
    )
    print(datetime.datetime.now().strftime("%a %b %e %H:%M:%S %Y       "))
    print(f"+{'-' * 89}+\n| {versions:<88}|\n{rule}")
    print("| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |")
    print("| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |")
    print("|                                         |                        |               MIG M. |")
    print(f"|{'=' * 41}+{'=' * 24}+{'=' * 22}|")
    for index, number in enumerate(gpu_state.present()):
        errors = _own(number, gpu_state.present())["ecc.errors.uncorrected.volatile.total"][0]
        print(f"| {index:>3}  {gpu_state.NAME:<30} On  |   {gpu_state.bus_id(number)} Off | {errors:>20} |")
        memory = f"0MiB /  {gpu_state.MEMORY_MIB}MiB"
        print(f"| N/A   36C    P0             70W /  700W | {memory:>22} |      0%      Default |")
        print(f"|                                         |                        |             Disabled |\n{rule}")
    print(f"\n+{'-' * 89}+\n| {'Processes:':<88}|\n| {' No running processes found':<88}|\n+{'-' * 89}+")
    return OK


ACTIONS: dict[tuple[str, ...], Callable[[], int]] = {
    (): _plain,
    ("-L",): _list,
    ("--list-gpus",): _list,
    ("-q", "-x"): _xml,
    ("-x", "-q"): _xml,
    ("nvlink", "-e"): _nvlink_errors,
    ("nvlink", "-s"): _nvlink,
    ("nvlink", "--status"): _nvlink,
}
