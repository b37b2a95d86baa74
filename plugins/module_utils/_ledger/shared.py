# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One connection to the ledger that several threads use in turn. PRIVATE to the collection."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger


class SharedLedger(Ledger):
    """A read waits for the transaction of another thread, and so does a transaction: on one connection it would else
    be part of it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._turn = threading.RLock()
        super().__init__(*args, **options)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        with self._turn, ExitStack() as ends:
            yield ends.enter_context(super().transaction())

    @contextmanager
    def snapshot(self) -> Iterator[Any]:
        with self._turn, ExitStack() as ends:
            yield ends.enter_context(super().snapshot())

    def _read(self, statement: Any, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        with self._turn:
            return super()._read(statement, values)
