# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a gate's tool on the node so that nothing it does can hold or fool the gate. PRIVATE to the collection.

The tool runs in a session of its own, and a guard stands between (``_guard.py``): with the gate, and with the tool,
ends all that the tool has started, in whatever session. Its output is bounded, and standard error is kept apart: a
warning there is no part of a document on standard output.

Standard library only.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._guard import (
    CAN,
    DRAIN_SECONDS,
    KILL_SECONDS,
    TERM_SECONDS,
    stand_between,
)

#: More than the largest document that any of these tools prints, by two orders of magnitude.
OUTPUT_LIMIT = 16 * 1024 * 1024
#: A guard has ended all that it can by then.
_ENDING_SECONDS = TERM_SECONDS + KILL_SECONDS + 5.0
#: What each tool is handed beside its pipes.
_HANDED_ON: set[int] = set()


@dataclass(frozen=True)
class Run:
    """One run of a tool: what was asked, what came back, and how it ended.

    ended: ``exit`` | ``timeout`` | ``flood`` | ``missing`` | ``denied``. rc: as subprocess gives it, None where the
    tool never ran.
    """

    argv: tuple[str, ...]
    rc: Optional[int]
    stdout: bytes
    stderr: bytes
    ended: str
    seconds: float

    @property
    def cries(self) -> str:
        """What it printed as errors."""
        return self.stderr.decode("utf-8", "replace")

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    def parts(self) -> tuple[bytes, ...]:
        """What the evidence digest is made of."""
        return ("\0".join(self.argv).encode(), str(self.rc).encode(), self.ended.encode(), self.stdout, self.stderr)

    def as_evidence(self) -> dict[str, Any]:
        return {
            "argv": list(self.argv),
            "rc": self.rc,
            "ended": self.ended,
            "seconds": round(self.seconds, 3),
            "stdout": self.text,
            "stderr": self.cries,
        }


@contextmanager
def handed_on(descriptor: int) -> Iterator[None]:
    """Each tool that the body runs holds this descriptor: a lock on it lasts as long as whatever the tool starts."""
    _HANDED_ON.add(descriptor)
    try:
        yield
    finally:
        _HANDED_ON.discard(descriptor)


def _before_it_is_the_tool(gate: int, handed: tuple[int, ...]) -> None:
    """A stress test must not outlive the gate that watches it."""
    if CAN:
        stand_between(gate, handed)


def run(argv: Sequence[str], *, timeout: float, env: Mapping[str, str] | None = None, limit: int = OUTPUT_LIMIT) -> Run:
    """Run a tool to its end or to the deadline. Never raises for what the tool does."""
    begun = time.monotonic()
    words = tuple(str(word) for word in argv)
    gate, handed = os.getpid(), tuple(_HANDED_ON)
    try:
        process = subprocess.Popen(  # pylint: disable=ansible-bad-function  # both doors of a verb come here
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C", "LANG": "C", **(env or {})},
            start_new_session=True,
            pass_fds=handed,
            preexec_fn=lambda: _before_it_is_the_tool(gate, handed),
        )
    except FileNotFoundError:
        return Run(words, None, b"", b"", "missing", 0.0)
    except (OSError, ValueError, subprocess.SubprocessError) as exc:
        return Run(words, None, b"", str(exc).encode(), "denied", 0.0)
    try:
        out, err, ended = _collect(process, begun + timeout, limit)
    finally:
        _end(process)
    return Run(words, process.returncode, out, err, ended, time.monotonic() - begun)


def _collect(process: subprocess.Popen[bytes], deadline: float, limit: int) -> tuple[bytes, bytes, str]:
    """Read both pipes until the tool has ended, the deadline has passed, or it has said too much."""
    out, err = bytearray(), bytearray()
    kept = {pipe.fileno(): sink for pipe, sink in ((process.stdout, out), (process.stderr, err)) if pipe is not None}
    gone: Optional[float] = None
    with selectors.DefaultSelector() as selector:
        for descriptor in kept:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            now = time.monotonic()
            if process.poll() is not None and gone is None:
                gone = now
            if now >= deadline and gone is None:
                return bytes(out), bytes(err), "timeout"
            if gone is not None and now - gone > DRAIN_SECONDS:
                break
            for key, _mask in selector.select(timeout=min(0.5, max(0.01, deadline - now)) if gone is None else 0.1):
                chunk = os.read(key.fd, 65536)
                if not chunk:
                    selector.unregister(key.fd)
                kept[key.fd] += chunk
            if len(out) + len(err) > limit:
                return bytes(out), bytes(err), "flood"
    try:
        # The tool may be gone, and its guard waits for what it has started.
        process.wait(timeout=max(0.01, deadline - time.monotonic()) + DRAIN_SECONDS + 1.0)
    except subprocess.TimeoutExpired:
        return bytes(out), bytes(err), "timeout"
    return bytes(out), bytes(err), "exit"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Have what is left ended, and collect the guard, which goes when all has."""
    for send, seconds in ((signal.SIGTERM, _ENDING_SECONDS), (signal.SIGKILL, 30.0)):
        if process.poll() is None or not CAN:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, send)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=seconds)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
