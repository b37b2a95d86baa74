# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What BCM's node-installer has written of nodes into its log on the head node. PRIVATE to the collection.

Its lines have a time of day and no date. So an order notes how long the log was by then, and only what was written
after that is about it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm import tables

PATH = "/var/log/node-installer"
#: Says another path for those who run us; empty where the log is not to be asked.
ENVIRONMENT = "GPUFLEET_BCM_INSTALL_LOG"
#: More than this is not read: thousands of installations.
_LIMIT = 32 * 1024 * 1024
_LINE = re.compile(r"(?:^|\s)(\S+) node-installer: (.*)")
_MODE = re.compile(r"Installmode is: (\w+)")


class InstallLog:
    """The log as it is now."""

    def __init__(self) -> None:
        self._path = os.environ.get(ENVIRONMENT, PATH)

    def mark(self) -> str:
        """Where it ends, to be noted with an order; empty where it cannot be read."""
        try:
            with open(self._path, "rb") as file:
                about = os.fstat(file.fileno())
                return f"{about.st_ino}.{about.st_size}"
        except OSError:
            return ""

    def since(self, marks: Mapping[str, str]) -> dict[str, list[str]]:
        """By node, what it says of it since its mark. Left out is of whom nobody can tell: without a mark, where the
        log cannot be read, was begun anew and says nothing of it, or has grown by too much."""
        known = {name: where for name, where in ((name, _place(mark)) for name, mark in marks.items()) if where}
        if not known:
            return {}
        try:
            with open(self._path, "rb") as file:
                about = os.fstat(file.fileno())
                begins = {name: _begin(where, about.st_ino, about.st_size) for name, where in known.items()}
                begins = {name: begin for name, begin in begins.items() if about.st_size - begin <= _LIMIT}
                first = min(begins.values(), default=about.st_size)
                file.seek(first)
                found = _by_node(file.read(_LIMIT), first, begins)
                # Of a log that was begun anew the older lines are elsewhere: that it has none of a node tells nothing.
                anew = {name for name in begins if not _goes_on(known[name], about.st_ino, about.st_size)}
                return {name: lines for name, lines in found.items() if lines or name not in anew}
        except OSError:
            return {}


def _place(mark: str) -> tuple[int, int] | None:
    inode, _dot, size = mark.partition(".")
    return (int(inode), int(size)) if inode.isdigit() and size.isdigit() else None


def _goes_on(where: tuple[int, int], inode: int, size: int) -> bool:
    return where[0] == inode and where[1] <= size


def _begin(where: tuple[int, int], inode: int, size: int) -> int:
    """A log that was begun anew since is read from its beginning."""
    return where[1] if _goes_on(where, inode, size) else 0


def _by_node(content: bytes, first: int, begins: Mapping[str, int]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {name: [] for name in begins}
    at = first
    for line in content.split(b"\n"):
        told = _LINE.search(line.decode("utf-8", "replace"))
        if told and told[1] in begins and at >= begins[told[1]]:
            found[told[1]].append(told[2])
        at += len(line) + 1
    return found


def mode(lines: Iterable[str], *, of_any: bool = False) -> str:
    """The mode of the last installation, as :func:`tables.native` takes it.

    :param of_any: of the last one that was more than a boot, where there was any.
    """
    said = list(lines)
    modes = [found[1].upper() for found in map(_MODE.search, said) if found]
    if of_any:
        modes = [one for one in modes if one not in tables.BOOTS] or modes
    return modes[-1] if modes else tables.NO_MODE if said else ""


def last(lines: Iterable[str]) -> str:
    """Its last words, for a message."""
    return short(" / ".join(list(lines)[-3:]), 300)
