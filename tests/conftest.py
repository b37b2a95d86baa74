# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What all tests share: the markers, and what a machine must have for those that need more than Python."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

# `from recorded import recorded_dir` works under pytest and under ansible-test alike.
sys.path.insert(0, str(Path(__file__).resolve().parent))

MARKERS = {
    "rack": "needs the built-in rack, running (make rack-up)",
    "slow": "takes more than a few seconds; left out of make test-fast",
    "needs_root": "needs root: namespaces, mounts or low ports",
}


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() == 0:
        return
    without_root = pytest.mark.skip(reason="needs root")
    for item in items:
        if item.get_closest_marker("needs_root"):
            item.add_marker(without_root)


@pytest.fixture(autouse=True)
def _no_site_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own Ansible settings must not decide a test."""
    for name in ("ANSIBLE_CONFIG", "ANSIBLE_VAULT_PASSWORD_FILE", "SLURM_CONF"):
        monkeypatch.delenv(name, raising=False)
