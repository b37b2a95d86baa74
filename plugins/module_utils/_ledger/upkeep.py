# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb ``ledger_store``: a ledger as a whole is verified, backed up, restored, moved, archived. PRIVATE."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FLEET, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, OlderLedger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import archive, copies, rows
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.copies import Asked
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.restore import restored, whole
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.schema import MOVED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result

with contextlib.suppress(ImportError):  # Connection says what is missing before anything here runs
    import sqlalchemy as sa

SPEC = spec(
    FLEET,
    state={
        "type": "str",
        "choices": ["verified", "backed_up", "restored", "moved", "archived"],
        "default": "verified",
    },
    path={"type": "path"},
    to={"type": "str", "no_log": True},
    older_than={"type": "int", "default": 90},
    passport_public_keys={"type": "list", "elements": "str"},
)
RULES = {
    "required_if": [
        ("state", "backed_up", ("path",)),
        ("state", "restored", ("path",)),
        ("state", "archived", ("path",)),
        ("state", "moved", ("to",)),
    ]
}


def ledger_store(params: Mapping[str, Any], ctx: Context) -> Result:
    """What a module on another machine says: it has no ledger."""
    raise ConfigError(
        "only the controller has the ledger",
        node=ctx.node,
        do="call ledger_store as an ordinary task of the play; its action works on the controller",
    )


def kept(asked: Asked) -> Result:
    return _STATES[asked.params["state"]](asked)


def _verified(asked: Asked) -> Result:
    """A look alters nothing: a backup that it brought to this release would serve the one that made it no more."""
    path = copies.path_of_url(asked.url)
    if path and copies.is_frozen(path):
        return _verified_apart(path, asked)
    try:
        with copies.there(asked.url, dry=True) as ledger:
            return Result(data=whole(ledger, asked.judge))
    except OlderLedger as exc:
        if not path:
            raise OlderLedger(
                "the ledger was written by an older release of this collection, and a look alters nothing",
                address=exc.address,
                wanted=exc.wanted,
                seen=exc.seen,
                do="verify it with that release, or run the playbook status once, which alters its tables",
            ) from exc
        return _verified_apart(path, asked)


def _verified_apart(path: str, asked: Asked) -> Result:
    """The copy is brought to this release, and looked at in its place."""
    with copies.apart(path) as copy, Ledger(copies.file_url(copy)) as ledger:
        return Result(data=whole(ledger, asked.judge, copies.file_url(path)))


def _backed_up(asked: Asked) -> Result:
    if os.path.lexists(asked.path):
        raise ConfigError("there is a file already, and no backup is written over", seen=asked.path, do="name another")
    with copies.there(asked.url, dry=asked.dry) as ledger, ledger.snapshot() as source:
        told = {"rows": rows.counts(source), "address": ledger.shown_url, "path": asked.path}
        if not asked.dry:
            with copies.made(asked.path) as part, Ledger(copies.file_url(part)) as copy:
                copies.copied(source, copy, asked, "copied" if ledger.dialect != "sqlite" else "")
    return Result(changed=True, data=told)


def _moved(asked: Asked) -> Result:
    to = str(asked.params["to"])
    if not copies.path_of_url(asked.url) or not to.startswith("postgresql"):
        raise ConfigError(
            "a ledger is moved from a file to a PostgreSQL server",
            wanted="gpufleet_ledger_url: sqlite:////..., and to: postgresql+psycopg://...",
            do="between two servers use the server's own means, or back it up here and restore it there",
        )
    with copies.there(asked.url, dry=asked.dry) as ledger, Ledger(to, create=not asked.dry) as target:
        told = {"address": ledger.shown_url, "to": target.shown_url, "rows": {}}
        with ledger.transaction() as source:  # nobody writes to the file from here on
            copies.refuse_leases(ledger, source)
            told["rows"] = rows.counts(source)
            if asked.dry:
                copies.refuse_rows(target)
                return Result(changed=True, data=told)
            if not _same(source, target):
                copies.copied(source, target, asked, "")
            _mark_moved(ledger, source, target.shown_url, asked.run_id)
    return Result(changed=True, data=told)


def _archived(asked: Asked) -> Result:
    if asked.params["older_than"] < archive.LEAST_DAYS:
        raise ConfigError(
            "so young events are still worked with", wanted=f"older_than: {archive.LEAST_DAYS} days or more"
        )
    with copies.there(asked.url, dry=asked.dry) as ledger:
        due = archive.due(ledger, float(asked.params["older_than"]))
        told = {"address": ledger.shown_url, "path": asked.path, "rows": due.counts()}
        if not asked.dry and due:
            if os.path.isfile(asked.path) and os.path.getsize(asked.path):
                copies.refuse_no_ledger(asked.path)
            with Ledger(copies.file_url(asked.path)) as file:
                archive.refuse_another(file)
                archive.carry_out(ledger, file, due, asked.run_id, asked.path, asked.say)
    return Result(changed=bool(due), data=told)


def _same(source: Any, target: Ledger) -> bool:
    """A run that was killed between copy and mark goes on: the copy is there, whole."""
    with target.snapshot() as conn:
        return bool(rows.counts(conn)["nodes"]) and rows.tallies(conn) == rows.tallies(source)


def _mark_moved(ledger: Ledger, conn: Any, to: str, run_id: str) -> None:
    """Whoever opens it from now on is told, by any release; who has it open already is refused each write."""
    copies.record(ledger, conn, run_id, "moved", {"to": to})
    conn.execute(sa.text("INSERT INTO schema_version VALUES (:moved)"), {"moved": MOVED})
    told = to.replace("'", "''")
    for table in rows.TABLES:
        for verb in ("INSERT", "UPDATE"):
            conn.exec_driver_sql(
                f"CREATE TRIGGER {table}_{verb.lower()}_moved BEFORE {verb} ON {table}"
                f" BEGIN SELECT RAISE(ABORT, 'this ledger was moved to {told}'); END"
            )


_STATES: Mapping[str, Callable[[Asked], Result]] = {
    "verified": _verified,
    "backed_up": _backed_up,
    "restored": restored,
    "moved": _moved,
    "archived": _archived,
}
