# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was seen before somebody else did something, and is told after it; and a keep that Slurm has written over."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import ledger_event
from ansible_collections.gpufleet.baremetal.plugins.action import scheduler_node as action
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.node import scheduler_node
from contract.permit.rig import FORK, IDLE, Controller
from contract.permit.test_another_cluster import BOOTED
from contract.permit.test_called_otherwise import There
from contract.permit.test_unnoted import FINDING, killed, of_another_run
from contract.permit.test_whose_node import FREE, adopted

Make = Callable[..., Controller]


class Frozen(action.ActionModule):
    """Between the last answer of its scheduler and its ledger, others go on."""

    then: ClassVar[Callable[[], Any]] = staticmethod(lambda: None)

    @staticmethod
    def verb(params: Mapping[str, Any], ctx: Any) -> Any:
        told = scheduler_node(params, ctx)
        Frozen.then()
        return told


@pytest.mark.parametrize("kept", [True, False], ids=["keep", "work"])
def test_h2_a_hold_that_stood_already_is_noted_over_no_newer_one(
    controller: Make, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """It writes nothing, so it has no lease: another run has held the node between its look and its note."""
    site = controller("gpu001")
    adopted(site, "gpu001", "gpu001")
    first = FORK.Process(target=lambda: killed(site, why="maintenance is over"))
    first.start()
    first.join(60)
    other = {"why": "hands inside", "kind": "keep"} if kept else {"why": "reimage"}
    told: list[dict[str, Any]] = []
    then = staticmethod(lambda: told.append(of_another_run(site, "scheduler_node", state="held", **other)))
    monkeypatch.setattr(Frozen, "then", then)
    late = site.run("scheduler_node", action=Frozen, state="held", why="maintenance is over")
    assert late["error"]["kind"] == "not_ours" and late["error"]["do"], late
    assert "another run has held this node since" in late["msg"]
    assert [json.loads(one)["hold_token"] for one in site.data("hold")][0].endswith(other["why"]), told
    site.node(reason=FINDING, by="slurm")
    site.later(100)
    after = of_another_run(site, "scheduler_node", state="held", why="break-fix")
    assert after.get("owner") == (None if kept else "ours"), after
    assert not (kept and site.power().get("changed"))


@pytest.mark.parametrize("state", ["validating", "quarantined", "admitted"])
def test_r5_a_keep_that_was_announced_binds_no_machine_to_the_free_node_that_its_row_names(
    controller: Make, state: str
) -> None:
    """The machine works as n1; its row has slipped to n2, and slurmctld was away for the jump host."""
    nodes = {"n1": {"state": "ALLOCATED", "reason": "", "by": "", "booted": BOOTED}, "n2": {**IDLE, "booted": BOOTED}}
    site = controller("gpu001", known=False, nodes=nodes, jobs=[{"id": "4711", "node": "n1"}])
    site.hosts["gpu001"]["gpufleet_scheduler_node"] = "n2"
    for name in dict.fromkeys(["validating", state]):
        site.tells("gpu001", "state", name)
    script = site.folder / "bin" / "scontrol"
    good = script.read_text(encoding="utf-8")
    site.away()
    lost = site.run("scheduler_node", action=There, state="held", why="hands inside", kind="keep", timeout=1.0)
    assert lost["error"]["kind"] == "unreachable" and site.events("intent")
    script.write_text(good, encoding="utf-8")
    assert site.run("scheduler_node", action=There, state="present")["owner"] == "free"
    assert "n2" not in "".join(site.data("hold")), "what is noted of it names no node"
    assert site.run("scheduler_node", state="held", why="reimage")["error"]["kind"] == "wrong_machine"
    assert not site.power().get("changed") and not site.switched()


@pytest.mark.parametrize("state", ["quarantined", "validating", ""])
def test_h2_a_keep_that_its_person_gave_back_is_none_also_of_a_machine_that_is_no_node_yet(
    controller: Make, state: str
) -> None:
    """Its run was killed right after the write, and they resumed it in Slurm itself."""
    site = controller("gpu001")
    for name in dict.fromkeys(["validating", state]) if state else ():
        site.tells("gpu001", "state", name)
    killed(site, why="anna: hands inside", kind="keep")
    site.later(1000)
    site.node(**FREE)
    of_another_run(site, "scheduler_node", state="present")
    site.later(5000)
    site.node(state="IDLE+DRAIN", reason=FINDING, by="slurm")
    assert of_another_run(site, "scheduler_node", state="held", why="break-fix").get("owner") == "ours"


@pytest.mark.parametrize("judged", [False, True], ids=["looked earlier", "read our announcement"])
def test_j3_a_look_that_another_one_has_overtaken_has_the_scheduler_asked_again(controller: Make, judged: bool) -> None:
    """It saw the node before our hold, or under it with its job, and is told after the newer look."""
    site = controller("gpu001")
    adopted(site, "gpu001", "gpu001")
    site.hold()
    seen = json.loads(site.data("evidence")[-1])
    with site._node_of("gpu001") as (ledger, node):
        announced = ledger.history(node, kinds=["intent"])[-1]["id"]
        began = ledger.moment().as_data()
    site.run("scheduler_node", state="present")
    late = {**{name: value for name, value in seen.items() if name != "judged_after"}, **began}
    late |= {"native": "IDLE+DRAIN+COMPLETING", **({"judged_after": announced} if judged else {})}
    site.tells("gpu001", "evidence", "not_drained", late)
    assert site.power().get("changed"), "Slurm itself says that it is drained"


@pytest.mark.parametrize("noted", [True, False], ids=["noted", "killed"])
def test_h2_a_keep_that_slurm_has_written_over_is_the_one_of_who_told_it(controller: Make, noted: bool) -> None:
    """Whoever comes second is told so; whoever told it may tell it again, and goes on from there."""
    site = controller("gpu001")
    adopted(site, "gpu001", "gpu001")
    keep = {"state": "held", "kind": "keep"}
    if noted:
        of_another_run(site, "scheduler_node", why="anna: hands inside", **keep)
    else:
        killed(site, why="anna: hands inside", kind="keep")
    site.node(reason=FINDING, by="slurm")
    site.later(100)
    bob = of_another_run(site, "scheduler_node", why="bob: cable check", **keep)
    assert bob["error"]["kind"] == "not_ours" and "anna: hands inside" in bob["error"]["seen"], bob
    assert FINDING in bob["error"]["seen"] and site.node()["reason"] == FINDING
    anna = of_another_run(site, "scheduler_node", why="anna: hands inside", **keep)
    assert anna["owner"] == "ours" and site.events("hold")[-1:] == ["taken"], anna
    draining = {"kind": "state", "state": "draining", "reason": "anna: hands inside"}
    told = of_another_run(site, "ledger_event", action=ledger_event.ActionModule, **draining)
    assert told["changed"], told
