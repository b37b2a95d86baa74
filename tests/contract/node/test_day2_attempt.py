# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose attempt cannot be written down is in its rescue, where it is alive for a task for all: it is not imaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import PLAYBOOKS, in_service
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_not_admitted import statement

pytestmark = pytest.mark.slow

#: What asks machines and images, of which these have none.
_ELSEWHERE = (
    "Prove the BMC",
    "See that the machine which answers is the one behind the BMC",
    "Enrol what its provisioner has no record of",
)
_IMAGE = "Verify the image"


def plays() -> list[dict[str, Any]]:
    """Day 2 from where it takes nodes out of service."""
    found: list[dict[str, Any]] = yaml.safe_load((PLAYBOOKS / "day2_recycle.yml").read_text(encoding="utf-8"))
    for play in found[:2]:
        play["tasks"] = [one for one in play["tasks"] if one["name"] != "Look at nodes in service"]
    [block] = [one for play in found for one in play["tasks"] if one["name"] == "Recycle one batch"]
    verified = {"name": _IMAGE, "ansible.builtin.debug": {"msg": "as it was signed"}, "register": "image_verdict"}
    kept = [one for one in block["block"] if one["name"] not in _ELSEWHERE]
    block["block"] = [verified if one["name"] == _IMAGE else one for one in kept]
    return found


def test_a_node_whose_attempt_is_not_counted_is_not_imaged(tmp_path: Path) -> None:
    with in_service(tmp_path, 2) as nodes:
        nodes.shared["gpufleet_image"] = {
            "name": "hpc",
            "version": "1",
            "sha256": "0" * 64,
            "url": "http://127.0.0.1:9/",
        }
        nodes.shared["gpufleet_provisioner"] = "maas"
        nodes.shared["gpufleet_provisioner_url"] = "http://127.0.0.1:9/MAAS"
        nodes.shared["gpufleet_provisioner_api_key"] = "a:b:c"
        of_one = f"NEW.kind = 'attempt' AND NEW.node_id = '{nodes.node_id('gpu001')}'"
        locked = "SELECT RAISE(ABORT, 'database is locked')"
        statement(nodes, f"CREATE TRIGGER one BEFORE INSERT ON events WHEN {of_one} BEGIN {locked}; END")
        nodes.plays(plays(), "-e", "day2_recycle_all=true", ok=False)
        assert nodes.states("gpu001") == ["draining", "drained"] and not nodes.events("gpu001", "attempt")
        assert "imaging" in nodes.states("gpu002") and nodes.events("gpu002", "attempt")
        stopped = [name for name, _data in nodes.events("gpu001", "note")]
        assert "stopped" in stopped, stopped
