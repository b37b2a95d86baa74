# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several that hear the same monitors have one ledger, in a file and in PostgreSQL."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.desk import Desk
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.taken import Rules
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event

EARS = 3


def test_who_hears_the_same_at_once_launches_it_once_and_no_more_than_may_be(
    ledger: Ledger, ids: dict[str, str]
) -> None:
    hosts = sorted(ids)[:3]
    ledger.append("setup", [(ids[host], Event("state", "admitted", {})) for host in hosts])
    together = Barrier(EARS)

    def hear(number: int) -> list[str]:
        asker = replace(this_run(os.getpid()), run_id=f"ears-{number}")
        together.wait()
        message = {"event": "down", "nodes": hosts}
        told, _broke = Desk(ledger.url, rules=Rules(most=2)).answers(asker, "slurm", message)
        return [one.host for one in told if not one.refused]

    with ThreadPoolExecutor(EARS) as pool:
        launched = [host for found in pool.map(hear, range(EARS)) for host in found]
    assert len(launched) == len(set(launched)) == 2
    assert len(ledger.of_all("alert")) == 2
