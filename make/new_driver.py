# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Begins a driver: its package, its lines in the registry and in the list of names, and its adapter for the tests.

What a driver owes is read from the port's contract as it is now, so that there is no template of it which could grow
old: each thing stands there with the contract's own words, and raises NotImplementedError. A gate's contract is a
function and no class, so its files are templates in make/driver/; a test begins a gate from them and holds what comes
out against the rules for code. tests/contract/test_newcomers.py then tells them one by one.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import json
import keyword
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

UTILS = Path("plugins/module_utils")
MODULE_UTILS = "ansible_collections.gpufleet.baremetal.plugins.module_utils"
TEMPLATES = Path(__file__).with_name("driver")
LICENCE = "".join(Path(__file__).read_text(encoding="utf-8").splitlines(keepends=True)[:3])
NAME = re.compile(r"[a-z][a-z0-9_]*")
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


@dataclass(frozen=True)
class Port:
    folder: str
    #: What the new line in DRIVERS of names.py says.
    line: str
    classes: tuple[Made, ...] = ()
    #: Class that the registry's new line names; without one there is no registry.
    registered: str = ""
    #: Template -> file.
    files: dict[str, str] = field(default_factory=dict)


CONTEXT = f"from {MODULE_UTILS}._verb import Context"
PARAMS = ("from collections.abc import Mapping", "from typing import Any", CONTEXT)
SITE_INIT = """
    def __init__(self, request: pytest.FixtureRequest, folder: Path) -> None:
        raise NotImplementedError("start $name for the tests, or a server in its manner, behind contract.faults")
"""
BMC_PART = """
    def __init__(self, address: str) -> None:
        self.address = address
"""
SITE_NEEDS = ("import pytest", "from pathlib import Path")

PORTS = {
    "bmc": Port(
        "_bmc",
        '("bmc_address", "bmc_username", "bmc_password")',
        (
            Made(
                "$utils/$name/driver.py", "$utils/contract.py", "Bmc", "${Class}Bmc", "one machine behind one BMC",
                {"protocol": '"$name"', "address": "", "has": ""},
                """
    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        self.address = str(params["bmc_address"])
        self.has = (${Class}Power(self.address), ${Class}Boot(self.address), ${Class}Identify(self.address))
""",
                (*PARAMS, *(f"from {MODULE_UTILS}._bmc.$name.{part.lower()} import ${{Class}}{part}"
                            for part in ("Power", "Boot", "Identify"))),
            ),
            *(
                Made(f"$utils/$name/{part.lower()}.py", "$utils/contract.py", part, f"${{Class}}{part}", about,
                     {"title": "", "address": ""}, BMC_PART)
                for part, about in (("Power", "the power of a machine"), ("Boot", "its one-time boot"),
                                    ("Identify", "who it is"))
            ),
            Made("tests/contract/bmc/site_$name.py", "tests/contract/bmc/rigs.py", "Rig", "${Class}Rig",
                 "what the contract suite needs", {"params": "", "blind": ""}, SITE_INIT, SITE_NEEDS),
        ),
        "${Class}Bmc",
    ),
    "provisioner": Port(
        "_provisioner",
        "()",
        (
            Made(
                "$utils/$name/driver.py", "$utils/contract.py", "Driver", "${Class}Driver", "the driver",
                {"name": '"$name"'},
                """
    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        super().__init__(ctx)
        self._params = params
""",
                PARAMS,
            ),
            Made("tests/contract/provisioner/site_$name.py", "tests/contract/provisioner/sites.py", "Site",
                 "${Class}Site", "what the contract suite needs", {"name": '"$name"', "faults": ""},
                 SITE_INIT.replace("request: pytest.FixtureRequest, ", ""), SITE_NEEDS[1:]),
        ),
        "${Class}Driver",
    ),
    "scheduler": Port(
        "_scheduler",
        "()",
        (
            Made("$utils/$name/driver.py", "$utils/contract.py", "Scheduler", "${Class}", "the driver",
                 {"NAME": '"$name"'}),
            Made("tests/contract/scheduler/site_$name.py", "tests/contract/scheduler/schedulers.py", "KeepingSite",
                 "${Class}Site", "what the contract suite needs",
                 {"driver": "${Class}", "faults": ""}, SITE_INIT,
                 (*SITE_NEEDS, f"from {MODULE_UTILS}._scheduler.$name.driver import ${{Class}}")),
        ),
        "${Class}",
    ),
    "gate": Port(
        "_gate",
        '"${name}_gate"',
        files={
            "gate.txt": "$utils/$name/gate.py",
            "gate_module.txt": "plugins/modules/${name}_gate.py",
            "gate_action.txt": "plugins/action/${name}_gate.py",
            "gate_case.txt": "tests/contract/gate/site_$name.py",
        },
    ),
}  # fmt: skip


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


def with_line(text: str, table: str, line: str) -> str:
    """One more line at the end of a dictionary."""
    for node in ast.parse(text).body:
        if name_of(node) == table and node.end_lineno:
            lines = text.splitlines(keepends=True)
            return "".join([*lines[: node.end_lineno - 1], f"    {line}\n", *lines[node.end_lineno - 1 :]])
    raise SystemExit(f"there is no {table}")


def with_import(text: str, line: str) -> str:
    """One more import, in its alphabetical place."""
    lines = text.splitlines(keepends=True)
    for number, other in enumerate(lines):
        if other.startswith("from ansible_collections") and other.strip() > line:
            return "".join([*lines[:number], f"{line}\n", *lines[number:]])
    ends = [node.end_lineno or 0 for node in ast.parse(text).body if isinstance(node, (ast.Import, ast.ImportFrom))]
    return "".join([*lines[: max(ends)], f"{line}\n", *lines[max(ends) :]])


def registered(root: Path, port: Port, words: dict[str, str]) -> dict[Path, str]:
    """The files that get a line, with it."""
    names = root / UTILS / port.folder / "names.py"
    line = Template(f'"$name": {port.line},').substitute(words)
    changed = {names: with_line(names.read_text(encoding="utf-8"), "DRIVERS", line)}
    if port.registered:
        registry = names.with_name("registry.py")
        brought = Template(port.registered).substitute(words)
        text = with_line(registry.read_text(encoding="utf-8"), "DRIVERS", f'"{words["name"]}": {brought},')
        home = f"from {MODULE_UTILS}.{port.folder}.{words['name']}.driver import {brought}"
        changed[registry] = with_import(text, home)
    else:
        runtime = root / "meta" / "runtime.yml"
        group = re.compile(r"^  gate:\n", re.MULTILINE)
        changed[runtime] = group.sub(f"  gate:\n    - {words['name']}_gate\n", runtime.read_text(encoding="utf-8"))
    return changed


def begin(root: Path, port_name: str, name: str) -> list[Path]:
    """Writes everything; returns the new files and then the changed ones.

    :raises SystemExit: with one line, before anything is written.
    """
    port = PORTS[port_name]
    words = {
        "name": name,
        "Class": "".join(part.capitalize() for part in name.split("_")),
        "utils": str(UTILS / port.folder),
        "licence": LICENCE,
        # Not in the template: a file that begins with it is taken for a program.
        "shebang": "#!/usr/bin/python",
    }
    contents = {
        Template(made.file).substitute(words): written(
            Contract(root, Template(made.source).substitute(words)), made, words
        )
        for made in port.classes
    }
    for template, file in port.files.items():
        text = (TEMPLATES / template).read_text(encoding="utf-8")
        contents[Template(file).substitute(words)] = Template(text).safe_substitute(words)
    there = [path for path in contents if (root / path).exists()]
    if there:
        raise SystemExit(f"{there[0]} is there already: nothing was written")
    changed = registered(root, port, words)
    for path, text in contents.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    for place, text in changed.items():
        place.write_text(text, encoding="utf-8")
    new = [root / path for path in contents]
    tidy(root, new)
    return [*new, *changed]


def tidy(root: Path, files: Sequence[Path]) -> None:
    """As ruff wants it, where there is one yet."""
    ruff = next(iter(sorted((root / "build" / "venv").glob("*/bin/ruff"))), None)
    if ruff:
        for command in (("check", "--quiet", "--select", "I", "--fix"), ("format", "--quiet")):
            subprocess.run([str(ruff), *command, *map(str, files)], cwd=root, check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("port", choices=sorted(PORTS))
    parser.add_argument("name", help="what users will write, such as warewulf: lower case, digits, underscores")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    asked = parser.parse_args()
    if not NAME.fullmatch(asked.name) or keyword.iskeyword(asked.name):
        parser.error(f"{asked.name!r} cannot be the name: lower case, digits, underscores, and no word of Python's")
    taken = [asked.root / UTILS / PORTS[asked.port].folder / f"{asked.name}.py"]
    taken.append(asked.root / "tests" / "contract" / asked.port / asked.name)
    for path in taken:
        if path.exists():
            parser.error(f"{asked.name!r} cannot be the name: {path.relative_to(asked.root)} is there already")
    for path in begin(asked.root, asked.port, asked.name):
        print(path.relative_to(asked.root))
    print(f"\nNext: docs/how-to/write-a-{asked.port}-driver.md, and what is still missing:")
    print(f"  make try-driver PORT={asked.port} NAME={asked.name}")


if __name__ == "__main__":
    main()
