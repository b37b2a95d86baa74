# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server list as a site has it, and the clean list that comes of it. PRIVATE to the collection.

It is read by what reads a list for the inventory, so that what can be imported can be an inventory, and the reverse.
"""

from __future__ import annotations

import csv
import io
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _private as private
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, NotProven
from ansible_collections.gpufleet.baremetal.plugins.module_utils._locks import locked
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _inventory_cells as cells_of
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_columns import COLUMNS
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_csv import (
    name_of,
    read_rows,
    record_of,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_join import join, known_by
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_record import Record

#: A list that is written where none was may be read by whoever runs Ansible; it holds no secret.
_MODE = 0o644
#: By what a host that is known already is told from another machine, the strongest first.
_TELLS = ("serial", "system_uuid", "boot_mac")


@dataclass(frozen=True)
class Server:
    """cells: canonical columns and the one spelling of each. record: the same as the inventory knows it."""

    name: str
    record: Record
    cells: Mapping[str, str]


def read(path: str, options: Mapping[str, Any], text: str | None = None) -> list[Server]:
    """All servers of a list.

    :param text: what would stand in the file, in place of what does.
    :raises ConfigError: with every mistake in it.
    """
    template = str(options.get("password_lookup") or "")
    rows = read_rows(
        path,
        delimiter=str(options.get("delimiter") or "") if text is None else ",",
        check_serials=bool(options.get("check_serials", True)),
        password_template=template,
        password_refs=options.get("password_refs"),
        named=True,
        text=text,
    )
    found = []
    for row in rows:
        name = name_of(row)
        cells = {column: cells_of.written(column, cell.text, template) for column, cell in row.items()}
        called = name.text if name else ""
        found.append(Server(called, record_of(path, row, template), {"name": called, **cells}))
    return found


def strangers(servers: Iterable[Server], known: Callable[[str, str], str]) -> list[str]:
    """A line for each server whose name another machine of this inventory has.

    :param known: what the inventory says of a host for a variable; empty where it has no such host or value.
    """
    return [line for one in servers if (line := _other(one, known))]


def _other(one: Server, known: Callable[[str, str], str]) -> str:
    for column in _TELLS:
        there, here = known(one.name, COLUMNS[column][0]), one.cells.get(column, "")
        if there and here:
            if cells_of.same(column, there) == cells_of.same(column, here):
                return ""
            return f"{one.record.where}: the inventory has another {one.name}, of {column} {there}, and not {here}"
    return ""


# -- the clean list ----------------------------------------------------------------------------------------------------


def clean(servers: Sequence[Server]) -> str:
    """The list with canonical columns, of which none is empty."""
    filled = {column for one in servers for column, text in one.cells.items() if text}
    own = dict.fromkeys(column for one in servers for column in one.cells if column not in COLUMNS)
    header = [column for column in (*COLUMNS, *own) if column in filled]
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(header)
    table.writerows([one.cells.get(column, "") for column in header] for one in servers)
    return file.getvalue()


@dataclass(frozen=True)
class Merged:
    """By the servers' names: what is new in a list, what is changed and in which columns, what stays, what goes."""

    servers: Sequence[Server]
    new: Sequence[str]
    changed: Mapping[str, Sequence[str]]
    same: Sequence[str]
    kept: Sequence[str]
    removed: Sequence[str]

    def told(self) -> dict[str, Any]:
        return {
            "new": list(self.new),
            "changed": {name: list(columns) for name, columns in self.changed.items()},
            "same": list(self.same),
            "kept": list(self.kept),
            "removed": list(self.removed),
        }


def merge(before: Sequence[Server], imported: Sequence[Server], *, purge: bool) -> Merged:
    """What the list of before becomes: a server is known again by what identifies it, and by no name.

    :raises ConfigError: where two rows may be one machine or two; naming both.
    """
    of_record = {id(one.record): one for one in (*before, *imported)}
    machines, _left_out = join([([one.record for one in part], False) for part in (before, imported)])
    fresh = {id(one) for one in imported}
    servers: list[Server] = []
    new: list[str] = []
    same: list[str] = []
    kept: list[str] = []
    removed: list[str] = []
    changed: dict[str, Sequence[str]] = {}
    for machine in machines:
        rows = [of_record[id(record)] for record in machine.records]
        last = rows[-1]
        if id(last) not in fresh:
            (removed if purge else kept).append(last.name)
            servers += [] if purge else [last]
            continue
        first = rows[0] if len(rows) > 1 else None
        one = Server(last.name, last.record, {**(first.cells if first else {}), **last.cells})
        servers.append(one)
        columns = [] if first is None else [name for name in one.cells if one.cells[name] != first.cells.get(name, "")]
        if first is None:
            new.append(one.name)
        elif columns:
            changed[one.name] = columns
        else:
            same.append(one.name)
    return Merged(servers, new, changed, same, kept, removed)


def compare(servers: Sequence[Server], found: Sequence[tuple[Sequence[Record], bool]]) -> dict[str, list[str]]:
    """Who is listed and was not found, and who was found and is not listed.

    :param found: the records of each source that was asked, and whether they only add to those of earlier ones.
    :raises ConfigError: where two records may be one machine or two.
    """
    listed = {id(one.record): one for one in servers}
    machines, _left_out = join([([one.record for one in servers], False), *found])
    rows = [[listed.get(id(record)) for record in machine.records] for machine in machines]
    return {
        "missing": [row[0].name for row in rows if len(row) == 1 and row[0]],
        "unexpected": [known_by(machine) for machine, row in zip(machines, rows) if not any(row)],
    }


def text_of(path: str) -> str:
    """What stands in a list that was written here before; empty where there is none.

    :raises ConfigError: where it is there and cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"the list {path} is there and cannot be read: {type(exc).__name__}", address=path) from exc


@contextmanager
def kept_from_others(path: str) -> Iterator[None]:
    """From reading a list to replacing it: of two imports at once one would take out the rows of the other.

    :raises ConfigError: where nothing can be written beside the list, or another import has it.
    """
    folder, name = os.path.split(os.path.abspath(path))
    try:
        lock = private.open_lock(os.path.join(folder, f".{name}.lock"))
    except OSError as exc:
        raise ConfigError(f"the list cannot be written: {exc.strerror}", address=path) from exc
    with lock:
        if not locked(lock):
            raise ConfigError("another import is writing this list", address=path, do="run again once it has ended")
        yield


def write(path: str, text: str) -> None:
    """The whole list or none of it, with the mode that it had; read back.

    :raises ConfigError: where it cannot be written. :raises NotProven: where another one stands there afterwards.
    """
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else _MODE
        private.write(path, text, mode)
        there = Path(path).read_bytes().decode()
    except OSError as exc:
        raise ConfigError(f"the list cannot be written: {exc.strerror}", address=path) from exc
    if there != text:
        raise NotProven("the list was written, and another one stands there", address=path, do="run again")
