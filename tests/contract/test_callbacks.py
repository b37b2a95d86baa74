# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Both callbacks in a run of ansible-playbook, as a user has them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COLLECTIONS = Path(__file__).resolve().parents[2] / "build" / "collections"
PLAY = """
- name: Three hosts
  hosts: all
  gather_facts: false
  strategy: linear
  vars: {ansible_connection: local, ansible_python_interpreter: "{{ ansible_playbook_python }}"}
  roles: [checked]
  tasks:
    - name: Skipped by all
      ansible.builtin.debug: {msg: never}
      when: false
    - name: One item fails on gpu002
      ansible.builtin.assert: {that: inventory_hostname != "gpu002" or item != 2, fail_msg: "item {{ item }} is bad"}
      loop: [1, 2]
"""
ROLE_TASKS = "- name: Say hello\n  ansible.builtin.debug: {msg: hello}\n"
ROLE_SPEC = "argument_specs: {main: {short_description: x, options: {checked_x: {type: int, default: 1}}}}\n"


#: Sets the title of a terminal's window, and clears it.
TITLE, CLEAR = "\x1b]0;owned\x07", "\x1b[2J"
#: What root of a node may have modules of ours answer, in each place that ansible-core shows by itself.
ANSWERS = {
    "fails": {
        "failed": True,
        "msg": f"message{TITLE}",
        "warnings": [f"warning{TITLE}{CLEAR}"],
        "deprecations": [{"msg": f"deprecated{CLEAR}", "version": f"9.9{CLEAR}", "collection_name": "a.b"}],
        "exception": f"Traceback{CLEAR}",
    },
    "differs": {
        "changed": True,
        "diff": {"before": f"before{CLEAR}", "after": f"after{TITLE}", "before_header": f"header{CLEAR}"},
    },
}
HOSTILE = """
- hosts: all
  gather_facts: false
  vars: {ansible_connection: local}
  tasks:
    - name: Alone
      fails:
      ignore_errors: true
    - name: Of items
      fails:
      loop: ["item\\e[2J"]
      ignore_errors: true
    - name: Another
      differs:
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The finished run: its output, and the report of host-tasks."""
    folder = tmp_path_factory.mktemp("callbacks")
    for name, content in (("tasks", ROLE_TASKS), ("meta", ROLE_SPEC)):
        target = folder / "roles" / "checked" / name
        target.mkdir(parents=True)
        (target / ("main.yml" if name == "tasks" else "argument_specs.yml")).write_text(content, encoding="utf-8")
    (folder / "play.yml").write_text(PLAY, encoding="utf-8")
    settings = {
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_STDOUT_CALLBACK": "gpufleet.baremetal.fleet_progress",
        "ANSIBLE_CALLBACKS_ENABLED": "gpufleet.baremetal.host_tasks",
        "ANSIBLE_NOCOLOR": "1",
        "GPUFLEET_HOST_TASKS_PATH": str(folder / "host_tasks.json"),
        "LC_ALL": "C.UTF-8",
    }
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "gpu001,gpu002,gpu003,", "play.yml"]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **settings}, capture_output=True, text=True, timeout=600, check=False
    )
    return done, json.loads((folder / "host_tasks.json").read_text(encoding="utf-8"))


def test_a_failed_host_fails_the_run(run):
    done, _report = run
    assert done.returncode == 2, done.stdout + done.stderr


@pytest.mark.parametrize("verbosity", [[], ["-v"]], ids=["quiet", "-v"])
def test_s3_the_terminal_acts_on_nothing_that_a_module_answers(tmp_path, verbosity):
    """Warnings and errors are shown by ansible-core's own display, which spells nothing out."""
    (tmp_path / "library").mkdir()
    for name, answer in ANSWERS.items():
        module = tmp_path / "library" / name
        module.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(answer)}\nEND\n", encoding="utf-8")
        module.chmod(0o755)
    (tmp_path / "play.yml").write_text(HOSTILE, encoding="utf-8")
    (tmp_path / "hosts.yml").write_text('all: {hosts: {"gpu001\\e": {}}}\n', encoding="utf-8")
    settings = {
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_HOME": str(tmp_path / "home"),
        "ANSIBLE_STDOUT_CALLBACK": "gpufleet.baremetal.fleet_progress",
        "ANSIBLE_CALLBACKS_ENABLED": "gpufleet.baremetal.host_tasks",
        "ANSIBLE_DEPRECATION_WARNINGS": "1",
        "ANSIBLE_DISPLAY_TRACEBACK": "always",
        "ANSIBLE_NOCOLOR": "1",
        "LC_ALL": "C.UTF-8",
    }
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.yml", "--diff", "play.yml"]
    command += verbosity
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **settings}, capture_output=True, text=True, timeout=600, check=False
    )
    shown = done.stdout + done.stderr
    assert done.returncode == 0, shown
    wanted = ["warning", "deprecated", "before", "after", "header", "gpu001"]
    wanted += ["message", "Traceback", "host-tasks of gpu001"] if verbosity else []
    assert [one for one in wanted if rf"{one}\x1b" not in shown] == []
    assert not [char for char in shown if not char.isprintable() and char != "\n"], shown


def test_four_host_tasks_each(run):
    """An argument spec, the role's task, a skipped one, and one loop."""
    _done, report = run
    for name in ("gpu001", "gpu002", "gpu003"):
        found = report["hosts"][name]
        assert (found["tasks"], found["skipped"], found["argument_specs"]) == (4, 1, 1), name
    assert report["total"] == 12


def test_the_output_names_the_stage_the_failure_and_each_host(run):
    done, _report = run
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["checked", "3", "ok"] in [line[:3] for line in lines]
    assert "gpu002  failed: One item fails on gpu002: item 2 is bad" in done.stdout
    assert ["gpu002", "failed", "2", "0", "1", "play"] in lines
    assert ["gpu003", "ok", "3", "0", "0", "checked"] in lines


def test_nothing_else_is_printed(run):
    done, _report = run
    assert "Traceback" not in done.stdout + done.stderr
    assert "DEPRECATION" not in done.stdout + done.stderr


#: What ansible-runner before 2.4.3 puts in the place of standard output's callback, as far as its options go.
WRAPPER = """
import os
from ansible.plugins.loader import callback_loader
Original = type(callback_loader.get(os.environ["ORIGINAL_STDOUT_CALLBACK"]))

DOCUMENTATION = '''
name: wrapper
type: stdout
short_description: x
description: x
'''


class CallbackModule(Original):
    CALLBACK_NAME = "wrapper"
"""


def test_w5_an_automation_controller_of_an_older_release_shows_it_as_well(tmp_path):
    (tmp_path / "callback").mkdir()
    (tmp_path / "callback" / "wrapper.py").write_text(WRAPPER, encoding="utf-8")
    task = "{name: Say it, ansible.builtin.fail: {msg: " + "x" * 200 + "}}"
    (tmp_path / "play.yml").write_text(f"- {{name: One, hosts: all, gather_facts: false, tasks: [{task}]}}\n")
    settings = {
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_HOME": str(tmp_path / "home"),
        "ANSIBLE_STDOUT_CALLBACK": "wrapper",
        "ANSIBLE_CALLBACK_PLUGINS": str(tmp_path / "callback"),
        "ORIGINAL_STDOUT_CALLBACK": "gpufleet.baremetal.fleet_progress",
        "GPUFLEET_PROGRESS_WIDTH": "60",
        "LC_ALL": "C.UTF-8",
    }
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "gpu001,", "play.yml"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **settings}, capture_output=True, text=True, timeout=600, check=False
    )
    told = done.stdout + done.stderr
    assert done.returncode == 2 and "gpu001  failed" in told, told
    assert "Traceback" not in told and "Failure using method" not in told and "width" not in told, told
    assert any(len(line) == 60 and line.endswith("...") for line in done.stdout.splitlines()), told
