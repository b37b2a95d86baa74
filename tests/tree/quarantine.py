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
