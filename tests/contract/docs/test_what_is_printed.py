# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a page prints is there, also where nobody types it here: playbooks, roles and what they take, verbs and their
options, and targets of make. Thus no block that needs a site's own machines goes wrong unseen."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._known_names import ARTIFACTS, PLAYBOOKS, ROLES
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight_settings import OWN
from contract.docs.blocks import ROOT, Block, blocks, pages

OURS = "gpufleet.baremetal."
MODULES = {path.stem for path in (ROOT / "plugins" / "modules").glob("[a-z]*.py")}
OF_ROLES = {name for options in ROLES.values() for name in options}.union(*PLAYBOOKS.values())
#: What a variable begins with that a role takes
OF_A_ROLE = tuple(f"{role}_" for role in ROLES)
MAKE = "\n".join(path.read_text(encoding="utf-8") for path in [ROOT / "Makefile", *(ROOT / "make").glob("*.mk")])
#: The variables of ours that somebody reads, those of the rulebooks among them; and the group that is called so
OF_OURS = {*OWN, *ARTIFACTS, "gpufleet_services"} | {
    name
    for path in (ROOT / "extensions" / "eda").rglob("*.*")
    if path.suffix in (".yml", ".py")
    for name in re.findall(r"\bgpufleet_\w+", path.read_text(encoding="utf-8"))
}
#: The driver that make new-driver begins
NEW = "acme_"
#: What goes on with the next command, or into another one.
_ENDS = re.compile(r"[;|&]+")


def unknown(block: Block) -> Iterator[str]:
    """What the block prints that nobody knows."""
    if block.language in ("", "sh", "console"):
        for line in block.commands.replace("\\\n", " ").splitlines():
            yield from _of_command(_words(line))
    if block.language == "yaml":
        content = yaml.safe_load(block.text)
        yield from _of_tasks(content)
        yield from _of_variables(content)


def _words(line: str) -> list[str]:
    """None of a line that is no command, as of an output."""
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return []


def _of_command(words: list[str]) -> Iterator[str]:
    programs = [at for at, word in enumerate(words) if word in ("ansible-playbook", "ansible", "make")]
    if not programs:
        return
    program, rest = words[programs[0]], words[programs[0] + 1 :]
    told = list(zip(rest, rest[1:], strict=False))
    if program == "ansible-playbook" and rest[0].startswith(OURS) and "$" not in rest[0]:
        given = [name for option, value in told if option == "-e" for name in _given(value)]
        yield from _of_playbook(rest[0].removeprefix(OURS), given)
    elif program == "ansible" and "-m" in rest:
        given = [name for option, value in told if option == "-a" for name in _given(value)]
        yield from _of_module(rest[rest.index("-m") + 1].removeprefix(OURS), given)
    elif program == "make" and programs[0] in (0, 1):
        targets = [word for word in rest if "=" not in word and not _ENDS.fullmatch(word)]
        yield from (f"make {name}" for name in targets if not re.search(rf"^{re.escape(name)}[^:=\n]*:", MAKE, re.M))


def _given(value: str) -> list[str]:
    if value.startswith("@"):
        return []
    return list(json.loads(value)) if value.startswith("{") else [word.partition("=")[0] for word in shlex.split(value)]


def _of_playbook(name: str, given: list[str]) -> Iterator[str]:
    if not (ROOT / "playbooks" / f"{name}.yml").is_file():
        yield f"playbook {name}"
    known = OF_ROLES.union(PLAYBOOKS.get(name, ()), OF_OURS)
    yield from (f"-e {one} of {name}" for one in given if one not in known)


def _of_module(name: str, given: list[str]) -> Iterator[str]:
    if name not in MODULES:
        yield from [] if name.startswith(NEW) else [f"module {name}"]
        return
    spec = importlib.import_module(f"ansible_collections.{OURS}plugins.action.{name}").ActionModule.SPEC
    yield from (f"{one} of {name}" for one in given if one not in spec)


def _of_tasks(content: Any) -> Iterator[str]:
    """Each verb in it, whether a task or a gate of gate_more."""
    if isinstance(content, dict):
        for key, value in content.items():
            if str(key).startswith(OURS) and (value is None or isinstance(value, dict)):
                yield from _of_module(key.removeprefix(OURS), list(value or ()))
    for inner in content.values() if isinstance(content, dict) else content if isinstance(content, list) else ():
        yield from _of_tasks(inner)


def _of_variables(content: Any) -> Iterator[str]:
    """Wherever they stand in it: of a play, of a group in an inventory, of a task. An inventory plugin has options."""
    if isinstance(content, dict):
        if "plugin" in content:
            return
        names = [key for key in content if isinstance(key, str) and key.startswith((*OF_A_ROLE, "gpufleet_"))]
        yield from (f"variable {name}" for name in names if name not in OF_ROLES | OF_OURS)
    for inner in content.values() if isinstance(content, dict) else content if isinstance(content, list) else ():
        yield from _of_variables(inner)


@pytest.mark.parametrize("page", pages())
def test_whatever_a_page_prints_is_there(page: str) -> None:
    assert [f"{block}: {what}" for block in blocks(page) for what in unknown(block)] == []


@pytest.mark.parametrize(
    ("language", "text", "told"),
    [
        ("", "ansible-playbook gpufleet.baremetal.stats -i fleet.yml\n", ["playbook stats"]),
        (
            "",
            "A=1 ansible-playbook gpufleet.baremetal.waves \\\n  -e wave=x -e '{\"waves_why\": 1}'\n",
            ["-e wave of waves"],
        ),
        ("", "ansible all -m gpufleet.baremetal.bmc_log -a 'mist=20 most=3'\n", ["mist of bmc_log"]),
        ("console", "$ make no-such-thing A=b\nmade\n", ["make no-such-thing"]),
        ("yaml", "- hosts: a\n  tasks:\n    - gpufleet.baremetal.bmc_log: {past: 1}\n", ["past of bmc_log"]),
        ("yaml", "gate_more:\n  gpufleet.baremetal.no_gate:\n", ["module no_gate"]),
        ("yaml", "awx_organisation: Accelerators\n", ["variable awx_organisation"]),
        ("yaml", "all:\n  vars:\n    gpufleet_imgae: {}\n", ["variable gpufleet_imgae"]),
        ("", "ansible-playbook gpufleet.baremetal.status -e gpufleet_imgae=x\n", ["-e gpufleet_imgae of status"]),
    ],
)
def test_what_is_not_there_is_told(language: str, text: str, told: list[str]) -> None:
    assert list(unknown(Block("a.md", 0, language, text, "", ""))) == told
