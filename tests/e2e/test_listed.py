# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever day 0 and day 2 do in these tests they do with what the execution environment's lists name."""

from __future__ import annotations

import json
from pathlib import Path

import lab
import listed
from suite import playbook

LOOKS = """
import importlib.util, json, shutil, sys
libraries = "ansible", "sushy", "openstack", "sqlalchemy", "psycopg", "pytest", "ironic", "yamllint", "trustme"
programs = "scontrol", "gpgv", "ssh", "make", "git", "slurmctld", "ipmitool"
print(json.dumps({
    "libraries": [name for name in libraries if importlib.util.find_spec(name)],
    "programs": [name for name in programs if shutil.which(name)],
}))
"""
THERE = {
    "libraries": ["ansible", "sushy", "openstack", "sqlalchemy", "psycopg"],
    "programs": ["scontrol", "gpgv", "ssh"],
}


def test_a_run_of_these_tests_has_what_the_lists_name_and_nothing_of_the_tests(tmp_path: Path) -> None:
    """As each playbook of a test is run here, by the interpreter that runs its actions."""
    looks, found = tmp_path / "looks.py", tmp_path / "found.json"
    looks.write_text(LOOKS, encoding="utf-8")
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.shell": f"{{{{ ansible_playbook_python }}}} {looks} >{found}"}],
    }
    (tmp_path / "looks.yml").write_text(json.dumps([play]), encoding="utf-8")
    run = lab.play(str(tmp_path / "looks.yml"))
    assert run.rc == 0, run.tail()
    assert json.loads(found.read_text(encoding="utf-8")) == THERE


def test_one_that_is_to_be_killed_is_the_program_of_the_same_environment() -> None:
    argv, settings, _label = lab._asked("day0_bringup", (), "inventory", "begin:x", None, "")
    first = Path(argv[0]).read_text(encoding="utf-8").partition("\n")[0]
    assert first == f"#!{listed.program('python')}" and settings["PATH"] == listed.path()
    assert Path(argv[0]) != playbook.PROGRAM
