# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel log: carriers, forms, who is to blame, and whether the log may be believed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import klog_read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log import kernel_log_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.klog_judge import judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.klog_lines import (
    Names,
    incidents,
    iso_time,
    parse,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.verdict import Sheet
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from hypothesis import given, settings
from hypothesis import strategies as st

XID79 = "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
NOW = 1_780_000_000.0


def blame(*texts: str, step: float = 1.0) -> Sheet:
    """Judge messages that came one after another."""
    lines = [parse(f"[{100 + at * step:.6f}] {text}", NOW) for at, text in enumerate(texts)]
    sheet, names = Sheet(), Names({}, {})
    for name in ("xid", "sxid", "kernel"):
        sheet.require(name, "node")
    judge(sheet, [one for _line, one in incidents(lines, names)], names)
    return sheet


def told(sheet: Sheet) -> dict[str, str]:
    return {f"{finding.id} {finding.entity}": finding.remedy for finding in sheet.findings}


# -- carriers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "mono", "wall"),
    [
        ("6,3964,206764307,-;text here", 206.764307, None),
        ("3,12,5,c,caller=T1;text here", 0.000005, None),
        ("[   12.345678] text here", 12.345678, None),
        ("<4>[  201.735553] text here", 201.735553, None),
        ("[   12.345678][  T123] text here", 12.345678, None),
        ("2026-11-20T10:00:00+00:00 node1 kernel: text here", None, 1795168800.0),
        ("2026-11-20T11:00:00,5+0100 text here", None, 1795168800.5),
        ("2026-11-20T10:00:00Z node1 kernel: [   12.345678] text here", 12.345678, 1795168800.0),
        ("text here", None, None),
    ],
)
def test_carriers(raw: str, mono: Any, wall: Any) -> None:
    line = parse(raw, NOW)
    assert (line.text, line.mono, line.wall) == ("text here", mono, wall)


def test_a_record_says_its_number() -> None:
    assert parse("6,3964,206764307,-;text", NOW).seq == 3964


def test_times_of_the_local_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        assert parse("[Fri Nov 20 10:00:00 2026] text", NOW).wall == 1795168800.0
        assert parse("Nov 20 10:00:00 node1 kernel: text", 1795168900.0).wall == 1795168800.0
        assert parse("Nov 20 10:00:00 node1 kernel: [1.5] text", 1795168900.0).mono == 1.5
        # Without a year: in January, a line of December is of last year.
        january = iso_time("2027-01-02T00:00:00Z")
        assert january is not None
        assert parse("Dec 31 10:00:00 node1 kernel: text", january).wall == iso_time("2026-12-31T10:00:00Z")
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["2026-13-01T00:00:00Z", "yesterday", "", "2026-11-20", "20:00"])
def test_no_times(text: str) -> None:
    assert iso_time(text) is None


# -- forms -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "finding", "remedy"),
    [
        ("NVRM: Xid (0000:03:00): 62, PMU halted", "xid:62 GPU 0000:03:00", "reset_gpu"),
        (XID79, "xid:79 GPU 0000:9b:00", "power_cycle"),
        ("NVRM: Xid (PCI:0018:01:00): 79, pid=7, name=ray::Worker, gone", "xid:79 GPU 0018:01:00", "power_cycle"),
        ("NVRM: Xid (PCI:0000:0a:00): 64, pid=1, Row Remapper failure", "xid:64 GPU 0000:0a:00", "rma"),
        ("NVRM: Xid (PCI:0000:0a:00): 4711, something new", "xid:4711 GPU 0000:0a:00", "field_diag"),
        ("NVRM: Xid (a form nobody knows): 13, x", "xid:13 GPU", "none"),
        ("NVRM: Xid (a form nobody knows): oops", "xid:0 GPU", "field_diag"),
        ("NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.", "xid:79 GPU 0000:18:00", "power_cycle"),
        (
            "NVRM: Xid (PCI:0000:9b:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004505c6 0x0)",
            "xid:149 GPU 0000:9b:00",
            "reset_gpu",
        ),
        (
            "NVRM: Xid (PCI:0000:9b:00): 145, pid=9, name=a b::c, RLW_RXPIPE Nonfatal XC0 i0 Link -1 (0x0)",
            "xid:145 GPU 0000:9b:00",
            "retest",
        ),
        (
            "NVRM: Xid (PCI:0000:9b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
            "xid:154 GPU 0000:9b:00",
            "reboot",
        ),
        (
            "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress error (First)",
            "sxid:12028 NVSwitch 3",
            "none",
        ),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            "sxid:20034 NVSwitch 0",
            "reboot",
        ),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 12028, a line without the word",
            "sxid:12028 NVSwitch 0",
            "reboot",
        ),
        ("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 9, no word, no row", "sxid:9 NVSwitch 0", "field_diag"),
        ("NVRM: GPU0 RmAssert: status NV_ERR_RESET_REQUIRED", "message:reset_required node", "reset_gpu"),
        ("Kernel panic - not syncing: Fatal exception", "message:kernel_crash node", "reboot"),
    ],
)
def test_forms(message: str, finding: str, remedy: str) -> None:
    sheet = blame(message)
    assert told(sheet) == {finding: remedy}
    assert sheet.verdict == {"none": "pass", "retest": "inconclusive"}.get(remedy, "fail")


def test_a_message_over_three_lines() -> None:
    sheet = blame(
        "NVRM: The NVIDIA GPU 0000:b3:00.0",
        "NVRM: (PCI ID: 10de:2330) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    )
    assert told(sheet) == {"xid:79 GPU 0000:b3:00": "power_cycle"}


def test_a_healthy_boot_passes() -> None:
    sheet = blame(
        "nvidia: loading out-of-tree module", "NVRM: loading NVIDIA UNIX driver 580", "nvidia-nvswitch0: open"
    )
    assert (sheet.verdict, sheet.findings) == ("pass", [])


# -- blame -----------------------------------------------------------------------------------------------------------


def test_one_fault_told_many_times_is_one() -> None:
    sheet = blame(*[XID79.replace("79,", "119,")] * 5, step=6)
    assert told(sheet) == {"xid:119 GPU 0000:9b:00": "reset_gpu"}
    assert "5 messages" in sheet.findings[0].text


def test_followers_are_not_blamed() -> None:
    sheet = blame(
        "NVRM: Xid (PCI:0000:9b:00): 95, uncontained",
        "NVRM: Xid (PCI:0000:9b:00): 45, Ch 00000001",
        "NVRM: Xid (PCI:0000:0a:00): 31, pid=8, name=python, MMU Fault",
        "NVRM: Xid (PCI:0000:0b:00): 45, pid=8, Ch 00000001 caused by previous Xid 149",
    )
    assert told(sheet) == {"xid:95 GPU 0000:9b:00": "reset_gpu"}


def test_a_fault_is_a_fault_even_where_the_driver_calls_it_a_consequence() -> None:
    assert blame("NVRM: Xid (PCI:0000:0b:00): 119, pid=8, caused by previous Xid 149").verdict == "fail"


def test_an_application_that_crashed_first_hides_no_fault() -> None:
    sheet = blame("NVRM: Xid (PCI:0000:9b:00): 31, pid=8, name=python, MMU Fault", XID79)
    assert sheet.verdict == "fail"
    assert told(sheet) == {"xid:79 GPU 0000:9b:00": "power_cycle"}
    assert "with Xid 31" in sheet.findings[0].text


def test_a_light_fault_takes_the_remedy_of_the_heavy_one_behind_it() -> None:
    sheet = blame(
        "NVRM: Xid (PCI:0000:9b:00): 63, row remap pending", "NVRM: Xid (PCI:0000:9b:00): 64, row remap failed"
    )
    assert told(sheet) == {"xid:63 GPU 0000:9b:00": "rma"}


def test_an_application_alone_does_not_fail_a_node() -> None:
    sheet = blame("NVRM: Xid (PCI:0000:9b:00): 31, pid=8, name=python, MMU Fault")
    assert (sheet.verdict, told(sheet)) == ("pass", {"xid:31 GPU 0000:9b:00": "none"})


def test_the_same_spot_again_and_again_is_no_application() -> None:
    crash = "NVRM: Xid (PCI:0000:9b:00): 13, pid=8, Graphics SM Warp Exception on (GPC 7, TPC 7, SM 0): Illegal"
    assert blame(crash, crash).verdict == "pass"
    sheet = blame(crash, crash, step=3600)
    assert (sheet.verdict, sheet.remedy) == ("fail", "field_diag")


def test_the_last_word_of_a_gpu_on_its_recovery_counts() -> None:
    asks = "NVRM: Xid (PCI:0000:9b:00): 154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)"
    done = "NVRM: Xid (PCI:0000:9b:00): 154, GPU recovery action changed from 0x4 (Drain and Reset) to 0x0 (None)"
    assert blame(asks).verdict == "fail"
    assert blame(asks, done).verdict == "pass"
    assert blame(done, asks).verdict == "fail"
    assert blame(asks.replace("Drain and Reset", "Do Something New")).remedy == "field_diag"


def test_two_gpus_and_one_link_point_at_the_switch() -> None:
    line = "NVRM: Xid (PCI:{}:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 09 (0x004525c6 0x0)"
    sheet = blame(line.format("0008"), line.format("0018"))
    assert told(sheet)["nvlink:9 node"] == "fabric"
    assert sheet.remedy == "fabric"


def test_the_other_end_of_a_link_is_not_blamed() -> None:
    sheet = blame(
        "NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 09 (0x004525c6 0x0)",
        "NVRM: Xid (PCI:0008:01:00): 145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x040988e2 0x8)",
    )
    assert set(told(sheet)) == {"xid:149 GPU 0018:01:00"}


def test_the_data_line_of_an_sxid_is_no_second_one() -> None:
    sheet = blame(
        "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
        "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Data {0x50610002, 0x10100030}",
    )
    assert len(sheet.findings) == 1


def test_a_gpu_is_told_by_uuid_and_serial_where_the_log_knows_them() -> None:
    sheet = blame(
        "NVRM: GPU at PCI:0000:9b:00: GPU-509665ad-b600-ac93-3616-d754b23d636d",
        "NVRM: GPU Board Serial Number: 1650124014249",
        XID79,
    )
    assert (
        "(GPU-509665ad-b600-ac93-3616-d754b23d636d, serial 1650124014249): fallen off the bus" in sheet.findings[0].text
    )


# -- may the log be believed -----------------------------------------------------------------------------------------


def gate(params: dict[str, Any]) -> dict[str, Any]:
    return dict(kernel_log_gate(params, Context()).data)


def test_a_whole_log_of_this_boot_passes(tmp_path: Path) -> None:
    result = gate(made.machine(tmp_path, made.kmsg("NVRM: loading", "nvidia-nvswitch0: open")))
    assert result["verdict"] == "pass", result["msg"]
    assert result["window"]["records"] == 3
    assert result["window"]["boot_id"] == "3f0d4c4e0a9e4f7c8f0e2f6f4b1d9a51"


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("", "empty"),
        (made.kmsg("late", start=500, seq=40), "begins 500 s after the boot"),
        (made.kmsg("a") + made.kmsg("b", start=9, seq=17), "lost records"),
        (made.kmsg("a", step=5000), "another boot"),
        ("no record of any kind\n", "carry no time"),
    ],
)
def test_a_log_that_proves_nothing(tmp_path: Path, log: str, reason: str) -> None:
    result = gate(made.machine(tmp_path, log))
    assert result["verdict"] == "inconclusive"
    assert reason in result["msg"]


def test_a_log_that_is_not_there_or_may_not_be_read(tmp_path: Path) -> None:
    params = made.machine(tmp_path, "")
    assert "cannot be read" in gate({**params, "path": str(tmp_path / "nothing")})["msg"]
    assert "cannot be read" in gate({**params, "path": str(tmp_path)})["msg"]


def test_a_fault_in_half_a_log_is_a_fault(tmp_path: Path) -> None:
    result = gate(made.machine(tmp_path, made.kmsg(XID79, start=500, seq=40)))
    assert (result["verdict"], result["remedy"]) == ("fail", "power_cycle")


def test_a_window_that_begins_after_the_log_does_needs_no_more(tmp_path: Path) -> None:
    params = made.machine(tmp_path, made.kmsg("late", "later", start=500, seq=40), uptime=1000)
    assert gate({**params, "since": "400"})["verdict"] == "pass"
    assert gate({**params, "since": "600"})["verdict"] == "inconclusive"


def test_what_was_before_the_window_does_not_count(tmp_path: Path) -> None:
    params = made.machine(tmp_path, made.kmsg(XID79, "quiet", "quiet", step=100), uptime=1000)
    assert gate({**params, "since": "boot"})["verdict"] == "fail"
    assert gate({**params, "since": "950"})["verdict"] == "fail"
    assert gate({**params, "since": "500"})["verdict"] == "pass"


def test_a_window_in_wall_clock_time(tmp_path: Path) -> None:
    params = made.machine(tmp_path, made.kmsg(XID79, "quiet", step=100), uptime=1000)
    hour_ago, short_ago = time.time() - 3600, time.time() - 500
    stamp = "%Y-%m-%dT%H:%M:%SZ"
    assert gate({**params, "since": time.strftime(stamp, time.gmtime(hour_ago))})["verdict"] == "fail"
    assert gate({**params, "since": time.strftime(stamp, time.gmtime(short_ago))})["verdict"] == "pass"


@pytest.mark.parametrize("since", ["2999-01-01T00:00:00Z", "soon", "-5", "nan", "inf"])
def test_a_window_that_is_none(tmp_path: Path, since: str) -> None:
    result = gate({**made.machine(tmp_path, made.kmsg("quiet")), "since": since})
    assert result["verdict"] == "inconclusive"


def test_no_uptime_no_verdict(tmp_path: Path) -> None:
    params = {**made.machine(tmp_path, made.kmsg("quiet")), "uptime_path": str(tmp_path / "nothing")}
    assert gate(params)["verdict"] == "inconclusive"


def test_a_crash_that_the_kernel_kept_over_the_boot(tmp_path: Path) -> None:
    params = made.machine(tmp_path, made.kmsg("quiet"))
    record = tmp_path / "pstore" / "dmesg-erst-1"
    record.write_text("Oops", encoding="utf-8")
    before_boot = time.time() - 2000
    os.utime(record, (before_boot, before_boot))
    assert gate(params)["verdict"] == "pass"
    result = gate({**params, "since": "3000"})
    assert (result["verdict"], result["remedy"]) == ("fail", "field_diag")


def test_a_device_that_has_no_more_to_say_is_not_waited_for(tmp_path: Path) -> None:
    """A fifo answers as /dev/kmsg does where nothing is left: the reader must not block."""
    params = made.machine(tmp_path, "")
    os.mkfifo(tmp_path / "fifo")
    held = os.open(tmp_path / "fifo", os.O_RDWR)
    try:
        os.write(held, made.kmsg("quiet").encode())
        assert gate({**params, "path": str(tmp_path / "fifo")})["verdict"] == "pass"
    finally:
        os.close(held)


def test_an_overwritten_record_is_not_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [
        made.kmsg("a").encode(),
        BrokenPipeError(32, "overwritten"),
        b"6,9,9000000,-;b\n",
        BlockingIOError(),
    ]

    def read(descriptor: int, size: int) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return bytes(answer)

    params = made.machine(tmp_path, "")
    with monkeypatch.context() as patched:
        patched.setattr(klog_read.os, "read", read)
        log = klog_read.read_kmsg(params["path"], 0.0)
    assert [line.text for line in log.lines][-1] == "b"
    assert any("lost records" in problem for problem in log.problems)


def _journal(folder: Path, *entries: dict[str, Any], rc: int = 0) -> str:
    lines = "\n".join(json.dumps(entry) for entry in entries)
    (folder / "journal.out").write_text(lines + "\n", encoding="utf-8")
    return made.program(folder / "journalctl", f"cat {folder / 'journal.out'}\nexit {rc}")


def _entry(text: Any, at: float, boot: str = "3f0d4c4e0a9e4f7c8f0e2f6f4b1d9a51") -> dict[str, Any]:
    return {
        "MESSAGE": text,
        "_SOURCE_MONOTONIC_TIMESTAMP": str(int(at * 1e6)),
        "__REALTIME_TIMESTAMP": str(int((time.time() - 1000 + at) * 1e6)),
        "_BOOT_ID": boot,
    }


def test_the_journal(tmp_path: Path) -> None:
    params = {**made.machine(tmp_path, ""), "source": "journal"}
    quiet = [_entry("Linux version 6.8", 0.0), _entry("nvidia loaded", 9.0)]
    assert gate({**params, "journalctl": _journal(tmp_path, *quiet)})["verdict"] == "pass"
    bytes_of = list(XID79.encode())
    assert gate({**params, "journalctl": _journal(tmp_path, *quiet, _entry(bytes_of, 10.0))})["verdict"] == "fail"
    missed = _entry("Missed 12 kernel messages", 10.0)
    assert gate({**params, "journalctl": _journal(tmp_path, *quiet, missed)})["verdict"] == "inconclusive"
    other = [_entry("Linux version 6.8", 0.0, "0" * 32)]
    assert gate({**params, "journalctl": _journal(tmp_path, *other)})["verdict"] == "inconclusive"
    late = [_entry("nvidia loaded", 9.0)]
    assert gate({**params, "journalctl": _journal(tmp_path, *late)})["verdict"] == "inconclusive"
    assert gate({**params, "journalctl": _journal(tmp_path, *quiet, rc=1)})["verdict"] == "inconclusive"
    assert gate({**params, "journalctl": _journal(tmp_path)})["verdict"] == "inconclusive"
    assert gate({**params, "journalctl": str(tmp_path / "nothing")})["verdict"] == "inconclusive"
    assert (
        gate({**params, "journalctl": made.program(tmp_path / "j", "echo '{\"MESSAGE\": 1'")})["verdict"]
        == "inconclusive"
    )


def test_auto_takes_the_journal_where_the_ring_forgot_the_start(tmp_path: Path) -> None:
    params = {**made.machine(tmp_path, made.kmsg("late", start=500, seq=40)), "source": "auto"}
    quiet = [_entry("Linux version 6.8", 0.0), _entry("nvidia loaded", 9.0)]
    result = gate({**params, "journalctl": _journal(tmp_path, *quiet)})
    assert (result["verdict"], result["tool"]["name"]) == ("pass", "journal")
    assert gate({**params, "journalctl": str(tmp_path / "nothing")})["verdict"] == "inconclusive"
    # What the ring itself shows is not forgiven because the journal does not have it.
    (tmp_path / "kmsg").write_text(made.kmsg(XID79, start=500, seq=40), encoding="utf-8")
    assert gate({**params, "journalctl": _journal(tmp_path, *quiet)})["verdict"] == "fail"


def test_auto_does_not_ask_the_journal_where_the_ring_is_whole(tmp_path: Path) -> None:
    params = {**made.machine(tmp_path, made.kmsg("quiet")), "source": "auto", "journalctl": str(tmp_path / "nothing")}
    assert gate(params)["verdict"] == "pass"


def test_a_file(tmp_path: Path) -> None:
    params = {**made.machine(tmp_path, ""), "source": "file"}
    (tmp_path / "dmesg").write_text("[    0.000000] Linux version 6.8\n[    9.000000] quiet\n", encoding="utf-8")
    assert gate({**params, "path": str(tmp_path / "dmesg")})["verdict"] == "pass"
    (tmp_path / "dmesg").write_text("[    9.000000] quiet\n", encoding="utf-8")
    assert gate({**params, "path": str(tmp_path / "dmesg")})["verdict"] == "inconclusive"
    assert gate({**params, "path": str(tmp_path / "dmesg"), "since": "100"})["verdict"] == "pass"


def test_evidence_is_kept_for_its_owner(tmp_path: Path) -> None:
    params = {**made.machine(tmp_path, made.kmsg("quiet")), "evidence_path": str(tmp_path / "evidence.json")}
    result = gate(params)
    assert result["evidence_path"] == str(tmp_path / "evidence.json")
    assert os.stat(result["evidence_path"]).st_mode & 0o777 == 0o600
    assert "quiet" in json.loads(Path(result["evidence_path"]).read_text())["logs"][0]["raw"]
    with pytest.raises(ConfigError):
        kernel_log_gate({**params, "evidence_path": str(tmp_path / "no" / "folder")}, Context())


@given(st.text(max_size=300))
@settings(max_examples=200, deadline=None)
def test_no_line_crashes_the_reader(raw: str) -> None:
    list(incidents([parse(line, NOW) for line in raw.splitlines()], Names({}, {})))


@given(
    st.sampled_from([46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158, 167, 4711]),
    st.data(),
)
@settings(max_examples=100, deadline=None)
def test_a_fault_among_anything_is_found(number: int, data: Any) -> None:
    around = data.draw(
        st.lists(
            st.text(alphabet=st.characters(codec="ascii", exclude_characters="\n"), max_size=40)
            | st.sampled_from([f"NVRM: Xid (PCI:0000:9b:00): {other}, x" for other in (13, 31, 43, 45, 63, 94)]),
            max_size=6,
        )
    )
    place = data.draw(st.integers(0, len(around)))
    fault = f"NVRM: Xid (PCI:0000:9b:00): {number}, pid=1, name=x, text"
    assert blame(*around[:place], fault, *around[place:]).verdict == "fail"
