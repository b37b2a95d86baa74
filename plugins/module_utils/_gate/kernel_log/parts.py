# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What drivers and the kernel log of CPUs, ports, adapters and arrays that fail in words of their own. PRIVATE.

A table, continued from ``machine``. What a healthy node logs as well now and then (a drive that was pulled, a CPU that
was busy) is borne, and counts only where it goes on.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.row import ADDRESS, Row, row

#: Of what a healthy node logs now and then.
FEW = 10
_MCE_USER = "Linux v6.12 arch/x86/kernel/cpu/mce/core.c kill_me_maybe"
_FAULT = "Linux v6.12 arch/arm64/mm/fault.c fault_info"
_SERROR = "Linux v6.12 arch/arm64/kernel/traps.c arm64_serror_panic"
_GHES = "Linux v6.12 drivers/acpi/apei/ghes.c __ghes_panic"
_WATCHDOG = "Linux v6.12 kernel/watchdog.c"
_STALL = "Linux v6.12 kernel/rcu/tree_stall.h"
_PCIEHP = "Linux v6.12 drivers/pci/hotplug/pciehp_ctrl.c; the same where somebody pulls a drive"
_PROBE = "Linux v6.12 drivers/base/dd.c call_driver_probe, the older form of v6.8"
_POWER = "Linux v6.12 drivers/pci/pci.c pci_power_up: all bits that it reads are set"
_MLX5 = "Linux v6.12 drivers/net/ethernet/mellanox/mlx5/core/health.c"
_MD = "Linux v6.12 drivers/md/raid1.c, raid10.c, raid5.c, raid0.c"
_KFD = "Linux v6.12 drivers/gpu/drm/amd/amdkfd/kfd_int_process_v9.c, amdgpu_umc.c; after it as after an error itself"
_GPU = rf"\b(?:nvidia|amdgpu)(?:: probe of)? {ADDRESS}"
_ADAPTER = rf"\bmlx5_core {ADDRESS}: .*"

ROWS: tuple[Row, ...] = (
    row(
        "memory_used",
        r"\bmce: Uncorrected hardware memory error in user-access at ",
        "memory: a program read what was not corrected",
        "rma",
        _MCE_USER,
    ),
    row(
        "cpu_abort",
        r"\bInternal error: (?:level \d )?synchronous (?:external abort|parity)\b.*: [0-9a-f]{1,16} \[#\d",
        "the CPU read from memory or a device what could not be read",
        "field_diag",
        _FAULT,
    ),
    row(
        "cpu_serror",
        r"\bSError Interrupt on CPU(?P<cpu>\d{1,6}), code 0x",
        "the CPU reports an error that was not corrected",
        "field_diag",
        _SERROR,
    ),
    row(
        "firmware_panic",
        r"\bGHES: Fatal hardware error\b",
        "the firmware reports an error that stopped the machine",
        "field_diag",
        _GHES,
    ),
    row(
        "cpu_hard_lockup",
        r"\bwatchdog: (?:CPU\d{1,6}: )?Watchdog detected hard LOCKUP on cpu (?P<cpu>\d{1,6})\b",
        "the CPU answered no interrupt for seconds",
        "reboot",
        _WATCHDOG,
    ),
    row(
        "cpu_soft_lockup",
        r"\bsoft lockup - CPU#(?P<cpu>\d{1,6}) stuck for \d{1,9}s! \[",
        "the CPU ran nothing else for seconds",
        "retest",
        f"{_WATCHDOG}; a driver that is busy does that as well",
        FEW,
    ),
    row(
        "cpu_stall",
        r"\brcu: INFO: \w+ (?:self-)?detected (?:expedited )?stalls? on CPU",
        "CPUs ran nothing else for seconds",
        "retest",
        f"{_STALL}; a driver that is busy does that as well",
        FEW,
    ),
    row(
        "pcie_link_down",
        rf"\bpcieport {ADDRESS}: pciehp: Slot\([^)]{{1,40}}\): (?:Link Down|Card not present)(?![\w/])",
        "PCIe: what was in the slot went away",
        "reseat",
        _PCIEHP,
        FEW,
    ),
    row("gpu_unbound", rf"{_GPU}(?:: probe with driver \w+)? failed with error -", "the driver gave the GPU up",
        "power_cycle", _PROBE),
    row("gpu_inaccessible", rf"{_GPU}: Unable to change power state from \w+ to D0, device inaccessible",
        "the GPU does not answer", "power_cycle", _POWER),
    row(
        "adapter_fatal",
        _ADAPTER + r"(?:\bFatal error [125] detected|\bsynd 0x[8b]: )",
        "the network adapter failed, or did not answer",
        "power_cycle",
        f"{_MLX5}: PCI_COMM_ERR, PCI_ERR, FW_SYND_RFR, HW_UNRECOVERABLE_ERR, HW_FTL_ERR",
    ),
    row(
        "adapter_sick",
        _ADAPTER + r"(?:\bFatal error \d{1,9} detected|device's health compromised)",
        "the network adapter stopped, or was stopped",
        "retest",
        f"{_MLX5}; whoever resets its firmware does that as well",
    ),
    row(
        "array_disk",
        r"\bmd/(?:raid|linear)\d{0,2}:?[\w.-]{0,40}: Disk failure on (?P<where>[\w-]{1,40})[, ]",
        "the kernel took the drive out of its array",
        "field_diag",
        _MD,
    ),
    row(
        "amd_poison",
        rf"\bamdgpu {ADDRESS}: .*(?:\bpoison is consumed by |\bRAS poison consumption\b|\bRAS: poison consumption\b)",
        "a program used wrong data of the GPU's memory",
        "reboot",
        _KFD,
    ),
)  # fmt: skip
#: Each of these messages has one of these words.
SIGNS = (
    "hardware memory error", "internal error: ", "serror interrupt", "ghes: ", "lockup", "rcu: info: ", "pciehp: ",
    "failed with error", "device inaccessible", "fatal error", "synd 0x", "health compromised", "disk failure",
    "amdgpu",
)  # fmt: skip
