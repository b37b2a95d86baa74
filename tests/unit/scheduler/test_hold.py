# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _token
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import hold
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.evidence import name_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.judge import until_drained, until_idle
from hypothesis import given
from hypothesis import strategies as st

OURS = hold.Claim("gpufleet:run1:reimage", frozenset({"run1", "run2"}))
NOBODY = hold.Claim()


def view(reason: str = "", **fields: object) -> NodeView:
    return NodeView("gpu1", **{"state": "drained", "held": True, "reason": reason, "answers": True, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seen", "claim", "owner"),
    [
        (view(held=False, state="idle"), OURS, hold.FREE),
        (view("gpufleet:run1:reimage"), OURS, hold.OURS),
        (view("gpufleet:run1:reimage : Not responding"), OURS, hold.OURS),
        (view("gpufleet:run2:quarantined"), OURS, hold.OURS),
        (view("gpufleet:run3:reimage"), OURS, hold.FOREIGN),
        (view("gpufleet:run1"), OURS, hold.FOREIGN),
        (view("gpufleet:"), OURS, hold.FOREIGN),
        (view("gpufleet:run1:reimage"), NOBODY, hold.FOREIGN),
        (view("x gpufleet:run1:reimage"), OURS, hold.FOREIGN),
        (view("NHC: gpu lost"), OURS, hold.FOREIGN),
        (view("Low RealMemory", by_scheduler=True), OURS, hold.OURS),
        (view("Low RealMemory", by_scheduler=True), NOBODY, hold.SCHEDULER),
        # Runs that we know, and no hold that stands: the mark is the scheduler's.
        (view("Low RealMemory", by_scheduler=True), hold.Claim("", frozenset({"run1"})), hold.SCHEDULER),
    ],
)
def test_owner(seen: NodeView, claim: hold.Claim, owner: str) -> None:
    assert claim.owner(seen) == owner


def test_a_foreign_drain_is_no_evidence() -> None:
    assert name_of(view("NHC: gpu lost"), OURS) == "foreign_hold"
    assert name_of(view("gpufleet:run9:x"), OURS) == "foreign_hold"
    assert name_of(view("gpufleet:run1:x"), OURS) == "drained"
    assert name_of(view("gpufleet:run1:x", state="draining", work=("7",)), OURS) == "not_drained"
    assert name_of(view("gpufleet:run1:x", work=("7",)), OURS) == "not_drained"
    assert name_of(view("Not responding", state="down", by_scheduler=True), NOBODY) == "not_drained"
    assert name_of(NodeView("gpu1"), NOBODY) == "not_in_scheduler"
    assert name_of(NodeView("gpu1", "idle", answers=True), NOBODY) == "in_service"
    assert name_of(NodeView("gpu1", "idle", answers=False), NOBODY) == "not_drained"


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
    draining = view("gpufleet:run1:x", state="draining", work=("7",))
    assert not until_drained(draining, OURS).settled and until_drained(draining, OURS).evict
    assert until_drained(view("NHC"), OURS).settled and not until_drained(view("NHC"), OURS).ok
    assert not until_drained(view("NHC"), OURS, check_mode=True).ok
    assert until_drained(view(held=False, state="idle"), OURS, check_mode=True).ok
    silent = NodeView("gpu1", "idle", answers=False)
    assert not until_idle(silent, OURS).settled and not until_idle(silent, OURS).ok
