# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fresh ledger for each test, in a SQLite file and in a real PostgreSQL that the tests start themselves."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgresql import Server, obstacle, running


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    pytest.importorskip("psycopg")
    if obstacle():
        pytest.skip(obstacle())
    with running() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a ledger that nobody has opened yet will lie."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.sqlite"
    server: Server = request.getfixturevalue("postgresql")
    schema = f"t{uuid.uuid4().hex}"
    server.statement(f"CREATE SCHEMA {schema}")
    return server.url(schema)
