# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A worker that goes on when the module that began it has ended. PRIVATE to the collection.

It is forked from the module, never executed anew: the module's own files are removed as soon as it has answered. What
it needs is therefore imported before. It tells its number, then that it is there: one of which the module heard nothing
in time must load nothing later.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from typing import Callable, NoReturn

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut

#: The worker has nothing to do before it reports itself but to write one small file.
REPORT_SECONDS = 30.0
OK = b"ok"


def detach(body: Callable[[Callable[[bytes], None]], None], seconds: float) -> None:
    """Run ``body`` in a process that has nothing to do with this one any more; return when it has said something.

    :raises BadAnswer: where it ended without a word, or said something else than ok. Where it says nothing in that
        time it is killed: what did not start must load nothing later.
    """
    reader, writer = os.pipe()
    middle = os.fork()
    if middle == 0:
        with suppress(BaseException):  # nothing of the module's own code may run twice
            os.close(reader)
            os.setsid()
            if os.fork() == 0:
                _alive(body, writer)
        os._exit(0)
    os.close(writer)
    os.waitpid(middle, 0)
    try:
        said, ended = _heard(reader, seconds)
    finally:
        os.close(reader)
    pid, _line, word = said.partition(b"\n")
    if word == OK:
        return
    if not ended:
        with suppress(OSError, ValueError):
            os.kill(int(pid), signal.SIGKILL)
        word = f"its worker did not report itself within {seconds:g} s, and was ended".encode()
    raise BadAnswer("the job did not start", seen=word.decode("utf-8", "replace") or "its worker died at once")


def _heard(reader: int, seconds: float) -> tuple[bytes, bool]:
    """What came in that time, and whether that was all."""
    said, end = b"", time.monotonic() + seconds
    while select.select([reader], [], [], max(0.0, end - time.monotonic()))[0]:
        chunk = os.read(reader, 4096)
        if not chunk:
            return said, True
        said += chunk
    return said, False


def _alive(body: Callable[[Callable[[bytes], None]], None], writer: int) -> NoReturn:
    """The worker's life: away from the module's folders, pipes and files, and out by the shortest way."""
    told: list[bytes] = []

    def say(word: bytes) -> None:
        told.append(word)
        try:
            os.write(writer, word)
        finally:
            os.close(writer)

    try:
        os.umask(0o077)
        os.chdir("/")
        _let_go(writer)
        os.write(writer, b"%d\n" % os.getpid())
        body(say)
    except BaseException as exc:  # there is nobody left to raise it to
        if not told:
            say(cut(f"{type(exc).__name__}: {exc}", 1000).encode())
    finally:
        os._exit(0)


def _let_go(kept: int) -> None:
    """Whoever reads the module's output waits until the last process that could write there has closed it."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != kept:
            with suppress(OSError):
                os.close(int(name))
