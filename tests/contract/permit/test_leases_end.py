# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run ends its leases when it ends, through ansible-playbook itself."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import LeaseHeld
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parents[3]
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
HOSTS = ("gpu001", "gpu002")


def play(folder: Path, *more: dict[str, object]) -> tuple[int, str]:
    """Takes both nodes, and ends as the last task ends."""
    url = f"sqlite:///{folder}/ledger.sqlite"
    hosts = {host: {"gpufleet_serial": f"S-{host}", "ansible_connection": "local"} for host in HOSTS}
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": {"gpufleet_ledger_url": url}}}))
    tasks = [{"gpufleet.baremetal.ledger_event": {"state": "enrolled"}}, *more]
    (folder / "play.yml").write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    env = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "collections")}
    argv = [str(PLAYBOOK), "-i", "hosts.yml", "play.yml"]
    env["ANSIBLE_LOCAL_TEMP"] = str(folder / "home")
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("last", [{}, {"ansible.builtin.fail": {}}])
def test_w3_the_nodes_of_a_run_that_has_ended_are_free_for_everybody(tmp_path: Path, last: dict[str, object]) -> None:
    """Seen from another container, where nobody could tell that its process is gone."""
    code, text = play(tmp_path, *([last] if last else []))
    assert code == (2 if last else 0), text
    theirs = replace(this_run(os.getpid()), run_id="theirs", host="elsewhere#1")
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
        ids = [ledger.identify(host, aliases=[("serial", f"S-{host}")]) for host in HOSTS]
        with ledger.transaction() as conn:
            taken = [lease.take_in(conn, ledger, node, theirs) for node in ids]
    assert [one.fencing for one in taken] == [2, 2], "the row stays: whoever had it before never takes it again"


def test_w3_whoever_has_to_wait_for_a_killed_run_is_told_how_long(tmp_path: Path) -> None:
    here = this_run(os.getpid())
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "S-gpu001")])
        with ledger.transaction() as conn:
            lease.take_in(conn, ledger, node, replace(here, run_id="theirs", host="elsewhere#1"))
        told = r"If it was killed, the node is free in (60|59|58) s"
        with pytest.raises(LeaseHeld, match=told), ledger.transaction() as conn:
            lease.take_in(conn, ledger, node, here)
