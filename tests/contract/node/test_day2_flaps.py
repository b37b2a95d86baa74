# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that served, and failed, as often as its site lets it is held and drained, and gets no image any more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import in_service
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_day2_attempt import plays

pytestmark = pytest.mark.slow

_FOUND = {"verdict": "fail", "findings": [{"id": "xid:79", "entity": "GPU 3", "remedy": "reset_gpu", "text": "XID 79"}]}


def failing() -> list[dict[str, Any]]:
    """Whatever looks at them finds a fault."""
    found = plays()
    look = {"name": "Look at nodes in service", "ansible.builtin.set_fact": {"day2_kernel_log": _FOUND}}
    for play in found[1:2]:
        names = [one["name"] for one in play["tasks"]]
        play["tasks"].insert(names.index("Leave alone what could not be looked at"), look)
    return found


def test_h2_a_node_that_fails_again_and_again_is_held_and_left_to_a_person(tmp_path: Path) -> None:
    with in_service(tmp_path, 3) as nodes:
        sha = "0" * 64
        nodes.shared["gpufleet_image"] = {"name": "hpc", "version": "1", "sha256": sha, "url": "http://127.0.0.1:9/"}
        nodes.shared["gpufleet_provisioner"] = "maas"
        nodes.shared["gpufleet_provisioner_url"] = "http://127.0.0.1:9/MAAS"
        nodes.shared["gpufleet_provisioner_api_key"] = "a:b:c"
        nodes.hosts["gpu002"]["gpufleet_flap_recycles"] = 9
        with Ledger(nodes.url) as ledger:
            for name, times in (("gpu001", 3), ("gpu002", 3), ("gpu003", 2)):
                tried = Event("attempt", "reimage", {"reason": "XID 79", "failed": True, "asked": False})
                ledger.append("r1", [(nodes.node_id(name), tried)] * times)
        nodes.plays(failing(), ok=False)
        assert nodes.states("gpu001")[-1] == "quarantined" and "imaging" not in nodes.states("gpu001")
        assert nodes.events("gpu001", "attempt") == [] and nodes.scheduler("gpu001").startswith("IDLE+DRAIN")
        for name in ("gpu002", "gpu003"):
            [(_name, told)] = nodes.events(name, "attempt")
            assert "imaging" in nodes.states(name) and (told["failed"], told["asked"]) == (True, False)
        [data] = [data for name, data in nodes.events("gpu001", "state") if name == "quarantined"]
        assert data["remedy"] == "field_diag" and "3 recycles within 30 days" in data["reason"], data
        assert "XID 79" in data["reason"]
