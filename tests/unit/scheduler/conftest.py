# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's commands over a file, before all others in PATH."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.scheduler.slurm_commands import World, install


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.delenv("SLURM_CONF", raising=False)
    return lambda **given: install(tmp_path, **given)
