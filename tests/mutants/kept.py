# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kept list of one-line mutations: what is broken in which file, and which tests must notice.

One YAML file a part of the collection. A mutation replaces a text that stands in its file exactly once; where the code
has moved on and the text is gone, that is an error that names the mutation, so that the list stays true. Its tests are
fast ones: an entry that has none but slow ones says so with `slow: true`, and is then asked with them.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parent
NEEDED = {"why", "old", "new"}
#: What an entry may have of its own, or of its group.
SHARED = {"tests", "slow"}
#: Where no test can notice it, why; the page of results says so.
KEYS = NEEDED | SHARED | {"survives"}
GROUP_KEYS = SHARED | {"path", "mutations"}
#: Where an entry begins in its file.
_LINE = "line of the list"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A safe one, ten times as quick where PyYAML was built with it, that notes where each entry begins."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        return {**super().construct_mapping(node, deep=deep), _LINE: node.start_mark.line + 1}


class Stale(Exception):
    """A mutation that can no longer be applied, or that no test is asked about."""


@dataclass(frozen=True)
class Mutation:
    """One broken line. ``part``: the list it stands in. ``why``: what goes wrong with it, in words; unique."""

    part: str
    path: str
    why: str
    old: str
    new: str
    tests: tuple[str, ...]
    #: Its slow tests are asked too.
    slow: bool = False
    survives: str = ""
    line: int = 0

    @property
    def name(self) -> str:
        return f"{self.part}: {self.why} ({self.path})"

    @property
    def place(self) -> str:
        return f"tests/mutants/{self.part}.yml:{self.line}"

    def mutated(self, root: Path) -> str:
        """The file's text with the line broken.

        :raises Stale: where the old text is not found exactly once.
        """
        try:
            text = (root / self.path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise Stale(f"{self.place}: {self.name}: there is no such file") from None
        found = text.count(self.old)
        if found != 1:
            raise Stale(f"{self.place}: {self.name}: its old text is found {found} times: {self.old!r}")
        return text.replace(self.old, self.new)


def load(folder: Path = FOLDER) -> list[Mutation]:
    """All mutations, in the order of their files' names."""
    return [one for path in sorted(folder.glob("*.yml")) for one in read(path)]


def read(path: Path) -> Iterator[Mutation]:
    """The mutations of one list.

    :raises Stale: for an entry that is not of the form that CONTRIBUTING.md describes.
    """
    for group in yaml.load(path.read_text(encoding="utf-8"), _Loader):
        _shaped(path, group, {"path", "mutations"}, GROUP_KEYS)
        for entry in group["mutations"]:
            _shaped(path, entry, NEEDED, KEYS)
            yield Mutation(
                path.stem, group["path"], entry["why"], entry["old"], entry["new"],
                tuple(entry.get("tests") or group["tests"]), entry.get("slow", group.get("slow", False)),
                entry.get("survives", ""), entry[_LINE],
            )  # fmt: skip


def _shaped(path: Path, entry: dict[str, Any], needed: set[str], keys: set[str]) -> None:
    place = f"{path.name}:{entry[_LINE]}"
    if not needed <= set(entry) - {_LINE} <= keys:
        shown = {key: value for key, value in entry.items() if key not in (_LINE, "mutations")}
        raise Stale(f"{place}: {shown}: the keys are {', '.join(sorted(keys))}")
    if entry.get("slow", True) is not True:
        raise Stale(f"{place}: slow is true, or is not there: {entry['slow']!r}")


def _exists(test: str, root: Path) -> bool:
    """A file or folder, and in a file the function or class of each further name."""
    place, *inside = test.partition("[")[0].split("::")
    if not inside:
        return (root / place).exists()
    text = (root / place).read_text(encoding="utf-8") if (root / place).is_file() else ""
    return all(re.search(rf"^\s*(?:def|class) {re.escape(name)}\b", text, re.MULTILINE) for name in inside)


def stale(mutations: Iterable[Mutation], root: Path) -> list[str]:
    """What is wrong with the list, a line each; nothing where every mutation still applies."""
    complaints, seen = [], set()
    for one in mutations:
        said = f"{one.place}: {one.name}"
        if one.why in seen:
            complaints.append(f"{said}: another mutation says the same")
        seen.add(one.why)
        complaints += [f"{said}: no test {test}" for test in one.tests if not _exists(test, root)]
        try:
            one.mutated(root)
            _understood(one.path, _part(one, root))
        except Stale as exc:
            complaints.append(str(exc))
        except SyntaxError as exc:
            complaints.append(f"{said}: what it makes is no Python: {exc}")
        except yaml.YAMLError as exc:
            complaints.append(f"{said}: what it makes is no YAML: {exc}")
    return complaints


def _part(one: Mutation, root: Path) -> str:
    """The statement of the file in which the line is broken: to compile the whole file each time takes five times as
    long. The whole file, where the line is no part of one statement."""
    text = (root / one.path).read_text(encoding="utf-8")
    begin = text.index(one.old)
    spans = _statements(text) if one.path.endswith(".py") else ()
    around = [text[first:last] for first, last in spans if first <= begin and begin + len(one.old) <= last]
    return (around or [text])[0].replace(one.old, one.new)


@functools.cache
def _statements(text: str) -> tuple[tuple[int, int], ...]:
    """Where each statement of a file begins and ends, by whole lines."""
    lines = list(itertools.accumulate((len(line) + 1 for line in text.split("\n")), initial=0))
    found = []
    for node in ast.parse(text).body:
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        found.append((lines[first - 1], lines[node.end_lineno or first]))
    return tuple(found)


def _understood(path: str, text: str) -> None:
    """What cannot even be read is noticed by any test.

    :raises SyntaxError: for a text that is no Python.
    :raises yaml.YAMLError: for a playbook's or a role's that is no YAML.
    """
    if path.endswith(".yml"):
        yaml.compose(text, _Loader)
    else:
        compile(text, path, "exec", dont_inherit=True)


def places(test: str) -> Iterator[str]:
    """A test by all names that it has in a list: its own, its function, class and file, and each folder above."""
    function = test.partition("[")[0]
    file, *inside = function.split("::")
    yield from (test, file, *("::".join([file, *inside[:count]]) for count in range(1, len(inside) + 1)))
    yield from (folder.as_posix() for folder in Path(file).parents)


def never_asked(mutations: Iterable[Mutation], fast: Iterable[str]) -> list[str]:
    """Entries that no test would be asked about, a line each. fast: the tests that run where nobody says slow."""
    known = {place for test in fast for place in places(test)}
    return [
        f"{one.place}: {one.name}: all its tests are slow: say `slow: true`, or name a fast one"
        for one in mutations
        if not one.slow and known.isdisjoint(one.tests)
    ]
