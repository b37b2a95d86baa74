# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tests of a file share what they read of the tree, and the process that ran them forks for others afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import code, layout, listing


@pytest.fixture(scope="module", autouse=True)
def _forgotten_at_the_end() -> Iterator[None]:
    """All syntax trees are half a gigabyte, and each program that a test starts later costs a fork of it."""
    yield
    for read in (layout.graph, code.nodes, code.tree_of, listing.text, listing.files):
        read.cache_clear()
