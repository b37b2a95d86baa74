# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One sshd for all tests of this folder, and one interpreter for each set of declared requirements."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# Files of these folders, which are no packages.
for folder in ("jump_host", "provisioner", "scheduler"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / folder))

import jump
import service_sites
import slurm_cluster
from fake_bmc.redfish_server import PASSWORD, USER, FakeBmc
from fake_bmc.tls import Authority


@pytest.fixture(scope="session")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    yield from jump.served(tmp_path_factory.mktemp("jump") / "ssh")


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``python("pxe_boot", "Redfish")``: an interpreter with what this module declares for Redfish."""
    made: dict[tuple[str, ...], Path] = {}

    def find(module: str, word: str = "") -> Path:
        wanted = tuple(sorted(jump.declared(module, word)))
        if wanted not in made:
            made[wanted] = jump.bare_python(tmp_path_factory.mktemp("bare") / "venv", list(wanted))
        return made[wanted]

    return find


@pytest.fixture
def bmc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FakeBmc, dict[str, Any]]]:
    """A Redfish BMC over TLS, and the host variables of its node."""
    authority = Authority(tmp_path_factory.mktemp("tls"))
    with FakeBmc("plain", context=authority.server_context("127.0.0.1"), lag=0.1) as running:
        yield running, {
            "gpufleet_bmc_protocol": "redfish", "gpufleet_bmc_address": running.url, "gpufleet_bmc_username": USER,
            "gpufleet_bmc_password": PASSWORD, "gpufleet_bmc_ca_path": str(authority.path),
        }  # fmt: skip


@pytest.fixture
def maas(tmp_path: Path) -> Iterator[service_sites.MaasSite]:
    (tmp_path / "maas").mkdir()
    site = service_sites.MaasSite(tmp_path / "maas")
    yield site
    site.server.close()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    with slurm_cluster.running() as made:
        yield made
