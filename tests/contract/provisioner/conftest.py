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

import ironic_server
import service_sites
import sites
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import api as maas_api
from command_line import site as command_line_site
from contract import newcomers
from task_queue import site as task_queue_site


@pytest.fixture(scope="session")
def ironic_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[service_sites.IronicSite]:
    reason = ironic_server.missing()
    if reason:
        pytest.skip(reason)
    server = ironic_server.IronicServer(tmp_path_factory.mktemp("ironic"))
    try:
        server.start()
        yield service_sites.IronicSite(server)
    finally:
        server.stop()


@pytest.fixture(scope="session")
def maas_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[service_sites.MaasSite]:
    site = service_sites.MaasSite(tmp_path_factory.mktemp("maas"))
    yield site
    site.close()


@pytest.fixture(scope="session")
def imagectl_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield command_line_site.CommandLineSite(tmp_path_factory.mktemp("imagectl"))


@pytest.fixture(scope="session")
def taskqueue_site() -> Iterator[Any]:
    site = task_queue_site.TaskQueueSite()
    yield site
    site.close()


NEWCOMERS = [pytest.param(made, id=made.name) for made in newcomers.adapters("provisioner", sites.Site)]


@pytest.fixture(scope="session")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Sites of drivers that have a file of their own here, ``site_NAME.py``."""
    made: dict[type, Any] = {}

    def find(kind: Any) -> Any:
        if kind not in made:
            made[kind] = kind(tmp_path_factory.mktemp(kind.name))
        return made[kind]

    yield find
    for one in made.values():
        one.close()


#: Those behind a proxy.
SERVICES = ("maas", "taskqueue", pytest.param("ironic", marks=pytest.mark.slow))


def _in_good_health(request: pytest.FixtureRequest) -> Iterator[Any]:
    if isinstance(request.param, str):
        chosen = request.getfixturevalue(f"{request.param}_site")
    else:
        chosen = request.getfixturevalue("newcomer")(request.param)
    with chosen.in_good_health():
        yield chosen


@pytest.fixture(params=["imagectl", *SERVICES, *NEWCOMERS])
def site(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Every provisioner that there is a driver for, in turn; a new one comes with its file."""
    yield from _in_good_health(request)


@pytest.fixture(params=SERVICES)
def service(request: pytest.FixtureRequest) -> Iterator[Any]:
    yield from _in_good_health(request)


@pytest.fixture(params=["maas", pytest.param("ironic", marks=pytest.mark.slow), *NEWCOMERS])
def shipped(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Those that are part of the collection: a module by itself, or a playbook's run, knows no others."""
    yield from _in_good_health(request)


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maas_api, "AGAIN_INTERVAL", 0.1)
