# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A PostgreSQL that is frozen after some answers, while its kernel goes on taking what it is sent."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from postgresql import Server

#: As libpq finds a server in a folder.
_NAME = ".s.PGSQL.5432"


class Freezing:
    """Stands before a server and lets its first answers pass.

    :ivar said: how many answers the server has given by now, those included that did not pass.
    """

    def __init__(self, server: Server, folder: Path, passes: float) -> None:
        self.said = 0
        self._target = str(server.folder / _NAME)
        self._passes = passes
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / _NAME))
        self._listener.listen(8)
        options = quote("-csearch_path=public", safe="")
        host = quote(str(folder), safe="")
        self.url = f"postgresql+psycopg://gpufleet@/postgres?host={host}&options={options}&connect_timeout=2"
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def frozen(self) -> bool:
        return self.said > self._passes

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _address = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
                threading.Thread(target=self._pass_on, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(server, client, True), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.said += answers
                if not (answers and self.frozen):
                    target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def freezing(server: Server, *, after: float = float("inf")) -> Iterator[Freezing]:
    # A socket's path may have 107 bytes, which pytest's own folders come close to.
    with tempfile.TemporaryDirectory(prefix="gpufleet-pg-", dir="/tmp") as folder:
        made = Freezing(server, Path(folder), after)
        try:
            yield made
        finally:
            made.close()
