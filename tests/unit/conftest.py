# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What unit tests of several parts share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """A ledger of the test's own, in a file."""
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as opened:
        yield opened


@pytest.fixture
def texts_read() -> Callable[[Ledger, Callable[[], object]], int]:
    """Counts the texts that a question takes out of a ledger in a file."""

    def count(ledger: Ledger, question: Callable[[], object]) -> int:
        found: list[bytes] = []

        def decoded(raw: bytes) -> str:
            found.append(raw)
            return raw.decode()

        connection = ledger._conn.connection.driver_connection
        connection.text_factory = decoded
        try:
            question()
        finally:
            connection.text_factory = str
        return len(found)

    return count
