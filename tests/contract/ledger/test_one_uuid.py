# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One UUID in two byte orders is one machine's: swaps write it once, and a ledger that has it twice is mended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action.node_identity import ActionModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import identity
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._variables import node_of
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door

UUID, TURNED = "4c4c4544-0038-3510-8052-b4c04f4d3132", "44454c4c-3800-1035-8052-b4c04f4d3132"


def node(ledger: Ledger, **row: str) -> str:
    said = {f"gpufleet_{key}": value for key, value in row.items()}
    return node_of(ledger, "gpu001", lambda name, host: said.get(name), create=True, hosts=["gpu001"], run_id="r")


def call(ledger: Ledger, folder: Path, row: Mapping[str, str], **args: Any) -> dict[str, Any]:
    said = {f"gpufleet_{key}": value for key, value in row.items()}
    return Door(
        folder, identity.node_identity, base=ActionModule, name="node_identity", own_spec=identity.SPEC,
        args={"reason": "RMA 7", **args}, hostvars={"gpu001": said}, gpufleet_ledger_url=ledger.url, **said,
    ).run()  # fmt: skip


@pytest.fixture
def twice(ledger: Ledger) -> tuple[str, str]:
    """As a release of before has left it: two nodes of two hosts, and the second one's host is in no inventory."""
    mine = ledger.identify("gpu001", aliases=[("system_uuid", UUID)])
    with ledger.transaction() as conn:
        conn.exec_driver_sql("INSERT INTO nodes VALUES ('other', 'gpu002', 1.0)")
        conn.exec_driver_sql(
            "INSERT INTO aliases (kind, value, node_id, source, seen, host)"
            f" VALUES ('system_uuid', '{TURNED}', 'other', 'inventory', 1.0, 'gpu002')"
        )
    return mine, "other"


def test_r2_a_board_that_is_told_in_the_other_order_moves_as_one(ledger: Ledger, tmp_path: Path) -> None:
    donor = ledger.identify("gpu002", aliases=[("serial", "S2"), ("system_uuid", TURNED)])
    mine = ledger.identify("gpu001", aliases=[("serial", "S1")])
    ledger.confirm(mine, [("serial", "S1")], "bmc")
    row = {"serial": "S1"}
    moved = call(ledger, tmp_path, row, state="moved", kind="system_uuid", value=UUID)
    assert not moved.get("failed") and moved["from_node"] == donor, moved
    assert {row["node_id"] for row in ledger._aliases([("system_uuid", UUID)])} == {mine}
    assert node(ledger, serial="S1", system_uuid=UUID) == mine == node(ledger, serial="S1", system_uuid=TURNED)


def test_r2_two_nodes_of_one_uuid_are_one_once_the_other_is_retired(ledger: Ledger, twice: tuple[str, str]) -> None:
    mine, other = twice
    for spelling in (UUID, TURNED):
        with pytest.raises(ConfigError, match="identity=retired -e identity_kind=system_uuid"):
            node(ledger, system_uuid=spelling)
    ledger.append("p", [(other, Event("state", "retired"))])
    assert node(ledger, system_uuid=UUID) == mine == node(ledger, system_uuid=TURNED)


def test_r2_or_once_the_uuid_is_taken_from_it_as_the_message_says(
    ledger: Ledger, twice: tuple[str, str], tmp_path: Path
) -> None:
    mine, _other = twice
    gone = call(ledger, tmp_path, {"system_uuid": UUID}, state="retired", kind="system_uuid", value=TURNED)
    assert not gone.get("failed"), gone
    assert node(ledger, system_uuid=UUID) == mine == node(ledger, system_uuid=TURNED)


def test_r2_other_conflicts_are_told_no_such_way(ledger: Ledger) -> None:
    for name, alias in (("gpu001", ("serial", "S1")), ("gpu002", ("system_uuid", UUID))):
        ledger.identify(name, aliases=[alias])
        ledger.confirm(ledger.owner(*alias), [alias], "bmc")
    with pytest.raises(ConfigError, match="different nodes") as caught:
        node(ledger, node_id=ledger.owner("serial", "S1"), system_uuid=UUID)
    assert "byte orders" not in caught.value.do
