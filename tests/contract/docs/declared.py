# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The built artifact, and a Python environment with ansible-core, pip and what the metadata declares, and nothing else.

The environment is made of links into the environment of the tests, whose lock files have it all: nothing is fetched.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from contract.docs.blocks import ROOT

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_SCRIPT = "#!{python}\nimport sys\nfrom {module} import {name}\nsys.exit({name}())\n"


def environment(folder: Path, requirements: Path) -> Path:
    """Its folder of programs."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    [packages] = (folder / "lib").glob("python*/site-packages")
    asked = [line for line in requirements.read_text(encoding="utf-8").splitlines() if _NAME.match(line)]
    for one in _closure(["ansible-core", "pip", *asked]):
        _link(one, packages)
        for script in one.entry_points.select(group="console_scripts"):
            name = script.attr.partition(".")[0]
            text = _SCRIPT.format(python=folder / "bin" / "python", module=script.module, name=name)
            (folder / "bin" / script.name).write_text(text, encoding="utf-8")
            (folder / "bin" / script.name).chmod(0o755)
    return folder / "bin"


def artifact(folder: Path) -> Path:
    """As a release has it."""
    subprocess.run([sys.executable, str(ROOT / "make" / "tree.py"), str(folder)], check=True, capture_output=True)
    tree = folder / "ansible_collections" / "gpufleet" / "baremetal"
    galaxy = str(Path(sys.executable).with_name("ansible-galaxy"))
    argv = [galaxy, "collection", "build", "--output-path", str(folder), str(tree)]
    subprocess.run(argv, check=True, capture_output=True, env={**os.environ, "ANSIBLE_HOME": str(folder / "home")})
    [built] = folder.glob("*.tar.gz")
    return built


def _closure(asked: list[str]) -> Iterator[metadata.Distribution]:
    """What pip would install for these."""
    seen: set[tuple[str, str]] = set()
    todo = [_parts(line) for line in asked]
    while todo:
        name, extras = todo.pop()
        for extra in ("", *extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                one = metadata.distribution(name)
                todo += [_parts(line) for line in one.requires or () if _holds(line, extra)]
                yield one


def _parts(line: str) -> tuple[str, list[str]]:
    from packaging.requirements import Requirement

    asked = Requirement(line)
    return asked.name.lower(), sorted(asked.extras)


def _holds(line: str, extra: str) -> bool:
    from packaging.requirements import Requirement

    marker = Requirement(line).marker
    return marker is None or marker.evaluate({"extra": extra})


def _link(one: metadata.Distribution, packages: Path) -> None:
    for top in {file.parts[0] for file in one.files or () if file.parts[0] not in ("..", "__pycache__")}:
        if not (packages / top).exists():
            (packages / top).symlink_to(Path(str(one.locate_file(top))))
