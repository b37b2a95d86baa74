# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _token
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import hold
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import (
    Hold,
    NodeView,
    Refusal,
    Work,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.evidence import name_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.judge import (
    after_eviction,
    until_drained,
    until_idle,
)
from hypothesis import given
from hypothesis import strategies as st

OURS = hold.Claim("gpufleet:run1:reimage", frozenset({"run1", "run2"}))
NOBODY = hold.Claim()
SIGNED = hold.Claim.of({"known_token": OURS.token, "known_author": "root", "known_runs": ["run1"]})
LONGER = hold.Claim("gpufleet:run1:x : Down", frozenset({"run1"}))


#: What a scheduler with one place for all puts where a token stood, and what one with several puts beside it.
OVER = Hold("Low RealMemory", "slurm", by_scheduler=True, overwrites=True)
BESIDE = Hold("lost its agent", "system", by_scheduler=True)
PASSING = Hold("not ready", "system", by_scheduler=True, passing=True)
MINE = Hold("gpufleet:run1:reimage", "root")
PERSON = Hold("cable pulled", "bob")


def view(*holds: Hold | str, **fields: object) -> NodeView:
    """A drained node with these holds; a text stands for one that its author does not say more about."""
    found = tuple(hold if isinstance(hold, Hold) else Hold(hold, "root") for hold in holds)
    return NodeView("gpu1", **{"state": "drained", "holds": found, "answers": True, **fields})  # type: ignore[arg-type]


def work(*ids: str) -> tuple[Work, ...]:
    return tuple(map(Work, ids))


@pytest.mark.parametrize(
    ("seen", "claim", "owner"),
    [
        (view(state="idle"), OURS, hold.FREE),
        (view("gpufleet:run1:reimage"), OURS, hold.OURS),
        (view(Hold("gpufleet:run1:reimage : Not responding", "root", appended=" : Not responding")), OURS, hold.OURS),
        # A person's words behind it, or another hand, and it is the person's.
        (view("gpufleet:run1:reimage : Not responding"), OURS, hold.FOREIGN),
        (view("gpufleet:run1:reimage; alice: PSU smokes"), OURS, hold.FOREIGN),
        (view(Hold("gpufleet:run1:reimage; x : Down", "root", appended=" : Down")), OURS, hold.FOREIGN),
        (view("gpufleet:run1:re"), OURS, hold.FOREIGN),
        (view(MINE), SIGNED, hold.OURS),
        (view(Hold(MINE.text, "alice")), SIGNED, hold.FOREIGN),
        (view(Hold(MINE.text)), SIGNED, hold.OURS),
        (view(Hold(f"{MINE.text} : Down : Low", appended=" : Down : Low")), SIGNED, hold.OURS),
        # What an earlier look wrote down with what the scheduler had appended by then.
        (view(Hold("gpufleet:run1:x : Down : Low", appended=" : Down : Low")), LONGER, hold.OURS),
        (view("gpufleet:run2:quarantined"), OURS, hold.OURS),
        # A person's, made through us: no run's, whichever ledger knows it, and whatever says its kind.
        (view("gpufleet:run2+keep:for bob"), OURS, hold.FOREIGN),
        (view(Hold("gpufleet:run2:for bob", "root", kind="keep")), OURS, hold.FOREIGN),
        (view(MINE, "gpufleet:run2+keep:for bob"), OURS, hold.FOREIGN),
        (view(OVER), hold.Claim("gpufleet:run2+keep:for bob", frozenset({"run2"})), hold.FOREIGN),
        (view("gpufleet:run2+quarantine:xid79"), OURS, hold.OURS),
        (view("gpufleet:run3:reimage"), OURS, hold.FOREIGN),
        (view("gpufleet:run3+keep:reimage"), OURS, hold.FOREIGN),
        (view("gpufleet:run1"), OURS, hold.FOREIGN),
        (view("gpufleet:run1+:x"), OURS, hold.FOREIGN),
        (view("gpufleet:"), OURS, hold.FOREIGN),
        (view("gpufleet:run1:reimage"), NOBODY, hold.FOREIGN),
        (view("x gpufleet:run1:reimage"), OURS, hold.FOREIGN),
        (view("NHC: gpu lost"), OURS, hold.FOREIGN),
        # Nobody says who and why: somebody did it.
        (view(""), OURS, hold.FOREIGN),
        (view(Hold("")), OURS, hold.FOREIGN),
        (view(OVER), OURS, hold.OURS),
        (view(OVER), NOBODY, hold.SCHEDULER),
        # Runs that we know, and no hold that stands: the mark is the scheduler's.
        (view(OVER), hold.Claim("", frozenset({"run1"})), hold.SCHEDULER),
        # Where holds stand beside each other, ours that is gone was lifted by somebody.
        (view(BESIDE), OURS, hold.SCHEDULER),
        (view(BESIDE, MINE), OURS, hold.OURS),
        (view(MINE, PERSON), OURS, hold.FOREIGN),
        (view(PERSON, MINE, BESIDE), OURS, hold.FOREIGN),
        (view(PASSING, PERSON), OURS, hold.FOREIGN),
        (view(OVER, PERSON), OURS, hold.FOREIGN),
        # What goes by itself is nothing to lift.
        (view(PASSING, state="down"), OURS, hold.FREE),
        # A token in a mark of the scheduler is a token.
        (view(Hold("gpufleet:run9:x", by_scheduler=True, overwrites=True)), OURS, hold.FOREIGN),
        (view(Hold("gpufleet:", by_scheduler=True, overwrites=True)), OURS, hold.FOREIGN),
    ],
)
def test_owner(seen: NodeView, claim: hold.Claim, owner: str) -> None:
    assert claim.owner(seen) == owner


def test_a_trial_is_ours_by_its_run_or_in_the_very_call_that_makes_it() -> None:
    ours, others = Hold("gpufleet:run1:trial-gpu1", trial=True), Hold("gpufleet:run9:trial-gpu1", trial=True)
    assert OURS.owner(view(ours)) == hold.OURS, "whatever the ledger knows of that run's hold"
    assert OURS.owner(view(others)) == hold.FOREIGN
    makes = replace(OURS, trial=others.text)
    assert makes.owner(view(others)) == hold.OURS
    assert makes.owner(view(others.text)) == hold.FOREIGN, "a drain of that name is another thing"
    assert name_of(view(ours, state="idle", answers=True), OURS) == "not_drained"
    assert name_of(view("gpufleet:run1:reimage", ours), OURS) == "drained"


def test_a_foreign_drain_is_no_evidence() -> None:
    assert name_of(view("NHC: gpu lost"), OURS) == "foreign_hold"
    assert name_of(view("gpufleet:run9:x"), OURS) == "foreign_hold"
    assert name_of(view(MINE, PERSON), OURS) == "foreign_hold"
    assert name_of(view("gpufleet:run2+keep:for bob"), OURS) == "foreign_hold"
    assert name_of(view("gpufleet:run2+quarantine:xid79"), OURS) == "not_drained"
    assert name_of(view(Hold("gpufleet:run2:xid79", kind="quarantine")), OURS) == "not_drained"
    assert name_of(view(MINE, "gpufleet:run2+quarantine:xid79"), OURS) == "not_drained"
    assert name_of(view(OVER), hold.Claim("gpufleet:run2+quarantine:xid79", frozenset({"run2"}))) == "not_drained"
    assert name_of(view("gpufleet:run1:reimage"), OURS) == "drained"
    assert name_of(view("gpufleet:run1:reimage", state="draining", work=work("7")), OURS) == "not_drained"
    assert name_of(view("gpufleet:run1:reimage", state="draining", waits_for="COMPLETING"), OURS) == "not_drained"
    assert name_of(view("gpufleet:run1:reimage", work=work("7")), OURS) == "not_drained"
    assert name_of(view(OVER, state="down"), NOBODY) == "not_drained"
    assert name_of(NodeView("gpu1"), NOBODY) == "not_in_scheduler"
    assert name_of(NodeView("gpu1", "idle", answers=True), NOBODY) == "in_service"
    assert name_of(NodeView("gpu1", "idle", answers=True, holds=(PASSING,)), NOBODY) == "not_drained"
    assert name_of(NodeView("gpu1", "idle", answers=False), NOBODY) == "not_drained"


def test_h2_of_a_keep_hold_that_the_scheduler_overwrote_the_ledger_tells_the_kind() -> None:
    kept = hold.Claim("gpufleet:run2+keep:for bob", frozenset({"run2"}), over_keep=True)
    assert [(one["kind"], one["owner"]) for one in kept.told(view(OVER))] == [("keep", "ours")]
    assert [one["kind"] for one in OURS.told(view(OVER, PERSON))] == ["work", ""]


def test_somebody_elses_hold_is_told_and_ours_beside_it_is_not() -> None:
    refused = OURS.not_ours(view(MINE, PERSON, native="IDLE"), wanted="x")
    assert refused.seen == "IDLE; reason 'cable pulled' set by bob" and refused.details["set_by"] == "bob"
    assert [one["owner"] for one in refused.details["holds"]] == ["ours", "foreign"]
    kept = OURS.not_ours(view("gpufleet:run2+keep:for bob"), wanted="x")
    assert "a person: a keep hold" in str(kept) and "maintenance=off" in kept.do
    assert "another controller" in str(OURS.not_ours(view("gpufleet:run9+keep:x"), wanted="x"))
    assert "another controller" in str(OURS.not_ours(view("gpufleet:run9:x"), wanted="x"))
    assert "another controller" not in str(OURS.not_ours(view("gpufleet:run9:x", PERSON), wanted="x"))
    assert "somebody else" in str(OURS.not_ours(view("gpufleet:run1:reimage; leave it"), wanted="x"))


@given(st.text(max_size=300), st.text(max_size=300))
def test_a_token_is_one_line_and_says_what_it_was_made_of(run: str, why: str) -> None:
    token = _token.make_token(run, why)
    assert "\n" not in token and '"' not in token and len(token) < 300 + 250
    if run:
        assert _token.run_of(token) == _token.clean_run(run)
        assert _token.says(token, why) and _token.says(token + " : Not responding", why)
        assert hold.Claim.of({"run_id": run}).owner(view(token)) == hold.OURS


@given(st.text(max_size=60))
def test_no_text_is_ours_by_its_form(reason: str) -> None:
    assert NOBODY.owner(view(reason)) == hold.FOREIGN
    assert NOBODY.owner(view(f"gpufleet:{reason}")) == hold.FOREIGN


def test_judgements_settle_only_what_waiting_cannot_change() -> None:
    draining = view("gpufleet:run1:reimage", state="draining", work=work("7"))
    assert not until_drained(draining, OURS).settled and until_drained(draining, OURS).evict
    assert until_drained(view("NHC"), OURS).settled and not until_drained(view("NHC"), OURS).ok
    assert not until_drained(view("NHC"), OURS, check_mode=True).ok
    assert until_drained(view(state="idle"), OURS, check_mode=True).ok
    quarantine = view("gpufleet:run2+quarantine:xid79", state="draining", work=work("7"))
    for check_mode in (True, False):
        found = until_drained(quarantine, OURS, check_mode=check_mode)
        assert found.settled and not found.ok and not found.evict and "in quarantine" in found.reason
    silent = NodeView("gpu1", "idle", answers=False)
    assert not until_idle(silent, OURS).settled and not until_idle(silent, OURS).ok


def test_what_refuses_to_leave_is_told_and_settles_only_for_good() -> None:
    waiting = until_drained(view("gpufleet:run1:reimage", state="draining", work=(Work("7", "it is ending"),)), OURS)
    assert "7 (it is ending)" in waiting.reason
    assert after_eviction(waiting, []) is waiting
    later = after_eviction(waiting, [Refusal("8", "its budget")])
    assert not later.settled and not later.ok and later.reason.endswith("may not leave yet: 8: its budget")
    never = after_eviction(waiting, [Refusal("8", "its budget"), Refusal("9", "two budgets", for_good=True)])
    assert never.settled and not never.ok and "9: two budgets" in never.reason
