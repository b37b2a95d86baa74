# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A forked run of ansible-playbook is like one of the program: its end, output, environment and files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from suite import playbook

pytestmark = pytest.mark.slow
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.debug:
        msg: "{{ lookup('env', 'SAID') }} in {{ lookup('pipe', 'pwd') }}, {{ of_group }} {{ of_host }}"
    - ansible.builtin.command: {argv: [echo, "{{ ansible_connection }}"]}
    - ansible.builtin.assert: {that: "{{ lookup('env', 'SAID') == 'yes' }}"}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """What a run reads beside its play: the inventory, and the variables beside that."""
    for name, text in {
        "play.yml": PLAY,
        "hosts.ini": "[rack]\ngpu001\n",
        "group_vars/rack.yml": "of_group: a group's\nansible_connection: local\n"
        "ansible_python_interpreter: '{{ ansible_playbook_python }}'\n",
        "host_vars/gpu001.yml": "of_host: a host's\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def environment(folder: Path, said: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    return {**kept, "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"), "ANSIBLE_NOCOLOR": "1", "SAID": said}


@pytest.mark.parametrize(("said", "code"), [("yes", 0), ("no", 2)])
def test_it_ends_and_says_what_the_program_would(site: Path, said: str, code: int) -> None:
    env = environment(site, said)
    argv = ["-i", "hosts.ini", "--diff", "play.yml"]
    forked = playbook.run(argv, env=env, cwd=site)
    command = [str(playbook.PROGRAM), *argv]
    real = subprocess.run(command, env=env, cwd=site, capture_output=True, text=True, timeout=600, check=False)
    assert (forked.returncode, forked.stdout, forked.stderr) == (real.returncode, real.stdout, real.stderr)
    assert forked.returncode == code and f"{said} in {site}, a group's a host's" in forked.stdout
    assert list((site / "tmp").iterdir()) == [], "a run takes its folder away again"


def test_one_that_does_not_end_is_killed_and_the_next_one_runs(site: Path) -> None:
    env = environment(site, "yes")
    waits = "- hosts: localhost\n  gather_facts: false\n  tasks: [{ansible.builtin.pause: {seconds: 600}}]\n"
    (site / "waits.yml").write_text(waits, encoding="utf-8")
    with pytest.raises(TimeoutError):
        playbook.run(["waits.yml"], env=env, cwd=site, timeout=3)
    assert playbook.run(["-i", "hosts.ini", "play.yml"], env=env, cwd=site).returncode == 0


CALLBACK = """
from ansible.plugins.callback.default import CallbackModule as Default
from whose import NAME
DOCUMENTATION = "{name: told, extends_documentation_fragment: [default_callback]}"
class CallbackModule(Default):
    CALLBACK_NAME = "told"
    def v2_playbook_on_start(self, playbook):
        self._display.display(f"{__file__} told {NAME}")
"""


def test_programs_plugins_and_settings_are_those_of_the_run_and_cost_no_other_import(site: Path) -> None:
    task = "{ansible.builtin.debug: {msg: \"{{ lookup('pipe', 'who') }}, {{ ansible_forks }} forks\"}}"
    play = f"- hosts: localhost\n  gather_facts: false\n  tasks: [{task}]\n"
    (site / "who.yml").write_text(play, encoding="utf-8")
    playbook.close()  # whatever earlier tests have begun
    for forks, name in enumerate(("alice", "bob"), start=7):
        own = site / name
        for file, text in {
            "who": f"#!/bin/sh\necho {name} is here\n",
            "told.py": CALLBACK,
            "whose.py": f"NAME = '{name}'\n",
        }.items():
            own.mkdir(exist_ok=True)
            (own / file).write_text(text, encoding="utf-8")
            (own / file).chmod(0o755)
        settings = {"STDOUT_CALLBACK": "told", "CALLBACK_PLUGINS": str(own), "FORKS": str(forks)}
        warns = {"LOCALHOST_WARNING": str(name == "bob"), "INVENTORY_UNPARSED_WARNING": "False"}
        env = {
            **environment(site, "yes"),
            **{f"ANSIBLE_{key}": value for key, value in {**settings, **warns}.items()},
            "PATH": f"{own}:{os.environ['PATH']}",
            "PYTHONPATH": str(own),
        }
        done = playbook.run(["who.yml"], env=env, cwd=site)
        assert f"{name} is here, {forks} forks" in done.stdout, done
        assert f"{own}/told.py told {name}" in done.stdout, done
        assert ("implicit localhost" in done.stderr) == (name == "bob"), done
    done = playbook.run(["who.yml"], env={**environment(site, "yes"), "PATH": f"{own}:{os.environ['PATH']}"}, cwd=site)
    assert "bob is here, 5 forks" in done.stdout and "told" not in done.stdout, done
    assert len(playbook._starters) == 1
