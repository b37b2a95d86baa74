# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ledger in SQLite is a file: is it there, and is it still the one that was opened? PRIVATE to the collection."""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError, Unreachable

with contextlib.suppress(ImportError):  # Connection says what is missing before anything here runs
    import sqlalchemy as sa

#: Device and inode, by which one file is told from another in its place.
Place = tuple[int, int]


#: What libpq takes in the query of a URL too, and what no message shows.
_SECRET = frozenset({"password", "passfile", "sslpassword"})


def parsed(url: str) -> Any:
    """
    :raises ConfigError: without a word of it: nobody knows what in it is the password.
    """
    try:
        found = sa.engine.make_url(url)
        # All behind the first @ of a password counts as host and database, which are shown.
        readable = "@" not in str(found.host) and (found.password is None or "@" not in str(found.database))
    except (sa.exc.ArgumentError, ValueError):
        readable = False
    if not readable:
        raise ConfigError(
            "the ledger's URL cannot be read",
            wanted="an SQLAlchemy URL; in a password @ is written as %40, : as %3A and / as %2F",
            do="set gpufleet_ledger_url, for instance to sqlite:////var/lib/gpufleet/ledger.sqlite",
        ) from None
    return found


def shown_url(url: Any) -> str:
    """As people may see it."""
    hidden = [name for name in url.query if name.lower() in _SECRET]
    return str(url.difference_update_query(hidden).render_as_string(hide_password=True))


def is_file(url: Any) -> bool:
    return bool(url.database) and url.database != ":memory:" and not url.database.startswith("file:")


def is_there(url: Any) -> bool:
    """Could a ledger be there? Of a database server, only itself can tell."""
    return not is_file(url) or url.get_backend_name() != "sqlite" or _size(url.database) > 0


def _size(path: str) -> int:
    """:raises ConfigError: where a ledger may be there, and this user may not see it: it is no empty one."""
    try:
        return os.stat(path).st_size
    except PermissionError as exc:
        raise ConfigError(
            "this user may not look into the folder of the ledger",
            address=f"sqlite:///{path}",
            wanted=f"a folder that user {os.geteuid()} may write",
            do="run as the user whose ledger it is, or set gpufleet_ledger_url",
        ) from exc
    except OSError:
        return 0


def on_disk(path: str) -> None:
    """A file, or the names in a folder, for good."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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


def unwritable(path: str) -> str:
    """Why no ledger can be written there, in words; empty where nothing speaks against it. Nothing is tried."""
    found = next((one for one in (path, *map(str, Path(path).parents)) if os.path.exists(one)), "/")
    if found == path:
        return next((f"{one} may not be written" for one in (path, os.path.dirname(path)) if not _may(one)), "")
    if not os.path.isdir(found):
        return f"{found} is no folder"
    return "" if _may(found) else f"{found} may not be written"


def _may(path: str) -> bool:
    return os.access(path or ".", os.W_OK)


def moved_away(address: str, conn: Any) -> FleetError:
    told = conn.exec_driver_sql("SELECT data FROM upkeep WHERE what = 'moved' ORDER BY id DESC LIMIT 1").scalar()
    to = str(json.loads(told or "{}").get("to") or "a database that it does not name")
    return ConfigError(
        "this ledger was moved, and nothing is read or written here any more",
        address=address,
        wanted=f"gpufleet_ledger_url: {to}",
        seen=f"moved to {to}",
        do="set gpufleet_ledger_url to that one, wherever it still names this one",
    )
