# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook identity, over a BMC whose machine got another board: what is wrong names it, and it sets it right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import in_service

pytestmark = pytest.mark.slow


def swap(state: str, why: str = "RMA 4711", **more: str) -> tuple[str, str]:
    return "-e", json.dumps({"identity": state, "identity_why": why, **{f"identity_{key}": more[key] for key in more}})


@pytest.mark.parametrize("out_of_service", [True, False])
def test_u3_a_board_swap_from_the_refusal_to_the_next_command(tmp_path: Path, out_of_service: bool) -> None:
    with in_service(tmp_path) as nodes:
        nodes.hosts["gpu001"]["gpufleet_boot_mac"] = "52:54:00:00:00:01"
        shown = nodes.book("identity", ok=True)
        assert "serial SN0001 bmc" in shown and "differences" in shown, shown
        assert "mac 52:54:00:00:00:01 claimed" in shown and '"host": "gpu001"' in shown, shown
        kept = ("-e", "maintenance=on", "-e", "maintenance_why=board")
        if out_of_service:
            nodes.book("maintenance", *kept, ok=True)
        bmc = nodes.bmcs["gpu001"]
        bmc.vendor = {**bmc.vendor, "system": {**bmc.vendor["system"], "SerialNumber": "SN-NEW"}}
        nodes.hosts["gpu001"]["gpufleet_serial"] = "SN-NEW"
        # The old serial is nowhere any more: nothing says that this is that machine but the host's name, and a person.
        nodes.hosts["gpu001"]["gpufleet_node_id"] = nodes.node_id("gpu001")
        for one in ("drain", "revalidate", "reimage"):
            refused = nodes.book(one, ok=False)
            assert "by another serial" in refused and "gpufleet.baremetal.identity" in refused, refused
            assert "The node is unknown" not in refused, "that is not what is to be mended"
        refused = nodes.book("identity", *swap("replaced", ""), ok=False)
        assert "identity_why not set" in refused and "identity_part not set" in refused, refused
        before = nodes.states("gpu001")
        if not out_of_service:
            refused = nodes.book("identity", *swap("replaced", part="board"), ok=False)
            assert "the ledger has this one in service" in refused and "maintenance=on" in refused, refused
            assert nodes.states("gpu001") == [] and nodes.events("gpu001", "identity") == []
            return
        foreseen = nodes.book("identity", *swap("replaced", part="board"), "--check", "--diff", ok=True)
        assert "state quarantined" in foreseen and nodes.states("gpu001") == before
        done = nodes.book("identity", *swap("replaced", part="board"), ok=True)
        assert "serial SN-NEW bmc" in done and "maintenance=off" in done, done
        assert nodes.states("gpu001") == ["draining", "quarantined"]
        assert nodes.events("gpu001", "identity")[-1][0] == "replaced"
        assert "DRAIN" in nodes.scheduler("gpu001"), "its keep stands until the maintenance is over"
