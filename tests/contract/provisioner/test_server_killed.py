# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The provisioner's server is killed in the middle of a deployment and started again: the run ends right.

Of a real Ironic that is test_deploy_failed.py, of Warewulf test_warewulf.py; the others are programs that hold nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from calls import lead, ready, watch_all
from contract.proxy import DROP
from maas_server.server import MaasServer
from service_sites import MaasSite


@pytest.fixture
def maas(tmp_path: Path) -> Iterator[MaasSite]:
    site = MaasSite(tmp_path)
    with site.in_good_health():
        yield site
    site.close()


def _killed_and_started(site: MaasSite, hosts: list[str]) -> None:
    """Whatever it had begun it knows from its disk; nobody hears it meanwhile."""
    wait_until(lambda: {site.native(one) for one in hosts}, lambda seen: seen == {"Deploying"}, timeout=30,
               interval=0.01, wanted="both deploying")  # fmt: skip
    site.proxy.fault = lambda asked: DROP
    config = site.server.config
    site.server.jobs.close()  # what it had under way ends with it, and leaves no trace
    site.server.stop_listening()
    config.port = site.server._http.server_address[1]
    config.delays["deploy"] = 0.05
    site.server = MaasServer(config)
    site.server.start()
    site.proxy.fault = lambda asked: None


def test_maas_is_killed_amid_two_deployments(maas: MaasSite) -> None:
    maas.server.config.delays["deploy"] = 30.0
    batch = [{**ready(maas), "image": maas.image(), "deploy_id": str(number)} for number in range(2)]
    for one in batch:
        assert lead(one, "deployed")["changed"]
    hosts = [one["name"] for one in batch]
    end = threading.Thread(target=_killed_and_started, args=(maas, hosts))
    end.start()
    result: Any = watch_all(maas, "deployed", *batch, timeout=60)
    end.join(timeout=60)
    assert all(one["ok"] for one in result["verdicts"].values()), result["verdicts"]
    assert maas.deployments() == 2 and result["steps"] == {}
    assert not any(lead(one, "deployed")["changed"] for one in batch)
