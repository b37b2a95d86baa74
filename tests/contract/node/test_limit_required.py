# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job template demands of a limit, its playbook holds: a controller takes an emptied one for all hosts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import PLAYBOOKS, in_service

pytestmark = pytest.mark.slow

TABLES = yaml.safe_load((PLAYBOOKS.parent / "roles/awx/vars/main/jobs.yml").read_text(encoding="utf-8"))
DEMANDED, TEMPLATES = TABLES["awx_limited"], TABLES["awx_templates"]
NEEDING = sorted({one.get("playbook", key) for key, one in TEMPLATES.items() if one.get("needs_limit")})


@pytest.mark.parametrize("name", NEEDING)
def test_without_a_limit_nothing_is_done(tmp_path: Path, name: str) -> None:
    more = {"maintenance": "on", "maintenance_why": "x"} if name == "maintenance" else {}
    said = ("-e", json.dumps({**DEMANDED, **more}))
    with in_service(tmp_path, 2) as nodes:
        before = nodes.scheduler("gpu001")
        for limit in ((), ("--limit", " ,")):
            told = nodes.book(name, *said, *limit, ok=False)
            assert "this run has no limit" in told or "name them with --limit" in told, told
        assert nodes.scheduler("gpu001") == before and not nodes.events("gpu001", "hold")


@pytest.mark.parametrize("name", ["drain", "evidence"])
def test_a_limit_that_names_nobody_is_none(tmp_path: Path, name: str) -> None:
    """To Ansible each of these is of all hosts, or of all but one, a neighbour among them that nobody meant."""
    empty = tmp_path / "nodes.txt"
    empty.write_text("\n", encoding="utf-8")
    said = json.dumps({**DEMANDED, "evidence_folder": str(tmp_path)} if name == "evidence" else DEMANDED)
    with in_service(tmp_path, 2) as nodes:
        before = nodes.scheduler("gpu001"), nodes.scheduler("gpu002")
        for limit in ("~", ",\u00a0", "\t", ":", "[", "!gpu001", "&all", "gpu001,~", f"@{empty}"):
            told = nodes.book(name, "-e", said, f"--limit={limit}", ok=False)
            assert "this run has no limit that names its nodes" in told, (limit, told)
        assert (nodes.scheduler("gpu001"), nodes.scheduler("gpu002")) == before


def test_who_says_all_means_all(tmp_path: Path) -> None:
    """Also where somebody is left out."""
    with in_service(tmp_path, 2) as nodes:
        for limit in ("all,!gpu002", "*:!gpu002", "~gpu.*,!gpu002", "gpu001\t"):
            nodes.book("drain", "-e", json.dumps(DEMANDED), f"--limit={limit}", ok=True)
        assert nodes.states("gpu001") == ["draining", "drained"] and nodes.states("gpu002") == []


def test_with_one_it_is_of_the_nodes_that_the_limit_names(tmp_path: Path) -> None:
    with in_service(tmp_path, 2) as nodes:
        nodes.book("drain", "-e", json.dumps(DEMANDED), "--limit", "gpu001", ok=True)
        assert nodes.states("gpu001") == ["draining", "drained"] and nodes.states("gpu002") == []


@pytest.mark.parametrize("name", ["status", "preflight", "report"])
def test_a_slip_in_a_limit_is_told_where_ansible_is_to_be_silent_of_it_and_no_line_of_a_file_is(
    tmp_path: Path, name: str
) -> None:
    """As in the execution environment: a file may be the environment of the job."""
    secrets = tmp_path / "secrets"
    secrets.write_text("PGPASSWORD=hunter2-of-the-ledger\n", encoding="utf-8")
    with in_service(tmp_path, 2) as nodes:
        nodes.settings["ANSIBLE_HOST_PATTERN_MISMATCH"] = "ignore"
        said = ("-e", json.dumps({"report_page": str(tmp_path / "page.html")} if name == "report" else {}))
        limit = f"gpu001,gpu0O2,rack9*,!~gpu1,gpu*[0],~gpu00.,all[0:1],!localhost,@{secrets}"
        told = nodes.book(name, *said, f"--limit={limit}", ok=name != "preflight")
        assert "the limit of this run names gpu0O2, rack9*, !~gpu1, and no host and no group is called so" in told, told
        assert "hunter2" not in told and "gpu001" in told
        nodes.settings["ANSIBLE_HOST_PATTERN_MISMATCH"] = "warning"
        told = nodes.book(name, *said, "--limit", "gpu001,gpu0O2", ok=name != "preflight")
        assert "pattern, ignoring: gpu0O2" in told and "the limit of this run" not in told, told
