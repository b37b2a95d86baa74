# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An adopted node that is given back: the order is ours to go on with, and what somebody deploys then is theirs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import provisioner_wait
from contract.permit.test_strangers import UNUSED, Make, machine, provisioned, refused
from maas_server.config import Config, User
from maas_server.server import MaasServer
from maas_server.statuses import DEPLOYED


@pytest.fixture
def maas(tmp_path: Path) -> Iterator[MaasServer]:
    (tmp_path / "maas").mkdir()
    server = MaasServer(Config(users=(User("fleet", "a:b:c"),), state_dir=tmp_path / "maas"))
    server.start()
    yield server
    server.close()


@pytest.mark.parametrize("killed", [True, False])
def test_j7_the_release_of_what_was_adopted_is_gone_on_with_until_somebody_else_deploys_it(
    controller: Make, maas: MaasServer, killed: bool
) -> None:
    """The run ended before its order was answered, and MAAS has the machine as it was adopted."""
    site = controller(known=False)
    one = machine(maas, site, DEPLOYED)
    site.node(**UNUSED)
    stamp = provisioned(site, state="enrolled", force_reason="a look")["stamp"]
    site.tells("gpu001", "state", "admitted", {"adopted": True, "provisioner_stamp": stamp})
    site.hold()
    site.tells("gpu001", "intent", "provisioner_node", {"options": {"state": "released"}})
    if not killed:
        site.tells("gpu001", "outcome", "provisioner_node", {"kind": "unreachable", "error": "MAAS does not answer"})
    waited = site.run("provisioner_wait", action=provisioner_wait.ActionModule, until="deployed", timeout=2.0)
    assert "no note" not in waited["verdicts"]["gpu001"]["reason"], waited
    with maas.store.changing():
        one.results["installation"] = 9
    refused(provisioned(site, state="released"), "gpu001: Deployed")
    with maas.store.changing():
        del one.results["installation"]
    assert provisioned(site, state="released")["changed"]
