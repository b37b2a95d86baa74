# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tests are too long to run before each commit, as they were measured last: make long-tests."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

LIST = Path(__file__).with_suffix(".txt")
_ROOT = LIST.parents[2]


@functools.cache
def listed() -> frozenset[str]:
    """Each as path::name, whatever its parameters."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def is_long(item: pytest.Item) -> bool:
    path = item.path.relative_to(_ROOT) if item.path.is_relative_to(_ROOT) else item.path
    return f"{path}::{getattr(item, 'originalname', item.name)}" in listed()
