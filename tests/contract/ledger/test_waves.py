# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two controllers begin a wave at once on one ledger: the one that comes later sees the other one's."""

from __future__ import annotations

import threading
from typing import Any

import sqlalchemy as sa
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves import begun

WAVE = Event("wave", "begun", {"canary": True, "image": "gpu-golden 2", "size": 1})


def is_awaited(conn: Any, ledger: Ledger) -> bool:
    """Does somebody wait for this transaction? SQLite, which has one writer anyway, cannot be asked."""
    waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 20864 AND NOT granted"
    return ledger.dialect == "sqlite" or bool(conn.execute(sa.text(waits)).scalar())


def test_whoever_has_the_higher_number_sees_the_lower_one(ledger: Ledger, url: str) -> None:
    """A database may give a number long before others see what it is of."""
    nodes = [ledger.identify(name, aliases=[("serial", name)]) for name in ("gpu001", "gpu002")]
    seen: list[str] = []
    begins = threading.Event()

    def second() -> None:
        with Ledger(url) as other:
            begins.set()
            [number] = begun.append(other, "second", [(nodes[1], WAVE)], frozenset())
            waves = begun.stand(begun.recent(other, nodes, run="second", since=0), before=number)
            seen.extend(str(one["run_id"]) for one in waves)

    rival = threading.Thread(target=second)
    with ledger.transaction() as conn:
        ledger.alone_with_waves(conn)
        ledger.append_in(conn, "first", [(nodes[0], WAVE)])
        rival.start()
        assert begins.wait(60)
        rival.join(0.5)
        while rival.is_alive() and not is_awaited(conn, ledger):
            rival.join(0.05)
        assert rival.is_alive() and not seen, "it waits for what was begun"
    rival.join(30)
    assert seen == ["first"]
