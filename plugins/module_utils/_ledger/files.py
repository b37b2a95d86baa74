# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ledger in SQLite is a file: is it there, and is it still the one that was opened? PRIVATE to the collection."""

from __future__ import annotations

import os
import re
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, Unreachable

#: Device and inode, by which one file is told from another in its place.
Place = tuple[int, int]


def is_file(url: Any) -> bool:
    return bool(url.database) and url.database != ":memory:" and not url.database.startswith("file:")


def is_there(url: Any) -> bool:
    """Could a ledger be there? Of a database server, only itself can tell."""
    return not is_file(url) or url.get_backend_name() != "sqlite" or _size(url.database) > 0


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def place(path: str) -> Optional[Place]:
    """None where there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def shown(one: Place, number: int) -> str:
    """With the number that the file gives itself: a new file may come by the inode of one that was removed."""
    return f"device {one[0]}, inode {one[1]}, number {number}"


def file_of(text: str) -> Place:
    """Out of what :func:`shown` wrote."""
    device, inode, _number = (int(word) for word in re.findall(r"\d+", text))
    return device, inode


def still_at(wanted: Place, seen: Optional[Place], address: str) -> None:
    """:raises Unreachable: where the file was removed or replaced: what is written would be in no ledger."""
    if seen != wanted:
        told = [f"device {one[0]}, inode {one[1]}" if one else "" for one in (wanted, seen)]
        raise moved(told[0], told[1], address)


def moved(wanted: str, seen: str, address: str) -> FleetError:
    return Unreachable(
        "the ledger's file was removed or replaced since this run opened it",
        address=address,
        wanted=f"the same file ({wanted})",
        seen=f"another file ({seen})" if seen else "no file",
        do="put the file back in its place, and run again: what this run did before is in no other one",
    )
