# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the inventory says of a machine is a claim: it makes no two machines one, and ends where it is corrected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import connection, schema
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._variables import node_of

Row = Mapping[str, str]
#: What the two machines are, and what the row of the first one says by mistake.
ONE, OTHER = {"serial": "GF0001", "mac": "52:54:00:00:00:01"}, {"serial": "GF0002", "mac": "52:54:00:00:00:02"}
TYPO = {**ONE, "serial": "GF0002"}


class Inventory:
    """Rows by host, and the ledger's id of each as a task of that host would ask for it."""

    def __init__(self, ledger: Ledger, **rows: Row) -> None:
        self.ledger, self.rows = ledger, dict(rows)

    def says(self, host: str) -> Optional[Sequence[tuple[str, str]]]:
        return list(self.rows[host].items()) if host in self.rows else None

    def node(self, host: str, **more: Any) -> str:
        pairs = list(self.rows[host].items())
        return self.ledger.identify(host, aliases=pairs, says=self.says, run_id="r1", **more)


def known(ledger: Ledger, node: str) -> dict[str, str]:
    return {row["kind"]: row["value"] for row in ledger.aliases(node)}


def test_u3_a_typo_that_is_corrected_leaves_nothing(ledger: Ledger) -> None:
    """A serial that no machine has, or that another one has which comes later."""
    fleet = Inventory(ledger, gpu001=TYPO)
    node = fleet.node("gpu001")
    ledger.append("r1", [(node, Event("state", "enrolled"))])
    fleet.rows["gpu001"] = ONE
    assert fleet.node("gpu001", create=False) == node == fleet.node("gpu001")
    assert known(ledger, node) == ONE
    [event] = ledger.history(node, kinds=("identity",))
    assert (event["name"], event["run_id"]) == ("corrected", "r1")
    assert event["data"] == {"kind": "serial", "value": "GF0002", "host": "gpu001"}
    fleet.rows["gpu002"] = OTHER
    assert fleet.node("gpu002") not in ("", node)


def test_u3_a_claim_that_was_corrected_does_not_bind_the_machine_that_has_the_serial(ledger: Ledger) -> None:
    """Its row may be asked first."""
    fleet = Inventory(ledger, gpu001=TYPO, gpu002=OTHER)
    node = fleet.node("gpu001")
    fleet.rows["gpu001"] = ONE
    assert fleet.node("gpu002", create=False) == ""
    other = fleet.node("gpu002")
    assert other != node and fleet.node("gpu001") == node
    assert (known(ledger, node), known(ledger, other)) == (ONE, OTHER)


def test_u3_a_typo_that_is_taken_out_of_the_inventory_is_no_claim_any_more(ledger: Ledger) -> None:
    """Its row names no serial then, and the machine that has it is the node of its own row."""
    fleet = Inventory(ledger, gpu001=TYPO, gpu002=OTHER)
    node = fleet.node("gpu001")
    fleet.rows["gpu001"] = {"serial": "", "mac": ONE["mac"]}
    other = fleet.node("gpu002")
    assert other != node == fleet.node("gpu001")
    assert (known(ledger, node), known(ledger, other)) == ({"mac": ONE["mac"]}, OTHER)


def learnt(ledger: Ledger, row: Row) -> str:
    """The node of gpu001 for a task after the one that has set the serial which its BMC tells."""
    variables = {"gpufleet_serial": row["serial"], "gpufleet_boot_mac": row["mac"]}
    asks: dict[str, Any] = {"create": True, "hosts": ["gpu001"], "learnt": True, "run_id": "r1"}
    return node_of(ledger, "gpu001", lambda name, host: variables.get(name), **asks)


def test_u3_no_bmc_stands_in_for_a_typo_that_was_taken_out(ledger: Ledger) -> None:
    """It may be another machine's. There is nothing in the inventory that a person could correct: the message says how
    it is taken off the node."""
    node = Inventory(ledger, gpu001=TYPO).node("gpu001")
    with pytest.raises(ConfigError, match="by another serial") as refused:
        learnt(ledger, ONE)
    assert "identity=retired -e identity_kind=serial" in refused.value.do
    assert known(ledger, node) == TYPO


def test_u3_what_another_bmc_tells_takes_back_nothing_that_the_first_one_told(ledger: Ledger) -> None:
    """Its address is another machine's now."""
    node = learnt(ledger, ONE)
    with pytest.raises(ConfigError, match="by another serial"):
        learnt(ledger, TYPO)
    assert known(ledger, node) == ONE


@pytest.mark.parametrize("confirmed", [False, True])
@pytest.mark.parametrize("there", [False, True], ids=["another inventory", "one inventory"])
def test_u3_a_typo_joins_no_machine_that_the_ledger_knows(ledger: Ledger, there: bool, confirmed: bool) -> None:
    """Nor is anything of it written; corrected, each is its own."""
    fleet = Inventory(ledger, gpu002=OTHER)
    other = fleet.node("gpu002")
    if confirmed:
        ledger.confirm(other, [*OTHER.items()], "bmc")
    ledger.append("r0", [(other, Event("state", "admitted"))] if confirmed else [])
    fleet.rows["gpu001"] = TYPO
    row = fleet.rows["gpu002"] if there else fleet.rows.pop("gpu002")
    for create in (False, True):
        with pytest.raises(ConfigError, match="two hosts of the inventory are one node") as caught:
            fleet.node("gpu001", create=create)
        assert "gpu002" in caught.value.seen and "serial GF0002" in caught.value.seen
    assert known(ledger, other) == OTHER
    fleet.rows.update(gpu001=ONE, gpu002=row)
    node = fleet.node("gpu001")
    assert node != other == fleet.node("gpu002") and known(ledger, node) == ONE


def test_u3_what_came_with_a_typo_leaves_the_other_machine_with_it(ledger: Ledger) -> None:
    """Of the other machine no boot port was known, so that a host that was renamed could not be told from a typo."""
    fleet = Inventory(ledger, gpu002={"serial": "GF0002"})
    other = fleet.node("gpu002")
    ledger.confirm(other, [("serial", "gf0002")], "bmc")
    row = fleet.rows.pop("gpu002")
    fleet.rows["gpu001"] = TYPO
    assert fleet.node("gpu001") == other, "a host that was renamed is the node that it was"
    fleet.rows.update(gpu001=ONE, gpu002=row)
    node = fleet.node("gpu001")
    assert node != other == fleet.node("gpu002")
    assert (known(ledger, node), known(ledger, other)) == (ONE, {"serial": "GF0002"})


def test_u3_a_mac_that_is_corrected_leaves_nothing(ledger: Ledger) -> None:
    fleet = Inventory(ledger, gpu001={**ONE, "mac": OTHER["mac"]})
    node = fleet.node("gpu001")
    fleet.rows["gpu001"] = ONE
    assert fleet.node("gpu001") == node and known(ledger, node) == ONE
    fleet.rows["gpu002"] = OTHER
    assert fleet.node("gpu002") != node


@pytest.mark.parametrize("how", ["confirmed", "served", "peer", "other host", "node id"])
def test_u3_what_is_more_than_a_claim_is_not_corrected_by_a_row(ledger: Ledger, how: str) -> None:
    fleet = Inventory(ledger, gpu001=ONE)
    node = fleet.node("gpu001")
    if how == "confirmed":
        ledger.confirm(node, [("serial", "GF0001")], "bmc")
    ledger.append("r0", [(node, Event("state", "admitted"))] if how in ("served", "node id") else [])
    host = "gpu007" if how == "other host" else "gpu001"
    fleet.rows = {host: TYPO}
    more: dict[str, Any] = {"inventory": False} if how == "peer" else {"node_id": node} if how == "node id" else {}
    for create in (False, True):
        with pytest.raises(ConfigError, match="by another serial|two hosts") as caught:
            fleet.node(host, create=create, **more)
        assert "identity=replaced" in caught.value.do
    assert known(ledger, node) == ONE


def test_u3_a_peer_confirms_what_it_tells_and_nothing_else(ledger: Ledger) -> None:
    fleet = Inventory(ledger, gpu001=ONE)
    node = fleet.node("gpu001")
    before = ledger.now()
    ledger.confirm(node, [("serial", "gf0001"), ("mac", OTHER["mac"])], "bmc")
    rows = {row["kind"]: row for row in ledger.aliases(node)}
    assert rows["serial"]["confirmed_by"] == "bmc" and rows["serial"]["confirmed"] >= before - 60
    assert rows["mac"]["confirmed_by"] == "" and known(ledger, node) == ONE
    ledger.confirm(node, [("serial", "GF0001")], "node")
    assert ledger.aliases(node)[1]["confirmed_by"] == "bmc", "who was first stays"


def test_u3_a_host_that_was_renamed_is_the_node_that_it_was(ledger: Ledger) -> None:
    """And what it claimed under its old name is its own: another machine may have that name now."""
    fleet = Inventory(ledger, gpu001=ONE)
    node = fleet.node("gpu001")
    fleet.rows = {"gpu007": ONE}
    assert fleet.node("gpu007") == node
    fleet.rows["gpu001"] = OTHER
    assert fleet.node("gpu001") != node == fleet.node("gpu007")


def test_u3_a_ledger_of_before_takes_its_aliases_along_as_claims(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(connection, "migrations", lambda dialect: schema.migrations(dialect)[:2])
        with Ledger(url) as old, old.transaction() as conn:
            conn.exec_driver_sql("INSERT INTO nodes VALUES ('n1', 'gpu001', 0)")
            for kind, value in TYPO.items():
                conn.exec_driver_sql(f"INSERT INTO aliases VALUES ('{kind}', '{value}', 'n1', 'inventory', 7)")
    with Ledger(url) as ledger:
        told = [(row["host"], row["confirmed_by"], row["seen"]) for row in ledger.aliases("n1")]
        assert told == [("gpu001", "", 7)] * 2
        assert Inventory(ledger, gpu001=ONE).node("gpu001") == "n1" and known(ledger, "n1") == ONE


def test_u3_what_was_in_service_keeps_its_serial_whatever_its_host_says_now(ledger: Ledger) -> None:
    """It was known by it; who has it now is that machine under another name."""
    fleet = Inventory(ledger, gpu001=ONE)
    node = fleet.node("gpu001")
    ledger.append("r0", [(node, Event("state", "admitted"))])
    fleet.rows = {"gpu001": {"serial": "GF0003", "mac": "52:54:00:00:00:03"}, "gpu007": ONE}
    assert fleet.node("gpu007") == node != fleet.node("gpu001") and known(ledger, node) == ONE


@pytest.mark.parametrize("told", ["confirmed", "peer"])
def test_u3_what_a_peer_said_or_says_parts_no_claim_from_its_node(ledger: Ledger, told: str) -> None:
    """A BMC has told the boot port that came with a typo; or it is a BMC that tells the serial now."""
    fleet = Inventory(ledger, gpu002={"serial": "GF0002"})
    other = fleet.node("gpu002")
    ledger.confirm(other, [("serial", "GF0002")], "bmc")
    fleet.rows = {"gpu001": TYPO}
    assert fleet.node("gpu001") == other
    if told == "confirmed":
        ledger.confirm(other, [("mac", ONE["mac"])], "bmc")
    fleet.rows = {"gpu001": ONE, "gpu002": {"serial": "GF0002"}}
    with pytest.raises(ConfigError, match="by another serial"):
        fleet.node("gpu001", inventory=told == "confirmed")
    assert known(ledger, other) == TYPO


class Raced(Ledger):
    """Another run writes right before this one does."""

    first = ""

    def transaction(self) -> Any:
        first, self.first = self.first, ""
        if first:
            with Ledger(self.url) as other, other.transaction() as conn:
                conn.exec_driver_sql(first)
        return super().transaction()


@pytest.mark.parametrize("meanwhile", ["taken", "confirmed"])
def test_u3_a_peer_confirms_no_alias_that_another_run_took_or_confirmed_meanwhile(url: str, meanwhile: str) -> None:
    with Raced(url) as ledger:
        fleet = Inventory(ledger, gpu001=ONE, gpu002=OTHER)
        node, other = fleet.node("gpu001"), fleet.node("gpu002")
        change = f"node_id = '{other}'" if meanwhile == "taken" else "confirmed_by = 'node'"
        ledger.first = f"UPDATE aliases SET {change} WHERE value = 'GF0001'"
        ledger.confirm(node, [*ONE.items()], "bmc")
        told = {row["kind"]: (row["node_id"], row["confirmed_by"]) for row in ledger._aliases([*ONE.items()])}
    assert told == {"serial": (other, "") if meanwhile == "taken" else (node, "node"), "mac": (node, "bmc")}


@pytest.mark.parametrize("names", [{"serial": "GF0001"}, {"learnt": True}], ids=["told by the task", "set by a task"])
def test_r1_a_node_that_is_known_by_its_uuid_is_the_same_one_once_its_serial_is_learnt(
    ledger: Ledger, names: dict[str, Any]
) -> None:
    """Its lease, its hold and its history would be another's for the rest of the run."""
    row = {"gpufleet_system_uuid": "5ac00000-0001-4002-8000-000000000001"}
    asks: dict[str, Any] = {"create": True, "hosts": ["gpu001"], "run_id": "r1"}
    node = node_of(ledger, "gpu001", lambda name, host: row.get(name), **asks)
    later = {**row, "gpufleet_serial": "GF0001"} if "learnt" in names else row
    assert node_of(ledger, "gpu001", lambda name, host: later.get(name), **asks, **names) == node
    assert known(ledger, node)["serial"] == "GF0001" and ledger.owner("serial", "GF0001") == node


def test_r1_where_the_inventory_names_a_serial_a_moved_board_does_not(ledger: Ledger) -> None:
    row = {"gpufleet_system_uuid": "5ac00000-0001-4002-8000-000000000001", "gpufleet_serial": "GF0001"}
    node = node_of(ledger, "gpu001", lambda name, host: row.get(name), create=True, hosts=["gpu001"])
    assert set(known(ledger, node)) == {"serial"}
