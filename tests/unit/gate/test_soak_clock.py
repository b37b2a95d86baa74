# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A soak goes on after somebody has set the clock of the day: which lines and which crashes are its own is known by
the clock of the boot; real processes."""

from __future__ import annotations

import os
import time

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.progress import Progress
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import uptime
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate import soaked
from ansible_collections.gpufleet.baremetal.tests.unit.gate.test_soak import Node
from ansible_collections.gpufleet.baremetal.tests.unit.gate.test_soak import node as node

XID = "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus."


def cut_off(node: Node, boot: str, *, ahead: float) -> None:
    """A soak that began 500 s ago, by a clock of the day that was so far ahead of now's."""
    begun = Progress()
    begun.begin(boot, time.time() - 500 + ahead, uptime() - 500)
    node.jobs.mkdir(mode=0o700)
    node.store.save(begun)


@pytest.mark.parametrize("ahead", [7200.0, -7200.0], ids=["set back", "set forward"])
@pytest.mark.parametrize(("at", "word"), [(700.0, "fail"), (300.0, "inconclusive")], ids=["its own", "of before"])
def test_what_the_kernel_said_is_of_the_soak_whatever_the_clock_of_the_day_says(
    node: Node, ahead: float, at: float, word: str
) -> None:
    """The machine runs for 1000 s. Nothing passes over a clock that was set while nobody looked."""
    cut_off(node, "boot-1", ahead=ahead)
    node.start(log=soaked.QUIET + made.kmsg(XID, start=at, seq=2))
    assert node.verdict()["verdict"] == word, node.verdict()["findings"]
    assert node.cell("clock_set") == pytest.approx(7200, abs=60) and not node.burns()


def test_a_crash_is_of_the_soak_where_the_clock_was_set_back_over_the_boot(node: Node) -> None:
    """It was told as older than the soak, and that passed."""
    records = node.folder / "pstore"
    records.mkdir()
    panic = records / "dmesg-efi-1"
    panic.write_text("Kernel panic - not syncing", encoding="ascii")
    os.utime(panic, (time.time() - 100, time.time() - 100))
    cut_off(node, "boot-0", ahead=7200.0)
    node.start(pstore_path=str(records), uptime=60.0)
    assert node.verdict()["verdict"] == "fail" and "the kernel crashed" in str(node.verdict()["findings"])


def test_a_crash_of_before_the_soak_is_none_of_it(node: Node) -> None:
    records = node.folder / "pstore"
    records.mkdir()
    (records / "dmesg-efi-1").write_text("Kernel panic - not syncing", encoding="ascii")
    os.utime(records / "dmesg-efi-1", (time.time() - 3600, time.time() - 3600))
    cut_off(node, "boot-0", ahead=0.0)
    node.start(pstore_path=str(records), uptime=60.0)
    assert node.verdict()["verdict"] == "pass", node.verdict()["findings"]
