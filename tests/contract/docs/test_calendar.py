# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The calendar: what AWX has of it, and what cron starts with nothing in its environment."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.tests.tree.awx import data_of
from contract.docs.blocks import ROOT, blocks

PAGE = "docs/how-to/calendar.md"
DATA = data_of(ROOT)
_NAMED = re.compile(r"`(\w+)`")


def rows() -> list[dict[str, str]]:
    lines = (ROOT / PAGE).read_text(encoding="utf-8").partition("\n\n## ")[0].splitlines()
    head, _rule, *body = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|"))
    return [dict(zip(head, cells, strict=True)) for cells in body]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["what"][:30])
def test_what_awx_has_of_a_row_is_what_the_role_makes_there(row: dict[str, str]) -> None:
    told = row["in AWX"]
    part = "awx_templates"
    for word, other in (("schedule", "awx_own_schedules"), ("workflow", "awx_workflows")):
        part = other if told.startswith(word) else part
    named = _NAMED.findall(told)
    assert set(named) <= set(DATA[part]) and bool(named) is not told.startswith("shell"), told
    command = set(_NAMED.findall(row["command"].replace(" ", "` ")))
    if command & set(DATA["awx_no_templates"]) or "the module" in row["command"]:
        assert told == "shell"


def test_cron_starts_each_of_its_lines_from_an_empty_environment(tmp_path: Path) -> None:
    script, table = (block.text for block in blocks(PAGE) if "fleet" in block.text)
    folders = {name: tmp_path / name for name in ("ansible", "gpufleet", "fleet", "local")}
    for folder in folders.values():
        (folder / "bin").mkdir(parents=True)
    found = folders["ansible"] / "bin/ansible-playbook"
    found.write_text('#!/bin/sh\necho "$PWD $BMC_PASSWORD $*"\n', encoding="utf-8")
    (folders["gpufleet"] / "secrets.env").write_text("BMC_PASSWORD='a $x '\\''b'\n", encoding="utf-8")
    for was, name in (("/opt/ansible", "ansible"), ("/etc/gpufleet", "gpufleet"), ("/srv/fleet", "fleet")):
        assert was in script
        script = script.replace(was, str(folders[name]))
    (folders["local"] / "bin/fleet").write_text(script, encoding="utf-8")
    for one in (found, folders["local"] / "bin/fleet"):
        one.chmod(0o755)
    path, *lines = table.replace("/usr/local", str(folders["local"])).splitlines()
    environment = {"PATH": path.removeprefix("PATH=")}
    assert lines and "%" not in table
    for line in lines:
        user, command = line.split(None, 6)[5:]
        argv = ["/bin/sh", "-c", command]
        done = subprocess.run(argv, env=environment, cwd="/", capture_output=True, text=True, check=True, timeout=30)
        playbook, _space, more = command.removeprefix("fleet ").partition(" ")
        words = " ".join(["-i fleet.yml", *([more] if more else [])])
        assert done.stdout == f"{folders['fleet']} a $x 'b gpufleet.baremetal.{playbook} {words}\n"
        assert user == "ansible" and (ROOT / "playbooks" / f"{playbook}.yml").is_file()
