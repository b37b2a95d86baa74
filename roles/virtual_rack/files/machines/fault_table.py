# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The faults that can be injected into a machine of the rack."""

from __future__ import annotations

from typing import Any

from network import GPU_BUSES

# name: (what it does, parameters with their defaults)
FAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "xid79": (
        "a GPU falls off the bus: Xid 79 in the kernel log now and at each boot, and the GPU is gone",
        {"gpu": 3},
    ),
    "gpu_missing": ("a GPU is missing in dcgmi and nvidia-smi, and the kernel log says nothing", {"gpu": 5}),
    "sxid": ("a fatal NVSwitch error (SXid 20034) in the kernel log now and at each boot", {"switch": 0, "link": 30}),
    "dcgm_fail_entity": ("dcgmi diag: one GPU fails its memory test, exit status 205", {"gpu": 6}),
    "dcgm_all_skip": ("dcgmi diag: every test is skipped, exit status 0", {}),
    "dcgm_exit0_failing": ("dcgmi diag: one GPU fails and the exit status is 0 all the same", {"gpu": 2}),
    "dcgm_hang": ("dcgmi diag never ends", {}),
    "dcgm_noise": ("dcgmi diag prints something that is no JSON, exit status 0", {}),
    "dcgm_missing": ("dcgmi is not installed", {}),
    "dcgm_killed": ("dcgmi diag is killed while it prints", {}),
    "dcgm_warn_lines": ("dcgmi diag prints warnings before a healthy document", {}),
    "row_remap_failure": ("a row remapping failed on one GPU: nvidia-smi tells it, dcgmi diag fails", {"gpu": 1}),
    "ecc_uncorrected": (
        "uncorrected volatile DRAM errors on one GPU: nvidia-smi counts them, dcgmi diag from level 2 on fails",
        {"gpu": 4, "count": 3},
    ),
    "ignore_netboot": ("the firmware boots the disk in spite of a network boot override", {}),
    "boots_old_image": ("the firmware fetches the image and keeps the old content", {}),
    "boots_other_port": ("the machine boots from the network over another port: BOOTIF names another MAC", {}),
    "clock_off": ("the clock of whatever is run on the node over SSH is that many seconds off", {"seconds": 3600.0}),
    "ignore_shutdown": ("the system ignores a graceful shutdown", {}),
    "bmc_lies_power": ("the BMC answers a power-on with success and the machine stays off", {}),
    "bmc_slow": ("each answer of the BMC takes that many seconds", {"seconds": 2.0}),
    "bmc_401": ("the BMC refuses every login", {}),
    "bmc_other_serial": ("the BMC tells another machine's serial", {"serial": "GFRACK9999"}),
    "board_swapped": (
        "another board is in the machine: the BMC tells its serial and UUID, the system does from its next boot on",
        {"serial": "GFRACK0901", "uuid": "5ac00000-0000-4000-8000-000000000901"},
    ),
    "bmc_echoes": ("the BMC (Redfish) refuses every request and repeats the login in its error message", {}),
    "bmc_stock_override": ("the BMC reads a one-time boot back as Continuous, as an unextended sushy-tools does", {}),
}

_ERROR = 3
_WARNING = 4


def kernel_lines(faults: dict[str, dict[str, Any]]) -> list[tuple[int, str]]:
    """Return the kernel log's lines of the hardware faults, with their priorities."""
    lines: list[tuple[int, str]] = []
    if "xid79" in faults:
        bus = GPU_BUSES[int(faults["xid79"].get("gpu", 3))]
        lines += [
            (
                _ERROR,
                f"NVRM: Xid (PCI:0000:{bus}:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            ),
            (_ERROR, f"NVRM: GPU 0000:{bus}:00.0: GPU has fallen off the bus."),
        ]
    if "sxid" in faults:
        switch, link = faults["sxid"].get("switch", 0), faults["sxid"].get("link", 30)
        where = f"nvidia-nvswitch{switch}: SXid (PCI:0000:0{5 + int(switch)}:00.0): 20034"
        lines += [
            (_ERROR, f"{where}, Fatal, Link {link} LTSSM Fault Up"),
            (_WARNING, f"{where}, Data {{0x50610002, 0x10100030, 0x00000000, 0x10100030}}"),
        ]
    return lines
