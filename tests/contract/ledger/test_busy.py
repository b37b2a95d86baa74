# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ledger that takes nobody more for the moment fails no node."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import quarantines
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from postgresql import Server, obstacle, running
from suite import services

NOTE = Event("note", "x")
FILLS = """
import sys
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
with Ledger(sys.argv[1]) as ledger:
    node = ledger.identify("n1", aliases=[("serial", "S1")])
    try:
        while True:
            ledger.append("run", [(node, Event("note", "x", {"text": "x" * 10000}))])
    except FleetError as exc:
        print(exc)
"""
CONNECTIONS = 6


@pytest.fixture(scope="module")
@services.real
def small() -> Iterator[Server]:
    """A server that takes fewer connections than there are workers."""
    pytest.importorskip("psycopg")
    if obstacle():
        pytest.skip(obstacle())
    with running(CONNECTIONS) as server:
        yield server


@pytest.mark.slow
def test_w7_more_workers_than_the_server_takes_wait_for_each_other(small: Server) -> None:
    url = small.url("public")
    with Ledger(url) as ledger:
        node = ledger.identify("n1", aliases=[("serial", "S1")])
    everybody, wrote = threading.Barrier(CONNECTIONS), []

    def task() -> None:
        with Ledger(url) as mine:
            with contextlib.suppress(threading.BrokenBarrierError):
                everybody.wait(0.5)  # so many at once leave no connection to the others
            wrote.extend(mine.append("run", [(node, NOTE)]))

    threads = [threading.Thread(target=task) for _number in range(4 * CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(set(wrote)) == len(threads)


def connected(server: Server, user: str) -> Any:
    """As soon as there is room: what was closed a moment ago takes its place until its process has ended."""
    import psycopg

    end = time.monotonic() + 60
    while True:
        try:
            return psycopg.connect(f"host={server.folder} user={user} dbname=postgres")
        except psycopg.OperationalError:
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["server", "role"])
def test_w7_the_wait_has_an_end_and_names_the_limit(small: Server, limit: str) -> None:
    user, others = ("gpufleet", CONNECTIONS) if limit == "server" else ("few", 1)
    if limit == "role":
        small.statement("CREATE ROLE few LOGIN CONNECTION LIMIT 1")
    with contextlib.ExitStack() as stack:
        for _number in range(others):
            stack.enter_context(connected(small, user))
        with pytest.raises(Unreachable, match="took no further connection for 0.3 s") as caught:
            Ledger(small.url("public").replace("gpufleet@", f"{user}@"), patience=0.3)
    assert caught.value.seen == "too many connections" and "max_connections" in caught.value.do
    assert not quarantines(caught.value.as_result()), "and no node has a part in it"


def test_w7_a_file_that_another_process_sets_up_for_ever_is_no_verdict_about_a_node(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite"
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(Unreachable, match="locked by another process") as caught:
            Ledger(f"sqlite:///{file}", patience=0.2)
    assert not quarantines(caught.value.as_result())


@pytest.mark.needs_root
def test_c9_a_full_disk_is_said(tmp_path: Path) -> None:
    """The file system is a real one, in a namespace of the test's own, and has room for the ledger alone."""
    script = f'mount -t tmpfs -o size=400k none {tmp_path} && exec "$@"'
    argv = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        script,
        "sh",
        sys.executable,
        "-c",
        FILLS,
        f"sqlite:///{tmp_path}/l.sqlite",
    ]
    done = subprocess.run(argv, capture_output=True, check=False, text=True)
    assert "disk is full" in done.stdout and f"sqlite:///{tmp_path}/l.sqlite" in done.stdout, done.stdout + done.stderr
    assert "make room" in done.stdout
