# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node of the ledger each host of a batch is, and that check mode leaves none there and takes no lease."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import BATCH
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._batch import BatchAction
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.test_batch import HOSTS, Batch

IDS = {host: f"0b3a2f2e-0000-4000-8000-00000000000{number}" for number, host in enumerate(HOSTS)}


def rows(folder: Path, sql: str) -> list[Any]:
    with sqlite3.connect(folder / "ledger.sqlite") as connection:
        return sorted(connection.execute(sql).fetchall())


def enrolled(folder: Path) -> None:
    with Ledger(f"sqlite:///{folder}/ledger.sqlite") as ledger:
        for host, node_id in IDS.items():
            assert ledger.identify(host, node_id=node_id, aliases=[("serial", f"S-{host}")]) == node_id


def test_t1_each_host_of_a_batch_is_the_node_that_its_own_id_names(tmp_path: Path) -> None:
    """The task runs for one host and has its id among the options; the others have theirs in the inventory."""
    enrolled(tmp_path)
    own: dict[str, dict[str, Any]] = {host: {"gpufleet_node_id": node_id} for host, node_id in IDS.items()}
    found = Batch(tmp_path, **own).run()
    assert not found.get("failed"), found
    assert rows(tmp_path, "SELECT node_id FROM leases") == [(node_id,) for node_id in IDS.values()]
    assert rows(tmp_path, "SELECT node_id FROM events WHERE kind = 'note'") == [(one,) for one in IDS.values()]


def test_t1_an_id_that_the_ledger_has_never_seen_fails_no_batch(tmp_path: Path) -> None:
    """Of one host of three; it is watched all the same, as every host that the ledger does not know."""
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
        known = ledger.identify("gpu001", aliases=[("serial", "S-gpu001")])
    stranger = {"gpufleet_node_id": IDS["gpu002"], "gpufleet_serial": ""}
    found = Batch(tmp_path, gpu002=stranger).run()
    assert not found.get("failed"), found
    assert set(found["verdicts"]) == set(HOSTS)
    assert rows(tmp_path, "SELECT node_id FROM leases") == [(known,)]


@pytest.mark.parametrize("needs_identity", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_t1_check_mode_leaves_the_ledger_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needs_identity: bool, known: bool
) -> None:
    """It makes no node of a host that is not known, and takes no lease of one that is."""
    monkeypatch.setattr(BatchAction, "NEEDS_IDENTITY", needs_identity)
    enrolled(tmp_path) if known else Ledger(f"sqlite:///{tmp_path}/ledger.sqlite").close()
    before = (tmp_path / "ledger.sqlite").read_bytes()
    batch = Batch(tmp_path)
    shared = {"hostvars": batch.hosts, "ansible_play_hosts": list(HOSTS), "ansible_play_batch": list(HOSTS)}
    own = {"inventory_hostname": "gpu001", **batch.hosts["gpu001"]}
    found = Door(tmp_path, batch._verb, check_mode=True, base=BatchAction, more=BATCH, **own, **shared).run()
    assert not found.get("failed"), found
    assert batch.asked and not any(node.get("refused") for node in batch.asked[0])
    assert rows(tmp_path, "SELECT node_id FROM leases") == []
    assert len(rows(tmp_path, "SELECT node_id FROM nodes")) == (len(HOSTS) if known else 0)
    assert (tmp_path / "ledger.sqlite").read_bytes() == before
