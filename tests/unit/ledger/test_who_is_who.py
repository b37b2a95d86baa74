# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An id out of the inventory that this ledger has never seen: no node to whoever only looks, and made by who writes."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event

OWN = "0b3a2f2e-0000-4000-8000-000000000001"
SERIAL = ("serial", "GF0001")


@pytest.mark.parametrize("aliases", [[], [SERIAL]])
def test_t1_to_look_with_an_id_that_nobody_has_seen_finds_no_node(
    ledger: Ledger, aliases: list[tuple[str, str]]
) -> None:
    assert ledger.identify("gpu001", node_id=OWN, aliases=aliases, create=False) == ""
    assert ledger._rows("SELECT * FROM nodes") == []
    assert ledger.identify("gpu001", node_id=OWN, aliases=aliases) == OWN
    assert ledger.identify("gpu001", node_id=OWN, aliases=[SERIAL], create=False) == OWN


def test_t1_an_id_that_nobody_has_seen_is_still_not_another_nodes(ledger: Ledger) -> None:
    node = ledger.identify("gpu001", aliases=[SERIAL])
    with pytest.raises(ConfigError, match="different nodes"):
        ledger.identify("gpu001", node_id=OWN, aliases=[SERIAL], create=False)
    assert ledger.identify("gpu001", node_id=node, aliases=[SERIAL], create=False) == node


MAC = ("mac", "52:54:00:00:00:01")
OTHER = ("serial", "GF0002")


def test_v2_a_node_that_has_a_serial_gets_no_second_one(ledger: Ledger) -> None:
    node = ledger.identify("gpu001", aliases=[SERIAL, MAC])
    ledger.confirm(node, [SERIAL], "bmc")
    for known in ({"aliases": [OTHER, MAC]}, {"node_id": node, "aliases": [OTHER]}):
        for create in (True, False):
            with pytest.raises(ConfigError, match="by another serial") as caught:
                ledger.identify("gpu001", create=create, **known)  # type: ignore[arg-type]
            assert (caught.value.wanted, caught.value.seen) == ("serial GF0001", "serial GF0002")
            assert "identity=replaced" in caught.value.do and "address of the BMC" in caught.value.do
    assert ledger.serials(node) == ["GF0001"]
    # Another spelling of the same serial is no other machine, and a MAC more is none either.
    more = [("serial", "gf0001"), MAC, ("mac", "52:54:00:00:00:02")]
    assert ledger.identify("gpu001", node_id=node, aliases=more) == node


def test_v2_a_node_gets_the_first_serial_that_is_told(ledger: Ledger) -> None:
    node = ledger.identify("gpu001", aliases=[MAC])
    assert ledger.identify("gpu001", aliases=[SERIAL, MAC]) == node and ledger.serials(node) == ["GF0001"]


@pytest.mark.parametrize("known", [[], [OTHER]], ids=["new", "known"])
def test_v2_the_mac_of_a_retired_node_goes_to_the_machine_that_has_it_now(
    ledger: Ledger, known: list[tuple[str, str]]
) -> None:
    """A chassis that was replaced: its record ends, and the new one begins its own."""
    old = ledger.identify("gpu001", aliases=[SERIAL, MAC])
    other = ledger.identify("gpu002", aliases=known) if known else ""
    ledger.confirm(old, [SERIAL], "bmc")
    ledger.append("run", [(old, Event("state", "quarantined", {"reason": "x"}))])
    with pytest.raises(ConfigError, match="identity=replaced"):
        ledger.identify("gpu001", aliases=[OTHER, MAC])
    ledger.append("run", [(old, Event("state", "retired", {"reason": "chassis replaced"}))])
    assert ledger.identify("gpu001", aliases=[OTHER, MAC], create=False) == other
    new = ledger.identify("gpu001", aliases=[OTHER, MAC])
    assert new not in ("", old) and other in ("", new)
    assert ledger.identify("gpu001", aliases=[MAC]) == new and ledger.serials(new) == ["GF0002"]
    assert ledger.identify("spare", aliases=[SERIAL]) == old and ledger.serials(old) == ["GF0001"]


def test_v2_a_retired_node_stays_itself(ledger: Ledger) -> None:
    """Who names it by its serial or its id means it; by a MAC alone nobody says that it is another one."""
    node = ledger.identify("gpu001", aliases=[SERIAL, MAC])
    ledger.confirm(node, [SERIAL], "bmc")
    ledger.append("run", [(node, Event("state", "retired", {"reason": "sold"}))])
    assert ledger.identify("gpu001", aliases=[SERIAL, MAC]) == node
    assert ledger.identify("gpu001", aliases=[MAC]) == node
    with pytest.raises(ConfigError, match="by another serial"):
        ledger.identify("gpu001", node_id=node, aliases=[OTHER, MAC])


def test_n6_a_serial_in_another_case_is_the_same_machine(ledger: Ledger) -> None:
    """As the inventory and the BMC tell it; as it was told first it stays."""
    stored = {"GF0001": ("gf0001", "Gf0001", " GF0001 "), "gf0002": ("GF0002", "gF0002", "gf0002")}
    for first, others in stored.items():
        node = ledger.identify(first, aliases=[("serial", first)])
        for spelled in others:
            for create in (False, True):
                assert ledger.identify(first, aliases=[("serial", spelled)], create=create) == node, spelled
        assert ledger.serials(node) == [first]
    assert len(ledger._rows("SELECT * FROM nodes")) == 2


def test_n6_a_serial_in_another_case_belongs_to_its_node(ledger: Ledger) -> None:
    one, other = ledger.identify("gpu001", aliases=[SERIAL]), ledger.identify("gpu002", aliases=[MAC])
    with pytest.raises(ConfigError, match="different nodes") as caught:
        ledger.identify("gpu001", aliases=[("serial", "gf0001"), MAC])
    assert one in caught.value.seen and other in caught.value.seen


def test_n6_two_nodes_that_an_older_release_made_of_one_serial_stay_what_they_are(ledger: Ledger) -> None:
    """Each by its own spelling; by a third one nobody can say which."""
    spellings = ("GF0001", "gf0001")
    with ledger.transaction() as conn:
        ids = [ledger._remember(conn, None, one, [("serial", one)], "inventory") for one in spellings]
    for node, spelled in zip(ids, spellings):
        assert ledger.identify("gpu001", aliases=[("serial", spelled)]) == node
    with pytest.raises(ConfigError, match="different nodes"):
        ledger.identify("gpu001", aliases=[("serial", "Gf0001")])


#: One machine's, as SMBIOS has it from 2.6 on, and with its first three fields byte by byte as they lie in the table.
UUID, TURNED = (
    ("system_uuid", "4c4c4544-0038-3510-8052-b4c04f4d3132"),
    (
        "system_uuid",
        "44454c4c-3800-1035-8052-b4c04f4d3132",
    ),
)
#: As IPMI sends it: all its bytes the other way round; and the next one's.
REVERSED = ("system_uuid", "32314d4f-c0b4-5280-1035-380044454c4c")
NEXT = ("system_uuid", "4c4c4544-0038-3510-8052-b4c04f4d3133")


@pytest.mark.parametrize(("first", "then"), [(UUID, TURNED), (TURNED, UUID), (UUID, REVERSED), (REVERSED, TURNED)])
def test_r6_one_uuid_in_two_byte_orders_is_one_node(
    ledger: Ledger, first: tuple[str, str], then: tuple[str, str]
) -> None:
    node = ledger.identify("gpu001", aliases=[first])
    assert ledger.identify("gpu001", aliases=[then, MAC]) == node and ledger.owner(*then) == node
    assert {row["value"] for row in ledger.aliases(node)} == {first[1], MAC[1]}, "the one is not kept beside the other"
    ledger.confirm(node, [then], "bmc")
    assert [row["confirmed_by"] for row in ledger.aliases(node) if row["kind"] == "system_uuid"] == ["bmc"]
    assert ledger.identify("gpu002", aliases=[NEXT]) != node


def test_v2_what_may_be_a_retired_machine_is_not_taken_for_the_one_of_its_uuid(ledger: Ledger) -> None:
    """Nobody knows the serial, and the retired one has none that could tell them apart: it may be back."""
    retired = ledger.identify("gpu001", aliases=[MAC])
    ledger.append("r1", [(retired, Event("state", "retired"))])
    living = ledger.identify("gpu002", aliases=[UUID])
    assert ledger.identify("gpu002", aliases=[UUID, MAC], create=False) == living
    with pytest.raises(ConfigError, match="belong to different nodes"):
        ledger.identify("gpu002", aliases=[SERIAL, UUID, MAC], create=False)


def test_r6_two_hosts_that_say_one_uuid_in_two_byte_orders_are_told(ledger: Ledger) -> None:
    says = {"gpu001": [UUID], "gpu002": [TURNED]}
    ledger.identify("gpu001", aliases=[UUID], says=says.get)
    with pytest.raises(ConfigError, match="two hosts of the inventory are one node"):
        ledger.identify("gpu002", aliases=[TURNED], says=says.get)


def test_r6_two_nodes_that_were_made_of_one_uuid_are_told_and_nothing_is_done_with_either(ledger: Ledger) -> None:
    """As a ledger has it from before all orders were one: the one would be drained, and the other's jobs hit."""
    ledger.identify("gpu001", aliases=[UUID])
    with ledger.transaction() as conn:
        conn.exec_driver_sql("INSERT INTO nodes VALUES ('other', 'gpu002', 1.0)")
        conn.exec_driver_sql(
            "INSERT INTO aliases (kind, value, node_id, source, seen, host)"
            f" VALUES ('system_uuid', '{TURNED[1]}', 'other', 'inventory', 1.0, 'gpu002')"
        )
    for host, told in (("gpu001", UUID), ("gpu002", TURNED), ("gpu003", REVERSED)):
        with pytest.raises(ConfigError, match="belong to different nodes") as caught:
            ledger.identify(host, aliases=[told])
        assert "is node other" in str(caught.value.seen)
