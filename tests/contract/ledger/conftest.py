# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fresh ledger for each test, in a SQLite file and in a real PostgreSQL that the tests start themselves."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder, this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifeline import LedgerLifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from contract.ledger.leased import HOSTS
from postgresql import Server, served
from suite import services


@pytest.fixture(scope="session")
@services.real
def postgresql() -> Iterator[Server]:
    yield from served()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a ledger that nobody has opened yet will lie."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.sqlite"
    server: Server = request.getfixturevalue("postgresql")
    schema = f"t{uuid.uuid4().hex}"
    server.statement(f"CREATE SCHEMA {schema}")
    return server.url(schema)


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger(url) as opened:
        yield opened


@pytest.fixture
def ids(ledger: Ledger) -> dict[str, str]:
    return {host: ledger.identify(host, aliases=[("serial", f"SN-{host}")]) for host in HOSTS}


@pytest.fixture
def run() -> Iterator[Callable[[], Holder]]:
    """Makes runs: real processes that live until the test ends, or until it kills them."""
    started: list[subprocess.Popen[bytes]] = []

    def begin() -> Holder:
        process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
        started.append(process)
        return this_run(process.pid)

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def line(ledger: Ledger, ids: dict[str, str], run: Callable[[], Holder]) -> Callable[..., LedgerLifeline]:
    def make(**more: Any) -> LedgerLifeline:
        options: dict[str, Any] = {"verb": "provisioner_wait", "intent": {}, "default_node": "gpu001", **more}
        return LedgerLifeline(lambda: ledger, run(), identify=ids.__getitem__, **options)

    return make


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renewed several times a second, so that a test sees it."""
    monkeypatch.setattr(lifeline, "_RENEW_SECONDS", 0.1)
    monkeypatch.setattr(lifeline, "_FRESH_SECONDS", 0.0)


@pytest.fixture
def shift(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the clock by which the ledger dates and judges: SQLite has this process's own, PostgreSQL the server's."""

    def by(seconds: float) -> None:
        if ledger.dialect == "sqlite":
            later = time.time() + seconds
            monkeypatch.setattr(time, "time", lambda: later)
            return
        with ledger.transaction() as conn:
            conn.exec_driver_sql(
                "CREATE OR REPLACE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE"
                f" AS $$ SELECT pg_catalog.clock_timestamp() + interval '{seconds} seconds' $$"
            )
            conn.exec_driver_sql(
                f"SET search_path = {conn.exec_driver_sql('SELECT current_schema').scalar()}, pg_catalog"
            )

    return by
