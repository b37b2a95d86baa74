# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kept list of one-line mutations: what is broken in which file, and which fast tests must notice.

One YAML file a part of the collection. A mutation replaces a text that stands in its file exactly once; where the code
has moved on and the text is gone, that is an error that names the mutation, so that the list stays true.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parent
KEYS = {"why", "old", "new", "tests"}
#: A safe one, and ten times as quick where PyYAML was built with it.
QUICK = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Stale(Exception):
    """A mutation that can no longer be applied."""


@dataclass(frozen=True)
class Mutation:
    """One broken line. ``part``: the list it stands in. ``why``: what goes wrong with it, in words; unique."""

    part: str
    path: str
    why: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.part}: {self.why} ({self.path})"

    def mutated(self, root: Path) -> str:
        """The file's text with the line broken.

        :raises Stale: where the old text is not found exactly once.
        """
        try:
            text = (root / self.path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise Stale(f"{self.name}: there is no such file") from None
        found = text.count(self.old)
        if found != 1:
            raise Stale(f"{self.name}: its old text is found {found} times: {self.old!r}")
        return text.replace(self.old, self.new)


def load(folder: Path = FOLDER) -> list[Mutation]:
    """All mutations, in the order of their files' names."""
    return [one for path in sorted(folder.glob("*.yml")) for one in read(path)]


def read(path: Path) -> Iterator[Mutation]:
    """The mutations of one list.

    :raises Stale: for an entry that is not of the form that CONTRIBUTING.md describes.
    """
    for group in yaml.load(path.read_text(encoding="utf-8"), QUICK):
        for entry in group["mutations"]:
            if not {"why", "old", "new"} <= set(entry) <= KEYS:
                raise Stale(f"{path.name}: {entry}: the keys are {', '.join(sorted(KEYS))}")
            yield Mutation(
                path.stem, group["path"], entry["why"], entry["old"], entry["new"], _tests(entry.get("tests"), group)
            )


def _tests(own: Any, group: dict[str, Any]) -> tuple[str, ...]:
    return tuple(own or group["tests"])


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
        if one.why in seen:
            complaints.append(f"{one.name}: another mutation says the same")
        seen.add(one.why)
        complaints += [f"{one.name}: no test {test}" for test in one.tests if not _exists(test, root)]
        try:
            compile(one.mutated(root), one.path, "exec", dont_inherit=True)
        except Stale as exc:
            complaints.append(str(exc))
        except SyntaxError as exc:
            complaints.append(f"{one.name}: what it makes is no Python: {exc}")
    return complaints
