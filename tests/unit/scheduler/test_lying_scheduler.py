# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scheduler that takes a write and does not do it, or does another: nothing is believed that was not read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    DeadlineExceeded,
    NotOurs,
    NotProven,
    Refused,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import anew
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import node as verb
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Hold, NodeView, Scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.hold import Claim
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.judge import until_idle
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.registry import DRIVERS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result

IDLE = NodeView("gpu001", state="idle", answers=True)
TOKEN = "gpufleet:r1:reimage"


def drained(text: str, **more: Any) -> NodeView:
    return replace(IDLE, state="drained", reason=text, holds=(Hold(text),), **more)


class Liar(Scheduler):
    """``seen``: what each look shows, the last one from then on. ``after``: what a write makes of the node."""

    NAME = "liar"
    seen: ClassVar[list[NodeView]]
    after: ClassVar[NodeView]
    sent: ClassVar[list[str]]

    def check(self, name: str) -> None:
        pass

    def states(self, names: Sequence[str]) -> dict[str, NodeView]:
        view = self.seen.pop(0) if len(self.seen) > 1 else self.seen[0]
        return dict.fromkeys(names, view)

    def known(self) -> dict[str, tuple[str, ...]]:
        return {}

    def hold_request(self, view: NodeView, token: str, kind: str) -> str:
        return "hold"

    def hold(self, view: NodeView, token: str, kind: str) -> None:
        self._write("hold")

    def resume_request(self, view: NodeView) -> str:
        return "resume"

    def resume(self, view: NodeView) -> None:
        self._write("resume")

    def _write(self, what: str) -> None:
        self.sent.append(what)
        self.seen[:] = [self.after]


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DRIVERS, Liar.NAME, Liar)
    monkeypatch.setattr(anew, "READ_BACK_SECONDS", 0.0)


def call(state: str, *seen: NodeView, after: NodeView = IDLE, known: str = "") -> Result:
    Liar.seen, Liar.after, Liar.sent = list(seen), after, []
    params = {
        "scheduler": "liar", "scheduler_node": "gpu001", "state": state, "run_id": "r1", "why": "reimage",
        "known_token": known, "known_runs": ["r1"], "timeout": 0, "interval": 0.01,
    }  # fmt: skip
    return verb.scheduler_node(params, Context(node="gpu001"))


def test_the_ledger_learns_who_set_a_hold_and_not_what_the_scheduler_added() -> None:
    shown = replace(IDLE, state="drained", holds=(Hold(f"{TOKEN} : Down", "root", appended=" : Down"),))
    told = [event.data for event in call("held", IDLE, after=shown).events if event.kind == "hold"]
    assert told == [{"hold_token": TOKEN, "hold_author": "root", "scheduler_node": "gpu001"}]
    # One of this run with another reason is replaced, and the new one is news that is ours.
    old = replace(IDLE, state="drained", holds=(Hold("gpufleet:r1:re", "root"),))
    result = call("held", old, after=shown, known="gpufleet:r1:re")
    assert [event.name for event in result.events] == ["taken", "drained"] and Liar.sent == ["hold"]
    assert call("held", shown, known=TOKEN).events[0].kind == "evidence"


def test_t1_a_hold_that_shows_is_taken() -> None:
    result = call("held", IDLE, after=drained(f"{TOKEN}"))
    assert result.changed and ("hold", "taken") in [(event.kind, event.name) for event in result.events]


@pytest.mark.parametrize(
    "after", [IDLE, drained("maintenance"), replace(drained(TOKEN), state="idle"), drained("gpufleet:r2:reimage")]
)
def test_t1_a_hold_that_does_not_show_is_not_taken(after: NodeView) -> None:
    with pytest.raises(DeadlineExceeded):
        call("held", IDLE, after=after)


@pytest.mark.parametrize("after", [drained(TOKEN), drained("bad DIMM"), replace(IDLE, answers=False)])
def test_t1_a_resume_that_does_not_show_is_none(after: NodeView) -> None:
    with pytest.raises(NotProven):
        call("resumed", drained(TOKEN), after=after)


def test_t1_a_hold_that_somebody_lifted_meanwhile_is_not_lifted_again() -> None:
    """While the verb waited for the node's agent. To resume it now could lift what came after."""
    result = call("resumed", drained(TOKEN, answers=False), IDLE)
    assert Liar.sent == [] and result.changed is False


def test_t1_a_hold_that_somebody_took_meanwhile_is_left() -> None:
    with pytest.raises(NotOurs):
        call("resumed", drained(TOKEN, answers=False), drained("bad DIMM"))
    assert Liar.sent == []


QUARANTINE = "gpufleet:r1+quarantine:rma board"


def test_t1_a_quarantine_is_not_replaced_by_another_reason_of_ours() -> None:
    result = call("held", drained(QUARANTINE))
    assert Liar.sent == [] and not result.changed and result.data["reason"] == QUARANTINE
    assert [event.name for event in result.events] == ["taken", "not_drained"]


def test_t1_a_quarantine_that_has_to_be_written_again_is_one_still() -> None:
    """The node fell down with our text as its reason, which keeps nobody away once it has registered."""
    down = replace(drained(QUARANTINE), state="down")
    after = drained("gpufleet:r1+quarantine:reimage")
    result = call("held", down, after=after)
    assert Liar.sent == ["hold"] and result.changed and result.data["reason"] == after.reason


@pytest.mark.parametrize(
    "quarantine", [drained(QUARANTINE), replace(drained("x"), holds=(Hold(TOKEN, kind="quarantine"),))]
)
def test_t1_a_quarantine_is_lifted_by_no_run(quarantine: NodeView) -> None:
    with pytest.raises(Refused, match="in quarantine"):
        call("resumed", quarantine)
    assert Liar.sent == []
    with pytest.raises(Refused, match="in quarantine"):
        call("resumed", drained(TOKEN, answers=False), quarantine)
    assert Liar.sent == []


def test_t1_a_node_that_its_scheduler_lost_is_not_in_service() -> None:
    absent = NodeView("gpu001")
    assert until_idle(absent, Claim(), kept=True).ok is False
    assert until_idle(absent, Claim(), kept=False).ok is True
