# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One Ironic and one MAAS for all tests of this folder; every test brings nodes of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Files of this folder, which is no package: its name would stand for all folders of this name.
sys.path.insert(0, str(Path(__file__).resolve().parent))

import ironic_server
import sites
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import api as maas_api


@pytest.fixture(scope="session")
def ironic_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sites.IronicSite]:
    reason = ironic_server.missing()
    if reason:
        pytest.skip(reason)
    server = ironic_server.IronicServer(tmp_path_factory.mktemp("ironic"))
    try:
        server.start()
        yield sites.IronicSite(server)
    finally:
        server.stop()


@pytest.fixture(scope="session")
def maas_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sites.MaasSite]:
    site = sites.MaasSite(tmp_path_factory.mktemp("maas"))
    yield site
    site.server.close()


@pytest.fixture(params=["maas", pytest.param("ironic", marks=pytest.mark.slow)])
def site(request: pytest.FixtureRequest) -> Iterator[Any]:
    chosen = request.getfixturevalue(f"{request.param}_site")
    chosen.proxy.forget()
    yield chosen
    chosen.proxy.forget()


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maas_api, "AGAIN_INTERVAL", 0.1)
