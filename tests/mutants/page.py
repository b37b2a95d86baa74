# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page in docs/ with the last result of `make mutants`: how it is written, and what is wrong with one.

It says which entries it covers: each has a stamp in a comment at its end. An entry that was added or changed since has
none there, and was not asked yet.
"""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

PAGE = "docs/reference/mutants.md"
#: So many entries may be new since the last whole run; then the page is to be renewed.
MOST_UNASKED = 900
#: Of these so many are named.
NAMED = 20
#: In the place of a reason.
NOBODY = "nobody says why"
#: Reasons that are none: whoever finds a survivor looks why, and mends the test or says what makes it all the same.
NONE = re.compile(r"nobody (says|has looked|looked|knows) why|does not see it|not looked", re.IGNORECASE)
HINT = "make mutants NEW=1 WRITE=1 writes it anew"
HEAD = """# Broken lines, and whether a test notices

Written by `make mutants WRITE=1`. [`tests/mutants/`](../../tests/mutants) keeps a list of one-line
mutations, the safety code first: a check left out, a comparison turned, a limit off by one, another host's
value. Each is made in a private copy of the tree, and the tests that are named for it must fail. Entries that were
added or changed since are not asked yet; `tests/tree/` names them when there are many, and `make mutants NEW=1 WRITE=1`
asks them alone.
"""
_RUN = re.compile(r"^Last run: (.+?)(?:;\nsince then .*?)?\.$", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)
_SURVIVOR = re.compile(r"^- ((\w+): .+ \(\S+\)): (\w+): (.+)$", re.MULTILINE)
_STAMPS = re.compile(r"^<!-- asked:\n(.*?)-->$", re.MULTILINE | re.DOTALL)


class Entry(Protocol):
    """What a page wants to know of an entry of the list, see kept.py."""

    part: str
    path: str
    old: str
    new: str
    survives: str

    @property
    def name(self) -> str: ...


class Row(NamedTuple):
    """How many entries a list has, and how many of them were noticed and not noticed."""

    all: int
    noticed: int
    others: int


def stamp(entry: Entry) -> str:
    """What is broken where; however it is called, and whichever tests are to notice."""
    said = "\0".join((entry.path, entry.old, entry.new))
    return hashlib.sha256(said.encode("utf-8")).hexdigest()[:8]


def written(results: Sequence[tuple[Entry, str]], noticed: str, run: str) -> str:
    """The page on these entries and what came of each. noticed: the result that is as it should be."""
    rows = {
        part: [result == noticed for entry, result in results if entry.part == part]
        for part in sorted({entry.part for entry, _result in results})
    }
    rows["all"] = [result == noticed for _entry, result in results]
    survivors = [(entry, result) for entry, result in results if result != noticed]
    table = [f"| {part} | {len(one)} | {sum(one)} | {len(one) - sum(one)} |" for part, one in rows.items()]
    lines = [
        *(HEAD, f"Last run: {run}.", f"{sum(rows['all'])} noticed, {len(survivors)} not.", ""),
        *("| part | mutations | noticed | not noticed |", "|---|---|---|---|", *table, ""),
    ]
    if survivors:
        lines += ["Not noticed, and why:", ""]
        lines += [f"- {entry.name}: {result}: {entry.survives or NOBODY}" for entry, result in survivors] + [""]
    stamps = textwrap.fill(" ".join(sorted(stamp(entry) for entry, _result in results)), 116)
    return "\n".join([*lines, "<!-- asked:", stamps, "-->", ""])


def noticed_then(page: str, entries: Sequence[Entry]) -> list[Entry]:
    """The entries of which a page says that they were noticed, and that are the same still."""
    asked = set(" ".join(_STAMPS.findall(page)).split())
    others = unnoticed_then(page)
    return [entry for entry in entries if stamp(entry) in asked and entry.name not in others]


def unnoticed_then(page: str) -> set[str]:
    """The names of those of which a page says that no test noticed them."""
    return {name for name, _part, _result, _why in _SURVIVOR.findall(page)}


def run_of(page: str) -> str:
    """The last whole run, as a page tells it; empty where it tells none."""
    found = _RUN.search(page)
    return found[1] if found else ""


def complaints(page: str, entries: Iterable[Entry]) -> list[str]:
    """What is wrong with a page, a line each; nothing where it tells the last result of this list."""
    entries = list(entries)
    rows = {name: Row(*map(int, numbers)) for name, *numbers in _ROW.findall(page)}
    return [
        *_of_table(rows, {entry.part for entry in entries}),
        *_of_survivors(page, rows),
        *_of_age(page, rows, entries),
    ]


def _of_table(rows: dict[str, Row], parts: set[str]) -> Iterator[str]:
    lists = [row for part, row in rows.items() if part != "all"]
    for part in sorted(parts - set(rows)):
        yield f"{PAGE}: no row for tests/mutants/{part}.yml; {HINT}"
    if rows.get("all") != tuple(map(sum, zip(*lists))) or any(row.all != row.noticed + row.others for row in lists):
        yield f"{PAGE}: its numbers do not add up; {HINT}"


def _of_survivors(page: str, rows: dict[str, Row]) -> Iterator[str]:
    """Each that no test noticed is named, with a reason."""
    named = _SURVIVOR.findall(page)
    count = Counter(part for _name, part, _result, _why in named)
    for part, row in rows.items():
        if part != "all" and row.others != count[part]:
            yield f"{PAGE}: {row.others} of {part} were not noticed, and {count[part]} are named; {HINT}"
    for name, _part, result, why in named:
        if NONE.search(why):
            yield f"{PAGE}: {name}: {result}: mend its test, or say in its entry why it `survives`; then {HINT}"


def _of_age(page: str, rows: dict[str, Row], entries: Sequence[Entry]) -> Iterator[str]:
    stamps = _STAMPS.findall(page)
    asked = " ".join(stamps).split()
    if len(asked) != rows.get("all", Row(0, 0, 0)).all:
        yield f"{PAGE}: its table counts other entries than it says were asked; {HINT}"
    known = set(asked)
    new = [entry.name for entry in entries if stamp(entry) not in known]
    if len(new) > MOST_UNASKED:
        shown = "; ".join(new[:NAMED]) + (" and others" if len(new) > NAMED else "")
        yield f"{PAGE}: {len(new)} entries are not asked yet, {MOST_UNASKED} at most; {HINT}: {shown}"
