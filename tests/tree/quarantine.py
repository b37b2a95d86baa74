# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which failures quarantine a node stands once. Two lists that are alike today differ tomorrow."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import WHOSE
from ansible_collections.gpufleet.baremetal.tests.tree.code import nodes, parsed
from ansible_collections.gpufleet.baremetal.tests.tree.listing import loaded, under

LIST = "plugins/module_utils/_quarantine.py"
KINDS = {kind for kind, whose in WHOSE.items() if kind and whose == "node"}
#: Roles that no play runs on nodes.
OF_NO_NODE = frozenset({"awx", "netboot", "virtual_rack"})
#: Tasks that mean the node.
VERDICTS = frozenset({
    "Read this node's verdict",
    "Read whether this node is deployed and answers",
    "Say what speaks against the node",
    "Say that the node answers nobody",
})  # fmt: skip
QUOTED = re.compile(r"[\"'](\w+)[\"']")


def kinds_listed_again(root: Path) -> list[str]:
    """Whoever wants to know asks the one list: in Jinja by the test gpufleet.baremetal.quarantines."""
    found = [(path.relative_to(root).as_posix(), words) for path in yamls(root) for words in said(loaded(path))]
    found += [
        (f"{name}:{node.lineno}", words_of(node))
        for name, tree in parsed(root, "plugins", "roles")
        if name != LIST
        for node in nodes(tree)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Dict))
    ]
    return [
        f"{where}: {', '.join(sorted(words & KINDS))} are kinds of {LIST}"
        for where, words in found
        if len(words & KINDS) > 1
    ]


def asserts_that_quarantine(root: Path) -> list[str]:
    """A stock assert that fails has a key by which it is a verdict about its node: of a setting it says a healthy node
    ill. Whoever means the node is named in VERDICTS; a setting is refused by ansible.builtin.fail."""
    found = [
        (path.relative_to(root).as_posix(), task)
        for path in yamls(root)
        if "/tasks/" in path.as_posix() and path.relative_to(root).parts[1] not in OF_NO_NODE
        for task in asserts(loaded(path))
    ]
    found += [
        (path.relative_to(root).as_posix(), task)
        for path in under(root, "playbooks", suffix=".yml")
        for block in rescued(loaded(path))
        for task in asserts(block)
    ]
    return [
        f"{where}: the assert {task.get('name')} would quarantine its node: let ansible.builtin.fail refuse a setting"
        for where, task in found
        if task.get("name") not in VERDICTS
    ]


def asserts(thing: Any) -> Iterator[dict[str, Any]]:
    if isinstance(thing, dict):
        if {"assert", "ansible.builtin.assert"} & {*thing}:
            yield thing
        thing = list(thing.values())
    for inner in thing if isinstance(thing, list) else []:
        yield from asserts(inner)


def rescued(thing: Any) -> Iterator[Any]:
    """Blocks whose rescue asks the role quarantine."""
    if isinstance(thing, dict):
        if "block" in thing and "gpufleet.baremetal.quarantine" in str(thing.get("rescue")):
            yield thing["block"]
        thing = list(thing.values())
    for inner in thing if isinstance(thing, list) else []:
        yield from rescued(inner)


def yamls(root: Path) -> list[Path]:
    return under(root, "roles", "playbooks", suffix=".yml")


def said(thing: Any) -> Iterator[set[str]]:
    """The words of each list, and those that each text has in quotation marks, as Jinja spells a list."""
    if isinstance(thing, str):
        yield set(QUOTED.findall(thing))
    elif isinstance(thing, (list, dict)):
        yield {word for word in thing if isinstance(word, str)}
        for inner in thing.values() if isinstance(thing, dict) else thing:
            yield from said(inner)


def words_of(node: ast.List | ast.Tuple | ast.Set | ast.Dict) -> set[str]:
    items = node.keys if isinstance(node, ast.Dict) else node.elts
    return {item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)}
