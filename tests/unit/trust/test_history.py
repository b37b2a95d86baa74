# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a passport may rest on: the verdicts since the node was last imaged, read from a real ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._history import evidence

IMAGING = ("state", "imaging", {})
WIPING = ("state", "wiping", {})
PASS = ("verdict", "dcgm_gate", {"verdict": "pass"})
FAIL = ("verdict", "dcgm_gate", {"verdict": "fail"})


def ordered(state: str) -> tuple[str, str, dict[str, Any]]:
    return ("intent", "provisioner_node", {"options": {"state": state}})


def sent(until: str) -> tuple[str, str, dict[str, Any]]:
    return ("intent", "provisioner_wait", {"options": {"until": until}, "write": "PUT provision deploy"})


def known(ledger: Ledger, *events: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])
    for kind, name, data in events:
        looked = ledger.moment().as_data() if kind == "verdict" else {}  # as an action that looks at once
        ledger.append("run", [(node, Event(kind, name, {**looked, **data}))])
    return evidence(ledger, node)


def verdicts(found: dict[str, Any]) -> list[str]:
    return [event["data"]["verdict"] for event in found["verdicts"]]


@pytest.mark.parametrize(
    "begins", [IMAGING, WIPING, ordered("deployed"), ordered("released"), sent("deployed"), sent("released")]
)
def test_t1_what_was_found_before_the_image_was_replaced_is_not_handed_over(ledger: Ledger, begins: Any) -> None:
    found = known(ledger, IMAGING, PASS, ("verdict", "kernel_log_gate", {"verdict": "fail"}), begins)
    assert found["verdicts"] == []
    assert found["imaged"]["name"] == begins[1]
    assert verdicts(known(ledger, FAIL)) == ["fail"]


@pytest.mark.parametrize("begins", [IMAGING, WIPING, ordered("deployed"), sent("released")])
@pytest.mark.parametrize("told", [{"after_event": 1}, {"after_event": None}, {"after_event": "99"}, {}])
def test_c3_a_pass_that_was_measured_before_an_imaging_and_told_after_it_is_none(
    ledger: Ledger, begins: Any, told: dict[str, Any]
) -> None:
    """Whoever does not tell when it looked may have looked before."""
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])
    for event in (("note", "first", {}), begins, ("verdict", "dcgm_gate", {"verdict": "pass", **told})):
        ledger.append("run", [(node, Event(*event))])
    assert evidence(ledger, node)["verdicts"] == []
    ledger.append("run", [(node, Event("verdict", "dcgm_gate", {"verdict": "fail", **told}))])
    assert verdicts(evidence(ledger, node)) == ["fail"], "what does not pass stands"


def test_c3_a_late_word_of_before_takes_no_pass_of_after_away(ledger: Ledger) -> None:
    late = ("verdict", "dcgm_gate", {"verdict": "pass", "after_event": 1, "evidence_digest": "late"})
    [stands] = known(ledger, ("note", "first", {}), IMAGING, PASS, late)["verdicts"]
    assert "evidence_digest" not in stands["data"]
    old = ("verdict", "dcgm_gate", {"verdict": "pass"})
    node = ledger.identify("n2", aliases=[("serial", "GF0002")])
    ledger.append("run", [(node, Event(*old))])
    assert verdicts(evidence(ledger, node)) == ["pass"], "of a node that was never imaged"


@pytest.mark.parametrize(
    "keeps", [ordered("maintenance"), ordered("present"), sent("available"), ("state", "validating", {})]
)
def test_t1_what_replaces_no_image_leaves_the_verdicts(ledger: Ledger, keeps: Any) -> None:
    assert verdicts(known(ledger, IMAGING, PASS, keeps)) == ["pass"]


def test_t1_of_one_gate_the_newest_verdict_is_handed_over(ledger: Ledger) -> None:
    assert verdicts(known(ledger, IMAGING, PASS, FAIL)) == ["fail"]
    assert verdicts(known(ledger, PASS)) == ["pass"]


def test_t1_the_last_imaging_counts(ledger: Ledger) -> None:
    first = known(ledger, IMAGING)["imaged"]["id"]
    assert known(ledger, PASS, IMAGING)["imaged"]["id"] > first


def test_t1_a_quarantine_and_the_newest_event_are_told(ledger: Ledger) -> None:
    found = known(ledger, IMAGING, ("state", "quarantined", {"reason": "x"}), PASS)
    assert found["quarantined"]["name"] == "quarantined"
    assert found["last_event"] == found["verdicts"][0]["id"] > found["quarantined"]["id"]


def test_v1_failures_of_before_an_imaging_stay_in_the_history_until_an_admission(ledger: Ledger) -> None:
    found = known(ledger, FAIL, ("lift", "dcgm_gate", {"by": "a.person"}), IMAGING, PASS)
    assert verdicts(found) == ["pass"] and found["now"] > 0
    assert [event["data"].get("verdict", event["kind"]) for event in found["history"]] == ["fail", "lift", "pass"]
    late = ("verdict", "dcgm_gate", {"verdict": "pass", "after_event": 1})
    assert len(known(ledger, late)["history"]) == 3, "measured before the imaging"
    assert len(known(ledger, ("state", "admitted", {"forced": "x"}))["history"]) == 3
    assert len(known(ledger, ("state", "admitted", {}))["history"]) == 1, "since the imaging"
    assert known(ledger, IMAGING)["history"] == []
    [after] = known(ledger, FAIL)["history"]
    assert after["data"]["verdict"] == "fail"


def test_v1_to_say_once_more_that_a_node_is_admitted_lets_no_failure_go(ledger: Ledger) -> None:
    """Neither one that came while it was in service, nor those that it was admitted with by force."""
    assert known(ledger, ("state", "admitted", {"from": "validating"}), FAIL)["history"]
    assert verdicts_in(known(ledger, ("state", "admitted", {"from": "admitted"}), IMAGING)) == ["fail"]
    assert verdicts_in(known(ledger, ("state", "admitted", {"from": "validating"}))) == []
    assert known(ledger, FAIL, ("state", "admitted", {"from": "drained", "forced": "x"}))["history"]
    assert verdicts_in(known(ledger, ("state", "admitted", {"from": "admitted"}))) == ["fail", "fail"]


def verdicts_in(found: dict[str, Any]) -> list[str]:
    return [event["data"]["verdict"] for event in found["history"]]


def test_x7_the_evidence_of_a_node_is_not_its_whole_life(
    ledger: Ledger, texts_read: Callable[[Ledger, Callable[[], object]], int]
) -> None:
    """What lies before the last admission and the last imaging is not read, but for the admissions themselves."""
    entered = [("state", "admitted", {"from": "validating"}), IMAGING, PASS]
    known(ledger, *entered)
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])
    before = texts_read(ledger, lambda: evidence(ledger, node))
    known(ledger, *[PASS, FAIL, ordered("ready"), ("state", "quarantined", {"reason": "x"})] * 5, *entered)
    columns = len(["node_id", "run_id", "kind", "name", "data"])
    assert before and texts_read(ledger, lambda: evidence(ledger, node)) == before + columns
