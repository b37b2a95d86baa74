# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drivers that are being written: what of each is still missing, and its adapter once nothing is.

A driver's adapter is ``tests/contract/PORT/site_NAME.py``. It takes part in the port's suite when driver and adapter
are whole; until then the suite would say the same thing in a hundred tracebacks, and this says it once.
"""

from __future__ import annotations

import ast
import functools
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.tests.contract import adapters as adapters_of
from ansible_collections.gpufleet.baremetal.tests.tree import layout, names

ROOT = Path(__file__).resolve().parents[2]
UNWRITTEN = "UNWRITTEN: "
RULES = (
    names.half_drivers,
    names.power_that_is_not_told,
    names.options_unheard_of,
    names.fragments_that_differ,
    names.pages_that_lack_names,
    names.readme_that_lacks_names,
    names.gates_without_a_part,
)


def drivers(root: Path = ROOT) -> list[tuple[str, str]]:
    """Port and name of every driver in the lists."""
    return [(port.port.strip("_"), driver) for port in names.lists(root) for driver in port.drivers]


def missing(port: str, driver: str, root: Path = ROOT) -> list[str]:
    """A line for each thing that this driver still lacks."""
    lines = [line for path in files(port, driver, root) for line in unwritten(path, root)]
    if driver not in reached(port, root):
        lines.append(f"tests/contract/{port}/site_{driver}.py: no adapter, so the suite cannot reach this driver")
    package = f"{layout.UTILS}/_{port}/{driver}/"
    if not does_nothing(root / package) and package not in kept_mutations(root):
        lines.append(f"tests/mutants/{port}.yml: no broken line of {package} is kept, see CONTRIBUTING.md")
    return lines + [line for line in complaints(root) if concerns(line, port, driver)]


@functools.cache
def reached(port: str, root: Path) -> set[str]:
    """The drivers of this port for which its suite has an adapter."""
    option = next(one.option for one in names.lists(root) if one.port == f"_{port}")
    return adapters_of.reached(port, option, root)


def does_nothing(package: Path) -> bool:
    """Does a driver say of itself that there is no system behind it, so that nothing of it could be wrong?"""
    said = re.compile(r"^    KEEPS_NODES = False$", re.MULTILINE)
    return any(said.search(path.read_text(encoding="utf-8")) for path in package.glob("*.py"))


@functools.cache
def kept_mutations(root: Path) -> str:
    """The list that make mutants works by."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(root.glob("tests/mutants/*.yml")))


@functools.cache
def complaints(root: Path) -> tuple[str, ...]:
    """Of the rules on names, once for all drivers."""
    return tuple(line for rule in RULES for line in rule(root))


def concerns(complaint: str, port: str, driver: str) -> bool:
    """Is this complaint about the port's names due to this driver?"""
    words = complaint.replace(",", " ").replace(":", " ").replace("/", " ").split()
    return driver in words and (f"_{port}" in words or f"## {port}" in complaint or port in complaint)


def files(port: str, driver: str, root: Path) -> list[Path]:
    """What was begun for this driver and no other."""
    places = [
        *sorted((root / layout.UTILS / f"_{port}" / driver).glob("*.py")),
        *sorted(root.glob(f"tests/contract/{port}/site_{driver}.py")),
        *(root / folder / f"{driver}_gate.py" for folder in ("plugins/modules", "plugins/action") if port == "gate"),
    ]
    return [path for path in places if path.is_file()]


def unwritten(path: Path, root: Path) -> Iterator[str]:
    """What says of itself that it is not written: a method, a value, a text."""
    shown = path.relative_to(root)
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and said(node):
            yield f"{shown}:{node.lineno}: {node.name}: {said(node)}"
        elif isinstance(node, ast.AnnAssign) and is_word(node.value, "NotImplemented"):
            words = comment(text.splitlines(), node.lineno) or ast.unparse(node.annotation)
            yield f"{shown}:{node.lineno}: {ast.unparse(node.target)}: {words}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and UNWRITTEN in node.value:
            for line in node.value.splitlines():
                if UNWRITTEN in line:
                    yield f"{shown}:{node.lineno}: {line.split(UNWRITTEN)[1].strip(' .')}"


def comment(lines: list[str], number: int) -> str:
    """What stands above a value."""
    above = number - 1
    while lines[above - 1].strip().startswith("#:"):
        above -= 1
    return " ".join(line.strip().removeprefix("#: ") for line in lines[above : number - 1]).rstrip(".")


def said(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The text of a body that ends in NotImplementedError; empty where it does not."""
    last = function.body[-1]
    call = last.exc if isinstance(last, ast.Raise) else None
    if isinstance(call, ast.Call) and is_word(call.func, "NotImplementedError"):
        return str(getattr(call.args[0], "value", "")) if call.args else "not written"
    return ""


def is_word(node: ast.AST | None, word: str) -> bool:
    return isinstance(node, ast.Name) and node.id == word


def adapters(port: str, kind: type | None = None) -> tuple[Any, ...]:
    """Classes or cases of the adapters that are whole: each file's class of that kind, or its CASE.

    By the name of the kind, since the folders of a suite are read under more than one name.
    """
    found = []
    for path in sorted((ROOT / "tests" / "contract" / port).glob("site_*.py")):
        driver = path.stem.partition("_")[2]
        if not any(line for file in files(port, driver, ROOT) for line in unwritten(file, ROOT)):
            module = importlib.import_module(f"contract.{port}.{path.stem}")
            own = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
            found += [module.CASE] if kind is None else [one for one in own if is_a(one, kind)]
    return tuple(found)


def is_a(one: type, kind: type) -> bool:
    return any(base.__name__ == kind.__name__ for base in one.__mro__[1:])


def main() -> int:
    """Told without pytest, for a person: newcomers.py PORT NAME."""
    port, driver = sys.argv[1:3]
    known: dict[str, list[str]] = {}
    for one, name in drivers():
        known.setdefault(one, []).append(name)
    if port not in known:
        print(f"there is no port {port}; the ports are {', '.join(sorted(known))}")
        return 2
    if driver not in known[port]:
        has = ", ".join(known[port])
        print(f"there is no driver {driver} in the port {port}, which has {has}: make new-driver begins one")
        return 2
    lines = missing(port, driver)
    print("\n".join(lines) if lines else f"{port} {driver}: nothing is missing")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
