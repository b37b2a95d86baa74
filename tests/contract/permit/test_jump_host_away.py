# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A jump host that is away is a service's failure of each host whose task goes there, and comes to its rescue."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

import yaml
from suite import playbook

HOSTS = ("gpu001", "gpu002")
NO_WAY = "ssh: connect to host 10.0.0.9 port 22: No route to host"


KEPT = "'rescued': rescued | default({}), 'waited': waited | default({})"
TOLD = "ansible_failed_result | combine({'quarantines': ansible_failed_result is gpufleet.baremetal.quarantines})"


def played(folder: Path, *tasks: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What each host has in the end: what the batch was told, and what its own rescue was."""
    ssh = folder / "ssh"
    ssh.write_text(f"#!/bin/sh\necho '{NO_WAY}' >&2\nexit 255\n", encoding="utf-8")
    ssh.chmod(0o755)
    jump = {"ansible_connection": "ssh", "ansible_host": "10.0.0.9", "ansible_ssh_executable": str(ssh)}
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    rows = {host: {**here, "gpufleet_serial": f"S-{host}", "gpufleet_scheduler": "slurm"} for host in HOSTS}
    ledger = {"gpufleet_ledger_url": f"sqlite:///{folder}/l.sqlite"}
    dest = f"{folder}/{{{{ inventory_hostname }}}}.json"
    keep = {"ansible.builtin.copy": {"content": "{{ {" + KEPT + "} | to_json }}", "dest": dest, "mode": "0600"}}
    rescue = [{"ansible.builtin.set_fact": {"rescued": "{{ " + TOLD + " }}"}}]
    block = {"block": list(tasks), "rescue": rescue, "always": [keep]}
    hosts = {"all": {"hosts": {**rows, "jump": jump}, "vars": ledger}}
    (folder / "hosts.yml").write_text(yaml.safe_dump(hosts))
    book = [{"hosts": ",".join(HOSTS), "gather_facts": False, "tasks": [block]}]
    (folder / "book.yml").write_text(yaml.safe_dump(book))
    done = playbook.run(["-i", "hosts.yml", "book.yml"], cwd=folder, env=dict(os.environ))
    assert done.returncode == 0, done.stdout + done.stderr
    return {host: json.loads((folder / f"{host}.json").read_text()) for host in HOSTS}


def task(verb: str, **options: Any) -> dict[str, Any]:
    return {f"gpufleet.baremetal.{verb}": options, "delegate_to": "jump"}


def test_u5_a_jump_host_that_is_away_is_each_hosts_own_failure_and_quarantines_none(tmp_path: Path) -> None:
    """They were unreachable themselves, and dropped from the play without a rescue; under run_once all of them.
    Nothing is announced that nobody can have written: it would make what the same run holds there for another host this
    one's. What the batch is told names no host of it."""
    wait = {**task("scheduler_wait", until="drained", timeout=0), "run_once": True, "register": "waited"}
    for host, told in played(tmp_path, wait, task("scheduler_node", state="held")).items():
        verdict, failed = told["waited"]["verdicts"][host], told["rescued"]
        assert (verdict["ok"], verdict["kind"]) == (False, "unreachable"), verdict
        assert failed["error"]["kind"] == "unreachable" and not failed["quarantines"], failed
        assert failed["error"]["address"] == "jump" and "delegate" in failed["error"]["do"], failed
        for words in (verdict["reason"], failed["msg"]):
            assert "jump" in words and "No route to host" in words, told
        assert not any(host in verdict["reason"] for host in HOSTS), verdict
    with sqlite3.connect(tmp_path / "l.sqlite") as ledger:
        rows = ledger.execute("SELECT kind, count(*) FROM events WHERE name = 'scheduler_node' GROUP BY kind")
        assert dict(rows) == {}
