# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verb on a BMC is told of the machine that it may touch: by the inventory, or else by the ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible import constants as C
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.specs import POWER_SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.who import NOBODY_KNOWS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._certificate import CertifiedAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._variables import _literal
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door

MAC, UUID = "52:54:00:00:00:01", "5ac00000-0000-4000-8000-000000000001"


def asked(folder: Path, **host: Any) -> list[str]:
    """The serial that the verb was given, and by what the ledger knows the host after its write."""
    said: list[str] = []

    def verb(params: Mapping[str, Any], ctx: Context) -> Result:
        said.append(str(params["serial"] or ""))
        ctx.may_write("POST https://bmc/x")
        return Result()

    door = Door(folder, verb, base=CertifiedAction, own_spec=POWER_SPEC, args={"state": "on"}, **host)
    assert not door.run().get("failed")
    return said


def known(folder: Path) -> list[tuple[str, str]]:
    with Ledger(f"sqlite:///{folder / 'ledger.sqlite'}") as ledger:
        return [(row["kind"], row["value"]) for row in ledger._rows("SELECT kind, value FROM aliases ORDER BY kind")]


def test_r2_a_host_that_the_inventory_names_by_its_mac_is_held_against_the_ledgers_serial(tmp_path: Path) -> None:
    assert asked(tmp_path, gpufleet_boot_mac=MAC) == ["GF0001"]
    for none in ("", "To be filled by O.E.M."):
        assert asked(tmp_path, gpufleet_boot_mac=MAC, gpufleet_serial=none) == ["GF0001"]
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as ledger:
        node = ledger.identify("gpu001", aliases=[("mac", MAC)])
        ledger.append("run", [(node, Event("state", "retired", {"reason": "chassis replaced"}))])
    assert asked(tmp_path, gpufleet_boot_mac=MAC, gpufleet_serial="") == [""], "that one is another machine's by now"


@pytest.mark.parametrize("told", [True, False])
def test_r2_a_write_to_a_machine_that_nobody_knows_is_on_record(tmp_path: Path, told: bool) -> None:
    def verb(params: Mapping[str, Any], ctx: Context) -> Result:
        return Result(changed=ctx.may_write("POST https://bmc/x"), data={"notes": [NOBODY_KNOWS] if told else []})

    args = {"state": "on", "force_reason": "the rack is on fire"}
    door = Door(tmp_path, verb, base=CertifiedAction, own_spec=POWER_SPEC, args=args)
    assert not door.run().get("failed")
    notes = [json.loads(data)["reason"] for kind, name, data in door.events() if (kind, name) == ("note", "forced")]
    assert notes == (["the rack is on fire"] if told else [])


def test_r6_a_host_without_a_serial_is_known_by_its_uuid(tmp_path: Path) -> None:
    asked(tmp_path, gpufleet_serial="", gpufleet_system_uuid=UUID.upper())
    assert known(tmp_path) == [("system_uuid", UUID)]


def test_r6_a_uuid_beside_a_serial_names_nobody(tmp_path: Path) -> None:
    """It goes with a board that is moved."""
    asked(tmp_path, gpufleet_system_uuid=UUID)
    assert known(tmp_path) == [("serial", "GF0001")]


def play(folder: Path, of: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """What each host of a play is told, one after the other."""
    said = {}
    for name in of:
        door = Door(
            folder, lambda params, ctx: Result(changed=ctx.may_write("POST https://bmc/x")),
            inventory_hostname=name, ansible_play_hosts_all=list(of), hostvars={key: dict(of[key]) for key in of},
            **{"gpufleet_serial": "", **of[name]},
        )  # fmt: skip
        found = door.run()
        said[name] = str(found["msg"]) if found.get("failed") else ""
    return said


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"gpufleet_serial": "HA19340017"}, {"gpufleet_serial": "ha19340017"}),
        ({"gpufleet_boot_mac": MAC}, {"gpufleet_boot_mac": MAC.replace(":", "-").upper()}),
        ({"gpufleet_serial": "S1", "gpufleet_boot_mac": MAC}, {"gpufleet_boot_mac": MAC}),
    ],
    ids=["serial", "mac", "either"],
)
def test_r4_two_hosts_of_a_play_are_not_one_node(tmp_path: Path, one: dict[str, str], other: dict[str, str]) -> None:
    said = play(tmp_path, {"gpu001": one, "gpu002": other})
    assert (
        said["gpu001"] == "" and "gpu001 is node" in said["gpu002"] and "two hosts of the inventory" in said["gpu002"]
    )
    # A host that was renamed is the node that it was.
    assert play(tmp_path, {"gpu002": one}) == {"gpu002": ""}


def test_r4_two_hosts_of_a_play_do_not_name_one_node_by_its_id(tmp_path: Path) -> None:
    assert play(tmp_path, {"gpu001": {"gpufleet_serial": "S1"}}) == {"gpu001": ""}
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "S1")])
    said = play(tmp_path, {"gpu001": {"gpufleet_serial": "S1"}, "gpu002": {"gpufleet_node_id": node}})
    assert said["gpu001"] == "" and "two hosts of this play are one node" in said["gpu002"], said
    assert f"gpu001 is node {node} too" in said["gpu002"]


def test_r4_a_name_that_another_machine_has_now_says_nothing(tmp_path: Path) -> None:
    play(tmp_path, {"gpu001": {"gpufleet_serial": "S1"}})
    swapped = {"gpu001": {"gpufleet_serial": "S2"}, "gpu002": {"gpufleet_serial": "S1"}}
    assert play(tmp_path, swapped) == {"gpu001": "", "gpu002": ""}


@pytest.mark.parametrize("told", [{"gpufleet_serial": "s1"}, {"gpufleet_boot_mac": MAC.upper()}], ids=["serial", "mac"])
def test_r4_two_hosts_that_came_for_one_that_was_renamed_are_not_one_node(tmp_path: Path, told: dict[str, str]) -> None:
    """It served under a name that the inventory has no more, by which neither is caught."""
    row = {"gpufleet_serial": "S1", "gpufleet_boot_mac": MAC}
    assert play(tmp_path, {"gpu001": row}) == {"gpu001": ""}
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "S1")])
        ledger.confirm(node, [("serial", "S1"), ("mac", MAC)], "bmc")
        ledger.append("r0", [(node, Event("state", "admitted"))])
    said = play(tmp_path, {"node-a": row, "node-b": told, "node-c": {"gpufleet_serial": "S3"}})
    assert "node-b is node" in said["node-a"] and "node-a is node" in said["node-b"] and said["node-c"] == "", said
    assert play(tmp_path, {"node-a": row, "node-c": {"gpufleet_serial": "S3"}}) == {"node-a": "", "node-c": ""}


def test_r4_what_another_host_says_in_so_many_words_is_read_wherever_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a run, and nothing that is to be worked out first."""
    monkeypatch.setattr(C, "DEFAULT_LOCAL_TMP", str(tmp_path))
    path = tmp_path / "hosts.ini"
    path.write_text(f"[all]\nnode-a\nnode-b gpufleet_boot_mac={MAC.upper()}\n", encoding="utf-8")
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars" / "node-a.yml").write_text("gpufleet_serial: S1\n", encoding="utf-8")
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=[str(path)])
    hostvars = HostVars(inventory, VariableManager(loader=loader, inventory=inventory), loader)
    seen, in_play = {"hostvars": hostvars}, {"node-a", "node-b", "gone"}
    assert _literal(seen, "node-b", in_play) == {("mac", MAC)} and _literal(seen, "gone", in_play) == set()
    seen["hostvars"] = {}
    assert _literal(seen, "node-a", in_play) == {("serial", "s1")}, "kept since the first one asked"


@pytest.mark.parametrize("nothing", ["", "          ", "To be filled by O.E.M."])
def test_r4_a_placeholder_makes_no_two_machines_one(tmp_path: Path, nothing: str) -> None:
    of = {f"gpu00{n}": {"gpufleet_serial": nothing, "gpufleet_boot_mac": f"{MAC[:-1]}{n}"} for n in (1, 2)}
    assert play(tmp_path, of) == {"gpu001": "", "gpu002": ""}
    assert [kind for kind, _value in known(tmp_path)] == ["mac", "mac"]
