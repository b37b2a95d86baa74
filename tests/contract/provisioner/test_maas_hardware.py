# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The MAAS server drives machines by their BMCs, as a rack controller does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from calls import await_all, lead
from fake_bmc.redfish_server import PASSWORD, USER, FakeBmc
from fake_bmc.tls import Authority
from maas_server.config import Config, User
from maas_server.server import MaasServer

KEY = "consumer:token:s3cret"
MAC = "52:54:00:77:00:01"


class Rack:
    """A MAAS, and one machine behind a Redfish BMC over TLS."""

    interval = 0.1

    def __init__(self, folder: Path, bmc: FakeBmc, ca: Path) -> None:
        self.bmc = bmc
        self.entry = folder / "http" / "pxelinux.cfg" / "52-54-00-77-00-01"
        images = {"gold-1": {"url": "http://10.77.0.1/gold-1.tar.gz", "kernel_url": "http://10.77.0.1/k", "sha256": ""}}
        config = Config(
            users=(User("admin", KEY),),
            state_dir=folder / "maas",
            boot_root=folder / "http",
            images=images,
            bmc={"ca_path": str(ca)},
            nodes=[{"mac": MAC, "serial": "GFRACK0001", "uuid": "5ac00000"}],
        )
        self.server = MaasServer(config)
        self.server.start()

    def connection(self) -> dict[str, Any]:
        return {"provisioner": "maas", "provisioner_url": self.server.url, "provisioner_api_key": KEY}

    def node(self, **more: Any) -> dict[str, Any]:
        image = {"name": "gold", "version": "1", "url": "http://10.77.0.1/gold-1.tar.gz"}
        login = {"bmc_address": self.bmc.url, "bmc_username": USER, "bmc_password": PASSWORD}
        return {**self.connection(), "name": "gpu001", "boot_mac": MAC, "image": image, **login, **more}

    def boots(self) -> list[str]:
        """What each write asked of the BMC, in its order."""
        words = []
        for method, _path, body in self.bmc.writes:
            told = dict(body or {})
            words.append(told.get("ResetType") if method == "POST" else told["Boot"]["BootSourceOverrideTarget"])
        return words


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[Rack]:
    authority = Authority(tmp_path / "tls")
    with FakeBmc("plain", context=authority.server_context("127.0.0.1")) as bmc:
        made = Rack(tmp_path, bmc, authority.path)
        yield made
        made.server.close()


def test_from_the_bmc_to_deployed_and_back(rack: Rack) -> None:
    options = rack.node()
    lead(options, "ready")
    assert await_all(rack, "ready", options)["verdicts"]["gpu001"]["ok"]
    assert rack.boots() == [], "it was off, and commissioning leaves it off"
    lead(options, "deployed")
    assert await_all(rack, "deployed", options)["verdicts"]["gpu001"]["ok"]
    assert rack.boots() == ["Pxe", "On"] and rack.bmc.machine.power == "On"
    assert "initrd http://10.77.0.1/gold-1.tar.gz" in rack.entry.read_text()
    lead(options, "released")
    assert await_all(rack, "released", options)["verdicts"]["gpu001"]["ok"]
    assert rack.boots()[2:] == ["ForceOff"] and "sanboot" in rack.entry.read_text()


def test_a_wrong_login_fails_commissioning(rack: Rack) -> None:
    """MAAS asks the BMC before it answers."""
    with pytest.raises(FleetError, match="401") as caught:
        lead(rack.node(bmc_password="not-th1s"), "ready")
    assert "not-th1s" not in str(caught.value)


def test_a_bmc_that_does_nothing_is_no_deployment(rack: Rack, monkeypatch: pytest.MonkeyPatch) -> None:
    from maas_server import hardware

    monkeypatch.setattr(hardware, "_POWER_TIMEOUT", 0.5)
    options = rack.node()
    lead(options, "ready")
    await_all(rack, "ready", options)
    rack.bmc.faults["liar"] = True
    lead(options, "deployed")
    verdict = await_all(rack, "deployed", options)["verdicts"]["gpu001"]
    assert not verdict["ok"] and verdict["provision_state"] == "Failed deployment"
