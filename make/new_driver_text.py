# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in the files of a driver that is begun, read from its port's contract as it is now; see new_driver.py."""

from __future__ import annotations

import ast
import builtins
import json
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

LICENCE = "".join(Path(__file__).read_text(encoding="utf-8").splitlines(keepends=True)[:3])
LONGEST = 88


@dataclass(frozen=True)
class Made:
    """A class that a driver brings: where it goes, what it fulfils, and what of it is known already."""

    file: str
    source: str
    base: str
    name: str
    about: str
    known: dict[str, str] = field(default_factory=dict)
    init: str = ""
    needs: tuple[str, ...] = ()


class Contract:
    """The source file of a contract, read and not imported."""

    def __init__(self, root: Path, path: str) -> None:
        self.path = path
        self.lines = (root / path).read_text(encoding="utf-8").splitlines()
        self.tree = ast.parse("\n".join(self.lines))
        self.module = path.removesuffix(".py").replace("/", ".")
        self.classes = {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}

    def owed(self, base: str) -> list[ast.stmt]:
        """What a subclass must bring: attributes without a value and methods without a body, the nearest say first."""
        found: dict[str, ast.stmt] = {}
        node = self.classes[base]
        for above in node.bases:
            if isinstance(above, ast.Name) and above.id in self.classes:
                found.update({name_of(item): item for item in self.owed(above.id)})
        for item in node.body:
            name = name_of(item)
            if name and is_owed(item):
                found[name] = item
            elif name:
                found.pop(name, None)
        return list(found.values())

    def comment(self, item: ast.stmt) -> list[str]:
        above = item.lineno - 1
        while self.lines[above - 1].strip().startswith("#:"):
            above -= 1
        return self.lines[above : item.lineno - 1]

    def homes(self) -> dict[str, str]:
        """Name -> the import by which another file gets it."""
        found = {}
        module = f"{'' if self.path.startswith('tests/') else 'ansible_collections.gpufleet.baremetal.'}{self.module}"
        module = module.removeprefix("tests.")
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module != "__future__":
                found.update({a.asname or a.name: f"from {node.module} import {a.name}" for a in node.names})
            elif isinstance(node, ast.Import):
                found.update({a.asname or a.name: f"import {a.name}" for a in node.names})
        for node in self.tree.body:
            name = name_of(node)
            if name:
                found[name] = f"from {module} import {name}"
        return found


def name_of(node: ast.stmt) -> str:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return node.name
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return targets[0].id if targets and isinstance(targets[0], ast.Name) else ""


def is_owed(item: ast.stmt) -> bool:
    if isinstance(item, ast.AnnAssign):
        return item.value is None
    if not isinstance(item, ast.FunctionDef):
        return False
    last = item.body[-1]
    raised = last.exc if isinstance(last, ast.Raise) else None
    unwritten = isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
    return unwritten or any(isinstance(mark, ast.Name) and mark.id == "abstractmethod" for mark in item.decorator_list)


def first_words(item: ast.FunctionDef) -> str:
    """The beginning of what the contract says of a method, for a message of one line."""
    said = " ".join((ast.get_docstring(item) or item.name.replace("_", " ")).split())
    said = re.sub(r"^:raises \w+: ", "refuse what it must: ", said).split(" :raises")[0]
    plain = re.sub(r":\w+:`([^`]*)`|``", lambda found: found[1] or "", said).replace('"', "'")
    return textwrap.shorten(re.split(r"(?<=\.) ", plain)[0].rstrip("."), LONGEST, placeholder=" ...")


def used(item: ast.stmt) -> set[str]:
    """Names that an attribute's or a method's declaration needs."""
    parts: list[ast.AST] = [item.annotation] if isinstance(item, ast.AnnAssign) else []
    if isinstance(item, ast.FunctionDef):
        parts = [item.args, *([item.returns] if item.returns else [])]
    return {node.id for part in parts for node in ast.walk(part) if isinstance(node, ast.Name)} - set(dir(builtins))


def method(contract: Contract, item: ast.FunctionDef) -> Iterator[str]:
    """The declaration and the words of the contract, and a body that says what is missing."""
    if any(isinstance(mark, ast.Name) and mark.id == "property" for mark in item.decorator_list):
        yield "    @property"
    first = item.body[0]
    yield from contract.lines[item.lineno - 1 : first.lineno - 1]
    if isinstance(first, ast.Expr):
        yield from contract.lines[first.lineno - 1 : first.end_lineno]
    yield f"        raise NotImplementedError({json.dumps(first_words(item), ensure_ascii=False)})"
    yield ""


def written(contract: Contract, made: Made, words: dict[str, str]) -> str:
    """The text of a new file."""
    owed = [item for item in contract.owed(made.base) if name_of(item) != "__init__"]
    attributes, methods, names = [], [], {made.base}
    for item in owed:
        name = name_of(item)
        if isinstance(item, ast.FunctionDef):
            methods += list(method(contract, item))
            names |= used(item)
        elif name not in made.known:
            attributes += [*contract.comment(item), f"    {ast.unparse(item)} = NotImplemented"]
            names |= used(item)
    known = [f"    {name} = {value}" for name, value in made.known.items() if value]
    homes = contract.homes()
    imports = {homes[name] for name in names} | set(made.needs)
    lines = [f"class {made.name}({made.base}):", *known, *attributes, *made.init.strip("\n").splitlines(), "", *methods]
    head = f'{LICENCE}"""$Class: {made.about}. PRIVATE to the collection."""\n\nfrom __future__ import annotations\n\n'
    if made.file.startswith("tests/"):
        head = head.replace(" PRIVATE to the collection.", "")
    text = head + laid_out(imports) + "\n\n\n" + "\n".join(lines).rstrip() + "\n"
    return Template(text).safe_substitute(words)


def laid_out(imports: set[str]) -> str:
    """Python's own first; names of one module on one line."""
    plain = sorted(line for line in imports if line.startswith("import "))
    by_module: dict[str, set[str]] = {}
    for line in imports - set(plain):
        _from, module, _import, name = line.split(" ", 3)
        by_module.setdefault(module, set()).add(name)
    lines = plain + [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(by_module.items())]
    own = [line for line in lines if line.split()[1].split(".")[0] in sys.stdlib_module_names]
    others = [line for line in lines if line not in own]
    return "\n".join([*own, *([""] if own and others else []), *others])
