# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules on Python code, found by reading its syntax tree."""

from __future__ import annotations

import ast
import functools
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Union

from ansible_collections.gpufleet.baremetal.tests.tree.listing import text, under

MOST_LINES = 400
MOST_LINES_OF_A_MODULE = 200
LONGEST_FUNCTION = 45
USUAL_FUNCTION = 8
OLDEST_PYTHON = (3, 9)
DOC_BLOCKS = ("DOCUMENTATION", "EXAMPLES", "RETURN")
PACKAGE = "ansible_collections.gpufleet.baremetal.plugins"
THE_WAIT = "plugins/module_utils/_wait.py"
# Everything may append to the ledger; besides that, ports know nothing of each other.
EVERYBODYS_PORT = "_ledger"

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text(path))


@functools.cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All of it. Most rules look through every file, and to walk a tree takes longer than to parse it."""
    return tuple(ast.walk(tree))


def parsed(root: Path, *folders: str) -> Iterator[tuple[str, ast.Module]]:
    for path in under(root, *folders, suffix=".py"):
        yield path.relative_to(root).as_posix(), tree_of(path)


def span(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def doc_lines(tree: ast.Module) -> int:
    """Lines of the documentation blocks: they are text, and as long as the options need."""
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    named = [(node, {name.id for name in node.targets if isinstance(name, ast.Name)}) for node in assigned]
    return sum(span(node) for node, names in named if names & set(DOC_BLOCKS))


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in nodes(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def is_table(tree: ast.Module) -> bool:
    """Data only: a quirk table may be as long as there are quirks."""
    return not any(isinstance(node, (ast.FunctionDef, ast.ClassDef)) for node in tree.body)


def too_long(root: Path) -> list[str]:
    complaints = []
    for name, tree in parsed(root, "plugins", "roles", "make", "tests"):
        lines = max((node.end_lineno or 0 for node in tree.body), default=0) - doc_lines(tree)
        if lines > MOST_LINES and not is_table(tree):
            complaints.append(f"{name}: {lines} lines without its documentation, {MOST_LINES} at most")
        for function in functions(tree):
            if span(function) > LONGEST_FUNCTION:
                complaints.append(f"{name}: {function.name} has {span(function)} lines, {LONGEST_FUNCTION} at most")
    return complaints


def long_modules(root: Path) -> list[str]:
    """A module is its options and one call: whatever else it does belongs below it."""
    sizes = (
        (name, max((node.end_lineno or 0 for node in tree.body), default=0) - doc_lines(tree))
        for name, tree in parsed(root, "plugins/modules")
    )
    return [
        f"{name}: {lines} lines without its documentation, {MOST_LINES_OF_A_MODULE} at most"
        for name, lines in sizes
        if lines > MOST_LINES_OF_A_MODULE
    ]


def long_in_the_middle(root: Path) -> list[str]:
    """One long function may be the clearest form of a thing; many of them are not."""
    spans = [span(function) for _name, tree in parsed(root, "plugins") for function in functions(tree)]
    middle = statistics.median(spans) if spans else 0
    if middle <= USUAL_FUNCTION:
        return []
    return [f"half of all functions in plugins/ are longer than {middle:g} lines, {USUAL_FUNCTION} at most"]


def called_name(call: ast.Call) -> str:
    """The last part of what is called: `sleep` in `time.sleep(1)`."""
    target = call.func
    return target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""


def sleeps(root: Path) -> list[str]:
    """One place waits, so that each wait has a deadline, and ends with its parent."""
    return [
        f"{name}:{node.lineno}"
        for name, tree in parsed(root, "plugins")
        if name != THE_WAIT
        for node in nodes(tree)
        if isinstance(node, ast.Call) and called_name(node) == "sleep"
    ]


def fails_below_main(root: Path) -> list[str]:
    """Exceptions are raised where something is wrong and become a failure in main() alone."""
    complaints = []
    for name, tree in parsed(root, "plugins"):
        allowed = {id(node) for function in functions(tree) if function.name == "main" for node in ast.walk(function)}
        module = name.startswith("plugins/modules/")
        complaints += [
            f"{name}:{node.lineno}"
            for node in nodes(tree)
            if isinstance(node, ast.Call) and called_name(node) == "fail_json" and not (module and id(node) in allowed)
        ]
    return complaints


def bare_excepts(root: Path) -> list[str]:
    return [
        f"{name}:{node.lineno}"
        for name, tree in parsed(root, "plugins", "roles", "make", "tests")
        for node in nodes(tree)
        if isinstance(node, ast.ExceptHandler) and node.type is None
    ]


def not_for_old_python(root: Path) -> list[str]:
    """module_utils and modules travel to nodes, whose Python may be as old as ansible-core allows."""
    complaints = []
    for path in under(root, "plugins/module_utils", "plugins/modules", suffix=".py"):
        try:
            ast.parse(text(path), feature_version=OLDEST_PYTHON)
        except SyntaxError as error:
            complaints.append(f"{path.relative_to(root)}:{error.lineno}: {error.msg}")
    return complaints


def imported(name: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Full names of what a file imports; `name` is its path and resolves relative imports."""
    package = ["ansible_collections", "gpufleet", "baremetal", *name.split("/")[:-1]]
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, node.module or ""]).strip(".")
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def port_of(full_name: str) -> str:
    """The port that a full name lies in, if it lies in one."""
    start = f"{PACKAGE}.module_utils."
    return full_name[len(start) :].split(".")[0] if full_name.startswith(start) else ""


def ports_that_meet(root: Path) -> list[str]:
    """Ports do not import each other, and module_utils imports nothing from above itself."""
    utils = root / "plugins" / "module_utils"
    ports = {folder.name for folder in utils.glob("_*") if folder.is_dir() and folder.name != "__pycache__"}
    complaints = []
    for name, tree in parsed(root, "plugins/module_utils"):
        own = name.split("/")[2]
        for line, full_name in imported(name, tree):
            port = port_of(full_name)
            if port in ports and own in ports and port not in (own, EVERYBODYS_PORT):
                complaints.append(f"{name}:{line}: {own} imports {full_name}")
            if full_name.startswith(PACKAGE) and not full_name.startswith(f"{PACKAGE}.module_utils"):
                complaints.append(f"{name}:{line}: imports {full_name}, which lies above it")
    return complaints


#: A shorter piece is of a list, a number or a digest. What is longer may be a text, and a text may hold a secret.
_LONG = 40


def cut_by_hand(root: Path) -> list[str]:
    """A text is shortened in _excerpt.py, where secrets are masked before the cut."""
    complaints = []
    for name, tree in parsed(root, "plugins"):
        for node in nodes(tree):
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
                ends = [end for end in (node.slice.lower, node.slice.upper) if end is not None]
                bare = [end.operand if isinstance(end, ast.UnaryOp) else end for end in ends]
                if any(isinstance(end, ast.Constant) and int(str(end.value)) >= _LONG for end in bare):
                    complaints.append(f"{name}:{node.lineno}: a text is cut here, and not in _excerpt.py")
    return complaints


#: The home of the words that every verdict is made of.
VERDICT = "plugins/module_utils/_verdict.py"


def words(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """The words that a file gives a name: line, name, word."""
    for node in (node for node in tree.body if isinstance(node, ast.Assign)):
        for target in node.targets:
            several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            pairs = zip(target.elts, node.value.elts) if several else [(target, node.value)]
            for name, value in pairs:
                if isinstance(name, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield node.lineno, name.id, value.value


def words_of_the_verdict_again(root: Path) -> list[str]:
    """Two that are spelled alike today differ tomorrow, and a cell that is named otherwise stays open."""
    trees = dict(parsed(root, "plugins"))
    home = {(name, word) for _line, name, word in words(trees[VERDICT])} if VERDICT in trees else set()
    return [
        f"{path}:{line}: {name} is a word of {VERDICT}"
        for path, tree in trees.items()
        if path != VERDICT
        for line, name, word in words(tree)
        if (name, word) in home
    ]
