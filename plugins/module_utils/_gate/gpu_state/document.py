# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what nvidia-smi prints of the GPUs: XML, and the two other forms in which outputs are recorded. PRIVATE.

PRIVATE to the collection. A document says of each value what it says, or nothing; nothing is filled in. What stands
there twice with different values is told by neither.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Optional
from xml.etree import ElementTree

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.fields import (
    CSV,
    FIELDS,
    TEXT,
    WHOLE,
    XML,
    Spelling,
)

_XML = re.compile(r"<nvidia_smi_log\b.*?</nvidia_smi_log\s*>", re.S)
_PROLOGUE = re.compile(r"<\?xml[^>]*\?>|<!DOCTYPE[^>\[]*>")
_HEADING = re.compile(r"^GPU [0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]\s*$")
_LINE = re.compile(r"^(\s*)(\S[^:]*?)\s*(?::\s(.*))?$")
_UNIT = re.compile(r"\s*\[[^\]]*\]\Z")
#: More values than any document tells of one GPU.
_MOST = 20_000
_TWICE = "told twice"


class Told(dict):  # type: ignore[type-arg]
    """Values by path. A path that comes again with another value has none."""

    def tell(self, path: str, value: str) -> None:
        known = self.get(path)
        self[path] = value if known in (None, value) else _TWICE


@dataclass
class Gpu:
    """form: of the document, by which its values are looked up."""

    form: str
    told: Mapping[str, str]

    def said(self, name: str) -> list[str]:
        """The words of a value, a part each; empty where the document does not have it.

        Of several spellings the first counts that tells more than that there is none.
        """
        return _said(self.told, getattr(FIELDS[name], self.form))


@dataclass
class Seen:
    """A document. problems: what is wrong with it as a whole."""

    form: str = ""
    whole: Mapping[str, str] = field(default_factory=dict)
    gpus: list[Gpu] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    #: Words beside the document.
    beside: str = ""

    def said(self, name: str) -> str:
        spelling: Spelling = WHOLE[name]
        words = _said(self.whole, getattr(spelling, self.form)) if self.form else []
        return words[0] if len(words) == 1 else ""


def _said(told: Mapping[str, str], spellings: str) -> list[str]:
    known: list[list[str]] = []
    for spelling in spellings.split(" | "):
        parts = [told.get(path) for path in spelling.split(" + ")]
        if any(part is not None for part in parts):
            known.append(["" if part is None else part for part in parts])
    useful = [words for words in known if not all(absent(word) for word in words)]
    return (useful or known or [[]])[0]


#: How nvidia-smi says that there is no such value here.
_ABSENT = frozenset({"", "n/a", "not supported", "requested functionality has been deprecated"})


def bare(word: str) -> str:
    """A value without the brackets that one of the forms puts around what is none."""
    word = word.strip()
    return word[1:-1].strip() if word[:1] == "[" and word[-1:] == "]" else word


def absent(word: str) -> bool:
    return bare(word).lower() in _ABSENT


def read(text: str) -> Seen:
    """Whichever form it is; a document of none of them has no GPU, and says why."""
    text = text.lstrip("\ufeff")
    if "<nvidia_smi_log" in text:
        return _xml(text)
    if re.search(r"^=+NVSMI LOG=+\s*$", text, re.M):
        return _text(text)
    first = text.lstrip().partition("\n")[0]
    if "," in first and {"uuid", "pci.bus_id"} <= set(_columns(first)):
        return _csv(text)
    return Seen(problems=["it says nothing of any GPU" if text.strip() else "it printed nothing"], beside=text)


# -- XML ---------------------------------------------------------------------------------------------------------------


def _xml(text: str) -> Seen:
    found = _XML.findall(text)
    beside = _PROLOGUE.sub("", _XML.sub("", text)).strip()
    if len(found) != 1:
        return Seen(problems=["its XML was cut" if not found else "it printed several documents"], beside=beside)
    if "<!" in found[0] or "<" in beside:
        return Seen(problems=["its XML holds what nvidia-smi does not write"], beside=beside)
    try:
        root = ElementTree.fromstring(found[0])
    except (ElementTree.ParseError, ValueError) as exc:
        return Seen(problems=[f"its XML cannot be read: {exc}"], beside=beside)
    seen = Seen(XML, beside=beside)
    whole = Told()
    for child in root:
        if child.tag == "gpu":
            seen.gpus.append(Gpu(XML, _leaves(child, seen.problems)))
        elif len(child) == 0:
            whole.tell(str(child.tag), (child.text or "").strip())
    seen.whole = whole
    return seen


def _leaves(gpu: ElementTree.Element, problems: list[str]) -> Told:
    told = Told()
    waiting = [(child, str(child.tag)) for child in reversed(gpu)]
    while waiting and len(told) < _MOST:
        element, path = waiting.pop()
        if len(element) == 0:
            told.tell(path, (element.text or "").strip())
        waiting += [(child, f"{path}/{child.tag}") for child in reversed(element)]
    if waiting:
        problems.append("it tells more of a GPU than nvidia-smi does")
    return told


# -- the table of --query-gpu ------------------------------------------------------------------------------------------


def _columns(line: str) -> list[str]:
    row = next(csv.reader(io.StringIO(line), skipinitialspace=True), [])
    return [_UNIT.sub("", name).strip() for name in row]


def _csv(text: str) -> Seen:
    seen = Seen(CSV)
    whole = Told()
    rows = list(csv.reader(io.StringIO(text.lstrip()), skipinitialspace=True))
    names = [_UNIT.sub("", name).strip() for name in rows[0]]
    for row in rows[1:]:
        if not any(row):
            continue
        if len(row) != len(names):
            seen.problems.append(f"a row has {len(row)} values, and {len(names)} columns have a name")
            continue
        told = Told()
        for name, value in zip(names, row):
            told.tell(name, value.strip())
        seen.gpus.append(Gpu(CSV, told))
        for spelling in WHOLE.values():
            if spelling.csv in told:
                whole.tell(spelling.csv, told[spelling.csv])
    seen.whole = whole
    return seen


# -- the indented text of -q -------------------------------------------------------------------------------------------


def _text(text: str) -> Seen:
    seen = Seen(TEXT)
    whole, blocks = _blocks(text.splitlines())
    seen.whole = _indented(whole)
    seen.gpus = [Gpu(TEXT, _indented(block)) for block in blocks]
    return seen


def _blocks(lines: Iterable[str]) -> tuple[list[str], list[list[str]]]:
    """What stands before the first GPU, and what of each."""
    whole: list[str] = []
    blocks: list[list[str]] = []
    for line in lines:
        if _HEADING.match(line):
            blocks.append([])
        elif line.strip():
            (blocks[-1] if blocks else whole).append(line)
    return whole, blocks


def _indented(lines: Iterable[str]) -> Told:
    """Values by their headings. A line that has a value may be a heading as well."""
    told = Told()
    above: list[tuple[int, str]] = []
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        depth, name, value = len(match.group(1)), match.group(2).strip(), match.group(3)
        while above and above[-1][0] >= depth:
            above.pop()
        if value is not None:
            told.tell("/".join([title for _depth, title in above] + [name]), value.strip())
        above.append((depth, name))
    return told


def number(words: list[str], unit: str = "") -> Optional[float]:
    """A value as a number, its parts added up; None where one of them is no number of this unit."""
    total = 0.0
    for word in words:
        match = re.match(r"(\d{1,15}(?:\.\d{1,6})?)\s*(\S*)\Z", bare(word))
        if match is None or match.group(2).lower() not in ("", unit.lower()):
            return None
        total += float(match.group(1))
    return total if words else None
