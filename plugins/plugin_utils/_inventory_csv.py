# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a server list in CSV form, and refuses what a spreadsheet has damaged. PRIVATE to the collection.

A list of servers is typed by people and passes through spreadsheets, which turn serials into numbers and numbers into
powers of ten. What is wrong is told with file, line and column, all of it at once.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _inventory_cells as cells_of
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_columns import (
    ALIASES,
    COLUMNS,
    MACS,
    UNIQUE,
    is_secret,
    near,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_fields import Fields
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_record import Record, is_host_name
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_secrets import permitted

_SHOWN = 20
#: How a tab is written where options are typed, which has no key there.
_TABS = {"tab": "\t", "\\t": "\t"}
#: What ends a line or begins a cell parts no cells.
_NO_DELIMITERS = frozenset('\n\r"\0')
_COLUMN = re.compile(r"[a-z][a-z0-9_]*\Z")
#: A title that may be told, though it is none that is known.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z _-]{0,19}\Z")


@dataclass(frozen=True)
class _Cell:
    line: int
    column: int
    name: str
    text: str


#: A row by the canonical names of its columns, without its empty cells.
Row = dict[str, _Cell]


class _Complaints:
    def __init__(self, path: str) -> None:
        self.path = path
        self.all: list[str] = []
        self.places: set[tuple[int, int]] = set()

    def add(self, line: int, column: int, text: str) -> None:
        self.places.add((line, column))
        self.all.append(f"{self.path}:{line}:{column}: {text}")

    def raise_any(self) -> None:
        if not self.all:
            return
        more = f"\n  and {len(self.all) - _SHOWN} more" if len(self.all) > _SHOWN else ""
        raise ConfigError(
            f"{len(self.all)} mistake(s) in the server list:\n  " + "\n  ".join(self.all[:_SHOWN]) + more + "\n",
            address=self.path,
            do="correct them and run again; from a spreadsheet export 'CSV UTF-8' with all columns formatted as text",
            details={"mistakes": list(self.all)},
        )


def read_csv(
    path: str,
    *,
    delimiter: str = "",
    check_serials: bool = True,
    password_template: str = "",
    password_refs: Optional[Sequence[str]] = None,
    fields: Optional[Fields] = None,
) -> list[Record]:
    """All rows.

    :param password_refs: the places of secrets that the list may name; any without it.
    :param fields: what else the rows fill, by their columns' names.

    :raises ConfigError: with every mistake in the file.
    """
    cells = read_rows(
        path,
        delimiter=delimiter,
        check_serials=check_serials,
        password_template=password_template,
        password_refs=password_refs,
    )
    fields = fields or Fields(None, path)
    records = [record_of(path, row, password_template) for row in cells]
    return [fields.fill(record, fields.pick(_raw(row), record.where)) for record, row in zip(records, cells)]


def read_rows(
    path: str,
    *,
    delimiter: str = "",
    check_serials: bool = True,
    password_template: str = "",
    password_refs: Optional[Sequence[str]] = None,
    named: bool = False,
    text: Optional[str] = None,
) -> list[Row]:
    """The checked cells of all rows.

    :param named: must each row have what can be the name of a host?
    :param text: what would stand in the file, in place of what does.

    :raises ConfigError: with every mistake in the file.
    """
    complaints = _Complaints(path)
    given = _given(delimiter, path)
    text = _text(path) if text is None else text
    rows = list(_rows(text, given or _delimiter(text), complaints))
    complaints.raise_any()
    if not rows:
        raise ConfigError("the server list is empty", address=path, wanted="a header and one row a server")
    header = _header(rows[0], complaints)
    complaints.raise_any()
    table = [_row(line, cells, header, complaints) for line, cells in rows[1:]]
    cells = [row for row in table if row]
    for row in cells:
        _check(row, password_template, complaints)
        _check_place(row, password_refs, complaints)
        if named:
            _check_name(row, complaints)
    _check_unique(cells, complaints)
    if check_serials:
        _check_lost_zeros(cells, complaints)
    complaints.raise_any()
    if not cells:
        raise ConfigError("the server list has a header and no server", address=path)
    return cells


# -- the file --------------------------------------------------------------------------------------------------


def _text(path: str) -> str:
    try:
        content = Path(path).read_bytes()
    except OSError as exc:
        raise ConfigError(f"the server list cannot be read: {exc.strerror}", address=path) from exc
    if content[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in content:
        raise ConfigError("the server list is not UTF-8 text", address=path, do="export it as 'CSV UTF-8'")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        column = exc.start - (content.rfind(b"\n", 0, exc.start) + 1) + 1
        raise ConfigError(
            f"the server list is not UTF-8 text: {path}:{line}:{column}: byte 0x{content[exc.start]:02x}",
            address=path,
            do="export it as 'CSV UTF-8'",
        ) from exc


def _given(delimiter: str, path: str) -> str:
    """The character between cells as a person writes it; empty where nobody did."""
    given = _TABS.get(delimiter.lower(), delimiter)
    if len(given) > 1 or given in _NO_DELIMITERS:
        raise ConfigError(
            "the option delimiter is no character that parts cells",
            address=path,
            wanted="one character, tab, or nothing, for what the header has",
            seen=short(repr(delimiter), 60),
            do="correct delimiter; of the playbook import_servers, import_servers_delimiter",
        )
    return given


def _delimiter(text: str) -> str:
    """What divides the header; spreadsheets of half of Europe write semicolons."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    first = lines[0] if lines else ""
    if first.lower().startswith("sep=") and len(first) > 4:
        return first[4]
    counts = Counter({char: first.count(char) for char in ",;\t"})
    return counts.most_common(1)[0][0]


def _rows(text: str, delimiter: str, complaints: _Complaints) -> Any:
    """Line numbers and cells, without empty lines and comments."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    begun = 1
    try:
        for cells in reader:
            line, begun = begun, reader.line_num + 1
            first = cells[0].strip() if cells else ""
            if (
                not any(cell.strip() for cell in cells)
                or first.startswith("#")
                and not cells_of.SHEET_ERROR.match(first)
            ):
                continue
            if first.lower().startswith("sep="):
                continue
            yield line, cells
    except csv.Error as exc:
        complaints.add(begun, 1, f"not CSV: {exc}")


def _header(row: tuple[int, Sequence[str]], complaints: _Complaints) -> list[str]:
    """Canonical names; other valid names stay as they are."""
    line, titles = row
    names: list[str] = []
    for number, title in enumerate(titles, 1):
        word = re.sub(r"[^a-z0-9]+", "_", title.strip().lower()).strip("_")
        name = ALIASES.get(word, word)
        called = _called(number, title.strip(), word)
        if name != cells_of.PASSWORD and is_secret(name):
            complaints.add(
                line,
                number,
                f"the column {called} would hold secrets in plain text; remove it and change what stood in it,"
                " and name the place of the secret in a column bmc_password_ref, such as env:BMC_PASSWORD; if it holds"
                " none, give it another name",
            )
        elif not _COLUMN.match(name):
            complaints.add(line, number, f"{called} is no name of a column")
        elif name in names:
            twice = (
                f"a second column for {name} ({called})" if name in COLUMNS else f"{called} is called like another one"
            )
            complaints.add(line, number, twice)
        elif meant := near(name):
            complaints.add(line, number, f"the column {called} is unknown: {meant}? Correct it, or rename it")
        names.append(name)
    return names


def _called(number: int, title: str, word: str) -> str:
    """What stands in a title may be a secret as well: in a list without a header, or in a file that is no list."""
    plain = word in ALIASES or not title or (_PLAIN.match(title) and not is_secret(word))
    return repr(title) if plain else f"number {number}"


def _row(line: int, cells: Sequence[str], header: Sequence[str], complaints: _Complaints) -> dict[str, _Cell]:
    if len(cells) != len(header):
        extra = [cell for cell in cells[len(header) :] if cell.strip()]
        if len(cells) < len(header) or extra:
            complaints.add(line, min(len(cells), len(header)) + 1, f"{len(cells)} cells, the header has {len(header)}")
            return {}
    found = {}
    for number, (name, text) in enumerate(zip(header, cells), 1):
        if text.strip():
            found[name] = _Cell(line, number, name, text.strip())
    return found


# -- the cells -------------------------------------------------------------------------------------------------


def _check(row: Mapping[str, _Cell], password_template: str, complaints: _Complaints) -> None:
    for cell in row.values():
        problem = cells_of.problem(cell.name, cell.text, password_template)
        if problem:
            complaints.add(cell.line, cell.column, f"{cell.name}: {problem}")
    if not any(name in row for name in ("serial", "system_uuid", "boot_mac", "bmc_mac")):
        line = next(iter(row.values())).line
        complaints.add(line, 1, "nothing tells which machine this is: a serial, a system UUID or a MAC is needed")


def name_of(row: Mapping[str, _Cell]) -> _Cell | None:
    """What its host is called by, as an inventory does by default."""
    return next((row[name] for name in ("name", "scheduler_node", "serial") if name in row), None)


def _check_name(row: Mapping[str, _Cell], complaints: _Complaints) -> None:
    cell = name_of(row)
    if cell is None:
        complaints.add(next(iter(row.values())).line, 1, "nothing names the host: a name or a serial is needed")
    elif not is_host_name(cell.text):
        complaints.add(cell.line, cell.column, f"{cell.name}: {cell.text!r} cannot be the name of a host")


def _check_place(row: Mapping[str, _Cell], password_refs: Optional[Sequence[str]], complaints: _Complaints) -> None:
    cell = row.get(cells_of.PASSWORD)
    if cell is not None and not permitted(cell.text, password_refs):
        complaints.add(cell.line, cell.column, f"{cell.name}: its content is no place that password_refs permits")


def _check_unique(rows: Sequence[Mapping[str, _Cell]], complaints: _Complaints) -> None:
    first: dict[tuple[str, str], _Cell] = {}
    for row in rows:
        for name in UNIQUE:
            cell = row.get(name)
            if cell is None or (cell.line, cell.column) in complaints.places:
                continue
            value = cells_of.same(name, cell.text)
            if name == "bmc_ip" and "bmc_system_id" in row:  # the nodes of a chassis may have one BMC
                value += f" {row['bmc_system_id'].text}"
            # A MAC belongs to one card, whatever the column.
            other = first.setdefault(("mac" if name in MACS else name, value), cell)
            if other is not cell:
                complaints.add(cell.line, cell.column, f"{name}: {cell.text!r} stands in line {other.line} already")


def _check_lost_zeros(rows: Sequence[Mapping[str, _Cell]], complaints: _Complaints) -> None:
    """A spreadsheet makes 0123456 a number. Where nearly all serials are digits of one length, a shorter one was."""
    digits = [row["serial"] for row in rows if "serial" in row and row["serial"].text.isdigit()]
    if len(digits) < 4:
        return
    length, count = Counter(len(cell.text) for cell in digits).most_common(1)[0]
    if count < 0.6 * len(digits):
        return
    for cell in digits:
        if len(cell.text) < length:
            complaints.add(
                cell.line,
                cell.column,
                f"serial: {cell.text!r} is shorter than the others ({length} digits): did a spreadsheet take its"
                " leading zeros? Set check_serials to false where it is right",
            )


def _raw(row: Mapping[str, _Cell]) -> dict[str, str]:
    """The row as it was typed, by its columns' names; without the place of its secret."""
    return {name: cell.text for name, cell in row.items() if name != cells_of.PASSWORD}


def record_of(path: str, row: Mapping[str, _Cell], password_template: str) -> Record:
    """The row as a source of an inventory knows it."""
    line = next(iter(row.values())).line
    values = {name: cells_of.value(name, cell.text, password_template) for name, cell in row.items()}
    variables = {
        (COLUMNS[name][0] if name in COLUMNS else f"csv_{name}"): value
        for name, value in values.items()
        if name != "name"
    }
    return Record(
        where=f"{path}:{line}",
        name=str(values.get("name", "")),
        serial=str(values.get("serial", "")),
        system_uuid=str(values.get("system_uuid", "")),
        macs=[values[name] for name in ("boot_mac", "bmc_mac") if name in values],
        variables=variables,
    )
