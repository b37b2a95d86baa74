# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import itertools
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_join import join, known_by, without_a_row
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_record import Record, serial
from hypothesis import given
from hypothesis import strategies as st

U1, U2 = "5ac00000-0000-4000-8000-000000000001", "5ac00000-0000-4000-8000-000000000002"
M1, M2 = "52:54:00:77:00:01", "52:54:00:77:00:02"


def row(where: str, serial: str = "", system_uuid: str = "", *macs: str, **variables: object) -> Record:
    return Record(where, name=where, serial=serial, system_uuid=system_uuid, macs=list(macs), variables=variables)


def test_serial_then_uuid_then_mac_and_never_the_name() -> None:
    first = [row("a1", "S1", U1, M1, x=1, y=""), row("a2", "", U2, M2), row("a3", "S3")]
    second = [row("b1", "s1", "", z=2, x=9, y=3), row("b2", "", U2), row("b3", "", "", M1.replace("01", "03"))]
    third = [row("c2", "", "", M2), row("a3", "S4")]
    machines, left_out = join([(first, False), (second, False), (third, False)])
    assert [machine.where for machine in machines] == ["a1 and b1", "a2 and b2 and c2", "a3", "b3", "a3"]
    assert machines[0].variables() == {"x": 1, "y": 3, "z": 2}, "the first source that knows it decides"
    assert left_out == []


def test_join_only_adds_no_machine() -> None:
    machines, left_out = join([([row("a1", "S1")], False), ([row("b1", "S1"), row("b2", "S2")], True)])
    assert len(machines) == 1 and [one.where for one in left_out] == ["b2"]


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        # twins in one source
        ([row("a1", "S1"), row("a2", "s1")], [], "two rows have the serial S1. Seen: a1 and a2"),
        ([row("a1", "S1", "", M1), row("a2", "S2", "", M1)], [], f"two rows have the MAC {M1}. Seen: a1 and a2"),
        # two rows that both belong to one
        ([row("a1", "S1", "", M1)], [row("b1", "S1"), row("b2", "", "", M1)], "b1 and b2, both matching a1"),
        # one row that belongs to two
        ([row("a1", "S1"), row("a2", "S2", "", M2)], [row("b1", "S1", "", M2)], "b1 has the serial S1 of a1 and the"),
        # the weaker key agrees, the stronger one does not
        ([row("a1", "S1", "", M1)], [row("b1", "S2", "", M1)], "two different values of serial (S1 and S2)"),
        ([row("a1", "S1", U1)], [row("b1", "S1", U2)], "two different values of system UUID"),
    ],
)
def test_what_is_not_one_clear_match_names_both_rows(first: list[Record], second: list[Record], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        join([(first, False), (second, False)])
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"gpufleet_bmc_address": "10.0.0.5"}, {"gpufleet_bmc_address": "10.0.0.5/24"}),
        ({"gpufleet_node_id": "5AC0"}, {"gpufleet_node_id": "5ac0"}),
        ({"gpufleet_provisioner_id": "p1"}, {"gpufleet_provisioner_id": "p1"}),
        ({"gpufleet_scheduler_node": "n1"}, {"gpufleet_scheduler_node": "n1"}),
        ({"ansible_host": "10.0.0.5"}, {"ansible_host": "10.0.0.5"}),
        ({"csv_bmc_mac": M1}, {"gpufleet_boot_mac": M1}),
    ],
)
def test_t1_what_belongs_to_one_machine_only_is_not_filled_into_two(one: Any, other: Any) -> None:
    rows = [row("a1", "S1", "", **one), row("a2", "S2", "", **other)]
    with pytest.raises(ConfigError, match="two machines have the .*a1; a2"):
        join([(rows, False)])
    with pytest.raises(ConfigError, match="two machines have the .*a1; a2"):
        join([(rows[:1], False), (rows[1:], False)])


def test_t1_systems_of_one_bmc_are_told_apart_by_their_names_there() -> None:
    rows = [row(f"a{n}", f"S{n}", gpufleet_bmc_address="h", gpufleet_bmc_system_id=str(n)) for n in (1, 2)]
    assert len(join([(rows, False)])[0]) == 2


def test_what_boards_say_without_a_serial_joins_nothing() -> None:
    for text in ("To be filled by O.E.M.", "  default string ", "0123456789", "None", "Unknown"):
        assert serial(text) == ""


@given(st.permutations([0, 1, 2]), st.lists(st.sampled_from("ABCDEFGH"), unique=True, min_size=1))
def test_the_order_of_sources_changes_no_machine(order: list[int], names: list[str]) -> None:
    sources = [
        [row(f"csv {name}", f"S{name}", "", f"52:54:00:00:00:{ord(name):02x}") for name in names],
        [row(f"ironic {name}", "", "", f"52:54:00:00:00:{ord(name):02x}") for name in names[::-1]],
        [row(f"maas {name}", f"S{name}") for name in names],
    ]
    chosen = [sources[number] for number in order]
    if order[:2] in ([1, 2], [2, 1]):
        # Nothing tells that a serial and a MAC are one machine before the row that has both; then it belongs to two.
        with pytest.raises(ConfigError, match="belongs to two machines"):
            join([(source, False) for source in chosen])
        return
    machines, _left_out = join([(source, False) for source in chosen])
    found = sorted(sorted(record.where for record in machine.records) for machine in machines)
    assert found == sorted(sorted(f"{kind} {name}" for kind in ("csv", "ironic", "maas")) for name in names)


def test_every_pair_of_different_machines_stays_two() -> None:
    rows = [row(f"r{number}", f"S{number}", "", f"52:54:00:00:00:0{number}") for number in range(4)]
    for one, other in itertools.permutations(rows, 2):
        assert len(join([([one], False), ([other], False)])[0]) == 2


def bmc(where: str, address: str, *macs: str, serial: str = "", system: str = "") -> Record:
    return row(where, serial, "", *macs, gpufleet_bmc_address=address, gpufleet_bmc_system_id=system)


def joined(first: list[Record], second: list[Record]) -> list[str]:
    return [machine.where for machine in join([(first, False), (second, True)])[0]]


def test_u6_a_node_that_others_enrolled_is_joined_by_the_address_of_its_bmc() -> None:
    """Ironic knows no serial of it, and its ports were never made."""
    nodes = [bmc("n1", "https://10.20.12.1"), bmc("n2", "10.20.12.2", M2), row("n3")]
    rows = [bmc("r1", "10.20.12.1", M1, serial="S1"), bmc("r2", "https://10.20.12.2/", serial="S2"), row("r3", "S3")]
    assert joined(nodes, rows) == ["n1 and r1", "n2 and r2", "n3"]
    machines, _left = join([(nodes, False), (rows, True)])
    assert [one.where for one in without_a_row(machines, [(nodes, False), (rows, True)])] == ["n3"]
    assert without_a_row(machines, [(nodes, False)]) == [], "no list was to say more"
    assert known_by(machines[0]) == f"serial S1, MAC {M1}, BMC address 10.20.12.1"
    assert "neither serial" in known_by(machines[2])


def test_u6_an_address_alone_joins_nothing_that_is_told_apart_otherwise() -> None:
    shared = [bmc("n1", "10.20.12.1", system="/s/1"), bmc("n2", "10.20.12.1", system="/s/2")]
    assert joined(shared, [bmc("r1", "10.20.12.1", serial="S1")]) == ["n1", "n2"], "two systems of one BMC"
    assert joined([bmc("n1", "10.20.12.1")], [bmc("r1", "10.20.12.1", serial="S1"), bmc("r2", "10.20.12.1")]) == ["n1"]
    assert joined([bmc("n1", "10.20.12.1", system="/s/1")], [bmc("r1", "10.20.12.1", system="/s/2")]) == ["n1"]


@pytest.mark.parametrize(
    ("node", "listed", "said"),
    [
        (bmc("n1", "10.20.12.1", M1), bmc("r1", "10.20.12.1", M2), "no MAC in common. Seen: n1 and r1"),
        (bmc("n1", "10.20.12.1", serial="S1"), bmc("r1", "10.20.12.1", serial="S2"), "two different values of serial"),
    ],
)
def test_u6_who_names_another_machine_at_one_address_is_refused(node: Record, listed: Record, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        join([([node], False), ([listed], True)])
    assert said in str(error.value)
