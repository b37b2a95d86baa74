# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A failure stands at every door: no passport, no readmission, until the same question passes or a person lifts it."""

from __future__ import annotations

import base64
import json

import pytest
from contract.trust.trust_site import IMAGED, Site, passport

#: Each test starts ansible-playbook, some of them several times.
pytestmark = pytest.mark.slow


def test_v1_a_weaker_look_brings_no_node_back(admitted: Site) -> None:
    """Diagnosed at level 3 and failed; level 1 passes then, which is the default of the module."""
    event, sworn = "gpufleet.baremetal.ledger_event", {"kind": "lift", "name": "dcgm_gate"}
    admitted.gates("dcgm_gate", verdict="fail")
    admitted.gates("dcgm_gate", level=1, tests=["software"])
    kept, issued, nameless, dry, lifted, again = (
        told["result"]
        for told in admitted.play(
            passport("verified"),
            passport("issued"),
            {event: sworn},
            {event: {**sworn, "reason": "no chilled water, ticket 4711"}, "check_mode": True},
            {event: {**sworn, "reason": "no chilled water, ticket 4711", "lifted_by": "a.person"}},
            {event: {**sworn, "reason": "twice"}},
        )
    )
    assert "dcgm_gate failed after the passport was issued" in kept["msg"]
    assert "stands until the same or a stronger question passes" in issued["msg"]
    assert "nothing in reason" in nameless["msg"], nameless
    assert dry["changed"] and len(dry["lifted"]) == 1 and lifted["lifted"] == dry["lifted"], dry
    assert not again["changed"] and again["lifted"] == [] and admitted.events().count(("lift", "dcgm_gate")) == 1
    verified, exported = (
        told["result"] for told in admitted.play(passport("verified"), passport("issued", valid_for=2592000 - 60))
    )
    assert verified["valid"], verified
    statement = json.loads(base64.b64decode(exported["envelope"]["payload"]))
    assert [gate["asked"]["level"] for gate in statement["predicate"]["gates"] if gate["gate"] == "dcgm_gate"] == [3]


def test_v1_a_failure_that_stands_keeps_a_node_from_being_admitted(admitted: Site) -> None:
    event = "gpufleet.baremetal.ledger_event"
    admitted.play(*IMAGED)
    admitted.gates("dcgm_gate", "kernel_log_gate")
    assert admitted.result(passport("issued"))["valid"]
    admitted.gates("dcgm_gate", verdict="fail")
    refused = admitted.result({event: {"state": "admitted"}})
    assert refused["failed"] and "no failure stands: dcgm_gate" in refused["msg"]
    admitted.gates("dcgm_gate")
    assert admitted.result({event: {"state": "admitted"}})["changed"]


def test_v9_issue_verification_and_ledger_judge_an_old_failure_alike(admitted: Site) -> None:
    """The site asks for level 2, and a failure of before does not say what it was asked."""
    event, site = "gpufleet.baremetal.ledger_event", {"policy": {"gates": {"dcgm_gate": {"level": 2}}}}
    admitted.gates("dcgm_gate", verdict="fail", silent=True)
    admitted.play(*IMAGED)
    admitted.gates("kernel_log_gate")
    admitted.gates("dcgm_gate", level=2)
    strict, shown, issued, verified, entered = (
        told["result"]
        for told in admitted.play(
            passport("issued"),
            {event: {"kind": "lift", "name": "dcgm_gate", "reason": "x"}, "check_mode": True},
            passport("issued", **site),
            passport("verified", **site),
            {event: {"state": "admitted"}},
        )
    )
    assert "dcgm_gate: fail" in strict["msg"] and len(shown["lifted"]) == 1
    assert issued["valid"] and verified["valid"], (issued, verified)
    assert entered.get("changed"), entered


def test_v1_a_policy_file_is_asked_at_each_end(admitted: Site) -> None:
    path = admitted.folder / "policy.yml"
    path.write_text("schema: 1\ngates:\n  dcgm_gate:\n    level: 4\n", encoding="utf-8")
    strict = {"policy_file": str(path)}
    kept, issued = (
        told["result"] for told in admitted.play(passport("verified", **strict), passport("issued", **strict))
    )
    assert "the gate dcgm_gate answers too little: level 3, wanted 4" in kept["msg"]
    assert "dcgm_gate: pass, which proves too little: level 3, wanted 4" in issued["msg"]
    path.write_text("schema: 1\ngates:\n  dcgm_gate:\n    levle: 4\n", encoding="utf-8")
    broken = admitted.result(passport("verified", **strict))
    assert "policy.yml:3: gates.dcgm_gate" in broken["msg"] and "levle" in broken["msg"]
    both = admitted.result(passport("verified", **strict, policy={}))
    assert "mutually exclusive" in both["msg"]
