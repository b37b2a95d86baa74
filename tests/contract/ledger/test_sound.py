# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verification finds of what another program has done to a ledger: each guard, and each table that refers."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer
from contract.ledger.kept import do, filled
from postgresql import Server

REFERRING = ("aliases", "events", "leases", "attempts", "passports")


def spoilt(file: Path, *statements: str) -> None:
    """By hand, and without what a ledger asks of SQLite."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        for statement in statements:
            other.execute(statement)


@pytest.fixture
def url(tmp_path: Path) -> str:
    found = filled(f"sqlite:///{tmp_path}/l.sqlite")
    assert do(found, "verified")["rows"]["events"] == 15
    return found


@pytest.mark.parametrize("guard", ["events_update", "events_delete", "passports_update", "passports_delete"])
def test_c10_each_guard_of_a_file_that_is_gone_is_told(url: str, tmp_path: Path, guard: str) -> None:
    spoilt(tmp_path / "l.sqlite", f"DROP TRIGGER {guard}")
    with pytest.raises(BadAnswer, match=f"the trigger {guard} is gone"):
        do(url, "verified")


@pytest.mark.parametrize("table", REFERRING)
def test_c10_a_row_of_no_node_is_told_whatever_its_table(url: str, tmp_path: Path, table: str) -> None:
    file = tmp_path / "l.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as ledger:
        columns = [name for _n, name, *_more in ledger.execute(f"PRAGMA table_info({table})") if name != "id"]
    values = ["'gone'" if name in ("node_id", "value") else name for name in columns]
    spoilt(file, f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} FROM {table} LIMIT 1")
    with pytest.raises(BadAnswer, match=f"1 rows of {table} are of no node"):
        do(url, "verified")


@pytest.mark.slow
@pytest.mark.parametrize("table", ["events", "passports"])
@pytest.mark.parametrize(
    "how", ["DROP TRIGGER {table}_append_only ON {table}", "ALTER TABLE {table} DISABLE TRIGGER ALL"]
)
def test_c10_each_guard_on_a_server_that_is_gone_or_switched_off_is_told(
    postgresql: Server, table: str, how: str
) -> None:
    schema = f"sound_{table}_{how[:4].strip().lower()}"
    postgresql.statement(f"CREATE SCHEMA {schema}")
    url = filled(postgresql.url(schema))
    assert do(url, "verified")["rows"]["events"] == 15
    postgresql.statement(f"SET search_path TO {schema}; {how.format(table=table)}")
    with pytest.raises(BadAnswer, match=f"the trigger {table}_append_only is gone"):
        do(url, "verified")
