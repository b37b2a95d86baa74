# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is missing in a kernel log, and what stands in it in an unforeseen way, is never passed over."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log import gate as of_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.gate import kernel_log_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from hypothesis import given, strategies

GPU = "NVRM: Xid (PCI:0000:9b:00): "
SWITCH = "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): "
BOOT = "3f0d4c4e0a9e4f7c8f0e2f6f4b1d9a51"


def gate(params: dict[str, Any], **options: Any) -> dict[str, Any]:
    return dict(kernel_log_gate({**params, **options}, Context()).data)


def log_of(folder: Path, *messages: str, step: float = 1.0) -> dict[str, Any]:
    return gate(made.machine(folder, made.kmsg(*messages, step=step)))


def entry(text: Any, at: float, **more: Any) -> dict[str, Any]:
    return {"MESSAGE": text, "_SOURCE_MONOTONIC_TIMESTAMP": str(int(at * 1e6)), "_BOOT_ID": BOOT, **more}


def journal(folder: Path, *entries: dict[str, Any]) -> str:
    (folder / "journal.out").write_text("".join(json.dumps(one) + "\n" for one in entries), encoding="utf-8")
    return made.program(folder / "journalctl", f"cat {folder / 'journal.out'}")


WHOLE = (entry("Linux version 6.8", 0.0), entry("nvidia loaded", 9.0), entry("quiet", 600.0))


# -- both ends --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["auto", "journal"])
def test_v6_a_journal_that_ended_before_the_ring_begins_is_not_whole(tmp_path: Path, source: str) -> None:
    ring = made.kmsg("late", "later", start=500, seq=40)
    params = {**made.machine(tmp_path, ring), "source": source}
    (tmp_path / "ring").write_text(ring, encoding="utf-8")
    assert gate(params, journalctl=journal(tmp_path, *WHOLE))["verdict"] == "pass"
    result = gate(params, journalctl=journal(tmp_path, *WHOLE[:2]))
    assert result["verdict"] == "inconclusive"
    assert "ends 9 s after the boot" in result["msg"] or "begins 500 s after it" in result["msg"]


@pytest.mark.parametrize("source", ["journal", "file"])
@pytest.mark.parametrize("ring", [None, "", "no record\n", "6,1,1000000,-;a\n6,9,2000000,-;b\n"])
def test_v6_without_a_ring_nothing_proves_where_a_log_ends(tmp_path: Path, source: str, ring: Any) -> None:
    params = {**made.machine(tmp_path, "[    0.000000] Linux version\n[    9.000000] quiet\n"), "source": source}
    assert gate(params, journalctl=journal(tmp_path, *WHOLE))["verdict"] == "pass"
    (tmp_path / "ring").unlink()
    if ring is not None:
        (tmp_path / "ring").write_text(ring, encoding="utf-8")
    result = gate(params, journalctl=journal(tmp_path, *WHOLE))
    assert result["verdict"] == "inconclusive" and "nothing proves where the log ends" in result["msg"]


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        ("[    0.000000] Linux version\n[  500.000000] late\n", "pass"),
        ("[    0.000000] Linux version\n[  499.000000] late\n", "inconclusive"),
        ("[    0.000000] Linux version\n[  700.000000] late\n[    0.000000] Linux version\n", "inconclusive"),
        ("[    0.000000] Linux version\n[  700.000000] b\n[    0.000000] c\n[  600.000000] d\n", "inconclusive"),
        ("[    0.500000] the first line is gone\n[  700.000000] late\n", "inconclusive"),
        ("[    0.000000] Linux version\nwithout a time\n", "inconclusive"),
    ],
)
def test_v6_a_file_is_whole_where_it_reaches_into_the_ring(tmp_path: Path, log: str, verdict: str) -> None:
    params = {**made.machine(tmp_path, log), "source": "file"}
    (tmp_path / "ring").write_text(made.kmsg("late", start=500, seq=40), encoding="utf-8")
    assert gate(params)["verdict"] == verdict


def test_v6_a_file_with_times_of_day_must_reach_further_than_their_seconds(tmp_path: Path) -> None:
    params = {**made.machine(tmp_path, ""), "source": "file"}
    (tmp_path / "ring").write_text(made.kmsg("late", start=500, seq=40), encoding="utf-8")

    def log(*ages: float) -> str:
        moments = [time.gmtime(time.time() - 1000 + age) for age in ages]
        return "".join(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', moment)} n kernel: words\n" for moment in moments)

    for last, verdict in ((510.0, "pass"), (501.0, "inconclusive"), (490.0, "inconclusive")):
        (tmp_path / "kmsg").write_text(log(0.0, last), encoding="utf-8")
        assert gate(params)["verdict"] == verdict, last


def test_v6_what_only_the_ring_shows_is_a_fault_all_the_same(tmp_path: Path) -> None:
    params = {**made.machine(tmp_path, ""), "source": "journal"}
    (tmp_path / "ring").write_text(made.kmsg("a", GPU + "79, gone", start=500, seq=40), encoding="utf-8")
    result = gate(params, journalctl=journal(tmp_path, *WHOLE))
    assert (result["verdict"], result["remedy"]) == ("fail", "power_cycle")


def test_v6_a_message_in_journal_and_ring_is_told_once(tmp_path: Path) -> None:
    fault = GPU + "119, pid=1, Timeout"
    params = {**made.machine(tmp_path, ""), "source": "journal"}
    (tmp_path / "ring").write_text(made.kmsg("a", fault, start=599, seq=40), encoding="utf-8")
    result = gate(params, journalctl=journal(tmp_path, *WHOLE[:2], entry(fault, 600.0)))
    assert [row["text"] for row in result["findings"]] == [
        "GPU 0000:9b:00: the GPU's processor did not answer (Xid 119)"
    ] or ("messages" not in result["findings"][0]["text"])


def test_v6_a_record_that_is_none_leaves_the_ring_unread(tmp_path: Path) -> None:
    log = made.kmsg("a", "b").split("\n")
    assert gate(made.machine(tmp_path, "\n".join([log[0], "garbage", *log[1:]])))["verdict"] == "inconclusive"


# -- lines that are missing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "nvidia_isr: 812 callbacks suppressed",
        "pci_print_aer: 4 callbacks suppressed",
        "blk_print_req_error: 4 callbacks suppressed",
        "__nv_printk: 1 callbacks suppressed",
        "** 37 printk messages dropped **",
        "Missed 12 kernel messages",
        "imkmsg: 40 messages lost due to rate-limiting",
    ],
)
def test_v6_a_log_that_says_itself_that_lines_are_missing_is_not_whole(tmp_path: Path, line: str) -> None:
    result = log_of(tmp_path, line)
    assert result["verdict"] == "inconclusive" and line[:20] in result["msg"]
    assert ("the kernel suppressed messages" in result["msg"]) == ("callbacks" in line)
    params = made.machine(tmp_path, made.kmsg(line, "quiet", "quiet", step=100))
    assert gate(params, since="850")["verdict"] == "pass", "before the window"


def test_v6_lines_that_only_the_ring_says_are_missing_are_missing(tmp_path: Path) -> None:
    params = {**made.machine(tmp_path, ""), "source": "journal"}
    told = made.kmsg("late", "** 37 printk messages dropped **", start=500, seq=40)
    (tmp_path / "ring").write_text(told, encoding="utf-8")
    result = gate(params, journalctl=journal(tmp_path, *WHOLE))
    assert result["verdict"] == "inconclusive" and "kmsg: " in result["msg"] and "37 printk" in result["msg"]


@pytest.mark.parametrize(
    "who",
    ["net_ratelimit", "kauditd_printk_skb", "show_signal_msg", "show_signal", "arm64_show_signal", "split_lock_warn",
     "warn_alloc", "oom_kill_process", "__do_sys_memfd_create"],
)  # fmt: skip
def test_v6_what_speaks_of_processes_and_packets_alone_hides_no_fault_of_the_machine(tmp_path: Path, who: str) -> None:
    line = f"{who}: 40 callbacks suppressed"
    assert log_of(tmp_path, line)["verdict"] == "pass"
    for other in (f"my_{who}: 40 callbacks suppressed", f"{line}\\x0anvidia_isr: 8 callbacks suppressed"):
        assert log_of(tmp_path, other)["verdict"] == "inconclusive", other


@pytest.mark.parametrize("message", [None, 5, {}, True, ["a", "b"], [None]])
def test_v6_an_entry_without_its_message_is_a_hole(tmp_path: Path, message: Any) -> None:
    params = {**made.machine(tmp_path, ""), "source": "journal"}
    assert gate(params, journalctl=journal(tmp_path, *WHOLE, entry(message, 601.0)))["verdict"] == "inconclusive"
    nameless = {key: value for key, value in entry("x", 601.0).items() if key != "MESSAGE"}
    assert gate(params, journalctl=journal(tmp_path, *WHOLE, nameless))["verdict"] == "inconclusive"
    # What comes after it is looked at all the same.
    after = journal(tmp_path, *WHOLE, entry(message, 601.0), entry(GPU + "79, gone", 602.0))
    assert gate(params, journalctl=after)["verdict"] == "fail"


def test_v6_an_entry_of_no_boot_or_of_another_is_none_of_this_one(tmp_path: Path) -> None:
    params = {**made.machine(tmp_path, ""), "source": "journal"}
    for boot in (None, "", "0" * 32):
        spoilt = {**entry("x", 601.0), "_BOOT_ID": boot}
        assert gate(params, journalctl=journal(tmp_path, *WHOLE, spoilt))["verdict"] == "inconclusive"
        (tmp_path / "kmsg").write_text("".join(json.dumps(one) + "\n" for one in (*WHOLE, spoilt)), encoding="utf-8")
        assert gate(params, source="file")["verdict"] == "inconclusive"


# -- messages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("joint", [" ", "\\x0a", "; "])
@pytest.mark.parametrize(
    "second",
    [GPU + "79, gone", "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, x", "Xid (PCI:0000:9b:00): 79"],
)
def test_v6_two_errors_in_one_message_are_two(tmp_path: Path, joint: str, second: str) -> None:
    harmless = GPU + "31, pid=8, name=python, MMU Fault"
    assert log_of(tmp_path, harmless)["verdict"] == "pass"
    assert log_of(tmp_path, f"{harmless}{joint}{second}")["verdict"] == "fail"
    assert log_of(tmp_path, f"{second}{joint}{harmless}")["verdict"] == "fail"


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: XID (PCI:0000:9b:00): 13, x",
        "NVRM: Xid: 13, PCI:0000:9b:00",
        "NVRM: Xid (GPU-1234): 13, x",
        "NVRM: Xid[PCI:0000:9b:00]: 13, x",
        "NVRM: GPU 0000:9b:00.0: Xid 13, x",
        "nvidia 0000:9b:00.0: xid=13",
        "nvidia 0000:9b:00.0: Xid error 13",
        "Xid (PCI:0000:9b:00): 13, x",
        "nvidia-nvswitch0: SXID (PCI:0000:05:00.0): 11012, Non-fatal, x",
        "nvidia-nvswitch: SXid (PCI:0000:05:00.0): 11012, Non-fatal, x",
        "nvswitch 0: sxid 11012",
        "SXid (PCI:0000:05:00.0): 11012",
    ],
)
def test_v6_an_unforeseen_spelling_of_an_error_is_an_error(tmp_path: Path, line: str) -> None:
    result = log_of(tmp_path, line)
    assert result["verdict"] == "fail", result["msg"]


@pytest.mark.parametrize(
    "line", ["receive_cb_reply: Got unrecognized reply: calldir 0x1 xpt_bc_xprt 0 xid bdd2e3f4", "nfs: xid 7 timed out"]
)
def test_v6_others_have_an_xid_as_well(tmp_path: Path, line: str) -> None:
    assert log_of(tmp_path, line)["verdict"] == "pass"


def test_v6_a_follower_whose_leader_is_not_in_the_log_tells_of_it(tmp_path: Path) -> None:
    follower = GPU + "45, pid=8, Ch 00000001 caused by previous Xid 149"
    result = log_of(tmp_path, follower)
    assert (result["verdict"], result["remedy"]) == ("fail", "reset_gpu")
    assert "Xid 149 before it is not in the log" in result["msg"]
    leader = "NVRM: Xid (PCI:0000:0a:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x0)"
    both = log_of(tmp_path, leader, follower)
    assert [row["entity"] for row in both["findings"]] == ["GPU 0000:0a:00"]
    assert len(log_of(tmp_path, leader, follower, step=300)["findings"]) == 2, "minutes later it is not its leader"
    assert log_of(tmp_path, follower.replace("149", "31"))["verdict"] == "inconclusive"


@pytest.mark.parametrize("number", [13, 31, 43])
def test_v6_xid_45_alone_is_no_pass_and_after_an_applications_error_it_is_its_end(tmp_path: Path, number: int) -> None:
    lone = GPU + "45, pid=8, name=python, Ch 00000001"
    result = log_of(tmp_path, lone)
    assert (result["verdict"], result["remedy"]) == ("inconclusive", "retest")
    assert "the error before it is not in the log" in result["msg"]
    crash = f"{GPU}{number}, pid=8, name=python, x"
    assert log_of(tmp_path, crash, lone)["verdict"] == "pass"
    assert log_of(tmp_path, crash.replace("9b", "0a"), lone)["verdict"] == "inconclusive", "of another GPU"
    assert log_of(tmp_path, lone, lone)["verdict"] == "inconclusive"


def test_v6_the_second_half_of_a_switchs_error_counts_where_the_first_is_gone(tmp_path: Path) -> None:
    data = SWITCH + "20034, Data {0x50610002, 0x10100030}"
    assert log_of(tmp_path, data)["verdict"] == "fail"
    first = SWITCH + "20034, Non-fatal, Link 30 LTSSM Fault Up"
    assert log_of(tmp_path, first, data)["verdict"] == "pass"
    assert log_of(tmp_path, first, data.replace("20034", "20035"))["verdict"] == "fail"


def test_v6_an_invalid_context_of_peermem_is_a_finding(tmp_path: Path) -> None:
    line = "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing"
    result = log_of(tmp_path, line)
    assert result["verdict"] == "inconclusive"
    assert [row["id"] for row in result["findings"]] == ["message:peermem_context"]


# -- crashes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["pstore_path", "pstore_archive"])
@pytest.mark.parametrize(
    "place", ["dmesg-erst-1", "7062/dmesg-erst-1", "1797000000/001/dmesg-efi-179700000000001", "a/b/dmesg.txt"]
)
def test_v6_a_crash_is_found_where_systemd_moves_its_records(tmp_path: Path, option: str, place: str) -> None:
    params = made.machine(tmp_path, made.kmsg("quiet"))
    record = Path(params[option]) / place
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text("Oops", encoding="utf-8")
    result = gate(params)
    assert (result["verdict"], result["remedy"]) == ("fail", "field_diag")
    assert os.path.basename(place) in result["msg"]


@pytest.mark.parametrize("option", ["pstore_path", "pstore_archive"])
def test_a_machine_check_that_stopped_the_machine_is_found_over_the_boot(tmp_path: Path, option: str) -> None:
    params = made.machine(tmp_path, made.kmsg("quiet"))
    record = Path(params[option]) / "mce-erst-7123456789"
    record.parent.mkdir(exist_ok=True)
    record.write_bytes(b"\0" * 64)
    result = gate(params)
    assert (result["verdict"], result["remedy"]) == ("fail", "field_diag")
    assert "a machine check stopped the machine" in result["msg"] and record.name in result["msg"]
    record.rename(record.with_name("console-ramoops-0"))
    assert gate(params)["verdict"] == "pass", "what stood on the console is no record of a crash"


def test_v6_a_record_of_efi_says_itself_when_it_was_made(tmp_path: Path) -> None:
    params = made.machine(tmp_path, made.kmsg("quiet"))
    old, new = int(time.time()) - 90000, int(time.time()) - 10
    for seconds, verdict in ((old, "pass"), (new, "fail")):
        folder = tmp_path / "archive" / str(seconds) / "001"
        folder.mkdir(parents=True)
        (folder / f"dmesg-efi-{seconds}01001").write_text("Oops", encoding="utf-8")
        (folder / "dmesg.txt").write_text("Oops", encoding="utf-8")
        assert gate(params)["verdict"] == verdict


# -- one message in two logs ------------------------------------------------------------------------------------------


class Looked(Sequence[float]):
    """Times that count how often one of them is looked at."""

    def __init__(self, times: Sequence[float]) -> None:
        self.times, self.looks = times, 0

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, place: Any) -> Any:
        self.looks += 1
        return self.times[place]


def test_a_message_that_comes_a_hundred_thousand_times_is_found_in_the_other_log_at_once() -> None:
    times = Looked(range(0, 500_000, 5))
    assert of_gate._near(250_001.5, times) and not of_gate._near(250_002.5, times)
    assert times.looks < 60


TIMES = strategies.integers(0, 40).map(lambda number: number / 4)


@given(strategies.none() | TIMES, strategies.lists(strategies.none() | TIMES, max_size=6))
def test_the_same_message_is_one_within_two_seconds_or_where_a_log_has_no_times(
    at: float | None, others: list[float | None]
) -> None:
    one = of_gate.Incident("machine", 0, "mc0", "EDAC", at)
    known = of_gate._times([*(of_gate.replace(one, at=other) for other in others), of_gate.replace(one, text="EDAC 2")])
    wanted = any(at is None or other is None or abs(at - other) <= 2.0 for other in others)
    assert of_gate._near(at, known.get(of_gate._message(one), [])) is wanted
