# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of a whole ledger share: one with some of everything, and what is done to it."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease, rows, upkeep
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.copies import Asked
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event

NOTE = Event("note", "x", {"text": "Grüße \\u0000 'quoted'"})


def do(url: str, state: str, *, dry: bool = False, **params: Any) -> dict[str, Any]:
    result = upkeep.kept(Asked(url, {"state": state, "older_than": 90, **params}, "a-run", dry))
    return {"changed": result.changed, **result.data}


def content(url: str) -> dict[str, rows.Tally]:
    with Ledger(url) as ledger, ledger.snapshot() as conn:
        return {name: tally for name, tally in rows.tallies(conn).items() if name not in ("leases", "upkeep")}


def done_to(url: str) -> list[str]:
    with Ledger(url) as ledger:
        return [str(row["what"]) for row in ledger._rows("SELECT what FROM upkeep ORDER BY id")]


def filled(url: str, count: int = 3) -> str:
    """A ledger with some of everything; whose runs are over."""
    with Ledger(url) as ledger:
        for number in range(count):
            node = ledger.identify(
                f"n{number}", aliases=[("serial", f"S{number}"), ("mac", f"52:54:00:00:00:0{number}")]
            )
            ledger.append("run", [(node, NOTE)] * 5)
            ledger.record_attempt("run", node, "reimage", "Xid 79")
            ledger.save_passport("run", node, issued=1.5, expires=2.5, digest="d", envelope={"payload": "p"})
            with ledger.transaction() as conn:
                lease.take_in(conn, ledger, node, Holder("run", "h#1", 1, 1, "b"))
                conn.execute(sa.text("UPDATE leases SET expires = 0"))
    return url


def made_older(file: Path) -> bytes:
    """The file of a ledger as the release before made it; what is in it."""
    with contextlib.closing(sqlite3.connect(file)) as older:
        older.executescript("DROP TABLE upkeep; DROP TABLE turns; DELETE FROM schema_version WHERE version > 3")
    return file.read_bytes()


def backed_up(url: str, folder: Path) -> str:
    do(url, "backed_up", path=f"{folder}/b.sqlite")
    return f"{folder}/b.sqlite"
