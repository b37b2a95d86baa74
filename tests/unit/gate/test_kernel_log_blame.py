# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel log: carriers, forms, and who is to blame."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.judge import judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.lines import (
    Names,
    incidents,
    iso_time,
    parse,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Sheet
from hypothesis import given, settings
from hypothesis import strategies as st
from suite.properties import at_most

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
        ("NVRM: Xid (a form nobody knows): 13, x", "xid:13 GPU", "field_diag"),
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
            "NVRM: Xid (PCI:0000:9b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot)",
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
    assert told(sheet) == {"xid:95 GPU 0000:9b:00": "reset_gpu", "xid:45 GPU 0000:0b:00": "reset_gpu"}
    assert "Xid 149 before it is not in the log" in sheet.findings[1].text


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


@given(st.text(max_size=300))
@settings(max_examples=at_most(200), deadline=None)
def test_no_line_crashes_the_reader(raw: str) -> None:
    list(incidents([parse(line, NOW) for line in raw.splitlines()], Names({}, {})))


@given(
    st.sampled_from([46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158, 167, 4711]),
    st.data(),
)
@settings(max_examples=at_most(100), deadline=None)
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


# -- storms ----------------------------------------------------------------------------------------------------------


def calls(texts: Sequence[str]) -> int:
    """How many functions are called to judge these: what it costs, on however busy a machine."""
    count = 0

    def counted(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        blame(*texts, step=0.1)
    finally:
        sys.setprofile(before)
    return count


LINKS = "NVRM: Xid (PCI:0000:{at:02x}:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 03 (0x004505c6 0x00000000)"
TRACKED = "NVRM: Xid (PCI:0000:{at:02x}:00): 145, RLW_SRC_TRACK Nonfatal XC0 i0 Link -1 (0x00000010 0x00000000)"
HALF = "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 12028, {word}"


@pytest.mark.parametrize(
    "texts",
    [
        ["NVRM: Xid (PCI:0000:{at:02x}:00): 13, pid=1, Graphics Exception: ESR 0x50c648=0x1000e"],
        ["NVRM: Xid (PCI:0000:{at:02x}:00): 45, pid=1, Ch 00000010"],
        [LINKS, TRACKED],
        [HALF.format(word="Non-fatal, Link 32 egress error (First)"), HALF.format(word="Data {{0x1, 0x2}}")],
    ],
    ids=["13", "45", "149 and 145", "SXid"],
)
def test_a_storm_of_errors_is_looked_through_once(texts: list[str]) -> None:
    """A job that crashes again and again leaves a hundred thousand, and its node is healthy."""
    one, twice = ([text.format(at=at % 8) for at in range(count) for text in texts] for count in (150, 300))
    calls(one)
    assert calls(twice) < 2.5 * calls(one)
