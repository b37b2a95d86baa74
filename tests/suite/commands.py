# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Commands that a test puts into PATH and that this process answers: a few lines of a shell ask it what they say.

A command in Python costs each call fifty milliseconds, nine tenths of it for Python itself, and some tests call
hundreds. What is called, by whom and how it ends is the same.
"""

from __future__ import annotations

import functools
import shlex
import shutil
import signal
import socket
import socketserver
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Optional

from suite import programs

#: The script is killed, as a command is that dies.
KILLED = -int(signal.SIGKILL)
#: The script becomes the real command; or it runs that, tells nothing of it, and is killed.
GO, LOST = "go", "lost"
#: Exit status or one of the two, and what is printed on the two streams; None where nobody waits for it any more.
Ended = Optional[tuple[object, str, str]]
#: Of the arguments; and tells whether the caller has killed the script meanwhile. Of one that reads, what it was given
#: on its standard input comes third.
Answer = Callable[..., Ended]

_SCRIPT = r"""#!{bash}
exec 3<>/dev/tcp/127.0.0.1/{port} || exit 1
printf '%s\0' {key} "$#" "$@" {given} >&3
IFS= read -r -d '' code <&3; IFS= read -r -d '' out <&3; IFS= read -r -d '' err <&3
exec 3>&-
case "$code" in
go) exec {real} "$@" ;;
lost) {real} "$@" >/dev/null 2>&1; kill -9 $$ ;;
esac
printf '%s' "$out"; printf '%s' "$err" >&2
[ "${{code:--9}}" -lt 0 ] && kill "${{code:--9}}" $$
exit "$code"
"""
_answers: dict[str, Answer] = {}
_readers: set[str] = set()


def install(path: Path, answer: Answer, real: Sequence[str] = (), reads: bool = False) -> None:
    """Make the command. It lives as long as the process of the test, whoever calls it from wherever."""
    key = str(path)
    _answers[key] = answer
    (_readers.add if reads else _readers.discard)(key)
    words = {"key": shlex.quote(key), "real": shlex.join(real or ["false"]), "port": _server().server_address[1]}
    words["given"] = '"$(cat)"' if reads else ""
    programs.put(path, _SCRIPT.format(bash=shutil.which("bash"), **words))


@functools.cache
def _server() -> socketserver.ThreadingTCPServer:
    """One for all commands of this process."""
    server = _Server(("127.0.0.1", 0), _Asked)
    threading.Thread(target=lambda: server.serve_forever(poll_interval=3600), daemon=True).start()
    return server


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128


class _Asked(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        key, count = self._word(), self._word()
        argv = [self._word() for _number in range(int(count or 0))]
        given = [self._word()] if key in _readers else []
        try:
            ended = _answers[key](argv, self._is_gone, *given)
        except Exception:  # as a command in Python ends: a mistake of ours must not look like one that was killed
            ended = (1, "", traceback.format_exc())
        if ended is not None:
            self.wfile.write(b"".join(f"{part}\0".encode() for part in ended))

    def _word(self) -> str:
        found = bytearray()
        while (one := self.rfile.read(1)) not in (b"\0", b""):
            found += one
        return found.decode()

    def _is_gone(self) -> bool:
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True
