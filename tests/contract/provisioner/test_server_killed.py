# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The provisioner's server is killed in the middle of a deployment and started again: the run ends right.

Of a real Ironic that is test_deploy_failed.py, of Warewulf test_warewulf.py. PXE has no server that holds anything.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from bcm_commands.site import BcmSite
from calls import lead, ready, watch_all
from contract.proxy import DROP
from maas_server.server import MaasServer
from service_sites import MaasSite
from xcat_commands.service import XcatwsSite
from xcat_commands.site import XcatSite


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


# -- daemons behind commands ---------------------------------------------------------------------------------------

#: So many commands meet nobody before the daemon is back: a wait polls on meanwhile.
UNHEARD = 3


def _back(daemon: Any) -> threading.Thread:
    """Once it was asked for in vain, it is started again."""

    def start() -> None:
        wait_until(lambda: daemon.unheard, lambda times: times >= UNHEARD, timeout=120, interval=0.02, wanted="asked")
        daemon.starts()

    thread = threading.Thread(target=start)
    thread.start()
    return thread


def _ends_right(site: Any, batch: list[dict[str, Any]], result: Any) -> None:
    assert all(one["ok"] for one in result["verdicts"].values()), result["verdicts"]
    orders = site.deployments()
    assert not any(lead(one, "deployed")["changed"] for one in batch) and site.deployments() == orders


def _xcat(kind: type[XcatSite], folder: Path) -> Iterator[XcatSite]:
    site = kind(folder)
    with site.in_good_health():
        yield site
    site.close()


@pytest.fixture
def xcat(tmp_path: Path) -> Iterator[XcatSite]:
    yield from _xcat(XcatSite, tmp_path)


@pytest.fixture
def xcatws(tmp_path: Path) -> Iterator[XcatSite]:
    """By its web service, which boots nothing."""
    yield from _xcat(XcatwsSite, tmp_path)


@pytest.mark.parametrize("command", ["rsetboot", "rpower"])
def test_xcatd_is_killed_between_the_order_and_the_boot(xcat: XcatSite, command: str) -> None:
    """The nodes are set to be installed; the command that would have booted them meets nobody."""
    management = xcat.management
    batch = [{**ready(xcat), "image": xcat.image(), "deploy_id": f"killed-{number}"} for number in range(2)]
    booted = {one["name"]: management.boots.get(one["name"], 0) for one in batch}
    management.dies_at = command
    back = _back(management)
    result: Any = watch_all(xcat, "deployed", *batch, timeout=120)
    back.join(timeout=60)
    assert management.unheard >= UNHEARD and not management.away
    _ends_right(xcat, batch, result)
    assert {name: management.boots[name] - before for name, before in booted.items()} == dict.fromkeys(booted, 1)


def test_xcatd_is_killed_amid_the_boot(xcat: XcatSite) -> None:
    management = xcat.management
    batch = [{**ready(xcat), "image": xcat.image(), "deploy_id": f"amid-{number}"} for number in range(2)]
    for one in batch:
        assert lead(one, "deployed")["changed"]
    management.stops()
    back = _back(management)
    result: Any = watch_all(xcat, "deployed", *batch, timeout=120)
    back.join(timeout=60)
    _ends_right(xcat, batch, result)
    assert [management.boots[one["name"]] for one in batch] == [1, 1] and result["steps"] == {}


@pytest.mark.parametrize("amid", [False, True], ids=["before", "amid"])
def test_xcatd_is_killed_about_a_boot_that_the_bmcs_do(xcatws: XcatSite, amid: bool) -> None:
    management = xcatws.management
    batch = [{**ready(xcatws), "image": xcatws.image(), "deploy_id": f"{amid}-{number}"} for number in range(2)]
    assert {lead(one, "deployed")["step"] for one in batch} == {"boot"}
    if not amid:
        management.stops()
    for one in batch:
        xcatws.boot(one["name"])
    if amid:
        management.stops()
    back = _back(management)
    result: Any = watch_all(xcatws, "deployed", *batch, booted=True, timeout=120)
    back.join(timeout=60)
    _ends_right(xcatws, batch, result)
    assert [management.boots[one["name"]] for one in batch] == [1, 1] and result["steps"] == {}


@pytest.mark.parametrize("by_wait", [True, False])
def test_bcms_daemon_is_killed_between_the_order_and_the_boot(bcm_site: BcmSite, by_wait: bool) -> None:
    head = bcm_site.head
    batch = [{**ready(bcm_site), "image": bcm_site.image(), "deploy_id": f"{by_wait}-{number}"} for number in range(2)]
    if by_wait:
        due = watch_all(bcm_site, "deployed", *batch)["verdicts"]
        assert {one["step"] for one in due.values()} == {"boot"}, due
    else:
        assert {lead(one, "deployed")["step"] for one in batch} == {"boot"}
    head.stops()
    for one in batch:
        bcm_site.boot(one["name"])  # by its BMC, for which nobody asks the daemon
    back = _back(head)
    result: Any = watch_all(bcm_site, "deployed", *batch, booted=True, timeout=120)
    back.join(timeout=60)
    _ends_right(bcm_site, batch, result)
    assert [head.installs[one["name"]] for one in batch] == [1, 1] and bcm_site.deployments() == 2


def test_bcms_daemon_is_killed_amid_the_installation(bcm_site: BcmSite) -> None:
    head = bcm_site.head
    one = {**ready(bcm_site), "image": bcm_site.image(), "deploy_id": "amid"}
    assert lead(one, "deployed")["step"] == "boot"
    head.paused.add(one["name"])
    bcm_site.boot(one["name"])
    wait_until(lambda: bcm_site.native(one["name"]), lambda seen: "INSTALLING" in seen, timeout=60, interval=0.01,
               wanted="begun")  # fmt: skip
    head.stops()
    head.paused.clear()
    back = _back(head)
    result: Any = watch_all(bcm_site, "deployed", one, booted=True, timeout=120)
    back.join(timeout=60)
    _ends_right(bcm_site, [one], result)
    assert head.installs[one["name"]] == 1
