# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ledger is replaced while nobody works with it, by a file that is whole on the disk and nobody else's to read."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, LeaseHeld, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease, restore
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from contract.ledger.kept import NOTE, backed_up, content, do, filled


@pytest.fixture
def url(tmp_path: Path) -> str:
    return filled(f"sqlite:///{tmp_path}/l.sqlite")


def hold(url: str, run: str) -> None:
    """A task of a run takes a lease, and lets go of the file."""
    with Ledger(url) as ledger:
        node = ledger.identify("n0", aliases=[("serial", "S0")])
        with ledger.transaction() as conn:
            lease.take_in(conn, ledger, node, Holder(run, f"{run}#1", 1, 1, "b"))


def test_c10_the_file_of_a_ledger_in_use_is_no_backup(url: str, tmp_path: Path) -> None:
    """Its newest events lie beside it, and would be lost without a word."""
    with Ledger(url) as ledger:
        ledger.append("run", [(ledger.identify("n0", aliases=[("serial", "S0")]), NOTE)])
        with pytest.raises(ConfigError, match="in use") as caught:
            do(f"sqlite:///{tmp_path}/new.sqlite", "restored", path=f"{tmp_path}/l.sqlite")
    assert caught.value.seen.endswith("l.sqlite-wal") and "backed_up" in caught.value.do
    assert not (tmp_path / "new.sqlite").exists()


def test_c10_check_mode_refuses_what_the_run_would_while_another_one_works(url: str, tmp_path: Path) -> None:
    backup = backed_up(url, tmp_path)
    hold(url, "its-run")
    with pytest.raises(LeaseHeld, match="its-run"):
        do(url, "restored", path=backup, force_reason="x", dry=True)


@pytest.mark.parametrize("reason", ["", "  ", "\n"])
def test_c10_a_blank_is_no_reason(url: str, tmp_path: Path, reason: str) -> None:
    backup, before = backed_up(url, tmp_path), content(url)
    with pytest.raises(Refused, match="there is a ledger already"):
        do(url, "restored", path=backup, force_reason=reason)
    assert content(url) == before and not list(tmp_path.glob("*.before-*"))


def test_c10_nobody_reads_or_writes_a_ledger_while_it_is_replaced(url: str, tmp_path: Path) -> None:
    """Whoever did would go on in the file that was set aside."""
    other = sqlite3.connect(tmp_path / "l.sqlite", timeout=0)
    with contextlib.closing(other), Ledger(url) as ledger, restore._alone(ledger):
        for statement in ("SELECT count(*) FROM nodes", "DELETE FROM leases"):
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute(statement)
    hold(url, "later")


def test_c10_a_run_that_began_since_its_leases_were_looked_at_keeps_its_ledger(url: str) -> None:
    with Ledger(url) as ledger:
        hold(url, "its-run")
        with pytest.raises(LeaseHeld, match="its-run"), restore._alone(ledger):
            raise AssertionError("it would be replaced")


def test_c10_whoever_opens_it_just_before_it_is_locked_keeps_it(url: str) -> None:
    """Whoever opens a ledger takes its journal out of it again, and a lock keeps nobody then from reading it."""
    with contextlib.ExitStack() as others, Ledger(url) as ledger:

        @sa.event.listens_for(ledger._conn, "before_cursor_execute")
        def opened(conn: Any, cursor: Any, statement: str, *more: Any) -> None:
            if statement == "BEGIN EXCLUSIVE":
                others.enter_context(Ledger(url))

        with pytest.raises(Refused, match="another process has this ledger open"), restore._alone(ledger):
            raise AssertionError("it would be replaced")


def test_c10_the_leases_of_a_backup_hold_nobody_up(url: str, tmp_path: Path) -> None:
    """It was made while a run worked, which knows another ledger."""
    hold(url, "its-run")
    new = f"sqlite:///{tmp_path}/new.sqlite"
    do(new, "restored", path=backed_up(url, tmp_path))
    hold(new, "another")


def test_c10_a_ledger_is_on_the_disk_and_private_before_it_is_in_its_place(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut would leave an empty file where the ledger was."""
    backup, file, kept, real = backed_up(url, tmp_path), tmp_path / "l.sqlite", {}, os.fsync
    old, mask = file.stat().st_ino, os.umask(0o022)

    def seen(handle: int) -> None:
        kept[os.fstat(handle).st_ino] = file.stat().st_ino
        real(handle)

    monkeypatch.setattr(os, "fsync", seen)
    try:
        os.chmod(backup, 0o644)
        do(url, "restored", path=backup, force_reason="x")
    finally:
        os.umask(mask)
    about = file.stat()
    assert kept[about.st_ino] == old and about.st_mode & 0o777 == 0o600
