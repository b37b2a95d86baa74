# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node's story, through the action: also of a machine that left, and by what was its own once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action.node_history import ActionModule as History
from ansible_collections.gpufleet.baremetal.plugins.action.node_identity import ActionModule as Identity
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import identity, story
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event, Result
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door

MAC = "7c:c2:55:10:20:11"
LIFE = (
    Event("state", "imaging", {"from": "enrolled"}),
    Event("intent", "redfish_power", {"write": "POST https://bmc/reset"}),
    Event(
        "verdict",
        "dcgm_gate",
        {"verdict": "fail", "remedy": "rma", "findings": [{"text": f"GPU {n}"} for n in "01234"]},
    ),
    Event("state", "quarantined", {"from": "imaging", "reason": "GPU 0 is\nlost", "remedy": "rma"}),
    Event("hold", "taken", {"hold_token": "gpufleet:r1+keep:disk swap", "hold_author": "root@ctl"}),
    Event("lift", "dcgm_gate", {"reason": "the cable", "by": "ann", "failures": [3]}),
    Event("passport", "issued", {"expires": "2033-05-18T03:33:20Z", "image": {"name": "gold", "version": "7"}}),
    Event("note", "stopped", {"reason": "the BMC at https://ann:geheim@10.0.0.1 is silent"}),
)
TOLD = [
    "imaging (was enrolled)",
    "dcgm_gate fail: GPU 0; GPU 1; GPU 2; and 2 more; remedy: rma",
    "quarantined (was imaging): GPU 0 is lost; remedy: rma",
    "hold taken: disk swap",
    "failures of dcgm_gate lifted: the cable",
    "passport issued: until 2033-05-18T03:33:20Z; gold 7",
]


def lived(folder: Path, serial: str = "OLD1", host: str = "gpu001") -> str:
    with Ledger(f"sqlite:///{folder}/ledger.sqlite") as ledger:
        node = ledger.identify(host, aliases=[("serial", serial), ("mac", MAC)])
        ledger.append("awx-812-77-1", [(node, event) for event in LIFE])
    return node


def door(folder: Path, base: Any, spec: Any, host_vars: dict[str, Any], **args: Any) -> dict[str, Any]:
    name, hosts = base.NAME, {"gpu001": host_vars}
    made = Door(folder, lambda params, ctx: Result(), base=base, name=name, own_spec=spec, args=args, hostvars=hosts)
    made.variables.pop("gpufleet_serial")
    made.variables.update(host_vars)
    return made.run()


def history(folder: Path, host_vars: dict[str, Any] | None = None, **args: Any) -> dict[str, Any]:
    return door(folder, History, story.SPEC, host_vars or {"gpufleet_serial": "OLD1"}, **args)


def swapped(folder: Path, part: str, serial: str = "NEW1") -> None:
    args = {"state": "replaced", "part": part, "reason": "RMA 4711"}
    result = door(folder, Identity, identity.SPEC, {"gpufleet_serial": serial}, **args)
    assert result.get("changed") and not result.get("failed"), result


def texts(one: dict[str, Any]) -> list[str]:
    return [event["text"] for event in one["events"]]


def test_what_became_of_a_node_is_told_newest_last_a_line_each(tmp_path: Path) -> None:
    node = lived(tmp_path)
    result = history(tmp_path)
    (one,) = result["nodes"]
    assert (one["node_id"], one["name"], one["state"], one["earlier"]) == (node, "gpu001", "quarantined", False)
    assert texts(one)[:-1] == TOLD and "10.0.0.1 is silent" in texts(one)[-1]
    assert [event["who"] for event in one["events"]] == ["", "", "", "root@ctl", "ann", "", ""]
    assert {event["run"] for event in one["events"]} == {"awx-812-77-1"} and not result["changed"]
    assert "geheim" not in json.dumps(result)
    head, *lines = result["lines"]
    assert head.startswith("gpu001: quarantined; node ") and "serial OLD1" in " ".join(result["lines"])
    shown = " ".join(" ".join(lines).split())
    assert shown.count("(awx-812-77-1") == 7 and "lifted: the cable (awx-812-77-1, by ann)" in shown
    places = [shown.index(text) for text in texts(one)[:-1]]
    assert places == sorted(places)


def test_only_the_newest_are_told_and_that_there_are_more(tmp_path: Path) -> None:
    lived(tmp_path)
    (one,) = history(tmp_path, last=2)["nodes"]
    assert one["earlier"] and texts(one)[0] == TOLD[-1] and len(texts(one)) == 2
    (one,) = history(tmp_path, last=7)["nodes"]
    assert not one["earlier"] and len(texts(one)) == 7
    (one,) = history(tmp_path, last=0, all_kinds=True)["nodes"]
    assert len(texts(one)) == len(LIFE) and texts(one)[1] == "redfish_power is about to: POST https://bmc/reset"


def test_a_machine_that_was_replaced_is_told_before_the_one_that_came(tmp_path: Path) -> None:
    old = lived(tmp_path)
    swapped(tmp_path, "chassis")
    gone, came = history(tmp_path, {"gpufleet_serial": "NEW1"})["nodes"]
    assert (gone["node_id"], gone["state"]) == (old, "retired") and gone["known_as"] == ["mac " + MAC, "serial OLD1"]
    assert texts(gone)[-1] == "retired (was quarantined): chassis replaced: RMA 4711"
    assert came["node_id"] != old and came["known_as"] == ["serial NEW1"]
    assert texts(came)[0] == f"identity replaced: chassis; RMA 4711; was {old} now {came['node_id']}"


@pytest.mark.parametrize("of", ["OLD1", "old1", MAC, "7CC255102011", "gpu001"])
def test_a_node_is_found_by_what_it_is_known_by(tmp_path: Path, of: str) -> None:
    node = lived(tmp_path)
    stranger = {"gpufleet_serial": "another"}
    assert [one["node_id"] for one in history(tmp_path, stranger, of=of)["nodes"]] == [node]
    assert [one["node_id"] for one in history(tmp_path, stranger, of=node)["nodes"]] == [node]


def test_a_node_is_found_by_the_serial_of_a_board_that_left_it(tmp_path: Path) -> None:
    node = lived(tmp_path)
    swapped(tmp_path, "board")
    (one,) = history(tmp_path, {"gpufleet_serial": "another"}, of="old1")["nodes"]
    assert one["node_id"] == node and "serial OLD1" not in one["known_as"]


def test_what_nobody_knows_is_told(tmp_path: Path) -> None:
    lived(tmp_path)
    result = history(tmp_path, of="OLD2")
    assert result["failed"] and "the ledger knows no node by that" in result["msg"] and "OLD2" in result["msg"]


def test_a_host_that_the_ledger_has_never_seen_has_no_story(tmp_path: Path) -> None:
    result = history(tmp_path, {"gpufleet_serial": "OLD2"})
    assert result["nodes"] == [] and result["lines"] == ["gpu001: the ledger has never seen it"]


def test_a_host_that_contradicts_the_ledger_has_the_story_of_its_name(tmp_path: Path) -> None:
    """To ask what is the matter with it is what the story is for."""
    node = lived(tmp_path)
    (one,) = history(tmp_path, {"gpufleet_serial": "NEW1", "gpufleet_boot_mac": MAC})["nodes"]
    assert one["node_id"] == node
