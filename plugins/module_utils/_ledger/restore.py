# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A backup becomes the ledger again. PRIVATE to the collection.

It is worked on as a copy, which an older release's becomes one of this release in, and which is looked at whole before
anything is replaced. A file is replaced while nobody has it open, and the one of before is kept beside it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _private
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    Refused,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import archive, copies, files, rows, sound
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.copies import Asked, Judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Result

with contextlib.suppress(ImportError):  # Connection says what is missing before anything here runs
    import sqlalchemy as sa

#: How the folders begin that a backup is worked on in.
_WORK = ".gpufleet-restore-"
#: A run that has the file open keeps it for a task, and no longer.
_PATIENCE_SECONDS = 5.0


def whole(ledger: Ledger, judge: Judge, called: str = "") -> dict[str, Any]:
    """What is in a ledger.

    :param called: its address as a person knows it, where it is looked at as a copy.
    :raises BadAnswer: naming all that is wrong with it.
    """
    with ledger.snapshot() as conn:
        found = [*sound.findings(ledger, conn), *judge(conn)]
        told: dict[str, Any] = {"rows": rows.counts(conn), "address": called or ledger.shown_url, "findings": found}
        if not found:
            told["archive"] = archive.is_marked(conn)
    if found:
        raise BadAnswer(
            f"the ledger is not whole: {'; '.join(found)}",
            address=told["address"],
            do="keep the file as it is for whoever looks into this, and restore a backup that verifies",
            details={"findings": found},
        )
    return told


def restored(asked: Asked) -> Result:
    _refuse_no_backup(asked.path)
    named = copies.path_of_url(asked.url)
    file = os.path.realpath(named) if named else ""  # what a link names is replaced, and not the link
    with _at_work(asked.path, beside="" if asked.dry else file) as work:
        copies.refuse_no_ledger(work, asked.path)
        with Ledger(copies.file_url(work)) as backup:
            told = {**whole(backup, asked.judge, copies.file_url(asked.path)), "path": asked.path, "set_aside": ""}
            _refuse_no_fleet(told)
            reason = str(asked.params.get("force_reason") or "").strip()
            note: dict[str, Any] = {"from": asked.path, "reason": reason}
            if not file:
                _onto_a_server(asked, backup, note, told)
                return Result(changed=True, data=told)
            with backup.transaction() as conn:
                copies.end_leases(conn)
                copies.record(backup, conn, asked.run_id, "restored", note)
        told["address"] = copies.file_url(file)
        with _to_be_replaced(asked, file, reason) as there:
            if not asked.dry:
                told["set_aside"] = _put_in_place(work, file, there)
    return Result(changed=True, data=told)


def _refuse_no_backup(path: str) -> None:
    if not os.path.isfile(path):
        raise ConfigError("there is no such backup", seen=path, do="correct path")
    if os.path.exists(f"{path}-wal"):
        raise ConfigError(
            "this is a ledger that is in use, or a part of one",
            seen=f"{path}-wal",
            do="make a backup with state backed_up, and restore that",
        )


def _refuse_no_fleet(told: Mapping[str, Any]) -> None:
    """:raises Refused: where it is a ledger by its form, and would leave every run without what it has to know."""
    why = "an archive of old looks, and no backup" if told["archive"] else ""
    if not told["rows"]["nodes"]:
        why = "a ledger without any node"
    if why:
        raise Refused(f"this is {why}", address=told["path"], do="name a backup, which state backed_up has made")


@contextmanager
def _at_work(path: str, *, beside: str) -> Iterator[str]:
    """A copy of the backup, on the file system where it shall lie."""
    folder = os.path.dirname(beside) if beside else tempfile.gettempdir()
    try:
        _make_folder(folder)
        _clear_up(folder)
        own = tempfile.mkdtemp(prefix=_WORK, dir=folder)
        alive = _locked(own)
    except OSError as exc:
        raise ConfigError(f"the ledger's folder cannot be written: {exc.strerror}", seen=folder) from exc
    try:
        work = os.path.join(own, "ledger.sqlite")
        _copy(path, work, folder)
        yield work
    finally:
        shutil.rmtree(own, ignore_errors=True)
        os.close(alive)


def _make_folder(folder: str) -> None:
    """For whoever has the folder above it: one of root's would be closed to him."""
    missing: list[str] = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    above = os.stat(folder)
    for one in reversed(missing):
        os.mkdir(one, 0o700)
        if os.geteuid() == 0:
            os.chown(one, above.st_uid, above.st_gid)


def _clear_up(folder: str) -> None:
    """What a restore left that was killed. The kernel takes the lock from a process that ended, in any container."""
    with os.scandir(folder) as there:
        left = [one.path for one in there if one.name.startswith(_WORK) and one.is_dir(follow_symlinks=False)]
    for one in left:
        with contextlib.suppress(OSError):  # it is another user's, or somebody works there
            handle = _locked(one)
            shutil.rmtree(one, ignore_errors=True)
            os.close(handle)


def _locked(folder: str) -> int:
    """:raises OSError: where another process has it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


def _copy(path: str, work: str, folder: str) -> None:
    try:
        _private.copy(path, work)
    except OSError as exc:
        raise ConfigError(
            f"the backup cannot be copied to where the ledger shall lie: {exc.strerror}",
            seen=f"{path}, into {folder}",
            do="make room in that folder, or let this user read the backup, and try again: nothing was replaced",
        ) from exc


def _onto_a_server(asked: Asked, backup: Ledger, note: dict[str, Any], told: dict[str, Any]) -> None:
    """A server's ledger is never replaced: nobody else may have tables there that refuse to be emptied."""
    with Ledger(asked.url, create=not asked.dry) as target, backup.snapshot() as source:
        told["address"] = target.shown_url
        if asked.dry:
            copies.refuse_rows(target)
        else:
            copies.copied(source, target, asked, "restored", note)


@contextmanager
def _to_be_replaced(asked: Asked, file: str, reason: str) -> Iterator[Optional[Ledger]]:
    """The ledger that is there, which nobody else has open in the body; None where none is, or none that can be read.

    :raises Refused: where there is one, and no reason is given.
    :raises Unreachable: where it does not answer now: nobody can say whether a run works with it.
    """
    if not os.path.exists(file) or not os.path.getsize(file):
        yield None
        return
    try:
        copies.refuse_no_ledger(file)
        # What is refused is left as it is, and what is set aside too: an older release may want it back.
        ledger = Ledger(asked.url, create=False, patience=_PATIENCE_SECONDS, as_it_is=True)
    except Unreachable as exc:
        raise _silent(exc) from exc
    except BadAnswer as exc:
        if not reason:
            raise _live(file, f"a file that cannot be read: {exc.what}") from exc
        yield None
        return
    with ledger:
        with ledger.snapshot() as conn:
            copies.refuse_leases(ledger, conn)
            nodes, events = (conn.execute(sa.text(f"SELECT count(*) FROM {of}")).scalar() for of in ("nodes", "events"))
        if nodes and not reason:
            raise _live(file, f"{nodes} nodes, {events} events")
        yield ledger


def _silent(exc: Unreachable) -> Unreachable:
    return Unreachable(
        f"whether a run works with the ledger that is there cannot be seen: {exc.what}",
        address=exc.address,
        do="wait for the end of all runs, and try again; if it never answers, move that file away yourself, with those"
        " beside it that end in -wal and -shm",
    )


def _live(file: str, seen: str) -> Refused:
    return Refused(
        "there is a ledger already, and what it alone knows would be lost to all runs",
        address=copies.file_url(file),
        seen=seen,
        do='give force_reason (-e \'{"ledger_force_reason": "..."}\'): it is recorded, and that ledger is kept beside',
    )


def _put_in_place(work: str, file: str, there: Optional[Ledger]) -> str:
    """Where the ledger of before lies now, or what was left of it; empty where there was nothing."""
    aside, kept = f"{file}.before-{uuid.uuid4().hex[:8]}", []
    try:
        _for_its_owner(work, file)
        files.on_disk(work)
        with _alone(there) if there is not None else contextlib.nullcontext():
            if os.path.exists(file):
                os.link(file, aside)
                kept.append(aside)
            for companion in ("-wal", "-shm", "-journal"):  # of a file that cannot be read, nobody takes them in
                with contextlib.suppress(FileNotFoundError):
                    os.rename(f"{file}{companion}", f"{aside}{companion}")
                    kept.append(f"{aside}{companion}")
            os.replace(work, file)
    except OSError as exc:
        raise ConfigError(f"the ledger cannot be replaced: {exc.strerror}", seen=file) from exc
    return kept[0] if kept else ""


def _for_its_owner(work: str, file: str) -> None:
    """Root restores it for whoever's ledger it is, or whose folder where it is gone: a file of root's were closed to
    him."""
    there = os.path.exists(file)
    before = os.stat(file if there else os.path.dirname(file))
    if before.st_uid != os.stat(work).st_uid and (there or os.geteuid() == 0):
        os.chown(work, before.st_uid, before.st_gid)


@contextmanager
def _alone(ledger: Ledger) -> Iterator[None]:
    """Nobody else has the file open, and its journal lies in it: left beside, it would be taken for that of the next.

    :raises Refused: where somebody has.
    """
    conn = ledger._conn
    try:
        conn.exec_driver_sql("PRAGMA journal_mode=DELETE")
        ledger._forget()
        conn.exec_driver_sql("BEGIN EXCLUSIVE")
        if conn.exec_driver_sql("PRAGMA journal_mode").scalar() != "delete":
            raise _in_use(ledger)
        copies.refuse_leases(ledger, conn)
        yield
    except sa.exc.OperationalError as exc:
        raise _in_use(ledger) from exc
    finally:
        with contextlib.suppress(sa.exc.SQLAlchemyError):
            conn.exec_driver_sql("ROLLBACK")
        ledger._forget()


def _in_use(ledger: Ledger) -> Refused:
    return Refused(
        "another process has this ledger open",
        address=ledger.shown_url,
        do="wait for the end of all runs, and try again",
    )
