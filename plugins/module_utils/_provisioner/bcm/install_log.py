# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What BCM's node-installer has written of nodes into its log on the head node. PRIVATE to the collection.

Its lines have a time of day and no date. So an order notes how long the log was by then, and only what was written
after that is about it.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import command
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm import tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver

PATH = "/var/log/node-installer"
#: Says another path for those who run us; empty where the log is not to be asked.
ENVIRONMENT = "GPUFLEET_BCM_INSTALL_LOG"
#: More than this is not read: thousands of installations.
_LIMIT = 32 * 1024 * 1024
#: Behind a node's name.
_SAYS = " node-installer: "
_LINE = re.compile(rf"(?:^|\s)(\S+){_SAYS}(.*)")
_MODE = re.compile(r"Installmode is: (\w+)")


#: The file's number and its length; then, of the file that was opened and no newer one, in so many signs from one on
#: the lines that have one of the words that it reads, each with its place: of those that are asked for, however much
#: was written of others meanwhile. The last line is ours, and one of these words: its place tells that all was read.
_ABOUT = 'stat -L -c "%i %s" -- "$1"'
_READ = (
    'exec 7<&0 8<"$1" && [ "$(stat -L -c %i /proc/self/fd/8)" = "$2" ]'
    ' && { tail -c "+$3" <&8 | head -c "$4"; echo; echo "$5"; } | LC_ALL=C grep -abF -f /proc/self/fd/7 | base64'
)
_END = "gpufleet: the end"

#: Lines, each with the place at which it begins.
_Lines = Iterable[tuple[int, bytes]]


class InstallLog:
    """The log as it is now, where the driver's commands run."""

    def __init__(self, driver: Driver | None = None) -> None:
        path = os.environ.get(ENVIRONMENT, PATH)
        self._file = _There(driver, path) if driver is not None and driver.login_host is not None else _Here(path)

    def mark(self) -> str:
        """Where it ends, to be noted with an order; empty where it cannot be read."""
        about = self._file.about()
        return f"{about[0]}.{about[1]}" if about else ""

    def since(self, marks: Mapping[str, str]) -> dict[str, list[str]]:
        """By node, what it says of it since its mark. Left out is of whom nobody can tell: without a mark, where the
        log cannot be read, was begun anew and says nothing of it, or has grown by too much."""
        known = {name: where for name, where in ((name, _place(mark)) for name, mark in marks.items()) if where}
        about = self._file.about() if known else None
        if about is None:
            return {}
        begins = {name: _begin(where, *about) for name, where in known.items()}
        begins = {name: begin for name, begin in begins.items() if about[1] - begin <= _LIMIT}
        first = min(begins.values(), default=about[1])
        read = self._file.read(about[0], first, min(_LIMIT, about[1] - first), list(begins))
        if read is None:
            return {}
        found = _by_node(read, begins)
        # Of a log that was begun anew the older lines are elsewhere: that it has none of a node tells nothing.
        anew = {name for name in begins if not _goes_on(known[name], *about)}
        return {name: lines for name, lines in found.items() if lines or name not in anew}


class _Here:
    """The file, on this machine."""

    def __init__(self, path: str) -> None:
        self._path = path

    def about(self) -> tuple[int, int] | None:
        """Its number and its length; None where it cannot be read."""
        try:
            with open(self._path, "rb") as file:
                about = os.fstat(file.fileno())
                return about.st_ino, about.st_size
        except OSError:
            return None

    def read(self, inode: int, first: int, count: int, _names: Sequence[str]) -> _Lines | None:
        """None where it cannot be read, or another one lies there by now."""
        try:
            with open(self._path, "rb") as file:
                if os.fstat(file.fileno()).st_ino != inode:
                    return None
                file.seek(first)
                lines = file.read(count).split(b"\n")
        except OSError:
            return None
        begins = accumulate((len(line) + 1 for line in lines), initial=first)
        return zip(begins, lines)


class _There:
    """The same on the login host."""

    def __init__(self, driver: Driver, path: str) -> None:
        self._driver, self._path = driver, path

    def _told(self, script: str, *words: str, reads: str = "") -> list[str]:
        answer = command.run(self._driver, ["/bin/sh", "-c", script, "sh", self._path, *words], stdin=reads)
        return answer.out.split() if answer.code == 0 else []

    def about(self) -> tuple[int, int] | None:
        told = self._told(_ABOUT)
        return (int(told[0]), int(told[1])) if len(told) == 2 and all(map(str.isdigit, told)) else None

    def read(self, inode: int, first: int, count: int, names: Sequence[str]) -> _Lines | None:
        wanted = "".join(f"{one}\n" for one in (*(f"{name}{_SAYS}" for name in names), _END))
        coded = self._told(_READ, str(inode), str(first + 1), str(count), _END, reads=wanted)
        try:
            *told, _end = base64.b64decode("".join(coded), validate=True).split(b"\n")
            lines = [(first + int(place), line) for place, _colon, line in (one.partition(b":") for one in told)]
        except ValueError:
            return None
        return lines[:-1] if lines[-1:] == [(first + count + 1, _END.encode())] else None


def _place(mark: str) -> tuple[int, int] | None:
    inode, _dot, size = mark.partition(".")
    return (int(inode), int(size)) if inode.isdigit() and size.isdigit() else None


def _goes_on(where: tuple[int, int], inode: int, size: int) -> bool:
    return where[0] == inode and where[1] <= size


def _begin(where: tuple[int, int], inode: int, size: int) -> int:
    """A log that was begun anew since is read from its beginning."""
    return where[1] if _goes_on(where, inode, size) else 0


def _by_node(lines: _Lines, begins: Mapping[str, int]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {name: [] for name in begins}
    for at, line in lines:
        told = _LINE.search(line.decode("utf-8", "replace"))
        if told and told[1] in begins and at >= begins[told[1]]:
            found[told[1]].append(told[2])
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
