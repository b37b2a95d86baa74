# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Begins a driver: its package, its lines in the registry and in the list of names, and its adapter for the tests.

What a driver owes is read from the port's contract as it is now, so that there is no template of it which could grow
old: each thing stands there with the contract's own words, and raises NotImplementedError. A gate's contract is a
function and no class, so its files are templates in make/driver/; a test begins a gate from them and holds what comes
out against the rules for code. tests/contract/test_newcomers.py then tells them one by one.

Nothing of what was begun is needed to take it back: what would be written is made once more, and only what is the same
is removed.
"""

from __future__ import annotations

import argparse
import ast
import keyword
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from new_driver_text import LICENCE, Contract, Made, name_of, written

UTILS = Path("plugins/module_utils")
MODULE_UTILS = "ansible_collections.gpufleet.baremetal.plugins.module_utils"
TEMPLATES = Path(__file__).with_name("driver")
NAME = re.compile(r"[a-z][a-z0-9_]*")


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


def in_drivers(text: str, line: str) -> str:
    """One more line at the end of DRIVERS."""
    for node in ast.parse(text).body:
        if name_of(node) == "DRIVERS" and node.end_lineno:
            lines = text.splitlines(keepends=True)
            return "".join([*lines[: node.end_lineno - 1], f"{line}\n", *lines[node.end_lineno - 1 :]])
    raise SystemExit("there is no DRIVERS")


def with_import(text: str, line: str) -> str:
    """One more import, in its alphabetical place."""
    lines = text.splitlines(keepends=True)
    for number, other in enumerate(lines):
        if other.startswith("from ansible_collections") and other.strip() > line:
            return "".join([*lines[:number], f"{line}\n", *lines[number:]])
    ends = [node.end_lineno or 0 for node in ast.parse(text).body if isinstance(node, (ast.Import, ast.ImportFrom))]
    return "".join([*lines[: max(ends)], f"{line}\n", *lines[max(ends) :]])


def in_group(text: str, line: str) -> str:
    """One more module of the action group of gates."""
    return re.sub(r"^  gate:\n", f"  gate:\n{line}\n", text, flags=re.MULTILINE)


def lines_of(root: Path, port: Port, words: dict[str, str]) -> list[tuple[Path, Callable[[str, str], str], str]]:
    """The files that get a line, how each gets it, and the line as it stands there."""
    folder, name = root / UTILS / port.folder, words["name"]
    found = [(folder / "names.py", in_drivers, Template(f'    "$name": {port.line},').substitute(words))]
    if not port.registered:
        return [*found, (root / "meta" / "runtime.yml", in_group, f"    - {name}_gate")]
    brought, registry = Template(port.registered).substitute(words), folder / "registry.py"
    home = f"from {MODULE_UTILS}.{port.folder}.{name}.driver import {brought}"
    return [*found, (registry, in_drivers, f'    "{name}": {brought},'), (registry, with_import, home)]


def registered(root: Path, port: Port, words: dict[str, str]) -> dict[Path, str]:
    """The files that get a line, with it."""
    changed: dict[Path, str] = {}
    for path, put, line in lines_of(root, port, words):
        changed[path] = put(changed.get(path) or path.read_text(encoding="utf-8"), line)
    return changed


def unregistered(root: Path, port: Port, words: dict[str, str]) -> tuple[dict[Path, str], list[str]]:
    """The same files without it; and where it does not stand as it was written."""
    changed: dict[Path, str] = {}
    others = []
    for path, _put, line in lines_of(root, port, words):
        lines = (changed.get(path) or path.read_text(encoding="utf-8")).splitlines(keepends=True)
        if lines.count(f"{line}\n") != 1:
            others.append(f"{path.relative_to(root)}: not one line {line.strip()}")
        changed[path] = "".join(one for one in lines if one != f"{line}\n")
    return changed, others


def words_of(port: Port, name: str) -> dict[str, str]:
    return {
        "name": name,
        "Class": "".join(part.capitalize() for part in name.split("_")),
        "utils": str(UTILS / port.folder),
        "licence": LICENCE,
        # Not in the template: a file that begins with it is taken for a program.
        "shebang": "#!/usr/bin/python",
    }


def contents_of(root: Path, port: Port, words: dict[str, str]) -> dict[Path, str]:
    """Every new file and what stands in it, as ruff wants it where there is one yet."""
    contents = {
        Template(made.file).substitute(words): written(
            Contract(root, Template(made.source).substitute(words)), made, words
        )
        for made in port.classes
    }
    for template, file in port.files.items():
        text = (TEMPLATES / template).read_text(encoding="utf-8")
        contents[Template(file).substitute(words)] = Template(text).safe_substitute(words)
    return {root / path: tidied(root, path, text) for path, text in contents.items()}


def tidied(root: Path, path: str, text: str) -> str:
    ruff = next(iter(sorted((root / "build" / "venv").glob("*/bin/ruff"))), None)
    for command in (("check", "--quiet", "--select", "I", "--fix"), ("format", "--quiet")) if ruff else ():
        argv = [str(ruff), *command, "--stdin-filename", path, "-"]
        text = subprocess.run(argv, cwd=root, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout
    return text


def begin(root: Path, port: Port, name: str) -> list[Path]:
    """Writes everything; returns the new files and then the changed ones.

    :raises SystemExit: with one line, before anything is written.
    """
    words = words_of(port, name)
    contents = contents_of(root, port, words)
    there = [path for path in contents if path.exists()]
    if there:
        raise SystemExit(f"{there[0].relative_to(root)} is there already: nothing was written")
    changed = registered(root, port, words)
    for path, text in {**contents, **changed}.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return [*contents, *changed]


def remove(root: Path, port: Port, name: str) -> list[Path]:
    """Takes back what ``begin`` wrote; returns the files that are gone and then the changed ones.

    :raises SystemExit: with a line for each thing that somebody has changed since, before anything is removed.
    """
    words = words_of(port, name)
    contents = contents_of(root, port, words)
    changed, others = unregistered(root, port, words)
    for path, text in contents.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            others.append(f"{path.relative_to(root)}: {'changed since' if path.is_file() else 'not there'}")
    package = root / UTILS / port.folder / name
    strangers = [path for path in package.rglob("*") if path.is_file() and path.parent.name != "__pycache__"]
    others += [f"{path.relative_to(root)}: not from here" for path in strangers if path not in contents]
    if others:
        hint = "by hand: git status tells what is new, git restore takes a line out of a list"
        raise SystemExit("\n".join([*others, f"Not as it was begun, so nothing was removed; {hint}"]))
    for path in contents:
        path.unlink()
    shutil.rmtree(package)
    for path, text in changed.items():
        path.write_text(text, encoding="utf-8")
    return [*contents, *changed]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("port", choices=sorted(PORTS))
    parser.add_argument("name", help="what users will write, such as warewulf: lower case, digits, underscores")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--remove", action="store_true", help="take back what was begun and not changed since")
    asked = parser.parse_args()
    port = PORTS[asked.port]
    if not NAME.fullmatch(asked.name) or keyword.iskeyword(asked.name):
        parser.error(f"{asked.name!r} cannot be the name: lower case, digits, underscores, and no word of Python's")
    if asked.remove:
        for path in remove(asked.root, port, asked.name):
            print(path.relative_to(asked.root))
        return
    taken = [asked.root / UTILS / port.folder / f"{asked.name}.py"]
    taken.append(asked.root / "tests" / "contract" / asked.port / asked.name)
    for path in taken:
        if path.exists():
            parser.error(f"{asked.name!r} cannot be the name: {path.relative_to(asked.root)} is there already")
    for path in begin(asked.root, port, asked.name):
        print(path.relative_to(asked.root))
    print(f"\nNext: docs/how-to/write-a-{asked.port}-driver.md, and what is still missing:")
    print(f"  make try-driver PORT={asked.port} NAME={asked.name}")


if __name__ == "__main__":
    main()
