# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The few system calls that Python 3.11 has no name for (mount, namespaces), through libc."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

CLONE_NEWTIME = 0x00000080
CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_NR_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Leave the given namespaces for new ones."""
    _check(_libc.unshare(flags), "unshare")


def enter(path: str, kind: int) -> None:
    """Join a namespace by its file."""
    handle = os.open(path, os.O_RDONLY)
    try:
        enter_by_handle(handle, kind)
    finally:
        os.close(handle)


def enter_by_handle(handle: int, kind: int) -> None:
    """Join a namespace by an open file."""
    _check(_libc.setns(handle, kind), "setns")


def mount(source: str | Path, target: str | Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount, as mount(2)."""
    args = [str(source).encode(), str(target).encode(), kind.encode() or None]
    result = _libc.mount(*args, ctypes.c_ulong(flags), data.encode() or None)
    _check(result, f"mount {source} on {target}")


def bind(source: str | Path, target: str | Path, read_only: bool = False, recursive: bool = False) -> None:
    """Make a file or folder appear at another path."""
    mount(source, target, flags=MS_BIND | (MS_REC if recursive else 0))
    if read_only:
        mount(source, target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)


def umount(target: str | Path, detach: bool = False) -> None:
    """Unmount."""
    _check(_libc.umount2(str(target).encode(), MNT_DETACH if detach else 0), f"umount {target}")


def pivot_root(new_root: Path) -> None:
    """Make a mounted folder the root, and let go of the old one wholly."""
    os.chdir(new_root)
    number = _NR_PIVOT_ROOT[os.uname().machine]
    _check(_libc.syscall(ctypes.c_long(number), b".", b"."), "pivot_root")
    umount(".", detach=True)
    os.chdir("/")


def die_with_parent(signal_number: int) -> None:
    """Ask for a signal when the parent dies."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl")


def set_process_name(name: str) -> None:
    """Set the short name that ps shows."""
    _check(_libc.prctl(_PR_SET_NAME, name.encode()[:15] + b"\0", 0, 0, 0), "prctl")


def set_hostname(name: str) -> None:
    """Set the host name of this UTS namespace."""
    raw = name.encode()
    _check(_libc.sethostname(raw, len(raw)), "sethostname")
