# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All tasks of a run have one ledger: the file that the first of them opened."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible import constants as C
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event, Result
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Each call begins another run."""

    def begin() -> None:
        monkeypatch.setattr(C, "DEFAULT_LOCAL_TMP", str(tmp_path / f"run{len(list(tmp_path.glob('run*')))}"))
        Path(C.DEFAULT_LOCAL_TMP).mkdir()

    begin()
    return begin


class Opens(VerbAction):
    """Asks the ledger in check mode, too."""

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        self.node_id()
        return params


def task(folder: Path, *, check_mode: bool = False) -> str:
    """What stopped it; empty where nothing did."""
    told = Result(events=[Event("note", "told", {})])
    found = Door(folder, lambda params, ctx: told, base=Opens, check_mode=check_mode).run()
    return str(found["msg"]) if found.get("failed") else ""


def removed(file: Path) -> None:
    file.rename(file.with_suffix(".old"))


def emptied(file: Path) -> None:
    removed(file)
    file.touch()


def another(file: Path) -> None:
    removed(file)
    with Ledger(f"sqlite:///{file}") as ledger:
        ledger.identify("gpu001", aliases=[("serial", "GF0001")])


def copied(file: Path) -> None:
    """An older copy of the same ledger, which lacks what was done since."""
    removed(file)
    shutil.copy(file.with_suffix(".old"), file)


def in_its_very_place(file: Path) -> None:
    """Some file systems give the next file the inode of the one that was removed."""
    before = os.stat(file).st_ino
    other = file.with_suffix(".other")
    with Ledger(f"sqlite:///{other}") as ledger:
        ledger.identify("gpu001", aliases=[("serial", "GF0001")])
    with sqlite3.connect(other) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file.with_suffix(".old").write_bytes(file.read_bytes())
    file.write_bytes(other.read_bytes())
    assert os.stat(file).st_ino == before


@pytest.mark.parametrize("happens", [removed, emptied, another, copied, in_its_very_place])
@pytest.mark.parametrize("check_mode", [False, True])
def test_c7_a_ledger_that_was_replaced_between_two_tasks_of_a_run_stops_it(
    tmp_path: Path, run: Callable[[], None], happens: Callable[[Path], None], check_mode: bool
) -> None:
    file = tmp_path / "ledger.sqlite"
    assert task(tmp_path) == task(tmp_path) == ""
    happens(file)
    there = file.exists()
    for _again in range(2):
        told = task(tmp_path, check_mode=check_mode)
        assert "removed or replaced" in told and "put the file back" in told, told
    assert file.exists() == there, "and no new one is made"
    file.with_suffix(".old").replace(file)
    if happens is not in_its_very_place:
        assert task(tmp_path) == "", "what was put back is gone on with"
    run()
    assert task(tmp_path) == "", "another run takes the ledger that it finds"


def test_c7_each_ledger_of_a_run_is_one_of_its_own(tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        assert task(tmp_path / name) == task(tmp_path / name) == ""


def test_c7_a_ledger_of_an_older_release_gets_its_number_with_the_first_write(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite"
    Ledger(f"sqlite:///{file}").close()
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 0")
    numbers = []
    for create in (False, True, True, False):
        with Ledger(f"sqlite:///{file}", create=create) as ledger:
            numbers.append(ledger._number)
    assert numbers[0] == 0 < numbers[1] == numbers[2] == numbers[3]


def test_a_place_where_a_ledger_would_be_lost_is_refused_by_the_first_task_of_a_run(tmp_path: Path) -> None:
    door = Door(tmp_path, lambda params, ctx: Result(), base=Opens, gpufleet_ledger_url="sqlite:///relative.sqlite")
    found = door.run()
    assert found.get("failed") and "names no file that is the same one for each run" in found["msg"], found
