# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""End-to-end tests run on the built-in rack, as root, one after another."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from first_day import FirstDay, first_day  # noqa: E402

# Files that can go on with the rack as the one before has left it come one after another: each saves a day 0.
IN_TURN = (
    "test_day0_day2.py",
    "test_faults.py",
    "test_killed.py",
    "test_outages.py",
    "test_not_ours.py",
    "test_replaced.py",
)


def turn(item: pytest.Item) -> int:
    if HERE not in item.path.parents:
        return -1
    return IN_TURN.index(item.path.name) if item.path.name in IN_TURN else len(IN_TURN)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.needs_root)
            item.add_marker(pytest.mark.slow)
    items.sort(key=turn)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> FirstDay:
    """A day 0 on a new rack that nobody disturbs: the story of one file, and what others are held against."""
    return first_day(tmp_path_factory.mktemp("first_day"))
