# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One cluster for all tests of this folder; each test gets its nodes back in service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _away as away
from contract import newcomers
from contract.scheduler import schedulers, slurm_cluster
from suite import services

SITES = (*schedulers.SITES, *newcomers.adapters("scheduler", schedulers.Site))


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(away, "AWAY_SECONDS", 0.3)
    monkeypatch.setattr(away, "AWAY_INTERVAL", 0.05)


@pytest.fixture(scope="session")
@services.real
def slurm_running() -> Iterator[Any]:
    with slurm_cluster.running() as cluster:
        yield cluster


@pytest.fixture
def slurm(slurm_running: Any) -> Any:
    slurm_running.set_epilog("exit 0")
    slurm_running.in_service(*slurm_cluster.NODES)
    return slurm_running


def _site(request: pytest.FixtureRequest, folder: Path) -> Any:
    """Registered for the time of the test, as a driver that no user sees."""
    made = request.param(request, folder)
    made.register(request.getfixturevalue("monkeypatch"))
    return made


@pytest.fixture(params=schedulers.params(SITES))
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Each driver."""
    return _site(request, tmp_path)


@pytest.fixture(params=schedulers.params(tuple(one for one in SITES if one.driver.KEEPS_NODES)))
def keeper(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Each driver of a scheduler that knows nodes."""
    return _site(request, tmp_path)


@pytest.fixture(params=schedulers.params(tuple(one for one in SITES if one.driver.EVICTS)))
def evicter(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Each driver of a scheduler whose work has to be made to leave."""
    return _site(request, tmp_path)


@pytest.fixture
def other(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A second scheduler, for batches over two."""
    made = schedulers.VersionedSite(request, tmp_path / "other")
    made.register(monkeypatch)
    return made


@pytest.fixture
@services.real
def slurm_site(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return schedulers.SlurmSite(request, tmp_path)
