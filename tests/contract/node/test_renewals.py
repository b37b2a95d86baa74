# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a renewal of passports makes of nodes that cannot be reached: what hits all of them quarantines nobody."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import in_service
from fake_bmc.tls import Authority

pytestmark = pytest.mark.slow

RENEW = ("-e", "passports_renew=true")


def test_l5_a_bmc_whose_certificate_was_renewed_leaves_its_node_in_service(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tls")
    with in_service(tmp_path, context=authority.server_context("127.0.0.1")) as nodes:
        nodes.shared["gpufleet_bmc_tls_fingerprint"] = "0" * 64
        told = nodes.book("passports", *RENEW, ok=False)
        assert nodes.states("gpu001") == [] and nodes.scheduler("gpu001") == "IDLE", told
        [(name, data)] = nodes.events("gpu001", "note")
        assert name == "stopped" and "another certificate" in data["reason"] and not nodes.bmcs["gpu001"].paths
