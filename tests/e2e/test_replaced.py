# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""People at the machines: a node is rebooted in maintenance, a board is swapped, a chassis is.

The tests tell one story on one rack, in order, as docs/how-to/maintenance.md and replaced-hardware.md tell it.
"""

from __future__ import annotations

import json
from typing import Any

import counts
import lab
import pytest
from first_day import in_service
from reset_button import boot_id, reset

#: Serial and UUID of what comes into each machine.
CAME = {
    "gpu001": ("GFRACK0901", "5ac00000-0000-4000-8000-000000000901"),
    "gpu004": ("GFRACK0904", "5ac00000-0000-4000-8000-000000000904"),
}
WHY = ("-e", '{"identity_why": "RMA 4711"}')
HELD = ("-e", '{"maintenance": "on", "maintenance_why": "RMA 4711"}')
GIVEN_BACK = ("-e", "maintenance=off")


@pytest.fixture(scope="module", autouse=True)
def rack() -> None:
    in_service()


@pytest.fixture(scope="module")
def corrected(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The inventory names what the rack has now."""
    path = tmp_path_factory.mktemp("inventory") / "came.yml"
    hosts = {node: {"gpufleet_serial": one, "gpufleet_system_uuid": other} for node, (one, other) in CAME.items()}
    path.write_text(json.dumps({"all": {"hosts": hosts}}), encoding="utf-8")
    return "-i", str(path)


def newest_passport(node: str) -> dict[str, Any]:
    rows = counts.ledger_rows(
        f"SELECT envelope FROM passports JOIN nodes USING (node_id) WHERE name = '{node}' ORDER BY passports.id"
    )
    told: dict[str, Any] = json.loads(counts.payload(rows[-1][0]))
    return told


def serves(node: str) -> None:
    assert lab.node_state(node) == {"state": "IDLE", "reason": ""}
    assert counts.events_of("state")[node][-1] == "admitted"
    assert newest_passport(node)["predicate"]["boot_id"] == boot_id(node)


# -- maintenance, and a reboot in it ---------------------------------------------------------------------------------


def test_h2_a_node_that_was_rebooted_in_maintenance_is_judged_again_before_it_gets_work() -> None:
    kept = lab.play("maintenance", "--limit", "gpu002", *HELD)
    assert kept.rc == 0, kept.tail()
    reset("gpu002")
    boots, passport = counts.network_boots("gpu002"), newest_passport("gpu002")
    assert passport["predicate"]["boot_id"] != boot_id("gpu002")
    given = lab.play("maintenance", "--limit", "gpu002", *GIVEN_BACK, "-e", "maintenance_readmit=true")
    assert given.rc == 2 and "boot: its gates looked at the boot" in given.failure("gpu002"), given.tail()
    assert "+keep" not in lab.node_state("gpu002")["reason"]
    refused = lab.play("readmit", "--limit", "gpu002")
    assert refused.rc == 2 and "playbook revalidate" in refused.failure("gpu002"), refused.tail()
    assert "DRAIN" in lab.node_state("gpu002")["state"] and newest_passport("gpu002") == passport
    judged = lab.play("revalidate", "--limit", "gpu002")
    assert judged.rc == 0 and "DRAIN" in lab.node_state("gpu002")["state"], judged.tail()
    back = lab.play("readmit", "--limit", "gpu002")
    assert back.rc == 0, back.tail()
    serves("gpu002")
    assert counts.network_boots("gpu002") == boots, "nobody imaged it"


# -- a board -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def swapped() -> dict[str, Any]:
    """gpu001 is kept and gets another board; it is on again. Returned: what was written until then."""
    kept = lab.play("maintenance", "--limit", "gpu001", *HELD)
    assert kept.rc == 0, kept.tail()
    is_swapped("gpu001")
    return written("gpu001")


def written(node: str) -> dict[str, Any]:
    """All that a write would move. That the node was booted unasked, Slurm itself finds by and by."""
    return {**counts.world(node), "slurm": lab.node_state(node)["reason"], "provisioner": counts.written(node)}


def is_swapped(node: str) -> None:
    """Another board is put in, with the power off, and the machine is on again."""
    serial, system_uuid = CAME[node]
    lab.fault(node, "board_swapped", f"serial={serial}", f"uuid={system_uuid}")
    reset(node)


WRITES: list[tuple[str, dict[str, Any]]] = [
    *(("redfish_power", {"state": state}) for state in ("on", "off", "force_off", "graceful", "cycle", "reset")),
    *(("pxe_boot", {"power": power}) for power in ("none", "on", "restart")),
]


def test_u3_until_it_is_said_no_verb_writes_to_what_the_inventory_does_not_name(swapped: dict[str, Any]) -> None:
    """No reason given makes another machine this one."""
    forced = [(verb, {**args, "force_reason": "a test"}) for verb, args in WRITES]
    for call, result in zip(forced, lab.verbs("gpu001", forced)):
        assert result.get("failed") and result["error"]["kind"] == "wrong_machine", (call, result)
        assert "GFRACK0901" in result["msg"] and "gpufleet.baremetal.identity" in result["msg"], result["msg"]
    assert written("gpu001") == swapped


def test_u3_a_board_goes_on_with_its_node_and_with_nothing_that_was_judged(
    swapped: dict[str, Any], corrected: tuple[str, ...]
) -> None:
    of_it = ("--limit", "gpu001", *corrected)
    unsaid = lab.play("revalidate", *of_it)
    assert unsaid.rc == 2 and "by another serial" in unsaid.failure("gpu001"), unsaid.tail()
    assert "gpufleet.baremetal.identity" in unsaid.failure("gpu001")
    passport = json.dumps(newest_passport("gpu001"))
    said = lab.play("identity", *of_it, "-e", "identity=replaced", "-e", "identity_part=board", *WHY)
    assert said.rc == 0 and "remedy: reimage" in said.output, said.tail()
    assert written("gpu001") == swapped and counts.events_of("state")["gpu001"][-1] == "quarantined"
    given = lab.play("maintenance", *of_it, *GIVEN_BACK, "-e", "maintenance_readmit=true")
    assert given.rc == 2 and "passport" in given.failure("gpu001"), given.tail()
    assert "DRAIN" in lab.node_state("gpu001")["state"]
    back = lab.play("day2_recycle", *of_it)
    assert back.rc == 0, back.tail()
    serves("gpu001")
    assert counts.network_boots("gpu001") == swapped["boots"]["gpu001"] + 1
    assert "GFRACK0901" in json.dumps(newest_passport("gpu001")) and "GFRACK0901" not in passport
    assert known_by("gpu001") == [{"GFRACK0901"}], "it is the node that it was"


def known_by(name: str) -> list[set[str]]:
    """The confirmed serials of each node of that name, the one that was there first at the beginning."""
    rows = counts.ledger_rows(
        "SELECT nodes.node_id, value FROM nodes LEFT JOIN aliases ON aliases.node_id = nodes.node_id"
        f" AND kind = 'serial' AND confirmed_by != '' WHERE name = '{name}' ORDER BY nodes.rowid"
    )
    return [{value for one, value in rows if one == node and value} for node in dict.fromkeys(node for node, _ in rows)]


# -- a chassis ---------------------------------------------------------------------------------------------------------


def test_u3_another_chassis_begins_at_day_0(corrected: tuple[str, ...]) -> None:
    of_it, boots = ("--limit", "gpu004", *corrected), counts.network_boots("gpu004")
    kept = lab.play("maintenance", "--limit", "gpu004", *HELD)
    assert kept.rc == 0, kept.tail()
    is_swapped("gpu004")
    said = lab.play("identity", *of_it, "-e", "identity=replaced", "-e", "identity_part=chassis", *WHY)
    assert said.rc == 0 and "maintenance=off" in said.output, said.tail()
    assert known_by("gpu004") == [{"GFRACK0004"}, {"GFRACK0904"}]
    given = lab.play("maintenance", *of_it, *GIVEN_BACK)
    assert given.rc == 0 and "gpufleet.baremetal.day0_bringup" in given.output, given.tail()
    assert "DRAIN" in lab.node_state("gpu004")["state"]
    refused = lab.play("day0_bringup", *of_it)
    assert refused.rc == 2 and "GFRACK0004" in refused.failure("gpu004"), refused.tail()
    assert counts.network_boots("gpu004") == boots
    lab.ironic("PUT", "/nodes/gpu004/maintenance", {"reason": "RMA 4711"})
    lab.ironic("DELETE", "/nodes/gpu004")
    back = lab.play("day0_bringup", *of_it)
    assert back.rc == 0, back.tail()
    serves("gpu004")
    assert counts.network_boots("gpu004") == boots + 1 and "GFRACK0904" in json.dumps(newest_passport("gpu004"))
