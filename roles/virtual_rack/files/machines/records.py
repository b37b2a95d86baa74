# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes by pid and start time: a pid alone may have become somebody else's."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path
from typing import Any

_START_TIME_FIELD = 19  # of /proc/PID/stat, counted after the command's closing parenthesis


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None where it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[_START_TIME_FIELD])


def record(pid: int) -> dict[str, Any]:
    """Describe a living process so that it can be recognised later."""
    return {"pid": pid, "start": start_time(pid)}


def alive(entry: dict[str, Any] | None) -> bool:
    """Whether that very process still lives."""
    return (
        bool(entry) and entry is not None and entry["start"] is not None and start_time(entry["pid"]) == entry["start"]
    )


def wait_gone(entry: dict[str, Any], timeout: float) -> bool:
    """Wait until that very process has ended."""
    try:
        handle = os.pidfd_open(entry["pid"])
    except ProcessLookupError:
        return True
    try:
        if not alive(entry):
            return True
        poller = select.poll()
        poller.register(handle, select.POLLIN)
        return bool(poller.poll(timeout * 1000))
    finally:
        os.close(handle)


def stop(entry: dict[str, Any] | None, number: int = signal.SIGKILL, timeout: float = 5.0) -> bool:
    """Signal that very process and wait for its end; with SIGTERM, kill it at the deadline."""
    if entry is None or not alive(entry):
        return False
    try:
        handle = os.pidfd_open(entry["pid"])
    except ProcessLookupError:
        return False
    try:
        # Between the look and the signal the pid cannot change hands: the descriptor names the process.
        if not alive(entry):
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    if not wait_gone(entry, timeout) and number != signal.SIGKILL:
        return stop(entry, signal.SIGKILL, timeout)
    return True
