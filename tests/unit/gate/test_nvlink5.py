# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The numbers of an NVLink 5 error: they make more of what is not fatal, and never less of what is."""

from __future__ import annotations

import csv
from collections.abc import Iterator

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log import nvlink5
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import heavier
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate.test_kernel_log_blame import blame
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import demanded
from suite.properties import at_most

_ACTIONS = {"IGNORE": nvlink5.IGNORE, "RESET_GPU": nvlink5.RESET, "XID_154_EVAL": nvlink5.ASK}


def line(number: int, unit: str, info: int, status: int, word: str = "Nonfatal", gpu: str = "0018") -> str:
    rest = " 0x00000000" * 4
    return f"NVRM: Xid (PCI:{gpu}:01:00): {number}, {unit} {word} XC0 i0 Link 03 (0x{info:08x} 0x{status:08x}{rest})"


def remedy(number: int, unit: str, info: int, status: int, word: str = "Nonfatal") -> str:
    [finding] = blame(line(number, unit, info, status, word)).findings
    assert finding.id == f"xid:{number}"
    return finding.remedy


def _catalogued() -> Iterator[tuple[int, str, int, int, str, str]]:
    name = "xid_nvlink5_decode.csv"
    with open(demanded("gates", name) / name, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            for form in (row["intrinfo_v1"], row["intrinfo_v2"]):
                for blank in "01":
                    info, status = int(form.replace("-", blank), 2), int(row["error_status"], 16)
                    for unit in row["unit"].split("/"):
                        yield int(row["xid"]), unit, info, status, row["resolution"], row["investigatory"]


def test_each_rule_of_the_catalogue_is_read_in_both_forms_whatever_fills_its_blanks() -> None:
    rows = list(_catalogued())
    assert len(rows) > 4 * 91
    for number, unit, info, status, action, look in rows:
        rule = nvlink5.rule_of(number, unit, line(number, unit, info, status))
        assert rule is not None and rule.action == _ACTIONS[action], (number, unit, f"{info:#x}", status)
        assert bool(rule.look) == (look != "IGNORE")


@pytest.mark.parametrize(
    ("number", "unit", "info", "status", "expected"),
    [
        (145, "RLW_RXPIPE", 0x0409A0C2, 0x8, "retest"),  # GB200, recorded
        (145, "RLW_SRC_TRACK", 0x040988E2, 0x8, "retest"),  # GB200, recorded; Xid 154 would decide
        (149, "NETIR_BER_EVENT", 0x00082226, 0x1, "retest"),  # GB200, recorded
        (145, "RLW_SRC_TRACK", 0x040988E2, 0x2, "none"),  # neither mended nor looked into
        (145, "RLW_SRC_TRACK", 0x040988E2, 0x10, "reset_gpu"),
        (145, "RLW_SRC_TRACK", 0x040988E2, 0x12, "reset_gpu"),  # two errors in one status
        (145, "RLW_SRC_TRACK", 0x040988E2, 0x42, "retest"),  # one of them nobody knows
        (145, "RLW_SRC_TRACK", 0x041988E2, 0x2, "retest"),  # another code than the table has
        (145, "RLW_SRC_TRACK", 0x040988C2, 0x2, "retest"),  # the numbers name another unit
        (145, "RLW_NEW", 0x040988E2, 0x2, "retest"),
        (149, "NETIR_MFDE_EVENT", 0x00000246, 0x3, "none"),
        (149, "NETIR_MFDE_EVENT", 0x00000246, 0x2, "retest"),  # numbers, and no bits
        (149, "NETIR_LINK_EVT", 0x004525C6, 0x0, "reset_gpu"),
    ],
)
def test_what_the_driver_calls_non_fatal_is_weighed_by_its_numbers(
    number: int, unit: str, info: int, status: int, expected: str
) -> None:
    assert remedy(number, unit, info, status) == expected


@given(
    unit=st.sampled_from(nvlink5.UNITS),
    info=st.integers(0, 2**32 - 1),
    status=st.one_of(st.sampled_from([0, 1, 2, 3, 4, 8, 0x10, 0x80000000]), st.integers(0, 2**32 - 1)),
    form=st.sampled_from([0, 1, None]),
    cut=st.integers(0, 120),
)
@settings(max_examples=at_most(60))
def test_no_number_makes_less_of_what_is_fatal_and_none_that_is_cut_makes_a_pass(
    unit: nvlink5._Unit, info: int, status: int, form: int | None, cut: int
) -> None:
    if form is not None:  # numbers that agree with the unit's name
        low = (0x3FF, 0x7F)[form]
        info = (info & ~low & ~(0x3F << 20)) | unit.forms[form]
    fatal = line(unit.number, unit.names[0], info, status, "Fatal")
    assert blame(fatal).verdict == "fail"
    end = fatal.index("Fatal") + len("Fatal XC0")
    assert blame(fatal[: max(end, len(fatal) - cut)]).verdict == "fail"
    soft = line(unit.number, unit.names[0], info, status)
    harmless = nvlink5.rule_of(unit.number, unit.names[0], soft) == nvlink5.HARMLESS
    assert (blame(soft).verdict == "pass") == harmless
    before = soft.index("(0x")
    assert blame(soft[: before + min(cut, 21)]).verdict != "pass", "half of the numbers says nothing"


def test_an_error_of_the_unit_itself_is_no_effect_of_the_other_end() -> None:
    cause = line(149, "NETIR_LINK_EVT", 0x004525C6, 0, "Fatal")
    for status, blamed in ((0x8, {"GPU 0018:01:00"}), (0x10, {"GPU 0018:01:00", "GPU 0008:01:00"})):
        sheet = blame(cause, line(145, "RLW_SRC_TRACK", 0x040988E2, status, gpu="0008"))
        assert {finding.entity for finding in sheet.findings} == blamed


def test_a_finding_says_where_to_look() -> None:
    [finding] = blame(line(149, "NETIR_LINK_EVT", 0x015001C6, 0, "Fatal")).findings
    assert "began at the other end of the link: look there" in finding.text
    assert finding.remedy == "reset_gpu" and not heavier("reset_gpu", finding.remedy)


def test_the_page_has_each_rule() -> None:
    page = made.CHECKOUT / "docs" / "reference" / "remedies.md"
    if not page.is_file():
        pytest.skip("this copy has no docs")
    section = page.read_text(encoding="utf-8").split("\n## NVLink 5\n", 1)[1].split("\n## ", 1)[0]
    told = [row.strip("| ").split(" | ") for row in section.splitlines() if row.startswith("| 1")]
    assert told == [[cell.strip() for cell in row] for row in _of_the_table()]


def _of_the_table() -> Iterator[list[str]]:
    for unit in nvlink5.UNITS:
        for rule in dict.fromkeys(unit.rules.values()):
            by_code = len({code for code, _status in unit.rules}) > 1
            numbers = [
                f"code 0x{code:02X}" if by_code else f"0x{status:X}"
                for (code, status), one in unit.rules.items()
                if one == rule
            ]
            yield [
                str(unit.number),
                " ".join(f"`{name}`" for name in unit.names),
                ", ".join(numbers),
                rule.action,
                rule.look or "–",
            ]
