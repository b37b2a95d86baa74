# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A failure stands until the same or a stronger question passes, or a person lifts it."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse, question
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import utc
from passports import ASKED, BMC, KEY, POLICY, SCHEMAS, evidence, issue, reasons, run, settings, stored, verdict

DCGM = ASKED["dcgm_gate"]
LOG = ASKED["kernel_log_gate"]


def after(*events: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What the ledger knows where these came after three passes."""
    found = evidence(**more)
    found["verdicts"] = [*found["verdicts"], *events]
    return {**found, "last_event": max([14, *(event["id"] for event in events)])}


def dcgm(number: int, outcome: str, digest: str = "sha256:p", **asked: Any) -> dict[str, Any]:
    whole = {**DCGM, "profile": digest, **asked}
    return verdict(number, "dcgm_gate", outcome, asked=whole, profile={"sku": "h100", "digest": digest})


def log(number: int, outcome: str, window: str = "imaging", **data: Any) -> dict[str, Any]:
    asked = {**LOG, "window": window}
    profile = {"sku": "h100", "digest": "sha256:p"}
    return verdict(number, "kernel_log_gate", outcome, asked=asked, profile=profile, **data)


def lift(number: int, gate: str = "dcgm_gate", failures: Any = (20,)) -> dict[str, Any]:
    said = {"by": "a.person", "reason": "the chiller", "failures": failures}
    return {"id": number, "name": gate, "kind": "lift", "at": 0.0, "data": said}


WEAKER = [
    pytest.param([dcgm(20, "fail"), dcgm(21, "pass", level=1, tests=["software"])], id="level"),
    pytest.param([dcgm(20, "fail"), dcgm(21, "pass", level=0, tests=["software"])], id="tests"),
    pytest.param([dcgm(20, "fail"), dcgm(21, "pass", digest="sha256:task")], id="profile"),
    pytest.param([dcgm(20, "fail", tests=[*DCGM["tests"], "nvbandwidth"]), dcgm(21, "pass")], id="an older DCGM"),
    pytest.param([dcgm(20, "fail", level=4), dcgm(21, "pass")], id="below a stronger failure"),
    pytest.param([dcgm(20, "fail"), {**dcgm(21, "pass"), "data": {**dcgm(21, "pass")["data"], "asked": None}}], id="?"),
    pytest.param([log(20, "fail"), log(21, "pass", "2026-11-22T07:00:00Z")], id="since 10"),
    pytest.param([log(20, "fail"), log(21, "pass", "boot")], id="boot"),
]


@pytest.mark.parametrize("events", WEAKER)
def test_v1_a_weaker_look_outvotes_no_failure(key: str, events: list[dict[str, Any]]) -> None:
    """Neither is a passport issued, nor does an older one admit or resume the node."""
    old = stored(issue(key))
    told = reasons(state="issued", key_path=key, bmc_identity=BMC, evidence=after(*events))
    assert "which stands until the same or a stronger question passes" in told
    kept = reasons(evidence=after(*events, stored=old))
    assert f"{events[0]['name']} failed after the passport was issued (event 20)" in kept


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([dcgm(20, "fail"), dcgm(21, "pass")], id="the same"),
        pytest.param([dcgm(20, "fail"), dcgm(21, "pass", level=4)], id="level"),
        pytest.param([dcgm(20, "fail", level=1, tests=["software"]), dcgm(21, "pass")], id="tests"),
        pytest.param([dcgm(20, "fail", level=0, tests=["memory"]), dcgm(21, "pass")], id="a test by name"),
        pytest.param([log(20, "fail", "2026-11-22T07:00:00Z"), log(21, "pass")], id="window"),
        pytest.param([dcgm(20, "fail"), lift(21), dcgm(22, "pass")], id="lifted"),
    ],
)
def test_v1_the_same_or_a_stronger_question_answers_a_failure(key: str, events: list[dict[str, Any]]) -> None:
    known = after(*events)
    newest = {event["name"]: event for event in known["verdicts"] if event["kind"] == "verdict"}
    assert issue(key, evidence={**known, "history": known["verdicts"], "verdicts": list(newest.values())})["changed"]


XID64 = {"id": "xid:64", "entity": "GPU 0", "text": "GPU 0: row remap failure (Xid 64)", "remedy": "rma"}


@pytest.mark.parametrize("remedy", ["fabric", "reseat", "field_diag", "rma", "unheard of", ["rma"], None])
def test_v2_what_a_log_told_of_broken_hardware_ends_by_a_lift_alone(key: str, remedy: Any) -> None:
    """Two boots: the first one's log has an Xid 64, the second one's nothing. It also outlives an imaging."""
    for number in (5, 20):
        known = evidence()
        history = sorted(
            [log(number, "fail", remedy=remedy), *known["verdicts"], log(22, "pass")], key=lambda event: event["id"]
        )
        known = {**known, "history": history, "last_event": 22}
        told = reasons(state="issued", key_path=key, bmc_identity=BMC, evidence=known)
        assert f"gate kernel_log_gate: fail (event {number}; window imaging), which stands until a person lifts" in told
        after_it = [*history[:-1], lift(21, "kernel_log_gate", (number,)), history[-1]]
        assert issue(key, evidence={**known, "history": after_it})["changed"]


def test_v2_a_finding_counts_whatever_remedy_stands_above_it(key: str) -> None:
    shown = [log(20, "fail", remedy="none", findings=[XID64]), log(21, "pass")]
    told = reasons(state="issued", key_path=key, bmc_identity=BMC, evidence=after(*shown))
    assert "which stands until a person lifts it" in told


@pytest.mark.parametrize("remedy", ["reset_gpu", "reboot", "power_cycle"])
def test_v2_what_a_restart_mends_a_later_pass_answers(key: str, remedy: str) -> None:
    assert issue(key, evidence=after(log(20, "fail", remedy=remedy), log(21, "pass")))["changed"]
    measured = {**dcgm(20, "fail"), "data": {**dcgm(20, "fail")["data"], "remedy": "rma"}}
    assert issue(key, evidence=after(measured, dcgm(21, "pass")))["changed"], "a test that measures again"


def test_v1_what_a_person_lifted_still_has_to_pass_and_stands_in_the_passport(key: str) -> None:
    known = after(dcgm(20, "fail", level=4), lift(21))
    known = {
        **known,
        "history": known["verdicts"],
        "verdicts": [event for event in known["verdicts"] if event["id"] != 21],
    }
    envelope = issue(key, evidence=known)["envelope"]
    statement, _key = dsse.verify(envelope, {dsse.keyid(KEY.public_key()): KEY.public_key()})
    assert statement["predicate"]["lifted"] == [
        {"gate": "dcgm_gate", "event": 21, "by": "a.person", "reason": "the chiller"}
    ]
    schema = json.loads((SCHEMAS / "passport-v1.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(statement)
    gates = {gate["gate"]: gate for gate in statement["predicate"]["gates"]}
    assert gates["dcgm_gate"]["asked"] == DCGM and gates["dcgm_gate"]["event"] == 14
    none = [event for event in known["history"] if event["id"] != 14]
    told = {"state": "issued", "key_path": key, "bmc_identity": BMC}
    assert "gate dcgm_gate: fail" in reasons(**told, evidence={**known, "history": none})
    other = [*known["history"][:-1], lift(21, "kernel_log_gate")]
    assert "which stands" in reasons(**told, evidence={**known, "history": other})
    early = [lift(19), *[event for event in known["history"] if event["kind"] == "verdict"]]
    assert "which stands" in reasons(**told, evidence={**known, "history": early})


@pytest.mark.parametrize(
    ("failures", "standing"),
    [([20, 21], []), ([20], [21]), ([21], [20]), ([], [20, 21]), (None, [20, 21]), ("20", [20, 21]), (20, [20, 21])],
)
def test_v9_a_lift_takes_away_the_failures_that_it_names(failures: Any, standing: list[int]) -> None:
    """A second failure that came while a person wrote was not shown to him."""
    history = [dcgm(20, "fail"), dcgm(21, "fail", level=4), lift(22, failures=failures)]
    left = question.standing(history, imaged=None, in_force="sha256:p", least={})
    assert [event["id"] for event in left] == standing


def test_v1_a_weak_pass_carries_no_passport_and_hides_no_strong_one(key: str) -> None:
    weak = after()
    weak["verdicts"] = [*weak["verdicts"][:2], dcgm(14, "pass", level=1, tests=["software"])]
    told = settings(state="issued", key_path=key, bmc_identity=BMC, evidence=weak)
    assert "dcgm_gate: pass, which proves too little: level 1, wanted 3" in told
    both = after(dcgm(20, "pass", level=1, tests=["software"]))
    result = issue(key, evidence={**both, "history": both["verdicts"], "verdicts": [both["verdicts"][-1]]})
    assert result["changed"]


def test_v2_a_node_whose_imaging_nobody_knows_needs_a_policy_that_says_so(key: str) -> None:
    known = after()
    known["verdicts"] = [known["verdicts"][0], log(13, "pass", "boot"), known["verdicts"][2]]
    told = settings(state="issued", key_path=key, bmc_identity=BMC, evidence=known)
    assert (
        "window boot, wanted imaging (where the ledger knows of no imaging, image the node, or let the policy" in told
    )
    assert issue(key, evidence=known, policy={**POLICY, "gates": {"kernel_log_gate": {"window": "boot"}}})["changed"]


def test_v1_an_unsettled_look_after_a_pass_is_settled_first(key: str) -> None:
    told = reasons(state="issued", key_path=key, bmc_identity=BMC, evidence=after(dcgm(20, "inconclusive")))
    assert "gate dcgm_gate: inconclusive (event 20)" in told
    weaker = after(dcgm(20, "inconclusive"), dcgm(21, "pass", level=1, tests=["software"]))
    assert "inconclusive" in reasons(state="issued", key_path=key, bmc_identity=BMC, evidence=weaker)


def test_v1_a_failure_outlives_an_imaging_and_one_of_the_image_does_not(key: str) -> None:
    bad = dcgm(5, "fail", level=4)
    wrong = verdict(6, "image_verify", "fail", asked={"tests": ["image"], "image": {"name": "old"}})
    found = evidence()
    history = [bad, wrong, *found["verdicts"]]
    told = reasons(state="issued", key_path=key, bmc_identity=BMC, evidence={**found, "history": history})
    assert "gate dcgm_gate: fail (event 5; level 4" in told and "image_verify" not in told


def test_v1_the_policy_is_asked_of_a_passport_too(key: str) -> None:
    known = evidence(stored=stored(issue(key)))
    strict = {**POLICY, "gates": {"dcgm_gate": {"level": 4, "tests": ["eud"]}}}
    told = settings(evidence=known, policy=strict)
    assert "the gate dcgm_gate answers too little: level 3, wanted 4, tests memory software, wanted eud" in told
    assert run(evidence=known, policy={**POLICY, "gates": {"dcgm_gate": {"level": 1}}})["valid"]
    aged = {**POLICY, "gates": {"dcgm_gate": {"max_age": 5}}}
    assert "the gate dcgm_gate was" in settings(evidence=known, policy=aged)
    unknown = {**known, "profile_problem": "which profile is in force is not known"}
    assert "which profile is in force" in settings(evidence=unknown)


@pytest.mark.parametrize(
    ("new", "old", "stronger"),
    [
        ("imaging", "boot", True),
        ("boot", "imaging", False),
        ("boot", "boot", True),
        ("boot", "2026-11-22T07:00:00Z", False),
        ("2026-11-22T07:00:00Z", "boot", False),
        ("2026-11-22T06:59:59Z", "2026-11-22T07:00:00Z", True),
        ("2026-11-22T07:00:01Z", "2026-11-22T07:00:00Z", False),
        ("2026-11-22T07:00:00+09:00", "2026-11-22T07:00:00Z", False),
        (None, "boot", False),
        (7, ["x"], False),
    ],
)
def test_v1_windows_are_compared_by_what_they_hold(new: Any, old: Any, stronger: bool) -> None:
    assert question.window_covers(new, old) is stronger
    assert question.covers({"window": new}, {"window": old}) is stronger


@pytest.mark.parametrize("asked", [{"size": "1M"}, {"size": None}, {}, {"size": "64G", "other": 1}])
def test_v2_a_part_of_a_question_that_nobody_has_a_rule_for_must_be_the_same(asked: dict[str, Any]) -> None:
    old = {"size": "64G", "profile": "sha256:p"}
    assert not question.covers({**asked, "profile": "sha256:p"}, old, in_force="sha256:p")
    assert question.covers(dict(old), old) and not question.weaker(old, {"size": "64G", "max_age": 60})
    if asked.get("size") != "64G":
        assert question.weaker(asked, {"size": "64G"}).startswith("size ")
    assert question.described({"level": 3, **old}) == "level 3, size 64G"


def test_v1_another_profile_answers_only_where_it_is_in_force() -> None:
    old, new = {**DCGM, "profile": "sha256:task"}, {**DCGM, "profile": "sha256:p"}
    assert not question.covers(new, old) and question.covers(new, old, in_force="sha256:p")
    assert not question.covers({**DCGM, "profile": None}, old) and not question.covers({}, old)
    assert question.covers(old, old, in_force="sha256:p")
    assert not question.covers({**new, "tests": 5}, {**new, "tests": ["memory"]}) and question.weaker(
        None, {"level": 1}
    )
    assert not question.covers({**new, "image": {"name": "a"}}, {**new, "image": {"name": "b"}})


def test_v1_a_pass_that_is_too_old_by_minutes_carries_no_passport(key: str) -> None:
    old = dcgm(15, "pass")
    old["data"]["looked_at"] -= POLICY["max_gate_age"] + 120
    told = settings(state="issued", key_path=key, bmc_identity=BMC, evidence=after(old))
    assert "gate dcgm_gate: its pass is" in told and "s old, allowed are" in told
    del old["data"]["looked_at"]  # as an older release wrote it
    told = reasons(state="issued", key_path=key, bmc_identity=BMC, evidence=after(old))
    assert "gate dcgm_gate: nobody has said when the node was looked at" in told


def test_v8_a_passport_tells_when_each_gate_looked_not_when_it_was_written_down(key: str) -> None:
    late = dcgm(15, "pass")
    late["data"]["looked_at"] -= 3000.0
    statement = dsse.verify(
        issue(key, evidence=after(late))["envelope"], {dsse.keyid(KEY.public_key()): KEY.public_key()}
    )
    gates = statement[0]["predicate"]["gates"]
    (told,) = [gate["at"] for gate in gates if gate["gate"] == "dcgm_gate"]
    assert told == utc(late["data"]["looked_at"])
