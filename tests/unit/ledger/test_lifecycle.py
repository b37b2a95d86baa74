# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which state may follow which, and what a playbook may write by hand."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, EvidenceMissing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.event import SPEC, ledger_event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifecycle import STATES, WAYS, objection
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.way import way
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

NOW = 1_800_000_000.0
HELD = {"name": "taken"}
FREE = {"name": "drained"}
PASSPORT = {"issued": NOW - 10, "expires": NOW + 1000}
ALL: dict[str, Any] = {"hold": HELD, "evidence": FREE, "passport": PASSPORT, "imaging": {"at": NOW - 100}}
WHY = {"reason": "because"}


def event(**params: Any) -> dict[str, Any]:
    known = params.pop("known", {})
    ctx = Context(node="gpu001")
    return ledger_event({**dict.fromkeys(SPEC), **params, "known": known}, ctx).as_dict(ctx)


def at(state: str, **data: Any) -> dict[str, Any]:
    return {"state": {"id": 7, "name": state, "at": 5.0, "data": data}}


@pytest.mark.parametrize("resume", ["", "d1"])
@pytest.mark.parametrize("state", STATES)
def test_q5_the_way_into_service_is_one_that_the_lifecycle_has(state: str, resume: str) -> None:
    """From each state; of a deployment that goes on nothing is begun anew."""
    told = way({"recorded": state, "deploy_resume": resume if state in ("imaging", "validating") else ""})
    steps = [(source, target) for source, target in zip([state, *told], told) if source != target]
    assert all(source in WAYS[target].sources for source, target in steps), told
    assert told[-1:] == ([] if state == "retired" else ["admitted"])
    assert ("imaging" in told) == (state != "retired" and not (resume and state in ("imaging", "validating")))


def test_q5_a_deployment_that_is_validated_is_not_foretold_as_validated_anew() -> None:
    """It goes on where it stood; one that has to be validated after its imaging is, and a new imaging is validated."""
    resumed = {"deploy_resume": "d1"}
    assert way({"recorded": "validating", **resumed}) == ["admitted"]
    assert way({"recorded": "imaging", **resumed}) == ["validating", "admitted"]
    assert way({"recorded": "validating", "deploy_resume": ""}) == ["imaging", "validating", "admitted"]


def test_every_state_can_be_reached_and_left() -> None:
    assert set(WAYS) == set(STATES)
    for state in STATES:
        assert WAYS[state].sources, state
        assert any(state in way.sources for way in WAYS.values()), state


DAY_0 = ["discovered", "enrolled", "imaging", "validating", "admitted"]
DAY_2 = ["admitted", "draining", "drained", "wiping", "imaging", "validating", "quarantined", "imaging"]
BREAK_FIX = ["quarantined", "validating", "admitted", "quarantined", "retired", "discovered"]


@pytest.mark.parametrize("path", [DAY_0, DAY_2, BREAK_FIX])
def test_the_roads_that_are_meant(path: list[str]) -> None:
    for current, target in zip(path, path[1:]):
        assert objection(current, target, ALL, WHY, NOW) == ("", ""), (current, target)


@pytest.mark.parametrize(
    "current,target",
    [
        ("admitted", "imaging"),
        ("admitted", "wiping"),
        ("admitted", "drained"),
        ("quarantined", "admitted"),
        ("imaging", "admitted"),
        ("discovered", "admitted"),
        ("enrolled", "admitted"),
        ("retired", "imaging"),
        ("retired", "draining"),
        ("admitted", "retired"),
    ],
)
def test_what_no_evidence_allows(current: str, target: str) -> None:
    problem, _wanted = objection(current, target, ALL, WHY, NOW)
    assert current in problem and target in problem


@pytest.mark.parametrize("current", [state for state in STATES if state != "retired"])
def test_the_way_to_safety_is_always_open(current: str) -> None:
    assert objection(current, "quarantined", {}, WHY, NOW) == ("", "")
    assert objection(current, "draining", {"hold": HELD}, {}, NOW) == ("", "")


@pytest.mark.parametrize(
    "known,missing",
    [
        ({}, "a passport"),
        ({"passport": {**PASSPORT, "expires": NOW}}, "not expired"),
        ({"passport": PASSPORT, "imaging": {"at": NOW - 5}}, "after the node was last imaged"),
        ({"passport": PASSPORT, "imaging": {"at": NOW - 11}}, ""),
    ],
)
def test_into_service_through_a_passport(known: dict[str, Any], missing: str) -> None:
    assert missing in objection("validating", "admitted", known, {}, NOW)[1]
    assert bool(objection("validating", "admitted", known, {}, NOW)[0]) == bool(missing)


@pytest.mark.parametrize(
    "current,target,known",
    [
        ("admitted", "draining", {}),
        ("admitted", "draining", {"hold": {"name": "released"}, "evidence": {"name": "in_service"}}),
        ("draining", "drained", {"evidence": {"name": "in_service"}}),
        ("draining", "drained", {"hold": HELD}),
        ("drained", "wiping", {"evidence": {"name": "foreign_hold"}}),
    ],
)
def test_evidence_is_looked_for(current: str, target: str, known: dict[str, Any]) -> None:
    assert objection(current, target, known, {}, NOW)[0]
    free = {**known, "evidence": {"name": "not_in_scheduler"}}
    assert objection(current, target, free, {}, NOW) == ("", "")


@pytest.mark.parametrize("target", ["quarantined", "retired"])
def test_putting_aside_needs_a_reason(target: str) -> None:
    assert objection("drained", target, ALL, {}, NOW)[1] == "a reason"


# -- the verb ----------------------------------------------------------------------------------------------------------


def test_c1_each_deployment_has_an_id_that_no_task_chooses() -> None:
    known = {**at("drained"), "now": 1.0}
    first, second = (event(state="imaging", data={"deploy_id": "7"}, known=known)["deploy_id"] for _time in range(2))
    assert first != second and len(bytes.fromhex(first)) == len(bytes.fromhex(second)) == 16
    assert "deploy_id" not in event(state="validating", data={"deploy_id": "7"}, known=known)["events"][0]["data"]


def test_a_move_is_an_event() -> None:
    result = event(state="imaging", data={"image": "a", "from": "nowhere"}, known=at("drained"))
    assert result["changed"] and result["before"] == {"state": "drained"} and result["after"] == {"state": "imaging"}
    [written] = result["events"]
    assert (written["kind"], written["name"]) == ("state", "imaging")
    deploy_id = result["deploy_id"]
    assert written["data"] == {"image": "a", "from": "drained", "deploy_id": deploy_id}


def test_the_same_state_is_no_event() -> None:
    known = at("quarantined", reason="xid", remedy="rma", **{"from": "validating"})
    result = event(state="quarantined", reason="xid", remedy="rma", known=known)
    assert (result["changed"], result["events"], result["event_id"], result["at"]) == (False, [], 7, 5.0)
    assert event(state="quarantined", reason="another", known=known)["changed"]


@pytest.mark.parametrize("state", ["imaging", "wiping"])
def test_what_begins_anew_is_always_an_event(state: str) -> None:
    known = {**at(state), "evidence": FREE}
    assert event(state=state, known=known)["changed"]


def test_kind_and_name_say_the_same() -> None:
    assert event(kind="state", name="enrolled")["state"] == "enrolled"
    with pytest.raises(ConfigError, match="no state"):
        event(kind="state", name="sleeping")
    with pytest.raises(ConfigError, match="a state is given"):
        event(kind="note", state="enrolled")


def test_force_is_recorded_and_only_where_it_was_needed() -> None:
    with pytest.raises(EvidenceMissing, match="cannot become"):
        event(state="imaging", known=at("admitted"))
    forced = event(state="imaging", force_reason="lab", known=at("admitted"))
    assert forced["events"][0]["data"] == {"from": "admitted", "forced": "lab", "deploy_id": forced["deploy_id"]}
    needless = event(state="enrolled", force_reason="lab")
    assert needless["events"][0]["data"] == {"from": "discovered"}


@pytest.mark.parametrize("kind", ["evidence", "maintenance", "hold", "verdict", "passport", "intent", "outcome"])
def test_what_permits_something_is_nobodys_to_write(kind: str) -> None:
    assert kind not in SPEC["kind"]["choices"]


def test_notes_and_attempts() -> None:
    result = event(name="handover", data={"text": "x", "token": "t"})
    assert result["events"] == [
        {"kind": "note", "name": "handover", "node": "", "data": {"text": "x", "token": "********"}}
    ]
    tried = event(kind="attempt", remedy="reboot", reason="xid 79")
    assert tried["name"] == "reboot" and tried["events"][0]["kind"] == "attempt"
    for wrong in ({"kind": "attempt", "name": "pray", "reason": "x"}, {"kind": "attempt", "name": "reboot"}, {}):
        with pytest.raises(ConfigError):
            event(**wrong)


def test_without_the_controller_there_is_no_ledger() -> None:
    with pytest.raises(ConfigError, match="only the controller has the ledger"):
        event(name="x", known=None)


SERVES = {"name": "in_service", "at": NOW - 20}
ADOPTION = {"adopted": True}
PROOF = {"proven": True, "judged": True}
TAKEN_BACK = ["imaging", "validating", "draining", "drained", "quarantined"]


@pytest.mark.parametrize("seen", [SERVES, {"name": "not_in_scheduler", "at": NOW}])
@pytest.mark.parametrize("current", ["discovered", "enrolled", "admitted", *TAKEN_BACK])
def test_j7_a_node_that_serves_is_adopted_on_all_the_proof(current: str, seen: dict[str, Any]) -> None:
    """Also one with which we began, and that its owner put back into service; and once more, on no less."""
    assert objection(current, "admitted", {"evidence": seen, **PROOF}, ADOPTION, NOW) == ("", "")
    for lacking, words in (("proven", "proven by its BMC"), ("judged", "option adoption")):
        problem, wanted = objection(current, "admitted", {"evidence": seen, **PROOF, lacking: None}, ADOPTION, NOW)
        assert problem and words in wanted
    assert current == "admitted" or objection(current, "admitted", {"evidence": seen, **PROOF}, {}, NOW)[0]


@pytest.mark.parametrize("seen", [None, FREE | {"at": NOW}, {"name": "in_service", "at": NOW - 121}])
def test_j7_who_is_not_seen_in_service_now_is_not_adopted(seen: Any) -> None:
    known = {"evidence": seen, **PROOF}
    assert "in service now" in objection("discovered", "admitted", known, ADOPTION, NOW)[1]


@pytest.mark.parametrize("current", ["wiping", "retired"])
def test_j7_what_is_wiped_or_retired_is_not_adopted(current: str) -> None:
    assert "cannot be adopted" in objection(current, "admitted", {"evidence": SERVES, **PROOF}, ADOPTION, NOW)[0]


@pytest.mark.parametrize("current", ["admitted", *TAKEN_BACK])
def test_j7_what_was_ours_is_not_adopted(current: str) -> None:
    known = {"evidence": SERVES, **PROOF, "admitted_before": True}
    problem, wanted = objection(current, "admitted", known, ADOPTION, NOW)
    assert problem and "day2_recycle goes on" in wanted
