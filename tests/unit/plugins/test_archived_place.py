# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where an archive of a ledger may lie, through the action: what it takes out of the ledger is nowhere else."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import ledger_store
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door


def archived(folder: Path, path: Path, *, check_mode: bool) -> dict[str, Any]:
    url = f"sqlite:///{folder}/ledger.sqlite"
    with Ledger(url) as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "GF0001")])
        looks = [("verdict", "dcgm_gate", {"verdict": "pass"})] * 3
        ledger.append("r", [(node, Event(*look)) for look in looks])
        ledger.append("r", [(node, Event("state", name, {})) for name in ("imaging", "admitted")])
    made = Door(
        folder,
        lambda *_: None,  # type: ignore[arg-type, return-value]
        base=ledger_store.ActionModule,
        name="ledger_store",
        own_spec=ledger_store.upkeep.SPEC,
        check_mode=check_mode,
        args={"state": "archived", "older_than": 90, "path": str(path)},
    )
    return made.run()


def _null(path: Path) -> None:
    """As /dev/null: SQLite writes to it, and reads nothing back."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")


def _link(path: Path) -> None:
    path.symlink_to("elsewhere.sqlite")


@pytest.mark.parametrize("check_mode", [True, False])
@pytest.mark.parametrize("lay", [os.mkfifo, _null, _link])
def test_an_archive_is_a_file(tmp_path: Path, lay: Callable[[Path], None], check_mode: bool) -> None:
    path = tmp_path / "a.sqlite"
    lay(path)
    told = archived(tmp_path, path, check_mode=check_mode)
    assert told["failed"] and "the archive would take the place of a " in told["msg"], told
    with sqlite3.connect(tmp_path / "ledger.sqlite") as ledger:
        assert ledger.execute("SELECT count(*) FROM events").fetchone() == (5,)
    assert not (tmp_path / "elsewhere.sqlite").exists()
