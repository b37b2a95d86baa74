# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A serial that was mistyped, through ansible-playbook: two machines stay two, and a BMC confirms which is which."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event

from .test_playbook import Make, Play, task

pytestmark = pytest.mark.slow
OTHER = {"serial": "SN0002", "mac": "52:54:00:00:00:02"}


def aliases(play: Play) -> dict[str, list[tuple[str, str, str]]]:
    """By the name of each node, kind, value and who confirmed it."""
    with sqlite3.connect(play.ledger) as ledger:
        asked = "SELECT name, kind, value, confirmed_by FROM aliases JOIN nodes USING (node_id) ORDER BY name, kind"
        found: dict[str, list[tuple[str, str, str]]] = {}
        for name, *alias in ledger.execute(asked):
            found.setdefault(name, []).append((alias[0], alias[1], alias[2]))
        return found


def of_node(play: Play, name: str) -> list[tuple[Any, ...]]:
    """All that the ledger has of a node: events, leases, passports."""
    with sqlite3.connect(play.ledger) as ledger:
        return [
            row
            for table in ("events", "leases", "passports")
            for row in ledger.execute(
                f"SELECT {table}.* FROM {table} JOIN nodes USING (node_id) WHERE nodes.name = ?", (name,)
            )
        ]


def test_u3_a_serial_typo_ends_with_its_correction(tmp_path: Path, fake: Make) -> None:
    """The typo is the serial of a neighbour, in service with a passport: nothing of either becomes the other's."""
    play = Play(tmp_path, fake("plain"))
    with Ledger(play.host["gpufleet_ledger_url"]) as ledger:
        other = ledger.identify("other1", aliases=[*OTHER.items()])
        ledger.append("r0", [(other, Event("state", "admitted"))])
        ledger.save_passport("r0", other, issued=1.0, expires=2.0, digest="d", envelope={})
    before, mine = of_node(play, "other1"), aliases(play)["other1"]
    note = task("ledger_event", kind="note", name="handover")
    verbs = [note, task("ledger_event", state="quarantined", reason="x"), task("redfish_power", state="on")]
    for listed in ({"other1": {"gpufleet_serial": OTHER["serial"], "gpufleet_boot_mac": OTHER["mac"]}}, {}):
        play.others = listed
        found = play.run(*verbs, gpufleet_serial=OTHER["serial"])
        told = [found[f"r{number}"]["msg"] for number in range(len(verbs))]
        assert all("two hosts of the inventory are one node" in one or "another one; nothing" in one for one in told)
        assert (of_node(play, "other1"), aliases(play)["other1"]) == (before, mine) and not play.rig.writes()
    found = play.run(verbs[0], task("bmc_info"), task("redfish_power", state="on"))
    assert [found[f"r{number}"].get("failed", False) for number in range(3)] == [False] * 3, play.output
    assert (of_node(play, "other1"), aliases(play)["other1"]) == (before, mine)
    own = {kind: (value, by) for kind, value, by in aliases(play)["node1"]}
    assert own["serial"] == ("SN0001", "bmc") and own["mac"][0] == "52:54:00:00:00:01"


def test_u3_a_serial_that_a_bmc_has_confirmed_is_not_corrected_by_a_row(tmp_path: Path, fake: Make) -> None:
    """And one that nobody has is; what is wrong names what to do after a swap."""
    play = Play(tmp_path, fake("plain"))
    note = task("ledger_event", kind="note", name="handover")
    assert not play.run(note, gpufleet_serial="SN000l")["r0"].get("failed"), play.output
    assert aliases(play)["node1"][1] == ("serial", "SN000l", "")
    found = play.run(task("bmc_info"), task("redfish_power", state="on"), note, gpufleet_serial="SN000l")
    assert "identity=replaced" in found["r1"]["msg"] and aliases(play)["node1"][1] == ("serial", "SN000l", "")
    found = play.run(note, task("bmc_info"))
    assert aliases(play)["node1"][1] == ("serial", "SN0001", "bmc"), (found, play.output)
    assert "by another serial" in play.run(note, gpufleet_serial="SN000l")["r0"]["msg"]
