# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text that an expression is sure to make, with names in capitals where something is put in."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.tests.tree.code import Function, called_name, nodes

_REASONS = ("exc", "error", "problem", "strerror", "orig", "why", "reason", "told")
_FIELD = re.compile(r"\{(\w*)[^{}]*\}")
_CALLED = {"geteuid": "user_id", "line_of": "line"}
_MOST = 6
_BOTH = 2
_TOGETHER = re.compile(r"(?<=[A-Z])(?=\0[A-Z])")


def constants_of(tree: ast.Module) -> dict[str, ast.expr]:
    """The names that a file gives texts, or tables of texts."""
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if isinstance(node.value, ast.expr):
                found.update(_named(target, node.value))
    return {name: value for name, value in found.items() if name.isupper()}


def _named(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """One name, or several that get their values together."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, own in zip(target.elts, value.elts):
            yield from _named(one, own)


def common(files: Iterable[Mapping[str, ast.expr]]) -> dict[str, ast.expr]:
    """The names of all files. One that means this in one file and that in another is nobody's: whoever says it without
    taking it from one of them would be told the wrong one."""
    found: dict[str, ast.expr] = {}
    said: dict[str, set[str]] = {}
    for names in files:
        found.update(names)
        for name, value in names.items():
            said.setdefault(name, set()).add(ast.dump(value))
    return {name: value for name, value in found.items() if len(said[name]) == 1}


def taken(tree: ast.Module, files: Mapping[str, Mapping[str, ast.expr]]) -> dict[str, ast.expr]:
    """The names that a file takes from others of ours."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            there = files.get(f"{(node.module or '').replace('.', '/')}.py", {})
            found.update({one.asname or one.name: there[one.name] for one in node.names if one.name in there})
    return found


class Source:
    """One file."""

    def __init__(self, tree: ast.Module, everywhere: Mapping[str, ast.expr]) -> None:
        self._tree = tree
        self._constants = {**everywhere, **constants_of(tree)}
        self._functions = [node for node in nodes(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]

    def calls(self, names: Iterable[str]) -> Iterator[tuple[str, ast.Call]]:
        wanted = set(names)
        for node in nodes(self._tree):
            if isinstance(node, ast.Call) and called_name(node) in wanted:
                yield called_name(node), node

    def texts(self, expression: ast.expr, call: ast.AST, deep: int = 0) -> list[str]:
        """All that it may say; nothing where that is not written in this file."""
        if isinstance(expression, ast.IfExp):
            return [one for part in (expression.body, expression.orelse) for one in self.texts(part, call, deep)]
        if isinstance(expression, ast.BoolOp):
            return next(filter(None, (self.texts(part, call, deep) for part in expression.values)), [])
        if isinstance(expression, ast.Name) and not expression.id.isupper():
            return self._handed(expression.id, call, deep + 1) if deep < _MOST else []
        return [" ".join(one.split()) for one in self._written(expression) if one.strip()]

    def _written(self, node: ast.expr) -> list[str]:
        """Of texts, what is put together of them, and tables of them."""
        if isinstance(node, ast.Constant):
            return [node.value] if isinstance(node.value, str) else []
        if isinstance(node, ast.JoinedStr):
            pieces = "\0".join(self._piece(part) for part in node.values)
            return [_TOGETHER.sub(" ", pieces).replace("\0", "")]
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod)):
            left, right = self._written(node.left), self._written(node.right) if isinstance(node.op, ast.Add) else []
            return [(left or [""])[0] + (right or [""])[0]] if left or right else []
        if isinstance(node, ast.Name):
            return self._written(self._constants[node.id]) if node.id in self._constants else []
        if isinstance(node, ast.Subscript):
            return self._rows(node.value, node.slice)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return self._of_call(node, node.func)
        if isinstance(node, ast.IfExp):
            return ["/".join(one for part in (node.body, node.orelse) for one in self._written(part) if one)]
        return []

    def _of_call(self, call: ast.Call, function: ast.Attribute) -> list[str]:
        if function.attr == "format":
            return [
                _FIELD.sub(lambda found: _capitals(found[1] or "value"), one) for one in self._written(function.value)
            ]
        return self._rows(function.value, call.args[0]) if function.attr == "get" and call.args else []

    def _rows(self, node: ast.expr, index: ast.expr) -> list[str]:
        """What a table says under this; where that is not written there, both of two."""
        table = self._constants.get(node.id) if isinstance(node, ast.Name) else None
        if isinstance(table, ast.Call) and table.args:
            table = table.args[0]
        if not isinstance(table, ast.Dict):
            return []
        meant = [value for key, value in zip(table.keys, table.values) if key and ast.dump(key) == ast.dump(index)]
        chosen = meant or (table.values if len(table.values) <= _BOTH else [])
        return [one for value in chosen for one in self._written(value)]

    def _piece(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant):
            return str(node.value)
        inside = node.value if isinstance(node, ast.FormattedValue) else node
        said = self._written(inside)
        return said[0] if len(said) == 1 else _capitals(name_of(inside))

    def _handed(self, name: str, call: ast.AST, deep: int) -> list[str]:
        """Of a variable: what its function gives it, or what the callers in this file hand in for it."""
        function = self._around(call)
        if function is None:
            return []
        assigned = [node for node in nodes(function) if isinstance(node, ast.Assign)]
        named = [node for node in assigned if name in {name_of(one) for one in node.targets}]
        given = [node.value for node in in_force(named, function, call)]
        found = [one for value in given for one in self.texts(value, call, deep)]
        if found:
            return found
        for other, handed in self._callers(function):
            found += self.texts(handed[name], other, deep) if name in handed else []
        return found

    def _callers(self, function: Function) -> Iterator[tuple[ast.Call, dict[str, ast.expr]]]:
        places = [argument.arg for argument in function.args.args if argument.arg not in ("self", "cls")]
        for _name, other in self.calls([function.name]):
            yield other, {**dict(zip(places, other.args)), **{one.arg: one.value for one in other.keywords if one.arg}}

    def pairs(self, what: ast.expr, do: ast.expr | None, call: ast.Call) -> Iterator[tuple[str, str]]:
        """What went wrong and what to do; of what callers hand in, as each of them says it."""
        function = self._around(call)
        named = {argument.arg for argument in function.args.args} if function else set()
        if function and isinstance(what, ast.Name) and what.id in named:
            for other, handed in self._callers(function):
                names = [one.id for one in nodes(do) if isinstance(one, ast.Name)] if do else []
                own = next((handed[one] for one in names if one in handed), None)
                last = do.values[-1] if isinstance(do, ast.BoolOp) else None if set(names) & named else do
                said = handed.get(what.id)
                yield from self.pairs(said, own or last, other) if said else ()
            return
        steps = " / ".join(dict.fromkeys(self.texts(do, call))) if do else ""
        for one in self.texts(what, call):
            yield one, steps

    def _around(self, call: ast.AST) -> Function | None:
        inside = [one for one in self._functions if any(node is call for node in nodes(one))]
        return min(inside, key=lambda one: len(nodes(one)), default=None)


def in_force(assigned: list[ast.Assign], function: Function, call: ast.AST) -> list[ast.Assign]:
    """Of several the last one before the call, unless that was made in a branch."""
    line = getattr(call, "lineno", 0)
    around = [one for one in nodes(function) if isinstance(one, ast.stmt) and one.lineno <= line <= span_end(one)]
    before = sorted((one for one in assigned if one.lineno <= line), key=lambda one: one.lineno)
    inner = max(one.col_offset for one in around)
    return before[-1:] if before and before[-1].col_offset <= inner else assigned


def span_end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def name_of(node: ast.AST) -> str:
    """What a person would call it."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return "kind" if node.attr == "__name__" else node.attr
    if isinstance(node, ast.Call):
        return _of_call(node)
    if isinstance(node, ast.Subscript):
        key = node.slice
        return str(key.value) if isinstance(key, ast.Constant) and isinstance(key.value, str) else name_of(node.value)
    for kind, inside in _INSIDE.items():
        if isinstance(node, kind):
            return name_of(inside(node))
    return "value"


_INSIDE: dict[type[ast.AST], Callable[[Any], ast.AST]] = {
    ast.GeneratorExp: lambda node: node.elt,
    ast.ListComp: lambda node: node.elt,
    ast.BoolOp: lambda node: node.values[0],
    ast.BinOp: lambda node: node.right if isinstance(node.left, ast.Constant) else node.left,
    ast.UnaryOp: lambda node: node.operand,
    ast.JoinedStr: lambda node: next((one for one in node.values if isinstance(one, ast.FormattedValue)), ast.Pass()),
    ast.FormattedValue: lambda node: node.value,
}


def _of_call(node: ast.Call) -> str:
    """``line_of(path)`` is a line, ``name.replace("_", " ")`` a name, ``cut(reason)`` a reason."""
    called = called_name(node)
    if called.endswith("_of"):
        return called[: -len("_of")]
    if node.args and not isinstance(node.args[0], ast.Constant):
        return name_of(node.args[0])
    if len(node.args) == 1 and isinstance(node.args[0], ast.Constant) and str(node.args[0].value).isidentifier():
        return str(node.args[0].value)
    return name_of(node.func.value) if node.args and isinstance(node.func, ast.Attribute) else called


def _capitals(name: str) -> str:
    return "REASON" if name in _REASONS else _CALLED.get(name, name).strip("_").upper()
