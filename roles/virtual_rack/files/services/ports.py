# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Are the rack's ports free, and if not, who has them?

Asked by binding, which the kernel answers truly for wildcards and both protocols of the Internet, also on an address
that does not exist yet. Whose a port is stands in /proc alone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from pathlib import Path
from typing import Any, Optional

IP_FREEBIND = 15  # <linux/in.h>; the socket module has no name for it
KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
_LISTENING = {"tcp": "0A", "udp": "07"}


def is_free(protocol: str, address: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, KINDS[protocol]) as trial:
        trial.setsockopt(socket.SOL_IP, IP_FREEBIND, 1)
        if protocol == "tcp":  # what is left of closed connections is in nobody's way
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((address, port))
            if protocol == "tcp":
                trial.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True


def owners(protocol: str, port: int) -> list[int]:
    """Processes that listen on this port, on whatever address."""
    inodes = set()
    for table in (protocol, f"{protocol}6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENING[protocol] and int(fields[1].rpartition(":")[2], 16) == port:
                    inodes.add(f"socket:[{fields[9]}]")
    return sorted(pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if inodes & _files_of(pid))


def _files_of(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(entry.path))
    return found


def words_of(pid: int) -> list[str]:
    """The whole command, word by word; empty where the process has ended."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []
    return [word.decode(errors="replace") for word in words if word]


def command_of(pid: int) -> str:
    """For a message; never to be taken apart, since it is cut."""
    return " ".join(words_of(pid))[:120] or "ended meanwhile"


def taken(wanted: dict[str, Any], ours: set[int]) -> Optional[str]:
    """One line for a port that somebody else has; None where it is free or our own.

    :param wanted: protocol, address, port, who needs it, and the option that sets it, if there is one.
    :param ours: sessions whose processes are the rack's own.
    """
    protocol, address, port = wanted["protocol"], wanted["address"], int(wanted["port"])
    if is_free(protocol, address, port):
        return None
    strangers = [pid for pid in owners(protocol, port) if _session(pid) not in ours]
    if not strangers and owners(protocol, port):
        return None
    who = "; ".join(f"process {pid}: {command_of(pid)}" for pid in strangers) or "a process that cannot be seen here"
    do = f"End it, or set {wanted['option']}." if wanted.get("option") else "End it: this port is fixed."
    return f"Port {port} ({protocol.upper()}) on {address}, which {wanted['needed_by']} needs, is taken by {who}. {do}"


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0
