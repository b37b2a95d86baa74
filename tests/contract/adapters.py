# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which drivers a port's suite can reach, read from its files without running them.

An adapter is a class of the port's kind, or a case of a gate, that names its driver: by its name as a user writes it,
or by something that it imports from the driver's package. One that no suite takes up is none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from ansible_collections.gpufleet.baremetal.tests.tree.code import nodes

#: What the adapters of each port are.
KINDS = {"bmc": "Rig", "provisioner": "Site", "scheduler": "Site", "gate": "Case"}


@dataclass(frozen=True)
class Adapter:
    name: str
    file: Path
    node: ast.AST
    #: Names in its file that come out of a driver's package, and that driver.
    imported: dict[str, str]

    def drivers(self, option: str) -> set[str]:
        """What it names, by ``name``, by the option that chooses a driver, or by what was imported."""
        found = {
            self.imported[node.id]
            for node in nodes(self.node)
            if isinstance(node, ast.Name) and node.id in self.imported
        }
        for node in nodes(self.node):
            if isinstance(node, ast.Assign) and any(
                isinstance(one, ast.Name) and one.id == "name" for one in node.targets
            ):
                found |= text(node.value)
            elif isinstance(node, ast.Dict):
                pairs = zip(node.keys, node.values)
                found |= {word for key, value in pairs if option in text(key) for word in text(value)}
        return found


def text(node: Optional[ast.AST]) -> set[str]:
    return {node.value} if isinstance(node, ast.Constant) and isinstance(node.value, str) else set()


def called(node: ast.AST) -> str:
    """The last word of a name, with or without its module."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def reached(port: str, option: str, root: Path) -> set[str]:
    """The drivers for which the suite has an adapter and takes it up."""
    trees = {
        path: ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted((root / "tests" / "contract" / port).rglob("*.py"))
    }
    used = {
        called(node)
        for tree in trees.values()
        for node in nodes(tree)
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load)
    }
    found: set[str] = set()
    for one in (*classes(port, trees), *cases(port, trees)):
        own = re.fullmatch(r"site_(\w+)", one.file.stem)
        if own:
            found.add(own[1])
        elif one.name in used:
            found |= one.drivers(option)
    return found


def classes(port: str, trees: dict[Path, ast.Module]) -> Iterator[Adapter]:
    """Those that come of the port's kind, over however many others."""
    made = [(path, node) for path, tree in trees.items() for node in tree.body if isinstance(node, ast.ClassDef)]
    kinds, before = {KINDS[port]}, 0
    while len(kinds) > before:
        before = len(kinds)
        kinds |= {node.name for _path, node in made if kinds & {called(base) for base in node.bases}}
    for path, node in made:
        if kinds & {called(base) for base in node.bases}:
            yield Adapter(node.name, path, node, imported(port, trees[path]))


def cases(port: str, trees: dict[Path, ast.Module]) -> Iterator[Adapter]:
    for path, tree in trees.items():
        for node in tree.body:
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Call)
                and called(node.value.func) == KINDS[port]
            ):
                yield Adapter(called(node.targets[0]), path, node.value, imported(port, tree))


def imported(port: str, tree: ast.Module) -> dict[str, str]:
    found = {}
    for node in nodes(tree):
        package = re.search(rf"\._{port}\.(\w+)\.", f"{getattr(node, 'module', '') or ''}.")
        if isinstance(node, ast.ImportFrom) and package:
            found.update({one.asname or one.name: package[1] for one in node.names})
    return found
