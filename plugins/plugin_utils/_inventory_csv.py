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
import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _inventory_record as record
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_columns import (
    ALIASES,
    CHOICES,
    COLUMNS,
    LISTS,
    MACS,
    SECRET_WORDS,
    UNIQUE,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_record import Record
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_secrets import password_lookup

_SHOWN = 20
_POWER_OF_TEN = re.compile(r"[+-]?\d+([.,]\d+)?E[+-]\d+\Z", re.I)
#: As spreadsheets write them: 3-Jan, Mar-24, 01/03/2024. Real serials are not spelt so.
_MONTH = "(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DATE = re.compile(rf"(\d{{1,2}}-{_MONTH}(-\d\d)?|{_MONTH}-\d\d|\d{{1,2}}[/.]\d{{1,2}}[/.]\d{{4}})\Z")
_SHEET_ERROR = re.compile(r"#(N/A|REF!|NAME\?|VALUE!|NULL!|DIV/0!|NUM!|SPILL!|#+)", re.I)
_COLUMN = re.compile(r"[a-z][a-z0-9_]*\Z")
_HOST = re.compile(r"(https?://)?([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?(/\S*)?\Z")


@dataclass(frozen=True)
class _Cell:
    line: int
    column: int
    name: str
    text: str


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
        )


def read_csv(
    path: str, *, delimiter: str = "", check_serials: bool = True, password_template: str = ""
) -> list[Record]:
    """All rows.

    :raises ConfigError: with every mistake in the file.
    """
    complaints = _Complaints(path)
    text = _text(path)
    rows = list(_rows(text, delimiter or _delimiter(text), complaints))
    complaints.raise_any()
    if not rows:
        raise ConfigError("the server list is empty", address=path, wanted="a header and one row a server")
    header = _header(rows[0], complaints)
    complaints.raise_any()
    table = [_row(line, cells, header, complaints) for line, cells in rows[1:]]
    cells = [row for row in table if row]
    for row in cells:
        _check(row, password_template, complaints)
    _check_unique(cells, complaints)
    if check_serials:
        _check_lost_zeros(cells, complaints)
    complaints.raise_any()
    if not cells:
        raise ConfigError("the server list has a header and no server", address=path)
    return [_record(path, row, password_template) for row in cells]


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
            if not any(cell.strip() for cell in cells) or first.startswith("#") and not _SHEET_ERROR.match(first):
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
        if name != "bmc_password_ref" and any(secret in name for secret in SECRET_WORDS):
            complaints.add(
                line,
                number,
                f"the column {title.strip()!r} would hold secrets in plain text; remove it and change what stood in it,"
                " and name the place of the secret in a column bmc_password_ref, such as env:BMC_PASSWORD",
            )
        elif not _COLUMN.match(name):
            complaints.add(line, number, f"{title.strip()!r} is no name of a column")
        elif name in names:
            complaints.add(line, number, f"a second column for {name} ({title.strip()!r})")
        names.append(name)
    return names


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
        problem = _problem(cell, password_template)
        if problem:
            complaints.add(cell.line, cell.column, f"{cell.name}: {problem}")
    if not any(name in row for name in ("serial", "system_uuid", "boot_mac", "bmc_mac")):
        line = next(iter(row.values())).line
        complaints.add(line, 1, "nothing tells which machine this is: a serial, a system UUID or a MAC is needed")


def _problem(cell: _Cell, password_template: str) -> str:
    """What is wrong with it, the first thing only. What should be the place of a secret is never shown."""
    shown = "its content" if cell.name == "bmc_password_ref" else repr(cell.text[:60])
    damaged = "that a spreadsheet made of it; format the column as text and type it again"
    if any(ord(char) < 32 or ord(char) == 127 for char in cell.text):
        return "holds a control character or a line break"
    if _SHEET_ERROR.match(cell.text):
        return f"{shown} is a spreadsheet's error, and no value"
    if cell.name in _NO_NUMBERS and _POWER_OF_TEN.match(cell.text):
        return f"{shown} is a number {damaged}"
    if cell.name in ("serial", "asset_tag") and _DATE.match(cell.text):
        return f"{shown} is a date {damaged}"
    try:
        _value(cell, password_template)
    except ValueError as exc:
        return f"{shown}: {exc}"
    return ""


_NO_NUMBERS = frozenset(
    {"serial", "asset_tag", "name", "boot_mac", "bmc_mac", "dpu_serials", "dpu_bmc_macs", "node_id", "provisioner_id"}
)


def _any(cell: _Cell) -> Any:
    return cell.text


def _choice(cell: _Cell) -> str:
    word = cell.text.lower()
    if word not in CHOICES[cell.name]:
        raise ValueError(f"one of {', '.join(CHOICES[cell.name])} is wanted")
    return word


def _serial(cell: _Cell) -> str:
    text = record.serial(cell.text)
    if not text:
        raise ValueError("what a board says that has no serial; leave the cell empty")
    return text


def _uuid(cell: _Cell) -> str:
    text = record.uuid(cell.text)
    if not text:
        raise ValueError("a UUID that is on many boards; leave the cell empty")
    return text


def _bmc(cell: _Cell) -> str:
    if re.match(r"[\d.]+\Z", cell.text):
        ipaddress.ip_address(cell.text)
    elif not _HOST.match(cell.text) and not _is_address(cell.text):
        raise ValueError("neither an address, nor a host name, nor a URL")
    return cell.text


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _number(cell: _Cell) -> int:
    if not cell.text.isdigit():
        raise ValueError("a whole number is wanted")
    return int(cell.text)


def _list(cell: _Cell) -> list[str]:
    parts = [part for part in re.split(r"[;,\s]+", cell.text) if part]
    return [record.mac(part) for part in parts] if cell.name in MACS else parts


_VALUES: dict[str, Callable[[_Cell], Any]] = {
    **dict.fromkeys(CHOICES, _choice),
    **dict.fromkeys(LISTS, _list),
    "boot_mac": lambda cell: record.mac(cell.text),
    "bmc_mac": lambda cell: record.mac(cell.text),
    "serial": _serial,
    "system_uuid": _uuid,
    "node_id": _uuid,
    "bmc_ip": _bmc,
    "primary_ip": lambda cell: str(ipaddress.ip_address(cell.text.partition("/")[0])),
    "gpu_count": _number,
}


def _value(cell: _Cell, password_template: str) -> Any:
    if cell.name == "bmc_password_ref":
        return password_lookup(cell.text, password_template)
    return _VALUES.get(cell.name, _any)(cell)


def _check_unique(rows: Sequence[Mapping[str, _Cell]], complaints: _Complaints) -> None:
    first: dict[tuple[str, str], _Cell] = {}
    for row in rows:
        for name in UNIQUE:
            cell = row.get(name)
            if cell is None or (cell.line, cell.column) in complaints.places:
                continue
            value = re.sub(r"[^0-9a-z]", "", cell.text.lower()) if name in MACS else cell.text.lower()
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


def _record(path: str, row: Mapping[str, _Cell], password_template: str) -> Record:
    line = next(iter(row.values())).line
    values = {name: _value(cell, password_template) for name, cell in row.items()}
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
