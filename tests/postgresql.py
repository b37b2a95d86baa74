# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A PostgreSQL of a test's own: a folder, a socket in it, and no network."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

#: Debian keeps the server's programs out of PATH.
SERVER_PROGRAMS = ["/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin"]


def programs() -> Path | None:
    found = [Path(match) for pattern in SERVER_PROGRAMS for match in sorted(glob.glob(pattern), reverse=True)]
    on_path = shutil.which("initdb")
    found += [Path(on_path).parent] if on_path else []
    return next((folder for folder in found if (folder / "initdb").exists()), None)


def unprivileged() -> str | None:
    """A user to run the server as: it refuses root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in names), None)


class Server:
    """A PostgreSQL of our own: a folder, a socket in it, and no network."""

    def __init__(self, folder: Path, bin_folder: Path, connections: int = 200) -> None:
        self.folder = folder
        self._connections = connections
        self._bin = bin_folder
        self._user = unprivileged()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._user:
            entry = pwd.getpwnam(self._user)
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
        # The data of a test outlives nothing: what fsync costs is not paid. The encoding is SQL_ASCII, the hardest one.
        self._run("initdb", "--pgdata", "data", "--username", "gpufleet", "--auth", "trust", "--no-sync", "--locale=C")
        with open(self.folder / "log", "wb") as log:
            self._process = self._popen(
                ["postgres", "-D", "data", "-k", str(self.folder), "-h", "", "-F"]
                + ["-c", f"max_connections={self._connections}"],
                log,
            )
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._run("pg_isready", "-q", "-h", str(self.folder), check=False) == 0:
                return
            time.sleep(0.05)
        raise RuntimeError((self.folder / "log").read_text(errors="replace")[-2000:])

    def url(self, schema: str) -> str:
        options = quote(f"-csearch_path={schema}", safe="")
        return f"postgresql+psycopg://gpufleet@/postgres?host={quote(str(self.folder), safe='')}&options={options}"

    def statement(self, sql: str) -> None:
        import psycopg

        with psycopg.connect(f"host={self.folder} user=gpufleet dbname=postgres", autocommit=True) as connection:
            connection.execute(sql.encode())

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)  # immediate: nothing of it is needed again
            self._process.wait(timeout=30)

    def _argv(self, program: str) -> list[str]:
        return [str(self._bin / program)]

    def _run(self, program: str, *arguments: str, check: bool = True) -> int:
        done = subprocess.run(
            [*self._argv(program), *arguments],
            cwd=self.folder,
            user=self._user,
            capture_output=True,
            check=False,
            env={"LC_ALL": "C", "PATH": os.environ["PATH"]},
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"{program}: {done.stderr.decode(errors='replace')}")
        return done.returncode

    def _popen(self, argv: list[str], log: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
            [*self._argv(argv[0]), *argv[1:]],
            cwd=self.folder,
            user=self._user,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env={"LC_ALL": "C", "PATH": os.environ["PATH"]},
        )


def obstacle() -> str:
    """Why no server can be started here; empty where one can."""
    if programs() is None:
        return "no PostgreSQL server here (Debian: postgresql)"
    if os.geteuid() == 0 and unprivileged() is None:
        return "PostgreSQL refuses to run as root, and there is no user to run it as"
    return ""


def served() -> Iterator[Server]:
    """What a fixture yields: a server while its tests run, which are skipped where none can be had."""
    pytest.importorskip("psycopg")
    if obstacle():
        pytest.skip(obstacle())
    with running() as server:
        yield server


@contextlib.contextmanager
def running(connections: int = 200) -> Iterator[Server]:
    """A server for as long as the body runs."""
    bin_folder = programs()
    assert bin_folder is not None, obstacle()
    # A socket's path may have 107 bytes, which pytest's own folders come close to.
    folder = Path(tempfile.mkdtemp(prefix="gpufleet-pg-", dir="/tmp"))
    folder.chmod(0o755)
    server = Server(folder, bin_folder, connections)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
