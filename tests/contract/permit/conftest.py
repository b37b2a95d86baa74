# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A controller over a few hosts, each with a BMC of its own; Slurm's commands stand before all others in PATH."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from ansible import constants as C
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import settle
from contract.permit.rig import ADOPTED, IDLE, Controller
from fake_bmc.redfish_server import FakeBmc
from maas_server.config import Config, User
from maas_server.server import MaasServer


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Controller]]:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setattr(C, "DEFAULT_LOCAL_TMP", str(tmp_path / "of-this-run"))
    (tmp_path / "of-this-run").mkdir()
    monkeypatch.setattr(settle, "PACE", ((float("inf"), 0.05),))
    with ExitStack() as running:

        def make(*hosts: str, **world: Any) -> Controller:
            bmcs = {host: running.enter_context(_bmc_of(host)) for host in hosts or ("gpu001",)}
            return Controller(tmp_path, bmcs, **world)

        yield make


@pytest.fixture
def neighbours(controller: Callable[..., Controller]) -> Controller:
    """This run holds n2 for gpu002; the machine of gpu001 is another, and its row has slipped to that node."""
    site = controller("gpu001", "gpu002", known=False, nodes={"n2": {**IDLE, "booted": "2026-11-20T10:12:58"}})
    site.tells("gpu002", "state", "admitted", {**ADOPTED, "scheduler_node": "n2"})
    for host in site.hosts.values():
        host["gpufleet_scheduler_node"] = "n2"
    assert site.run("scheduler_node", "gpu002", state="held")["state"] == "drained"
    return site


@pytest.fixture
def images() -> dict[str, Any]:
    """What lies at the provisioner to be deployed."""
    return {}


@pytest.fixture
def maas(tmp_path: Path, images: dict[str, Any]) -> Iterator[MaasServer]:
    """A provisioner, and the key ``a:b:c`` for it."""
    (tmp_path / "maas").mkdir()
    server = MaasServer(Config(users=(User("fleet", "a:b:c"),), images=images, state_dir=tmp_path / "maas"))
    server.start()
    yield server
    server.close()


def _bmc_of(host: str) -> FakeBmc:
    bmc = FakeBmc("plain", power="On")
    bmc.vendor = {**bmc.vendor, "system": {**bmc.vendor["system"], "SerialNumber": f"S-{host}", "UUID": ""}}
    return bmc
