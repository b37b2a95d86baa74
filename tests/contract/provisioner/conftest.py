# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One provisioner of each kind for all tests of this folder; every test brings nodes of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Files of this folder, which is no package: its name would stand for all folders of this name.
sys.path.insert(0, str(Path(__file__).resolve().parent))

import keystone_site as behind_keystone
import service_sites
import sites
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _away as away
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import registry
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import api as maas_api
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat import web as xcat_web
from bcm_commands import site as bcm_commands_site
from command_line import site as command_line_site
from contract import newcomers
from pxe_files import site as pxe_files_site
from suite import services
from task_queue import site as task_queue_site
from xcat_commands import service as xcat_commands_service
from xcat_commands import site as xcat_commands_site

#: Part of the collection: a module by itself, or a playbook's run, knows no others. A newcomer comes with its file.
SHIPPED = (service_sites.MaasSite, service_sites.IronicSite, *newcomers.adapters("provisioner", sites.Site))
#: Part of it as well, and asked by commands: no proxy stands before them.
COMMANDS = (xcat_commands_site.XcatSite, bcm_commands_site.BcmSite, pxe_files_site.PxeSite)
#: Part of it by another way than the one beside it.
WAYS = (xcat_commands_service.XcatwsSite,)
SITES = (command_line_site.CommandLineSite, task_queue_site.TaskQueueSite, *COMMANDS, *WAYS, *SHIPPED)


#: Those that leave a machine to be booted by others. Of a shipped one with many calls day 0 by playbook is tested.
BOOTED_BY_OTHERS = tuple(
    one
    for one in SITES
    if not (one.own_driver or one.own_way or registry.DRIVERS[one.name]).owns_power and one not in COMMANDS
)


def params(found: tuple[Any, ...]) -> list[Any]:
    return [pytest.param(one, id=one.label or one.name) for one in found]


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Each site once, when the first test asks for it."""
    made: dict[type, sites.Site] = {}
    broken: dict[type, Exception] = {}

    def find(kind: type[sites.Site]) -> sites.Site:
        if kind in broken:
            raise broken[kind]
        if kind not in made:
            try:
                made[kind] = kind(tmp_path_factory.mktemp(kind.name))
            except Exception as problem:
                # To be waited for once, and not by each test.
                broken[kind] = problem
                raise
        return made[kind]

    find.made = made  # type: ignore[attr-defined]
    yield find
    for one in made.values():
        one.close()


@pytest.fixture(autouse=True)
def _its_nodes_end_with_it(started: Any) -> Iterator[None]:
    """A listing carries all nodes that there are: those of all tests before would be most of what Ironic does."""
    newest = {kind: one.newest() for kind, one in started.made.items()}
    yield
    for kind, one in started.made.items():
        one.forget_since(newest.get(kind, 0))


@pytest.fixture(scope="session")
@services.real
def ironic_site(started: Any) -> Any:
    return started(service_sites.IronicSite)


@pytest.fixture(scope="session")
@services.real
def keystone_site(started: Any) -> Any:
    return started(behind_keystone.KeystoneSite)


@pytest.fixture(scope="session")
def maas_site(started: Any) -> Any:
    return started(service_sites.MaasSite)


@pytest.fixture(scope="session")
def imagectl_site(started: Any) -> Any:
    return started(command_line_site.CommandLineSite)


@pytest.fixture
def xcat_site(started: Any) -> Iterator[Any]:
    with started(xcat_commands_site.XcatSite).in_good_health() as chosen:
        yield chosen


@pytest.fixture
def xcatws(started: Any) -> Iterator[Any]:
    """Its management node is as it was at the start after each test."""
    with started(xcat_commands_service.XcatwsSite).in_good_health() as chosen:
        yield chosen
    chosen.management.unpacked.clear()
    chosen.management.has_master = True


@pytest.fixture
def bcm_site(started: Any) -> Iterator[Any]:
    """Its head node is as it was at the start after each test."""
    with started(bcm_commands_site.BcmSite).in_good_health() as chosen:
        yield chosen
    head = chosen.head
    head.profile, head.says_whence, head.prints_blank = "admin", False, False
    for odd in (head.failing, head.silent, head.stubborn, head.untaken, head.forgets):
        odd.clear()


@pytest.fixture
def warewulf_site(started: Any) -> Iterator[Any]:
    """Its server is as it was at the start after each test."""
    [kind] = [one for one in SHIPPED if one.name == "warewulf"]
    with started(kind).in_good_health() as chosen:
        yield chosen
    server = chosen.server
    server.config.version, server.config.ahead, server.clock = kind.version, 0.0, 0
    server.config.api = server.config.allowed = server.builds = True
    server.conf.save({**server.conf.load(), "nodes": {}})


@pytest.fixture(params=params(SITES))
def site(request: pytest.FixtureRequest, started: Any) -> Iterator[Any]:
    """Every provisioner that there is a driver for, in turn."""
    with started(request.param).in_good_health() as chosen:
        yield chosen


@pytest.fixture(params=params(tuple(one for one in SITES if one.own_tls)))
def service(request: pytest.FixtureRequest, started: Any) -> Iterator[Any]:
    """Those whose drivers speak TLS themselves."""
    with started(request.param).in_good_health() as chosen:
        yield chosen


@pytest.fixture(params=params(SHIPPED))
def shipped(request: pytest.FixtureRequest, started: Any) -> Iterator[Any]:
    with started(request.param).in_good_health() as chosen:
        yield chosen


@pytest.fixture(params=params(BOOTED_BY_OTHERS))
def booted_by_others(request: pytest.FixtureRequest, started: Any) -> Any:
    return started(request.param)


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xcat_web, "SHOWN_INTERVAL", 0.05)
    monkeypatch.setattr(maas_api, "AGAIN_INTERVAL", 0.1)
    monkeypatch.setattr(away, "AWAY_SECONDS", 0.3)
    monkeypatch.setattr(away, "AWAY_INTERVAL", 0.05)
