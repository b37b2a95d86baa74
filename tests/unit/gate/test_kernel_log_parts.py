# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What drivers and the kernel say of a part that failed, each in words of its own; and what a healthy node says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log import parts
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.gate import kernel_log_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

NIC = "mlx5_core 0000:3b:00.0: "
AMD = "amdgpu 0000:05:00.0: amdgpu: "
SOFT = "watchdog: BUG: soft lockup - CPU#12 stuck for 26s! [python:1234]"
PULLED = "pcieport 0000:00:01.0: pciehp: Slot(1): Link Down"


def gate(folder: Path, *lines: str) -> dict[str, Any]:
    return dict(kernel_log_gate(made.machine(folder, made.kmsg(*lines)), Context()).data)


@pytest.mark.parametrize(
    ("line", "finding", "entity", "remedy"),
    [
        ("mce: Uncorrected hardware memory error in user-access at 3f8a0c4000", "kernel:memory_used", "node", "rma"),
        ("EDAC MC0: UE row 0, channel-a= 0 channel-b= 1 labels", "kernel:memory_uncorrected", "mc0", "rma"),
        ("EDAC MC1: UE page 0x0, offset 0x0, grain 8, row 3", "kernel:memory_uncorrected", "mc1", "rma"),
        (
            "SError Interrupt on CPU12, code 0x00000000be000011 -- SError",
            "kernel:cpu_serror",
            "CPU 12",
            "field_diag",
        ),
        ("GHES: Fatal hardware error but panic disabled", "kernel:firmware_panic", "node", "field_diag"),
        *(
            (f"{how}watchdog: {who}Watchdog detected hard LOCKUP on cpu 5", "kernel:cpu_hard_lockup", "CPU 5", "reboot")
            for how, who in (("", ""), ("NMI ", ""), ("", "CPU3: "))
        ),
        *(
            (line, "kernel:gpu_unbound", "GPU 0000:5d:00", "power_cycle")
            for line in (
                "nvidia: probe of 0000:5d:00.0 failed with error -1",
                "nvidia 0000:5d:00.0: probe with driver nvidia failed with error -1",
                "amdgpu 0000:5d:00.0: probe with driver amdgpu failed with error -22",
            )
        ),
        (
            "nvidia 0000:5d:00.0: Unable to change power state from D3cold to D0, device inaccessible",
            "kernel:gpu_inaccessible",
            "GPU 0000:5d:00",
            "power_cycle",
        ),
        *(
            (NIC + said, "kernel:adapter_fatal", "PCI 0000:3b:00.0", "power_cycle")
            for said in (
                "poll_health:815:(pid 0): Fatal error 1 detected",
                "poll_health:815:(pid 0): Fatal error 2 detected",
                "print_health_info:458:(pid 0): synd 0x8: unrecoverable hardware error",
            )
        ),
        ("md/raid1:md0: Disk failure on nvme3n1p1, disabling device.", "kernel:array_disk", "nvme3n1p1", "field_diag"),
        ("md/raid:md127: Disk failure on sdb, disabling device.", "kernel:array_disk", "sdb", "field_diag"),
        ("md/raid0md0: Disk failure on nvme1n1 detected, failing array.", "kernel:array_disk", "nvme1n1", "field_diag"),
        *(
            (AMD + said, "kernel:amd_poison", "GPU 0000:05:00", "reboot")
            for said in (
                "poison is consumed by client 27, kick off gpu reset flow",
                "{7}poison is consumed by source 3, kick off gpu reset flow",
                "RAS poison consumption, unmap queue flow succeeded: client id 27",
                "RAS: poison consumption, unmap queue flow succeeded",
            )
        ),
        ("NVRM: rm_init_adapter failed, device minor number 3", "message:init_failed", "node", "power_cycle"),
        (
            "NVRM: GPU 0000:5d:00.0: rm_init_adapter failed, device minor number 3",
            "message:init_failed",
            "GPU 0000:5d:00",
            "power_cycle",
        ),
        (
            "NVRM: nvAssertOkFailedNoLog: Assertion failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] (0x0000000F)",
            "message:gpu_lost",
            "node",
            "power_cycle",
        ),
        ("NVRM: GPU 0000:5d:00.0: GPU is lost.", "message:gpu_lost", "GPU 0000:5d:00", "power_cycle"),
        ("kernel BUG at mm/slub.c:4023!", "message:kernel_crash", "node", "reboot"),
        ("Internal error: Oops - BUG: 00000000f2000800 [#1] SMP", "message:kernel_crash", "node", "reboot"),
    ],
)  # fmt: skip
def test_a_part_that_failed_in_other_words_failed(
    tmp_path: Path, line: str, finding: str, entity: str, remedy: str
) -> None:
    result = gate(tmp_path, "quiet", line, "quiet")
    told = [(row["id"], row["entity"]) for row in result["findings"]]
    assert (result["verdict"], result["remedy"], told) == ("fail", remedy, [(finding, entity)])


@pytest.mark.parametrize(
    "what",
    ["synchronous external abort", "level 3 synchronous external abort (translation table walk)",
     "synchronous parity or ECC error", "level 1 synchronous parity error (translation table walk)"],
)  # fmt: skip
def test_a_cpu_of_arm_that_could_not_read_is_a_fault_of_the_machine_and_no_crash_alone(
    tmp_path: Path, what: str
) -> None:
    result = gate(tmp_path, f"Internal error: {what}: 0000000096000210 [#1] SMP")
    assert (result["verdict"], result["remedy"]) == ("fail", "field_diag")
    assert {row["id"] for row in result["findings"]} == {"kernel:cpu_abort", "message:kernel_crash"}


@pytest.mark.parametrize(
    "said",
    ["poll_health:815:(pid 0): Fatal error 3 detected", "poll_health:815:(pid 0): Fatal error 4 detected",
     "poll_health:800:(pid 0): device's health compromised - reached miss count"],
)  # fmt: skip
def test_an_adapter_that_somebody_may_have_reset_is_looked_at_again(tmp_path: Path, said: str) -> None:
    result = gate(tmp_path, NIC + said)
    assert (result["verdict"], result["remedy"]) == ("inconclusive", "retest")
    assert [(row["id"], row["entity"]) for row in result["findings"]] == [("kernel:adapter_sick", "PCI 0000:3b:00.0")]


@pytest.mark.parametrize(
    ("line", "finding", "entity", "verdict"),
    [
        (SOFT, "cpu_soft_lockup", "CPU 12", "inconclusive"),
        ("rcu: INFO: rcu_sched self-detected stall on CPU", "cpu_stall", "node", "inconclusive"),
        ("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "cpu_stall", "node", "inconclusive"),
        (PULLED, "pcie_link_down", "PCI 0000:00:01.0", "fail"),
        (PULLED.replace("Link Down", "Card not present"), "pcie_link_down", "PCI 0000:00:01.0", "fail"),
    ],
)
def test_what_a_healthy_node_logs_now_and_then_is_told_and_counts_where_it_goes_on(
    tmp_path: Path, line: str, finding: str, entity: str, verdict: str
) -> None:
    for times, wanted in ((parts.FEW, "pass"), (parts.FEW + 1, verdict)):
        result = gate(tmp_path, *[line] * times)
        told = [(row["id"], row["entity"]) for row in result["findings"]]
        assert (result["verdict"], told) == (wanted, [(f"kernel:{finding}", entity)])


@pytest.mark.parametrize(
    "line",
    [
        "pcieport 0000:00:01.0: pciehp: Slot(1): Link Up",
        "pcieport 0000:00:01.0: pciehp: Slot(1): Link Down/Up ignored (recovered by DPC)",
        f"{NIC}Port module event: module 0, Cable plugged",
        f"{NIC}Rate limit: 127 rates are supported, range: 0Mbps to 97656Mbps",
        "watchdog: Delayed init of the lockup detector failed: -19",
        "NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.",
        "rcu: INFO: rcu_sched is enabled",
        "ahci 0000:00:17.0: probe with driver ahci failed with error -12",
        "nvme 0000:e1:00.0: Unable to change power state from D3cold to D0, device inaccessible",
        "md/raid1:md0: active with 2 out of 2 mirrors",
        "GHES: APEI firmware first mode is enabled by APEI bit and WHEA _OSC.",
        "EDAC skx MC0: HANDLING MCE MEMORY ERROR",
        "systemd[1]: Internal error: no such unit [#1",
        f"{AMD}RAS INFO: ras initialized successfully, hardware ability[7] ras_mask[7]",
    ],
)
def test_what_only_sounds_so_is_no_fault(tmp_path: Path, line: str) -> None:
    result = gate(tmp_path, line)
    assert (result["verdict"], result["findings"]) == ("pass", [])
