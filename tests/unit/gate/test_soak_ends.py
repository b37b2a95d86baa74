# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ends a soak long before its hours, and what is kept of one whose last log could not be read; real processes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.progress import Progress
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import uptime
from ansible_collections.gpufleet.baremetal.tests.unit.gate import burning, smi, soaked
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate.test_soak import LONG, Node, until
from ansible_collections.gpufleet.baremetal.tests.unit.gate.test_soak import node as node

#: As the kernel says it while the soak runs, on a machine that runs for 1000 s.
LOST = made.kmsg("NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.", start=1000, seq=2)
UNREAD = "no record of a kernel\n"
#: The kernel said more than it kept.
HOLE = soaked.QUIET + made.kmsg("nfs: 3 callbacks suppressed", start=1000, seq=2)


def soaked_for(node: Node, seconds: float) -> None:
    """A soak of so long that was killed in this boot, and that began 500 s ago."""
    begun = Progress(seconds=seconds)
    begun.begin("boot-1", time.time() - 500, uptime() - 500)
    node.jobs.mkdir(mode=0o700)
    node.store.save(begun)


def says(node: Node, log: str) -> str:
    """What the kernel says from the first round on; shell of the load."""
    (node.folder / "later").write_text(log, encoding="utf-8")
    return f"cp '{node.folder}/later' '{node.folder}/kmsg'"


def test_a_soak_whose_log_cannot_be_read_loads_nothing(node: Node) -> None:
    """It loaded the GPUs for all its hours before it said so."""
    node.start(log=UNREAD, interruptions=0)
    assert node.verdict()["verdict"] == "inconclusive" and "kmsg" in str(node.verdict()["findings"])
    assert not node.burns()
    assert not node.start(interruptions=0)["joined"]
    assert node.verdict()["verdict"] == "pass" and node.cell("interruptions") == 0, node.verdict()["findings"]


def test_a_soak_that_was_not_begun_for_a_hole_begins_anew(node: Node) -> None:
    """The hole stays in the log, and from where it was cut off the soak could never pass."""
    soaked_for(node, 1.0)
    node.start(log=HOLE)
    assert node.verdict()["verdict"] == "inconclusive" and not node.burns()
    node.start(log=HOLE + made.kmsg("quiet", start=1090, seq=3), uptime=1100.0)
    assert node.verdict()["verdict"] == "pass" and node.cell("interruptions") == 0, node.verdict()["findings"]


def test_what_the_kernel_says_in_the_midst_of_a_soak_ends_it_at_once(node: Node) -> None:
    soaked_for(node, 1.0)
    node.start(hours=LONG, body="sleep 600")
    samples = node.samples()
    until(lambda: node.samples() > samples + 1 and node.burns())
    assert not (node.jobs / "soak-1.json").exists()
    (node.folder / "kmsg").write_text(soaked.QUIET + LOST, encoding="utf-8")
    until((node.jobs / "soak-1.json").exists, seconds=20)
    verdict = node.verdict()
    assert (verdict["verdict"], verdict["remedy"]) == ("fail", "power_cycle") and node.idle()


def test_a_look_that_comes_too_late_ends_a_soak_that_no_more_time_can_mend(node: Node) -> None:
    soak = {"hours": LONG, "gap_seconds": 1.5}
    profile = soaked.profile(gap_seconds=1.5)
    node.start(body="sleep 600", **{**soak, "profile": profile})
    # A busy machine may be late by itself.
    until(lambda: node.samples() > 1 or (node.jobs / "soak-1.json").exists())
    smi.tool(node.folder, soaked.document(), body="sleep 2")
    until((node.jobs / "soak-1.json").exists, seconds=20)
    verdict = node.verdict()
    assert verdict["verdict"] == "inconclusive" and "nobody saw the GPUs for" in str(verdict["findings"])
    assert node.idle(), "hours of load would tell nothing more"


@pytest.mark.parametrize("hours", [soaked.HOURS, 0.0005])
def test_a_soak_whose_last_log_cannot_be_read_goes_on_and_a_round_later_is_judged(node: Node, hours: float) -> None:
    node.start(hours=hours, body=says(node, UNREAD))
    assert node.verdict()["verdict"] == "inconclusive", "nobody knows what the kernel said"
    kept, rounds = node.seconds(), len(node.burns())
    assert kept >= 3600 * hours and not node.store.load().parts[-1]["heard"]
    again = node.start(hours=hours)
    assert not again["joined"] and node.verdict()["verdict"] == "pass", node.verdict()["findings"]
    assert node.cell("soaked") > kept and len(node.burns()) == rounds + 1, "no part passes by what others have seen"
    assert node.cell("interruptions") == 0
    assert node.start(hours=hours)["joined"], "and then it is over"


def test_a_soak_in_whose_log_is_a_hole_begins_anew_and_can_pass(node: Node) -> None:
    node.start(body=says(node, HOLE))
    assert node.verdict()["verdict"] == "inconclusive"
    # A day goes by, of which the kernel tells all.
    known = node.store.load()
    known.parts[0]["up"] -= 900.0
    node.store.save(known)
    rounds = len(node.burns())
    node.start(log=HOLE + made.kmsg("quiet", start=1800, seq=3), uptime=1900.0)
    assert node.verdict()["verdict"] == "pass", node.verdict()["findings"]
    assert node.cell("rounds.burn") == len(node.burns()) - rounds


def test_after_a_reboot_nothing_counts_of_a_soak_whose_last_log_nobody_could_read(node: Node) -> None:
    node.start(body=says(node, UNREAD))
    assert node.verdict()["verdict"] == "inconclusive"
    before = len(node.burns())
    node.reboot()
    node.start(hours=0.0005)
    assert node.verdict()["verdict"] == "pass" and node.cell("rounds.burn") == len(node.burns()) - before


def test_after_a_reboot_a_soak_that_was_heard_to_its_end_is_asked_for_more(node: Node) -> None:
    node.start(hours=0.0004)
    assert node.verdict()["verdict"] == "pass"
    node.reboot()
    node.start(hours=0.0012)
    assert node.verdict()["verdict"] == "pass" and node.cell("rounds.burn") == len(node.burns())


def test_all_loads_have_run_before_it_is_over(node: Node) -> None:
    burns = {"burns": [burning.row(), burning.row(name="other")]}
    profile = {**soaked.profile(), "gpu_burn": burns}
    node.start(profile=profile, tests=["burn", "other"])
    assert node.verdict()["verdict"] == "pass", node.verdict()["findings"]
    assert (node.cell("rounds.burn"), node.cell("rounds.other")) == (1, 1) and len(node.burns()) == 2


def test_a_failure_is_no_matter_of_a_log_that_cannot_be_read(node: Node, tmp_path: Path) -> None:
    node.start(body=says(node, UNREAD), look=soaked.document({"temperature/gpu_temp": "93 C"}))
    assert node.verdict()["verdict"] == "fail"
    assert node.start()["joined"], "to begin again is no way out of a failure"
