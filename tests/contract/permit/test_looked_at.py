# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evidence is as old as the look that found it, wherever that was taken: what came after it has not been seen."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import scheduler_node, scheduler_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from contract.permit.rig import Controller
from contract.permit.test_permit import RESUMES

Make = Callable[..., Controller]


class _There:
    """Its module works on another machine: it knows its arguments alone."""

    verb: ClassVar[Any]

    def _goes_elsewhere(self) -> bool:
        return True

    def _execute_module(self, *_args: Any, **options: Any) -> dict[str, Any]:
        ctx = Context(node="gpu001")
        try:
            told = type(self).verb(json.loads(json.dumps(options["module_args"])), ctx).as_dict(ctx)
        except FleetError as exc:
            told = {"failed": True, **exc.as_result()}
        return dict(json.loads(json.dumps(told)))


class NodeThere(_There, scheduler_node.ActionModule):
    pass


class WaitThere(_There, scheduler_wait.ActionModule):
    pass


HERE, ELSEWHERE = (
    {"scheduler_node": None, "scheduler_wait": None},
    {
        "scheduler_node": NodeThere,
        "scheduler_wait": WaitThere,
    },
)
ASKED = {"scheduler_node": {"state": "present"}, "scheduler_wait": {"timeout": 5.0, "interval": 0.05}}


@pytest.mark.parametrize("where", [HERE, ELSEWHERE], ids=["here", "elsewhere"])
@pytest.mark.parametrize("verb", [*ASKED])
def test_j2_what_happened_since_a_look_began_takes_back_what_it_found(
    controller: Make, verb: str, where: dict[str, Any]
) -> None:
    """The look ends, and is told, after another run has begun to resume the node."""
    site = controller()
    site.hold()
    site.meanwhile("show node", RESUMES.format(ledger=str(site.folder / "ledger.sqlite")))
    looked = site.run(verb, action=where[verb], **ASKED[verb])
    assert not looked.get("failed") and site.events("evidence") == ["drained", "drained"], looked
    refused = site.power()
    assert refused["error"]["kind"] == "evidence_missing" and "another run" in refused["error"]["seen"], refused
    assert not site.switched()


def test_j2_a_drain_that_is_watched_from_elsewhere_is_proven_by_its_last_look(controller: Make) -> None:
    """It may take hours: each look is sent for itself, and goes on from the one before."""
    site = controller()
    site.hold()
    site.jobs([{"id": "4711", "node": "gpu001"}])
    told = len(site.events("evidence"))

    class Leaves(WaitThere):
        looks: ClassVar[list[Any]] = []

        def _execute_module(self, *args: Any, **options: Any) -> dict[str, Any]:
            self.looks.append(options["module_args"]["slice"])
            found = super()._execute_module(*args, **options)
            if len(self.looks) == 2:
                site.jobs([])
                site.tells("gpu001", "note", "the job has ended")
            return {**found, "looks": self.looks}

    waited = site.run("scheduler_wait", action=Leaves, timeout=60.0, interval=0.05)
    assert waited["verdicts"]["gpu001"]["ok"] and len(waited["looks"]) == 3, waited
    assert waited["looks"][2]["elapsed"] > waited["looks"][1]["elapsed"] > 0.0
    [proof] = [json.loads(text) for text in site.data("evidence")[told:]]
    with site._node_of("gpu001") as (ledger, node):
        [ended] = ledger.history(node, kinds=["note"])
    assert proof["after_event"] >= ended["id"] and site.power()["changed"]


def test_j2_a_drain_that_does_not_end_is_told_of_the_whole_wait(controller: Make) -> None:
    site = controller()
    site.hold()
    site.jobs([{"id": "4711", "node": "gpu001"}])
    verdict = site.run("scheduler_wait", action=WaitThere, timeout=0.3, interval=0.05)["verdicts"]["gpu001"]
    assert not verdict["ok"] and verdict["reason"].startswith("not within 0.3 s: 1 job"), verdict
    site.away()
    away = site.run("scheduler_wait", action=WaitThere, timeout=0.3, interval=0.05)
    assert away["failed"] and away["error"]["kind"] == "unreachable", away


#: What Slurm tells of a node after an outage of its own, and whose failure that is at the end of the wait.
AFTER_OUTAGE = {
    "gpu001": ({"state": "DOWN", "reason": "Not responding", "by": "slurm"}, "unreachable"),
    "gpu002": ({"state": "UNKNOWN*", "reason": "", "by": ""}, "unreachable"),
    "gpu003": ({"state": "IDLE+DRAIN", "reason": "Low RealMemory (reported:1 < configured:2)", "by": "slurm"}, ""),
    "gpu004": ({"state": "IDLE+DRAIN", "reason": "gres/gpu count too low (7 < 8)", "by": "slurm"}, ""),
    "gpu005": ({"state": "DOWN", "reason": "Not responding : Low RealMemory", "by": "slurm"}, ""),
}


@pytest.mark.parametrize("where", [HERE, ELSEWHERE], ids=["here", "elsewhere"])
def test_c8_an_outage_of_the_scheduler_is_remembered_from_look_to_look(controller: Make, where: dict[str, Any]) -> None:
    """Its node that was silent, or has had no time to register since, is not to blame; one that answered is."""
    site = controller(*AFTER_OUTAGE)
    for host, (told, _kind) in AFTER_OUTAGE.items():
        site.node(host, **told)
    asked = {"action": where["scheduler_wait"], "until": "idle", "timeout": 4.0, "interval": 3.0}
    alone = site.run("scheduler_wait", **{**asked, "timeout": 0.1})["verdicts"]
    assert {one["kind"] for one in alone.values()} == {""}, alone
    site.restarts()
    found = site.run("scheduler_wait", **asked)["verdicts"]
    assert {host: one["kind"] for host, one in found.items()} == {host: row[1] for host, row in AFTER_OUTAGE.items()}
    assert found["gpu002"]["reason"].startswith("not within 4 s: ") and "run again" in found["gpu002"]["reason"], found
