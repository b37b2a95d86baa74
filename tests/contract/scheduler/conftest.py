# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One cluster for all tests of this folder; each test gets its nodes back in service."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _load(name: str) -> ModuleType:
    """A file of this folder, which is no package."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


slurm_cluster = _load("slurm_cluster")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    reason = slurm_cluster.missing()
    if reason:
        pytest.skip(reason)
    root = Path(tempfile.mkdtemp(prefix="gpufleet-slurm-"))
    root.chmod(0o755)
    cluster = slurm_cluster.Cluster(root)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def slurm(cluster: Any) -> Any:
    cluster.set_epilog("exit 0")
    cluster.in_service(*slurm_cluster.NODES)
    return cluster
