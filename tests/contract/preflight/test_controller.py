# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""U8: what the machine that runs Ansible lacks is told before anything is done, and is no success."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._core import LEAST
from suite import playbook

CHECKOUT = Path(__file__).resolve().parents[3]
OURS = "ansible_collections.gpufleet.baremetal.plugins"
#: An ansible-core that has not yet what the inventory plugin takes from a newer one.
OLD = """
import ansible.plugins.action, ansible.plugins.inventory, ansible.release, ansible.template
ansible.release.__version__ = "2.18.19"
"""
WITHOUT = {"inventory.fleet": "del ansible.template.trust_as_template"}


def told_by(program: str) -> str:
    """The last line that this Python program writes as it fails."""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(sys.path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode, ended.stdout
    return ended.stderr.splitlines()[-1]


@pytest.mark.parametrize("plugin", ["inventory.fleet", "action.fleet_status", "action.preflight"])
def test_u8_an_ansible_core_that_is_too_old_is_told_with_both_versions(plugin: str) -> None:
    told = told_by(f"{OLD}\n{WITHOUT.get(plugin, '')}\nimport {OURS}.{plugin}")
    assert "gpufleet.baremetal needs ansible-core 2.19 or newer, and this is 2.18.19: nothing was done" in told, told
    assert "ImportError" not in told


def test_u8_the_oldest_ansible_core_is_the_one_that_the_collection_declares() -> None:
    declared = yaml.safe_load((CHECKOUT / "meta" / "runtime.yml").read_text(encoding="utf-8"))["requires_ansible"]
    assert declared == f">={'.'.join(map(str, LEAST))}.0"


def test_u8_all_libraries_that_are_missing_are_told_at_once() -> None:
    told = told_by(
        "import sys\nfor name in ('netaddr', 'pyghmi', 'sqlalchemy'):\n    sys.modules[name] = None\n"
        f"from {OURS}.module_utils import _net\n_net.mac('52:54:00:ab:cd:01')"
    )
    assert "the Python library netaddr is not installed" in told and "-m pip install netaddr" in told
    assert "missing there as well, of what other tasks need: pyghmi SQLAlchemy" in told, told


def test_u8_each_library_that_a_task_needs_is_one_that_the_collection_installs() -> None:
    told = told_by(
        f"from {OURS}.module_utils._errors import LIBRARIES\nimport sys\nsys.exit(' '.join(LIBRARIES).lower())"
    )
    listed = (CHECKOUT / "meta" / "ee-requirements.txt").read_text(encoding="utf-8").lower()
    assert all(f"\n{name}" in listed for name in told.split()), told


@pytest.mark.slow
def test_u8_an_inventory_whose_source_failed_ends_no_run_as_a_success(tmp_path: Path) -> None:
    """With the limit beside it that a person gives, of which ansible-core then says nothing at all."""
    (tmp_path / "fleet.yml").write_text("plugin: gpufleet.baremetal.fleet\nsources: [{type: csv, path: none.csv}]\n")
    env = {
        **{key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")},
        "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "collections"),
        "ANSIBLE_LOCAL_TEMP": str(tmp_path / "home"),
    }
    argv = ["gpufleet.baremetal.day0_bringup", "-i", "fleet.yml", "--limit", "rack12"]
    done = playbook.run(argv, cwd=tmp_path, env=env)
    output = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0 and "The inventory has no host" in output, output
    assert "none.csv" in output and "PLAY" not in output, output


def test_u8_each_playbook_of_a_fleet_asks_for_a_host_in_the_same_words() -> None:
    """Also one that only tells, or looks after the ledger: a backup at night that backs up nothing is no success."""
    books = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in CHECKOUT.glob("playbooks/*.yml")}
    del books["rack"]  # of no fleet
    del books["import_servers"]  # its hosts are those of the list that it reads
    del books["awx_setup"]  # it asks AWX alone
    [imported] = books.pop("rollout")
    assert imported["ansible.builtin.import_playbook"] == "day2_recycle.yml"  # which asks
    leaves_out = "('all:!gpufleet_services' if 'gpufleet_services' in groups else 'all')"
    asked = {
        name: [" ".join(play["hosts"].split()) for play in plays if leaves_out in play["hosts"]]
        for name, plays in books.items()
    }
    assert all(asked.values()), asked
    # Before them day 2 may name the nodes of a wave.
    alike = {" ".join(words.partition(leaves_out)[2].split()) for said in asked.values() for words in said}
    assert len(alike) == 1, alike
