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
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.names import BETWEEN
from ansible_collections.gpufleet.baremetal.tests.contract import adapters as adapters_of
from ansible_collections.gpufleet.baremetal.tests.tree import code, layout, leads, listing, names

ROOT = Path(__file__).resolve().parents[2]
UNWRITTEN = "UNWRITTEN: "
#: A safe one, and ten times as quick where PyYAML was built with it.
QUICK = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
RULES = (
    names.half_drivers,
    names.power_that_is_not_told,
    leads.leads_untold,
    names.options_unheard_of,
    names.fragments_that_differ,
    names.pages_that_lack_names,
    names.readme_that_lacks_names,
    names.gates_without_a_part,
)


#: Rules on what stands in a file, which hold for a newcomer's from its first line on.
OF_FILES = (
    listing.without_header,
    code.too_long,
    code.long_modules,
    code.sleeps,
    code.fails_below_main,
    code.bare_excepts,
    code.not_for_old_python,
    code.cut_by_hand,
)


def drivers(root: Path = ROOT) -> list[tuple[str, str]]:
    """Port and name of every driver in the lists."""
    return [(port.port.strip("_"), driver) for port in names.lists(root) for driver in port.drivers]


def missing(port: str, driver: str, root: Path = ROOT) -> list[str]:
    """A line for each thing that this driver still lacks."""
    own = files(port, driver, root)
    broken = [line for path in own for line in unreadable(path, root)]
    if broken:
        return broken
    lines = [line for path in own for line in lacking(path, port, root)]
    # What is measured between nodes is no case of one node's output, and has tests of its own.
    if driver not in reached(port, root) and (port, driver) not in {("gate", one) for one in BETWEEN}:
        lines.append(f"tests/contract/{port}/site_{driver}.py: no adapter, so the suite cannot reach this driver")
    package = f"{layout.UTILS}/_{port}/{driver}/"
    if not does_nothing(root / package) and not any(path.startswith(package) for path in kept_mutations(root)):
        lines.append(f"tests/mutants/{port}.yml: no broken line of {package} is kept, see CONTRIBUTING.md")
    lines += by_the_rules(own, root)
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
def kept_mutations(root: Path) -> tuple[str, ...]:
    """The files of which make mutants has a broken line."""
    paths = sorted(root.glob("tests/mutants/*.yml"))
    lists = [yaml.load(path.read_text(encoding="utf-8"), QUICK) for path in paths]
    return tuple(str(entry["path"]) for entries in lists for entry in entries or [] if entry.get("mutations"))


def by_the_rules(own: Iterable[Path], root: Path) -> list[str]:
    """What the rules for code say of these files and no others, which takes no time."""
    with tempfile.TemporaryDirectory() as folder:
        alone = Path(folder)
        for path in own:
            target = alone / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        lines = [line for rule in OF_FILES for line in rule(alone)]
    return [
        line if ": " in line else f"{line}:1: it does not say whose it is and under which licence" for line in lines
    ]


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


def unreadable(path: Path, root: Path) -> Iterator[str]:
    """Where Python cannot read it; nothing else can be said of it then."""
    try:
        code.tree_of(path)
    except SyntaxError as exc:
        yield f"{path.relative_to(root)}:{exc.lineno}: Python cannot read it: {exc.msg}"


def lacking(path: Path, port: str, root: Path) -> Iterator[str]:
    """What this file still lacks by itself."""
    yield from unwritten(path, root)
    if port == "gate" and path.name.startswith("site_"):
        yield from without_case(path, root)


def without_case(path: Path, root: Path) -> Iterator[str]:
    """A Case of a gate under another name than CASE: the suite takes up CASE alone."""
    cases = [
        (name.id, node.lineno)
        for node in code.tree_of(path).body
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and adapters_of.KINDS["gate"] in ast.unparse(node)
        for name in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(name, ast.Name)
    ]
    if "CASE" not in dict(cases):
        name, line = next(iter(cases), ("nothing", 1))
        yield f"{path.relative_to(root)}:{line}: the suite takes up one Case, named CASE: here is {name}"


def unwritten(path: Path, root: Path) -> Iterator[str]:
    """What says of itself that it is not written: a method, a value, a text."""
    shown = path.relative_to(root)
    text = path.read_text(encoding="utf-8")
    for node in code.nodes(code.tree_of(path)):
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
        if is_whole(port, driver):
            module = importlib.import_module(f"contract.{port}.{path.stem}")
            own = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
            found += [module.CASE] if kind is None else [one for one in own if is_a(one, kind)]
    return tuple(found)


def is_whole(port: str, driver: str) -> bool:
    """Is there nothing left to write, and can Python read what is there?"""
    own = files(port, driver, ROOT)
    if any(line for path in own for line in unreadable(path, ROOT)):
        return False
    return not any(line for path in own for line in lacking(path, port, ROOT))


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
