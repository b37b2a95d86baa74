# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of the kernel log gate that fail closed beside others that do so as well: each is held by itself."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.judge import judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.lines import Names, incidents, parse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Sheet

NOW = 1_780_000_000.0
GPU = "NVRM: Xid (PCI:0000:9b:00): "
SWITCH = "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): "


def blame(*texts: str, step: float = 1.0) -> Sheet:
    lines = [parse(f"[{100 + at * step:.6f}] {text}", NOW) for at, text in enumerate(texts)]
    sheet, names = Sheet(), Names({}, {})
    for name in ("xid", "sxid", "kernel"):
        sheet.require(name, "node")
    judge(sheet, [one for _line, one in incidents(lines, names)], names)
    return sheet


def of_node(sheet: Sheet) -> dict[str, str]:
    return {row.id: row.verdict for row in sheet.rows() if row.entity == "node"}


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        (GPU + "79, pid=1, GPU has fallen off the bus.", "xid"),
        (GPU + "4711, something new", "xid"),
        (SWITCH + "20034, Fatal, Link 30 LTSSM Fault Up", "sxid"),
        ("Kernel panic - not syncing: Fatal exception", "kernel"),
    ],
)
def test_t1_an_error_of_one_part_counts_for_the_node(text: str, cell: str) -> None:
    others = {"xid", "sxid", "kernel"} - {cell}
    assert of_node(blame(text)) == {cell: "fail", **dict.fromkeys(others, "pass")}


def test_t1_errors_of_different_times_are_faults_of_their_own() -> None:
    texts = (GPU + "62, PMU halted", GPU + "79, pid=1, GPU has fallen off the bus.")
    assert [finding.id for finding in blame(*texts).findings] == ["xid:62"]
    assert [finding.id for finding in blame(*texts, step=600).findings] == ["xid:62", "xid:79"]


def test_t1_a_line_that_calls_itself_fatal_asks_for_a_remedy() -> None:
    """The table knows this one as a corrected error without a remedy; here the driver says otherwise."""
    quiet = blame(SWITCH + "11012, Non-fatal, Link 30 corrected")
    assert (quiet.verdict, quiet.remedy) == ("pass", "none")
    fatal = blame(SWITCH + "11012, Fatal, Link 30 corrected")
    assert (fatal.verdict, fatal.remedy) == ("fail", "reboot")


def test_t1_a_line_that_calls_itself_harmless_is_believed() -> None:
    assert blame(SWITCH + "20034, Non-fatal, Link 30 LTSSM Fault Up").verdict == "pass"
