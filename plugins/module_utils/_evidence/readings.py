# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read on a node for whoever repairs it: plain commands that only look. PRIVATE to the collection.

A maker asks for the same few things of each case: which part it is, with its serial and firmware, what its tools say of
it, and what the kernel said before and after. Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Callable, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.booted import command_line, without_strings

#: Lines of a kernel log, the newest: a node that fails for a day repeats itself.
_LINES = "10000"


@dataclass(frozen=True)
class Reading:
    """One command. what: what it tells, for people; seconds: how long it may take. hides: with a mask, what may be a
    secret in what it prints, and what no form of a secret tells."""

    argv: tuple[str, ...]
    what: str
    seconds: float = 30.0
    hides: Optional[Callable[[str, str], str]] = None


def _log(boot: str) -> tuple[str, ...]:
    return ("journalctl", "-k", "-b", boot, "-o", "short-iso-precise", "--no-pager", "-n", _LINES)


#: By the name of its file. A tool that is not there is told as such, and nothing else: no node has all of them.
READINGS: Mapping[str, Reading] = {
    "system": Reading(("uname", "-a"), "kernel"),
    "os": Reading(("cat", "/etc/os-release"), "operating system"),
    "cmdline": Reading(("cat", "/proc/cmdline"), "how it was booted", hides=command_line),
    "uptime": Reading(("cat", "/proc/uptime"), "seconds since the boot"),
    "kernel_log": Reading(_log("0"), "kernel log of this boot", 60.0),
    "kernel_log_before": Reading(_log("-1"), "kernel log of the boot before, which a crash ends", 60.0),
    "kernel_ring": Reading(("dmesg",), "what the kernel still holds, where no journal is kept"),
    "firmware": Reading(("dmidecode",), "serials of chassis, boards and modules", hides=without_strings),
    "pci": Reading(("lspci", "-nnvv"), "links and errors of the PCI devices"),
    "memory_errors": Reading(("grep", "-rs", ".", "/sys/devices/system/edac/mc"), "errors of memory since the boot"),
    "gpus": Reading(("nvidia-smi", "-q"), "serials, VBIOS, ECC, row remaps, clocks of the GPUs", 120.0),
    "gpu_topology": Reading(("nvidia-smi", "topo", "-m"), "which GPU is joined to what", 60.0),
    "gpu_links": Reading(("nvidia-smi", "nvlink", "-s"), "state of each NVLink", 60.0),
    "gpu_link_errors": Reading(("nvidia-smi", "nvlink", "-e"), "errors of each NVLink", 60.0),
    "gpu_driver": Reading(("cat", "/proc/driver/nvidia/version"), "driver of the GPUs"),
    "gpu_diagnostics": Reading(("dcgmi", "-v"), "version of DCGM", 5.0),
    "amd_gpus": Reading(("amd-smi", "static"), "serials, VBIOS and limits of the GPUs of AMD", 120.0),
    "amd_gpu_state": Reading(("amd-smi", "metric"), "ECC, clocks and links of the GPUs of AMD", 120.0),
    "ports": Reading(("ip", "-details", "-statistics", "link"), "network ports and their counters"),
    "infiniband": Reading(("ibstat",), "InfiniBand ports and firmware"),
    "drives": Reading(("nvme", "list"), "serials and firmware of the NVMe drives"),
    "services": Reading(("systemctl", "--failed", "--no-pager"), "services that failed"),
}
