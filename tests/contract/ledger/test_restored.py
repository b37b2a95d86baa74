# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a ledger is replaced by, and what becomes of the one that was there."""

from __future__ import annotations

import contextlib
import os
import resource
import sqlite3
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
import sqlalchemy as sa
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    FleetError,
    Refused,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import copies, files, restore
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from contract.ledger.kept import backed_up, content, do, done_to, filled, made_older

NO_BACKUP = {
    "this is no ledger": "",
    "this is no ledger. .* a database with dash": "CREATE TABLE dash (x)",
    "this is no ledger. .* a database with events": "CREATE TABLE events (x)",
    "this is an archive of old looks": "archive",
    "this is a ledger without any node": "nodes",
}


@pytest.mark.parametrize("words", NO_BACKUP)
def test_c10_what_is_no_backup_replaces_no_ledger(tmp_path: Path, words: str) -> None:
    url, file = filled(f"sqlite:///{tmp_path}/l.sqlite"), tmp_path / "b.sqlite"
    before, of = content(url), NO_BACKUP[words]
    if of in ("archive", "nodes"):
        with Ledger(f"sqlite:///{file}") as other:
            if of == "archive":
                other.identify("n0", aliases=[("serial", "S0")])
                with other.transaction() as conn:
                    copies.record(other, conn, "", "copied", {"from": url, "archive": True})
        assert do(f"sqlite:///{file}", "verified")["archive"] == (of == "archive")
    else:
        file.touch()
        with contextlib.closing(sqlite3.connect(file)) as there:
            there.executescript(of)
    found = file.read_bytes()
    with pytest.raises(FleetError, match=words) as caught:
        do(url, "restored", path=str(file), force_reason="x")
    assert str(file) in str(caught.value) and content(url) == before and file.read_bytes() == found


def test_c10_a_file_that_is_no_ledger_is_none_to_any_state_and_is_left_as_it_is(tmp_path: Path) -> None:
    url, file = filled(f"sqlite:///{tmp_path}/l.sqlite"), tmp_path / "dash.sqlite"
    backup = backed_up(url, tmp_path)
    with contextlib.closing(sqlite3.connect(file)) as there:
        there.executescript("CREATE TABLE dash (x); INSERT INTO dash VALUES (1)")
    found = file.read_bytes()
    for state in ("verified", "backed_up", "archived"):
        with pytest.raises(BadAnswer, match="this is no ledger"):
            do(f"sqlite:///{file}", state, path=f"{tmp_path}/other.sqlite")
    with pytest.raises(Refused, match="cannot be read: this is no ledger"):
        do(f"sqlite:///{file}", "restored", path=backup)
    assert file.read_bytes() == found and [one.name for one in tmp_path.glob("dash*")] == [file.name]


def test_c10_a_ledger_that_does_not_answer_now_is_not_replaced_whatever_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may work with it: nobody can read its leases."""
    monkeypatch.setattr(restore, "_PATIENCE_SECONDS", 0.1)
    url = filled(f"sqlite:///{tmp_path}/l.sqlite")
    backup, before = backed_up(url, tmp_path), content(url)
    with contextlib.closing(sqlite3.connect(tmp_path / "l.sqlite", isolation_level=None)) as locked:
        locked.execute("PRAGMA locking_mode=EXCLUSIVE")
        locked.execute("BEGIN EXCLUSIVE")
        with pytest.raises(Unreachable, match="whether a run works with the ledger"):
            do(url, "restored", path=backup, force_reason="x")
    assert content(url) == before and not list(tmp_path.glob("*.before-*"))


def test_c10_a_journal_whose_ledger_is_gone_is_kept_beside_and_is_no_part_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = filled(f"sqlite:///{tmp_path}/l.sqlite")
    backup, before = backed_up(url, tmp_path), content(url)
    (tmp_path / "l.sqlite").unlink()
    ends = ("-wal", "-shm", "-journal")
    for end in ends:
        (tmp_path / f"l.sqlite{end}").write_bytes(f"the last events{end}".encode())
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    told = do(url, "restored", path=backup)
    assert told["set_aside"].startswith(f"{tmp_path}/l.sqlite.before-") and told["set_aside"].endswith("-wal")
    for end in ends:
        assert Path(told["set_aside"].replace("-wal", end)).read_text() == f"the last events{end}"
        assert not (tmp_path / f"l.sqlite{end}").exists()
    assert content(url) == before and not list((tmp_path / "here").iterdir())


def test_c10_what_a_link_names_is_replaced_and_not_the_link(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    real, link = tmp_path / "data" / "l.sqlite", tmp_path / "link.sqlite"
    backup, before = backed_up(filled(f"sqlite:///{real}"), tmp_path), content(f"sqlite:///{real}")
    link.symlink_to(real)
    told = do(f"sqlite:///{link}", "restored", path=backup, force_reason="x")
    assert link.is_symlink() and content(f"sqlite:///{real}") == before and done_to(f"sqlite:///{real}")
    assert told["set_aside"].startswith(f"{real}.before-") and told["address"] == f"sqlite:///{real}"


@pytest.mark.needs_root
def test_c10_a_ledger_that_root_restores_stays_its_users_own(tmp_path: Path) -> None:
    url = filled(f"sqlite:///{tmp_path}/l.sqlite")
    backup = backed_up(url, tmp_path)
    os.chown(tmp_path / "l.sqlite", 1234, 1235)
    do(url, "restored", path=backup, force_reason="x")
    about = (tmp_path / "l.sqlite").stat()
    assert (about.st_uid, about.st_gid, about.st_mode & 0o777) == (1234, 1235, 0o600)


@pytest.mark.needs_root
@pytest.mark.parametrize("made", [False, True])
def test_c10_a_ledger_that_root_restores_where_it_is_gone_is_of_whoever_has_its_folder(
    tmp_path: Path, made: bool
) -> None:
    backup = backed_up(filled(f"sqlite:///{tmp_path}/l.sqlite"), tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 1234, 1235)
    file = home / "a" / "b" / "l.sqlite" if made else home / "l.sqlite"
    do(f"sqlite:///{file}", "restored", path=backup)
    for one in (file, *list(file.parents)[: 3 if made else 1]):
        assert (one.stat().st_uid, one.stat().st_gid) == (1234, 1235), one
    assert file.parent.stat().st_mode & 0o777 == 0o700 or not made


def test_c10_a_disk_that_is_full_is_told_as_one(tmp_path: Path) -> None:
    url = filled(f"sqlite:///{tmp_path}/l.sqlite")
    backup, before = backed_up(url, tmp_path), content(url)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, limits[1]))  # no file takes more
    try:
        with pytest.raises(
            ConfigError, match="cannot be copied to where the ledger shall lie: File too large"
        ) as caught:
            do(url, "restored", path=backup, force_reason="x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.seen == f"{backup}, into {tmp_path}"
    assert content(url) == before and not list(tmp_path.glob(".gpufleet-restore-*"))


KILLED = """
import os, sys, threading
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import restore
with restore._at_work(sys.argv[1], beside=sys.argv[2]):
    print("here", flush=True)
    sys.stdin.read()
    os._exit(9)
"""


def test_c10_what_a_killed_restore_left_is_removed_by_the_next_and_no_other(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new/l.sqlite"
    backup = backed_up(filled(f"sqlite:///{tmp_path}/l.sqlite"), tmp_path)
    command, folder = [sys.executable, "-c", KILLED, backup, f"{tmp_path}/new/l.sqlite"], tmp_path / "new"

    def left() -> int:
        return len(list(folder.glob(".gpufleet-restore-*")))

    env = {"PYTHONPATH": os.environ["PYTHONPATH"], "PATH": os.environ["PATH"]}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as other:
        assert other.stdout is not None and other.stdout.readline() == "here\n"
        do(url, "restored", path=backup)
        assert left() == 1, "of one that is alive"
        other.communicate("")
    assert left() == 1
    do(url, "restored", path=backup, force_reason="x")
    assert left() == 0


def test_c10_check_mode_alters_no_ledger_of_an_older_release(tmp_path: Path) -> None:
    url, file = filled(f"sqlite:///{tmp_path}/l.sqlite"), tmp_path / "l.sqlite"
    backup = backed_up(url, tmp_path)
    older_one = made_older(file)
    for state in ("backed_up", "archived"):
        with pytest.raises(ConfigError, match="an older release"):
            do(url, state, path=f"{tmp_path}/{state}", dry=True)
    with pytest.raises(ConfigError, match="an older release"):
        do(url, "moved", to="postgresql://ann@127.0.0.1:1/gpufleet", dry=True)
    assert do(url, "restored", path=backup, force_reason="x", dry=True)["rows"]["nodes"] == 3
    assert file.read_bytes() == older_one
    assert do(url, "verified")["findings"] == []


def test_c10_a_refused_restore_and_what_it_sets_aside_leave_an_older_ledger_as_it_is(tmp_path: Path) -> None:
    """Its own release may be wanted back."""
    url, file = filled(f"sqlite:///{tmp_path}/l.sqlite"), tmp_path / "l.sqlite"
    backup, before = backed_up(url, tmp_path), content(url)
    older_one = made_older(file)
    with pytest.raises(Refused, match="there is a ledger already") as caught:
        do(url, "restored", path=backup)
    assert "3 nodes, 15 events" in caught.value.seen and file.read_bytes() == older_one
    told = do(url, "restored", path=backup, force_reason="x")
    with contextlib.closing(sqlite3.connect(told["set_aside"])) as aside:
        assert aside.execute("SELECT max(version) FROM schema_version").fetchone() == (3,)
    assert content(url) == before


def test_c10_an_empty_file_is_no_ledger_that_is_lost(tmp_path: Path) -> None:
    backup = backed_up(filled(f"sqlite:///{tmp_path}/l.sqlite"), tmp_path)
    (tmp_path / "new.sqlite").touch()
    do(f"sqlite:///{tmp_path}/new.sqlite", "restored", path=backup)
    assert content(f"sqlite:///{tmp_path}/new.sqlite") == content(f"sqlite:///{tmp_path}/l.sqlite")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://fleet:p@ss:hunter2@db:5432/x",
        "postgresql://fleet:p@hunter2@db:5432/x",
        "postgresql://fleet:p@ss/hunter2@db:5432/x",
    ],
)
def test_u8_a_url_with_an_at_in_its_password_is_refused_without_a_word_of_it(url: str) -> None:
    with pytest.raises(ConfigError, match="URL cannot be read") as caught:
        Ledger(url, patience=0.1)
    assert "%40" in caught.value.wanted and "hunter2" not in "".join(traceback.format_exception(caught.value))
    assert files.parsed("postgresql://fleet:p%40ss%3Aw%2F@db:5432/x").password == "p@ss:w/"


def test_c10_no_password_in_a_urls_query_is_shown_or_recorded() -> None:
    """libpq takes it there as well; a file that was moved names its server for good."""
    query = "sslmode=require&password=hunter22&sslpassword=hunter23&passfile=/root/.hunter24"
    parsed = sa.engine.make_url(f"postgresql+psycopg://ann:hunter25@db.example.com/gpufleet?{query}")
    assert files.shown_url(parsed) == "postgresql+psycopg://ann:***@db.example.com/gpufleet?sslmode=require"
    with pytest.raises(Unreachable) as caught:
        Ledger(f"postgresql+psycopg://ann@127.0.0.1:1/gpufleet?{query}", patience=0.1)
    assert "127.0.0.1" in caught.value.address and "hunter" not in str(caught.value)
