# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site on which nothing is wrong, to be spoilt by each test: keys and an image as in the tests of trust."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _away as away
from contract.trust.conftest import Image, image, keys  # noqa: F401
from maas_server.config import Config, User
from maas_server.server import MaasServer
from sound_site import SoundSite

#: Of an administrator, and of a user who is none.
KEY, TENANTS = "fleetkey:token:maas-S3cret-part", "tenant:token:other"


@pytest.fixture
def site(tmp_path: Path, image: Image, monkeypatch: pytest.MonkeyPatch) -> SoundSite:  # noqa: F811
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return SoundSite(tmp_path, image)


@pytest.fixture
def maas(site: SoundSite, tmp_path: Path) -> Iterator[Any]:
    users = (User("fleet", KEY), User("tenant", TENANTS, admin=False))
    sha256 = site.image.sha256
    folder = tmp_path / "maas"
    folder.mkdir()
    config = Config(users=users, state_dir=folder, images={"hpc-1.4": {"url": "http://127.0.0.1:9/", "sha256": sha256}})
    server = MaasServer(config)
    server.start()
    site.shared.update(
        gpufleet_provisioner="maas", gpufleet_provisioner_url=server.url, gpufleet_provisioner_api_key=KEY
    )
    yield server
    server.close()


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run in this process."""
    monkeypatch.setattr(away, "AWAY_SECONDS", 0.3)
    monkeypatch.setattr(away, "AWAY_INTERVAL", 0.05)
