# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel logs of the machine beside NVIDIA's GPUs: which lines fail a node, and which a healthy one has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log import lines, machine, whole
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.gate import kernel_log_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.signs import worth
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import REMEDIES
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from hypothesis import HealthCheck, given, settings, strategies

CORRECTED = "pcieport 0000:00:1c.0: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Receiver ID)"
HEAD = "{1}[Hardware Error]: event severity: corrected"
MCE = "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: "


def gate(folder: Path, *lines: str) -> dict[str, Any]:
    return dict(kernel_log_gate(made.machine(folder, made.kmsg(*lines)), Context()).data)


@pytest.mark.parametrize(
    ("line", "finding", "entity", "verdict", "remedy"),
    [
        (
            "pcieport 0000:c0:01.1: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
            "pcie_fatal",
            "PCI 0000:c0:01.1",
            "fail",
            "reseat",
        ),
        (
            "pcieport 0000:00:01.0: AER: Multiple Uncorrectable (Fatal) error message received from 0000:01:00.0",
            "pcie_fatal",
            "PCI 0000:01:00.0",
            "fail",
            "reseat",
        ),
        (
            "igb 0000:09:00.0: AER: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer",
            "pcie_nonfatal",
            "PCI 0000:09:00.0",
            "inconclusive",
            "retest",
        ),
        (
            "pcieport 0000:00:01.0: AER: device recovery failed",
            "pcie_unrecovered",
            "PCI 0000:00:01.0",
            "fail",
            "power_cycle",
        ),
        (
            "pcieport 0000:30:03.0: DPC: containment event, status:0x0005 source:0x3400",
            "pcie_contained",
            "PCI 0000:30:03.0",
            "fail",
            "reseat",
        ),
        ("{2}[Hardware Error]: event severity: recoverable", "firmware_fatal", "node", "fail", "field_diag"),
        (MCE + "be00000000800400", "mce", "CPU 12", "fail", "field_diag"),
        (
            "mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 1: 9c00000000000135",
            "mce_exception",
            "CPU 3",
            "fail",
            "field_diag",
        ),
        ("[Hardware Error]: System Fatal error.", "mce_fatal", "node", "fail", "field_diag"),
        ("[Hardware Error]: Deferred error, no action required.", "mce_deferred", "node", "fail", "field_diag"),
        (
            "EDAC MC3: 1 UE memory read error on CPU_SrcID#0_MC#3_Chan#0_DIMM#0",
            "memory_uncorrected",
            "mc3",
            "fail",
            "rma",
        ),
        (
            "Memory failure: 0x3f0a12: recovery action for dirty LRU page: Recovered",
            "memory_poisoned",
            "node",
            "fail",
            "rma",
        ),
        (
            "nvme nvme2: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10",
            "nvme_gone",
            "nvme2",
            "fail",
            "power_cycle",
        ),
        ("nvme nvme0: frozen state error detected, reset controller", "nvme_frozen", "nvme0", "fail", "reseat"),
        ("nvme nvme0: I/O 256 QID 1 timeout, completion polled", "nvme_late", "nvme0", "inconclusive", "retest"),
        (
            "critical medium error, dev nvme3n1, sector 42 op 0x0:(READ) flags 0x0",
            "nvme_medium",
            "nvme3",
            "fail",
            "rma",
        ),
        (
            "nvme3n1: I/O Cmd(0x2) @ LBA 42, 8 blocks, I/O Error (sct 0x2 / sc 0x81) MORE",
            "nvme_medium",
            "nvme3",
            "fail",
            "rma",
        ),
        ("I/O error, dev nvme1n1, sector 499 op 0x1:(WRITE) flags 0x0", "nvme_error", "nvme1", "fail", "field_diag"),
        (
            "amdgpu 0000:c1:00.0: amdgpu: socket: 0, die: 1, 2 new uncorrectable hardware errors detected in umc block",
            "amd_uncorrected",
            "GPU 0000:c1:00",
            "fail",
            "reboot",
        ),
        (
            "amdgpu 0000:15:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
            "amd_fatal",
            "GPU 0000:15:00",
            "fail",
            "reboot",
        ),
        (
            "amdgpu 0000:c1:00.0: amdgpu: 1 new deferred hardware errors detected in umc block",
            "amd_deferred",
            "GPU 0000:c1:00",
            "fail",
            "reset_gpu",
        ),
        (
            "amdgpu 0000:c1:00.0: amdgpu: RAS records:300 exceed threshold:256, GPU will not be initialized.",
            "amd_worn",
            "GPU 0000:c1:00",
            "fail",
            "rma",
        ),
        (
            "amdgpu 0000:c1:00.0: amdgpu: GPU reset end with ret = -22",
            "amd_lost",
            "GPU 0000:c1:00",
            "fail",
            "power_cycle",
        ),
        (
            "amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!",
            "amd_reset",
            "GPU 0000:c1:00",
            "inconclusive",
            "retest",
        ),
        *(
            (f"nvme nvme2: {said}", "nvme_gone", "nvme2", "fail", "power_cycle")
            for said in (
                "Removing after probe failure status: -19",
                "Disabling device after reset failure: -19",
                "Device not ready; aborting reset, CSTS=0x1",
                "Identify Controller failed (-4)",
            )
        ),
        *(
            (
                f"critical {what} error, dev nvme1n1, sector 499 op 0x1:(WRITE)",
                "nvme_error",
                "nvme1",
                "fail",
                "field_diag",
            )
            for what in ("target", "nexus")
        ),
        *(
            (f"amdgpu 0000:c1:00.0: amdgpu: {said}", "amd_lost", "GPU 0000:c1:00", "fail", "power_cycle")
            for said in ("device lost from bus!", "Fatal error during GPU init")
        ),
        ("{2}[Hardware Error]: event severity: fatal", "firmware_fatal", "node", "fail", "field_diag"),
        # Bit 61 of the status says so, whatever the other three of its first digit are.
        *((f"{MCE}{first}e00000000800400", "mce", "CPU 12", "fail", "field_diag") for first in "2367abefABEF"),
        *(
            (f"[Hardware Error]: Uncorrected, software {how} error.", "mce_fatal", "node", "fail", "field_diag")
            for how in ("restartable", "containable")
        ),
        (
            "amdgpu 0000:c1:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3",
            "amd_reset",
            "GPU 0000:c1:00",
            "inconclusive",
            "retest",
        ),
        ("{4}[Hardware Error]:   section_type: memory error", "unnamed", "node", "inconclusive", "retest"),
    ],
)
def test_an_error_of_the_machine_is_told_of_its_part(
    tmp_path: Path, line: str, finding: str, entity: str, verdict: str, remedy: str
) -> None:
    result = gate(tmp_path, "quiet", line, "quiet")
    told = {(row["id"], row["entity"]) for row in result["findings"]}
    assert (result["verdict"], result["remedy"], told) == (verdict, remedy, {(f"kernel:{finding}", entity)})
    assert [row["verdict"] for row in result["checks"] if row["id"] == "kernel"] == [verdict], "a claimed pass lacks it"


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        (CORRECTED, "pcie_corrected"),
        (HEAD, "firmware_corrected"),
        (MCE + "8c00004000010091", "mce_corrected"),
        ("mce: [Hardware Error]: Machine check events logged", "mce_logged"),
        ("[Hardware Error]: Corrected error, no action required.", "mce_amd_corrected"),
        ("EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0", "memory_corrected"),
        ("amdgpu 0000:0b:00.0: amdgpu: 1 correctable hardware errors detected in umc block", "amd_corrected"),
    ],
)
def test_what_was_corrected_is_told_and_fails_only_where_it_goes_on(tmp_path: Path, line: str, finding: str) -> None:
    for times, verdict in ((machine.MANY, "pass"), (machine.MANY + 1, "fail")):
        result = gate(tmp_path, *[line] * times)
        assert (result["verdict"], [row["id"] for row in result["findings"]]) == (verdict, [f"kernel:{finding}"])


def test_errors_that_were_corrected_now_and_then_fail_no_node_however_long_it_is_up(tmp_path: Path) -> None:
    line = "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0)"

    def up(*logged: str, step: float) -> str:
        log = made.kmsg(*logged, step=step)
        return str(
            kernel_log_gate(made.machine(tmp_path, log, uptime=(len(logged) + 1) * step), Context()).data["verdict"]
        )

    daily = [line] * (machine.MANY + 1)
    assert up(*daily, step=86400 / 2) == "pass"
    assert up(*daily, step=86400 / machine.MANY) == "fail", "the first and the last of a day count"
    assert up(*daily, step=86400 / machine.MANY + 1) == "pass"
    assert up(*[line] * 99, line.replace("1 CE", "90 CE"), step=86400 / 2) == "pass"
    assert up(*[line] * 99, line.replace("1 CE", "99 CE"), step=86400 / 2) == "fail", "with those before"


def test_corrected_errors_of_two_parts_do_not_add_up(tmp_path: Path) -> None:
    other = CORRECTED.replace("1c.0", "1d.0")
    assert gate(tmp_path, *[CORRECTED, other] * machine.MANY)["verdict"] == "pass"


@pytest.mark.parametrize(
    "logged",
    [
        ("pcieport 0000:00:1c.0: AER: enabled with IRQ 24", "pcieport 0000:00:1c.0: DPC: enabled with IRQ 24"),
        ("EDAC MC: Ver: 3.0.0", "EDAC MC0: Giving out device to module skx_edac controller Skylake Socket#0 IMC#0"),
        ("nvme nvme0: Shutdown timeout set to 8 seconds", "nvme nvme0: 32/0/0 default/read/poll queues"),
        ("nvme nvme0: frequent keep alive", "I/O error, dev sr0, sector 0 op 0x0:(READ) flags 0x0"),
        ("I/O error, dev nvme0n1, sector 8 op 0x3:(DISCARD) flags 0x800",),
        ("amdgpu 0000:c3:00.0: amdgpu: no uncorrectable hardware errors detected in umc block",),
        ("amdgpu 0000:c3:00.0: amdgpu: 0 uncorrectable hardware errors detected in umc block",),
        ("amdgpu 0000:c3:00.0: amdgpu: GPU reset end with ret = 0", "amdgpu 0000:c3:00.0: amdgpu: Fetched VBIOS"),
    ],
)
def test_what_a_healthy_machine_logs_is_no_error(tmp_path: Path, logged: tuple[str, ...]) -> None:
    result = gate(tmp_path, *logged)
    assert (result["verdict"], result["findings"]) == ("pass", [])


def test_the_lines_below_a_report_are_no_errors_of_their_own(tmp_path: Path) -> None:
    result = gate(tmp_path, HEAD, "{1}[Hardware Error]:  Error 0, type: corrected", "{1}[Hardware Error]:   node: 0")
    assert (result["verdict"], [row["id"] for row in result["findings"]]) == ("pass", ["kernel:firmware_corrected"])
    assert gate(tmp_path, "{1}[Hardware Error]: event severity: info")["verdict"] == "pass"


EDAC = "EDAC MC0: {} CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0"
AMD = "amdgpu 0000:c1:00.0: amdgpu: socket: 0, die: 1, {} correctable hardware errors detected in {}umc block"


@pytest.mark.parametrize(
    ("logged", "number", "verdict"),
    [
        ([EDAC.format(32767)], 32767, "fail"),
        ([EDAC.format(60), EDAC.format(40)], 100, "pass"),
        ([EDAC.format(60), EDAC.format(41)], 101, "fail"),
        ([EDAC.format(0)], 1, "pass"),
        ([AMD.format("40000 new", "")], 40000, "fail"),
        ([AMD.format("60 new", ""), AMD.format(60, "total in "), AMD.format("9 new", "")], 69, "pass"),
        ([AMD.format(60, "total in "), AMD.format(69, "total in ")], 69, "pass"),
        ([AMD.format(101, "total in ")], 101, "fail"),
        ([AMD.format("5 new", ""), AMD.format(5000, "total in ")], 5, "pass"),
        ([AMD.format(60, "total in "), AMD.format(50, "total in ")], 110, "fail"),
    ],
)
def test_the_number_of_errors_in_a_line_counts(tmp_path: Path, logged: list[str], number: int, verdict: str) -> None:
    result = gate(tmp_path, *logged)
    [told] = result["findings"]
    [check] = [row for row in result["checks"] if row["id"] == told["id"]]
    assert (result["verdict"], check["measured"], check["wanted"]) == (verdict, number, machine.MANY)
    assert (f", {number} " in told["text"]) == (number > 1)


FATAL = "{4}[Hardware Error]:   Error 0, type: fatal"


@pytest.mark.parametrize(
    ("beside", "verdict"),
    [
        ("mce: [Hardware Error]: Machine check events logged", "inconclusive"),
        ("{3}[Hardware Error]: event severity: corrected", "inconclusive"),
        ("[Hardware Error]: Corrected error, no action required.", "inconclusive"),
        ("amdgpu 0000:c1:00.0: amdgpu: {4}[Hardware Error]: event severity: corrected", "inconclusive"),
        ("{4}[Hardware Error]: event severity: corrected", "pass"),
    ],
)
def test_no_other_report_says_what_one_without_its_head_is(tmp_path: Path, beside: str, verdict: str) -> None:
    result = gate(tmp_path, beside, FATAL)
    assert (result["verdict"], "kernel:unnamed" in {row["id"] for row in result["findings"]}) == (
        verdict,
        verdict != "pass",
    )


def test_the_lines_below_a_report_without_a_number_are_no_errors_either(tmp_path: Path) -> None:
    result = gate(tmp_path, MCE + "8c00004000010091", "mce: [Hardware Error]: TSC 0 ADDR 3f0a12000")
    assert (result["verdict"], [row["id"] for row in result["findings"]]) == ("pass", ["kernel:mce_corrected"])


OF_MCE = (
    "mce: [Hardware Error]: RIP 10:<ffffffff81a>", "mce: [Hardware Error]: TSC 0 ADDR 3f0a12000 MISC 86 PPIN 1",
    "mce: [Hardware Error]: PROCESSOR 0:50654 TIME 1700000000 SOCKET 0 APIC 0 microcode 2007006",
    "mce: [Hardware Error]: Run the above through 'mcelog --ascii'",
    "[Hardware Error]: CPU:2 (19:1:1) MC17_STATUS[-|CE|MiscV|AddrV|-|-|SyndV|CECC|-|-|-]: 0x9c2040000000011b",
    "[Hardware Error]: Error Addr: 0x00000003f0a12000", "[Hardware Error]: IPID: 0x0000009600050f00, Syndrome: 0x1",
    "[Hardware Error]: Unified Memory Controller Ext. Error Code: 0, DRAM ECC error.",
    "[Hardware Error]: cache level: L3/GEN, tx: GEN, mem-tx: RD",
)  # fmt: skip
OF_ITS_OWN = (
    "mce: [Hardware Error]: Machine check: Processor context corrupt", "[Hardware Error]:  Error 0, type: fatal",
    "[Hardware Error]:  Error 0, type: recoverable", "mce: [Hardware Error]: what nobody knows",
)  # fmt: skip
HEADS = (MCE + "8c00004000010091", "[Hardware Error]: Corrected error, no action required.")


@pytest.mark.parametrize("head", HEADS)
def test_a_report_without_a_number_excuses_its_own_details_alone(tmp_path: Path, head: str) -> None:
    assert gate(tmp_path, head, *OF_MCE)["verdict"] == "pass"
    for line in (*OF_ITS_OWN, "[Hardware Error]:   section_type: memory error"):
        assert gate(tmp_path, head, line)["verdict"] == "inconclusive", line


def test_so_does_one_of_the_firmware(tmp_path: Path) -> None:
    head = "[Hardware Error]: event severity: corrected"
    details = ("[Hardware Error]:  Error 0, type: corrected", "[Hardware Error]:   section_type: memory error")
    assert gate(tmp_path, head, *details)["verdict"] == "pass"
    assert gate(tmp_path, "[Hardware Error]: Machine check events logged", *details)["verdict"] == "inconclusive"
    for line in (*OF_ITS_OWN, *OF_MCE):
        assert gate(tmp_path, head, line)["verdict"] == "inconclusive", line


@pytest.mark.parametrize("pattern", [row.pattern for row in machine.ROWS], ids=[row.name for row in machine.ROWS])
def test_each_row_has_a_sign_by_which_it_is_found_among_many_lines(pattern: re.Pattern[str]) -> None:
    @settings(max_examples=2, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(strategies.from_regex(pattern))
    def holds(text: str) -> None:
        assert worth(["quiet", text, "quiet"], machine.SIGNS) == [1]

    holds()


@pytest.mark.parametrize(
    ("pattern", "signs"),
    [(row[0], lines.SIGNS) for row in lines.MESSAGES]
    + [(row[0], whole.SIGNS) for row in whole.LOST]
    + [(pattern, lines.SIGNS) for pattern in (lines._XID, lines._SXID, lines._MENTION, lines._OFF_BUS, lines._UUID)],
)
def test_so_has_each_message_of_a_driver_and_of_a_log(pattern: re.Pattern[str], signs: tuple[str, ...]) -> None:
    @settings(max_examples=2, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(strategies.from_regex(pattern))
    def holds(text: str) -> None:
        assert worth([text], signs) == [0]

    holds()


def test_the_number_of_a_line_is_right_among_lines_of_any_letters() -> None:
    texts = ["", "İ é", "an EDAC one", "nothing", "two EDAC EDAC", "\u212a"]
    assert worth(texts, ("edac",)) == [1, 2, 4, 5]
    assert worth(["edac"], ("edac",)) == [0] and worth([], ("edac",)) == []


def test_each_row_has_a_name_of_its_own_a_remedy_and_a_source() -> None:
    assert len(machine.BY_NAME) == len(machine.ROWS)
    assert {row.remedy for row in machine.ROWS} <= set(REMEDIES) and all(
        row.words and row.source for row in machine.ROWS
    )


@pytest.mark.skipif(not (made.CHECKOUT / "docs").is_dir(), reason="this copy has no docs")
def test_the_page_has_each_row() -> None:
    text = (made.CHECKOUT / "docs" / "reference" / "remedies.md").read_text(encoding="utf-8")
    section = text.split("\n## What the kernel logs of the machine\n", 1)[1].split("\n## ", 1)[0]
    told = re.findall(r"^\| `(\w+)` \| (.+) \| (\d+) \| `(\w+)` \| (.+) \|$", section, re.M)
    assert told == [(row.name, row.words, str(row.most), row.remedy, row.source) for row in machine.ROWS]
