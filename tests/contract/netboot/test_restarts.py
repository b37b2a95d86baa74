# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The servers run with what the role wrote last, also where a run of it was killed before it restarted them."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest
import yaml
from suite import playbook

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
#: It refuses to restart anything as long as there is a file `broken` beside it.
SYSTEMCTL = """#!/bin/sh
here=$(dirname "$0")
case "$*" in
  *show*) printf 'LoadState=loaded\nActiveState=active\nSubState=running\n';;
  *restart*) [ ! -e "$here/broken" ] || exit 1; echo "$*" >> "$here/restarts";;
esac
"""


def test_a_restart_that_a_run_did_not_come_to_is_made_by_the_next(tmp_path: Path) -> None:
    tasks = yaml.safe_load((ROOT / "roles/netboot/tasks/main.yml").read_text(encoding="utf-8"))
    [block] = [one["block"] for one in tasks if one["name"] == "Run both servers"]
    names = [one["name"] for one in block]
    assert not any("notify" in one for one in [*tasks, *block]), "a handler may never come"
    (tmp_path / "tail.yml").write_text(yaml.safe_dump(block[names.index("Look at what is to run") :]), encoding="utf-8")
    command = tmp_path / "systemctl"
    command.write_text(SYSTEMCTL, encoding="utf-8")
    command.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "serve.py").write_text("new", encoding="ascii")
    tail = {"ansible.builtin.include_tasks": str(tmp_path / "tail.yml")}
    steps = [
        {"ansible.builtin.file": {"path": str(tmp_path / "broken"), "state": "touch"}},
        {"block": [tail], "rescue": [{"ansible.builtin.file": {"path": str(tmp_path / "broken"), "state": "absent"}}]},
        tail,
        tail,
    ]
    settings = {"netboot_dir": str(tmp_path), "ansible_python_interpreter": sys.executable}
    play = {"name": "test", "hosts": "localhost", "gather_facts": False, "vars": settings, "tasks": steps}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "ANSIBLE_LOCALHOST_WARNING": "False"}
    done = playbook.run(["-i", "localhost,", "-c", "local", str(tmp_path / "play.yml")], env=env)
    assert done.returncode == 0 and "rescued=1" in done.stdout, (done.stdout + done.stderr)[-3000:]
    restarts = (tmp_path / "restarts").read_text(encoding="utf-8").split()
    units = ("netboot-dhcp.service", "netboot-http.service", "netboot-hosts.path")
    assert restarts == [word for unit in units for word in ("restart", f"gpufleet-{unit}")], (
        "once for what had not come to be, and never for nothing"
    )
    assert hashlib.sha256(b"new").hexdigest() in (tmp_path / ".running").read_text(encoding="ascii")
