# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `make mutants` has seen noticed before, so that runs over parts of the list make one run over all of it.

A note counts while nothing that it stands on has changed: the entry of the list, the file that it breaks, the tests
that it names with the data beside them, and every file of the collection that these import, or that those import in
turn. What a test reads from elsewhere or imports by name alone is not among them, so the page tells how many were asked
before, and the whole list can be asked anew. What no test noticed is never kept: it is asked again.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kept import Mutation

FILE = Path("build/mutants/noticed.jsonl")
#: What stands before the name of a module of the collection where all of it is told.
_COLLECTION = ("ansible_collections", "gpufleet", "baremetal")
#: Folders from which tests import by short names, see pyproject.toml.
_SHORT = ("", "tests")
#: Another way to ask makes other notes.
_EDITION = "1"


class Note(NamedTuple):
    """Which test noticed, on which day, and how long it took."""

    by: str
    day: str
    seconds: float


class Notes:
    """The notes of earlier runs that hold for this tree.

    :param tree: the copy in which tests run; the checkout may change meanwhile.
    :param file: where they are kept.
    """

    def __init__(self, tree: Path, file: Path) -> None:
        self._reach = Reach(tree)
        self._file = file
        self._keys: dict[str, str] = {}
        self._notes = dict(_read(file))

    def of(self, mutation: Mutation) -> Note | None:
        return self._notes.get(self._key(mutation))

    def keep(self, mutation: Mutation, by: str, seconds: float) -> None:
        """Written at once: a run that is ended has lost nothing but what it was at."""
        note = Note(by, time.strftime("%Y-%m-%d", time.gmtime()), round(seconds, 1))
        key = self._key(mutation)
        self._notes[key] = note
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with open(self._file, "a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "mutation": mutation.name, **note._asdict()}) + "\n")

    def _key(self, mutation: Mutation) -> str:
        """Made while all files are whole, see :meth:`learn`."""
        return self._keys[mutation.name]

    def learn(self, mutations: Iterable[Mutation]) -> None:
        """Makes the keys, before anything in the tree is broken."""
        for one in mutations:
            slow = ("slow",) if one.slow else ()
            entry = (_EDITION, sys.version, one.path, one.old, one.new, *one.tests, *slow)
            self._keys[one.name] = _digest([*entry, *self._reach.of(one.path, one.tests)])


def _read(file: Path) -> Iterator[tuple[str, Note]]:
    """A line that was cut short by the end of its run is none."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    for line in lines:
        try:
            found = json.loads(line)
            yield str(found["key"]), Note(str(found["by"]), str(found["day"]), float(found["seconds"]))
        except (ValueError, KeyError, TypeError):
            continue


def _digest(parts: Iterable[str]) -> str:
    """The length of each stands before it: no two lists of parts read the same."""
    made = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8")
        made.update(f"{len(data)}:".encode("ascii") + data)
    return made.hexdigest()


class Reach:
    """Which files of a tree some files stand on."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        self._imported = cache(self._imports)
        self._stamp = cache(lambda name: f"{name} {hashlib.sha256((tree / name).read_bytes()).hexdigest()}")
        self._reached = cache(self._all_from)

    def of(self, broken: str, tests: Iterable[str]) -> tuple[str, ...]:
        """All that is reached from a file, and from tests and folders of them: name and digest of each."""
        return self._reached(frozenset({broken}), frozenset(test.split("::")[0] for test in tests))

    def _all_from(self, files: frozenset[str], tests: frozenset[str]) -> tuple[str, ...]:
        todo = ["pyproject.toml", *files, *(file for test in tests for file in self._files(self._tree / test))]
        folders = {(self._tree / test).parent for test in tests}
        todo += [name for folder in folders for name in self._files(folder) if not name.endswith(".py")]
        seen: set[str] = set()
        while todo:
            name = todo.pop()
            if name not in seen and (self._tree / name).is_file():
                seen.add(name)
                todo += self._imported(name)
        return tuple(self._stamp(name) for name in sorted(seen))

    def _files(self, path: Path) -> list[str]:
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        names = (file.relative_to(self._tree).as_posix() for file in found if file.is_file())
        return [name for name in names if "__pycache__" not in name]

    def _imports(self, name: str) -> tuple[str, ...]:
        if not name.endswith(".py"):
            return ()
        found = set(self._beside(name))
        for node in ast.walk(ast.parse((self._tree / name).read_text(encoding="utf-8"))):
            for module in _modules(node, name):
                found |= set(self._found(module))
        return tuple(found)

    def _beside(self, name: str) -> Iterator[str]:
        """What Python or pytest takes with a file: the package that it is in, and each conftest.py above it."""
        for folder in Path(name).parents:
            for other in ("__init__.py", "conftest.py"):
                yield (folder / other).as_posix()

    def _found(self, module: tuple[str, ...]) -> Iterator[str]:
        inside = module[len(_COLLECTION) :] if module[: len(_COLLECTION)] == _COLLECTION else ()
        for place in [Path(*inside)] if inside else [Path(short, *module) for short in _SHORT]:
            for path in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
                if (self._tree / path).is_file():
                    yield path.as_posix()


def _modules(node: ast.AST, name: str) -> Iterator[tuple[str, ...]]:
    """What a statement imports: what it takes out of a module may be a module itself."""
    if isinstance(node, ast.Import):
        yield from (tuple(alias.name.split(".")) for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        above = Path(name).parts[: -node.level] if node.level else ()
        module = (*_COLLECTION, *above) if node.level else ()
        module += tuple((node.module or "").split(".")) if node.module else ()
        yield module
        yield from ((*module, alias.name) for alias in node.names)
