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
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {msg: "{{ lookup('env', 'SAID') }} in {{ lookup('pipe', 'pwd') }}"}
    - ansible.builtin.assert: {that: "{{ lookup('env', 'SAID') == 'yes' }}"}
"""


def environment(folder: Path, said: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    return {**kept, "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"), "ANSIBLE_NOCOLOR": "1", "SAID": said}


@pytest.mark.parametrize(("said", "code"), [("yes", 0), ("no", 2)])
def test_it_ends_and_says_what_the_program_would(tmp_path: Path, said: str, code: int) -> None:
    (tmp_path / "play.yml").write_text(PLAY, encoding="utf-8")
    env = environment(tmp_path, said)
    forked = playbook.run(["play.yml"], env=env, cwd=tmp_path)
    command = [str(playbook.PROGRAM), "play.yml"]
    real = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (forked.returncode, forked.stdout, forked.stderr) == (real.returncode, real.stdout, real.stderr)
    assert forked.returncode == code and f"{said} in {tmp_path}" in forked.stdout
    assert list((tmp_path / "tmp").iterdir()) == [], "a run takes its folder away again"


def test_one_that_does_not_end_is_killed_and_the_next_one_runs(tmp_path: Path) -> None:
    env = environment(tmp_path, "yes")
    waits = "- hosts: localhost\n  gather_facts: false\n  tasks: [{ansible.builtin.pause: {seconds: 600}}]\n"
    (tmp_path / "waits.yml").write_text(waits, encoding="utf-8")
    (tmp_path / "play.yml").write_text(PLAY, encoding="utf-8")
    with pytest.raises(TimeoutError):
        playbook.run(["waits.yml"], env=env, cwd=tmp_path, timeout=3)
    assert playbook.run(["play.yml"], env=env, cwd=tmp_path).returncode == 0
