# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a soak keeps where its progress cannot be written, and what it was asked for when its hours are over."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.kept import Store
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.progress import FAILED, Progress
from ansible_collections.gpufleet.baremetal.tests.unit.gate import smi, soaked
from ansible_collections.gpufleet.baremetal.tests.unit.gate.test_soak import LONG, Node, until
from ansible_collections.gpufleet.baremetal.tests.unit.gate.test_soak import node as node


def _laid(path: Path) -> bool:
    with suppress(FileExistsError):  # just being written
        path.mkdir()
    return path.is_dir()


def test_a_failure_outlives_a_disk_on_which_no_progress_can_be_written(node: Node) -> None:
    """The node went down before the verdict, went on with its soak, and passed."""
    first = node.start(hours=LONG, body="trap '' TERM; sleep 600", interruptions=9)
    until(lambda: node.samples() > 1 and node.burns())
    in_the_way = node.jobs / "soak-1.soak.new"
    until(lambda: _laid(in_the_way))
    smi.tool(node.folder, soaked.document({"temperature/gpu_temp": "95 C"}))
    until(lambda: (node.store.load() or Progress()).failed)
    assert not (node.jobs / "soak-1.json").exists()
    os.kill(first["pid"], signal.SIGKILL)
    until(node.idle)
    in_the_way.rmdir()
    node.reboot()
    node.start(interruptions=9)
    assert node.verdict()["verdict"] == "fail" and len(node.burns()) == 1, node.verdict()["findings"]
    assert "95 C" in str(node.verdict()["findings"])
    assert not (node.jobs / "soak-1.spare").exists(), "by now it is written where it belongs"


def test_a_failure_takes_no_room_that_was_not_kept(tmp_path: Path) -> None:
    store, progress = Store(str(tmp_path), "a"), Progress(rows=[{"at": "x" * 1000}] * 500)
    assert store.keep_room() == ""
    size = (tmp_path / "a.spare").stat().st_size
    progress.begin("boot", 1.0)
    wrong = {"id": "x", "entity": "node", "text": "w" * 500, "remedy": "rma", "verdict": "fail"}
    told = {"verdict": "fail", "checks": [wrong] * 500, "findings": [wrong] * 500, "evidence_digest": "sha256:0"}
    progress.parts[-1].update(ended=FAILED, found=[["state", told]])
    (tmp_path / "a.soak.new").mkdir()
    assert store.save(progress) == "Is a directory"
    known = store.load()
    assert known is not None and known.failed and (tmp_path / "a.spare").stat().st_size == size
    assert store.keep_room() == "" and store.load() is None, "the next soak has the room for itself"


def test_a_node_that_keeps_nothing_over_a_boot_is_told_how_often_it_was_cut_off(node: Node) -> None:
    """It crashed under load, had forgotten that, and passed."""
    first = node.start(hours=LONG, interruptions=0, body="sleep 600")
    until(lambda: node.samples() > 1 and node.burns())
    os.kill(first["pid"], signal.SIGKILL)
    until(node.idle)
    shutil.rmtree(node.jobs)
    node.reboot()
    node.start(interruptions=0, cut_off=1)
    assert node.verdict()["verdict"] == "inconclusive" and "cut off 1 times" in str(node.verdict()["findings"])
    assert len(node.burns()) == 1, "nothing was loaded for what cannot pass"
    node.start(interruptions=0, cut_off=1)
    assert node.verdict()["verdict"] == "pass" and node.cell("interruptions") == 0, "and then it begins anew"


def test_what_the_node_counts_itself_is_not_counted_twice() -> None:
    progress = Progress()
    for _part in range(3):
        progress.begin("boot", 1.0)
    progress.told_of(1)
    assert progress.interruptions == 2
    progress.told_of(5)
    assert progress.interruptions == 5


def test_hours_that_are_asked_for_when_a_soak_ends_are_refused_and_told_as_nobodys(node: Node) -> None:
    """It was told that they count, and the soak passed for those of before."""
    node.start(hours=LONG, body="sleep 600")
    assert node.store.asked() == LONG, "or its own word comes after that of who joins it"
    until(node.burns)  # who joins lays another load in the place of the one that is still to be begun
    assert node.start(hours=LONG + 1)["joined"] and node.store.asked() == LONG + 1
    assert not node.store.close(3600 * LONG), "more was asked for meanwhile"
    assert node.store.close(3600 * (LONG + 1))
    with pytest.raises(Refused, match="just being written"):
        node.start(hours=LONG + 2)
    assert node.start(hours=LONG + 1)["joined"]
