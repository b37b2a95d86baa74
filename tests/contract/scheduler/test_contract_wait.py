# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each scheduler's driver must do in a batch, without an answer, and with work that has to be made to leave."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    FleetError,
    Unreachable,
)
from contract.scheduler.verbs import RUN, TOKEN, Line, node, verdict, wait

# -- no answer, a wrong one, a lost one ------------------------------------------------------------------------


def test_no_answer_is_never_absence_and_never_a_pass(keeper: Any) -> None:
    name = keeper.names[0]
    for way in keeper.faults.unusable:
        keeper.faults.strike(way)
        for state in ("present", "held", "resumed"):
            with pytest.raises((Unreachable, BadAnswer)):
                node(keeper, name, state)
        with pytest.raises((Unreachable, BadAnswer)):
            wait(keeper, name, timeout=0.5)
        assert keeper.faults.writes == [] and keeper.texts(name) == []


def test_a_refused_login_is_tried_once(keeper: Any) -> None:
    keeper.faults.refuse_login()
    with pytest.raises(AuthFailed):
        wait(keeper, *keeper.names)
    assert len(keeper.faults.calls) == 1


@pytest.mark.parametrize("state", ["held", "resumed"])
def test_a_write_whose_answer_is_lost_is_found_done(keeper: Any, state: str) -> None:
    name = keeper.names[0]
    if state == "resumed":
        node(keeper, name, "held")
    keeper.faults.forget()
    keeper.faults.lose_answer()
    with pytest.raises(FleetError):
        node(keeper, name, state, known_token=TOKEN)
    found = node(keeper, name, state, known_token=TOKEN, timeout=40)
    assert not found.changed and len(keeper.faults.writes) == 1
    assert keeper.texts(name) == ([TOKEN] if state == "held" else [])


def test_c8_what_a_scheduler_took_down_that_was_away_itself_says_nothing_of_the_node(keeper: Any) -> None:
    """Where its mark says that the agent was silent. What a node got by answering, as one without its GPU, it keeps."""
    silent, short = keeper.names[:2]
    keeper.lose(silent)
    keeper.take_down(short)
    alone = wait(keeper, silent, short, until="idle", timeout=3).data["verdicts"]
    assert [(one["ok"], one["kind"]) for one in alone.values()] == [(False, ""), (False, "")], alone
    keeper.faults.outage(times=1)
    told = wait(keeper, silent, short, until="idle", timeout=3).data["verdicts"]
    assert (told[silent]["ok"], told[silent]["kind"]) == (False, "unreachable"), told
    assert alone[silent]["reason"] in told[silent]["reason"] and "run again" in told[silent]["reason"], told
    assert (told[short]["kind"], told[short]["reason"]) == ("", alone[short]["reason"]), told


def test_an_outage_that_ends_before_the_deadline_ends_no_wait(keeper: Any) -> None:
    name = keeper.names[0]
    node(keeper, name, "held")
    keeper.faults.outage(times=3)
    assert verdict(wait(keeper, name), name)["ok"]


def test_t1_a_scheduler_that_is_silent_is_waited_for_whatever_was_seen_before(keeper: Any, other: Any) -> None:
    """It was seen drained; while its scheduler is silent somebody takes it. The old look must not be the verdict."""
    name, guest = keeper.names[0], "gpu002"
    node(keeper, name, "held")
    job = other.start(guest)
    node(other, guest, "held")

    def silent() -> None:
        keeper.faults.outage()
        keeper.hold(name, "mine now")
        other.end(job)

    nodes = [
        {"host": "a", "scheduler_node": name, "known_runs": [RUN], **keeper.connection},
        {"host": "b", "scheduler_node": guest, "known_runs": [RUN], **other.connection},
    ]
    line = Line(at_poll={2: silent, 5: keeper.faults.forget})
    result = wait(keeper, line=line, nodes=nodes)
    verdicts = result.data["verdicts"]
    assert line.polls >= 5 and verdicts["b"]["ok"]
    assert not verdicts["a"]["ok"] and "mine now" in verdicts["a"]["reason"]
    assert {event.node: event.name for event in result.events} == {"a": "foreign_hold", "b": "drained"}


def test_t1_a_scheduler_that_stays_silent_leaves_no_verdict_and_no_evidence(keeper: Any, other: Any) -> None:
    name, guest = keeper.names[0], "gpu002"
    job = other.start(guest)
    for site, one in ((keeper, name), (other, guest)):
        node(site, one, "held")
    nodes = [
        {"host": "a", "scheduler_node": name, "known_runs": [RUN], **keeper.connection},
        {"host": "b", "scheduler_node": guest, "known_runs": [RUN], **other.connection},
    ]
    # The first poll has seen the node drained. Five polls are enough, for which eight seconds are plenty.
    line = Line(at_poll={2: keeper.faults.outage, 3: lambda: other.end(job)})
    result = wait(keeper, nodes=nodes, timeout=8, line=line)
    assert not result.data["verdicts"]["a"]["ok"] and result.data["verdicts"]["b"]["ok"]
    assert [event.node for event in result.events] == ["b"]


# -- the batch and check mode ----------------------------------------------------------------------------------


def test_one_node_that_does_not_get_there_does_not_stop_its_batch(keeper: Any) -> None:
    drained, free, busy = keeper.names
    job = keeper.start(busy)
    for name in (drained, busy):
        node(keeper, name, "held")
    nodes = [{"host": name, "known_runs": [RUN]} for name in (*keeper.names, keeper.unknown)]
    nodes += [
        {"host": "bare", "scheduler": "none"},
        {"host": "taken", "scheduler_node": "gpu777", "refused": "another run works on this node"},
        {"host": "typo", "scheduler": "no such driver"},
    ]
    line = Line(at_poll={4: lambda: keeper.end(job)})
    result = wait(keeper, nodes=nodes, timeout=60, line=line)
    verdicts = result.data["verdicts"]
    assert {host for host, one in verdicts.items() if one["ok"]} == {drained, busy, keeper.unknown, "bare"}
    assert "hold it first" in verdicts[free]["reason"]
    assert verdicts["taken"]["reason"] == "another run works on this node" and "driver" in verdicts["typo"]["reason"]
    assert result.data["not_ok"] == sorted([free, "taken", "typo"])
    assert {event.node: event.name for event in result.events} == {
        drained: "drained", free: "in_service", busy: "drained", keeper.unknown: "not_in_scheduler",
        "bare": "not_in_scheduler",
    }  # fmt: skip


def test_what_no_wait_can_change_ends_it(keeper: Any) -> None:
    name = keeper.names[0]
    line = Line()
    found = verdict(wait(keeper, name, line=line, timeout=60), name)
    assert not found["ok"] and "hold it first" in found["reason"] and line.polls == 1


def test_wait_until_idle(keeper: Any) -> None:
    first, second = keeper.names[:2]
    node(keeper, first, "held")
    verdicts = wait(keeper, first, second, until="idle").data["verdicts"]
    assert not verdicts[first]["ok"] and "held by us" in verdicts[first]["reason"]
    assert verdicts[second]["ok"]
    job = keeper.start(second)
    assert verdict(wait(keeper, second, until="idle"), second)["ok"], "a node that works is in service"
    keeper.end(job)


def test_check_mode_sends_nothing_and_predicts(keeper: Any) -> None:
    free, busy, held = keeper.names
    job = keeper.start(busy)
    node(keeper, held, "held")
    before = [keeper.texts(name) for name in keeper.names]
    keeper.faults.forget()
    idle = node(keeper, free, "held", check_mode=True)
    assert idle.changed and idle.after == {"state": "drained", "reason": TOKEN} and idle.data["owner"] == "ours"
    assert node(keeper, busy, "held", check_mode=True).after["state"] == "draining"
    back = node(keeper, held, "resumed", check_mode=True)
    assert back.changed and back.after == {"state": "idle", "reason": ""} and back.data["asked"] == []
    verdicts = wait(keeper, *keeper.names, check_mode=True).data["verdicts"]
    assert all(one["ok"] for one in verdicts.values())
    assert keeper.faults.writes == [] and [keeper.texts(name) for name in keeper.names] == before
    keeper.end(job)


# -- work that has to be made to leave -------------------------------------------------------------------------


def test_work_is_asked_to_leave_only_where_the_hold_is_ours(evicter: Any) -> None:
    ours, free, theirs = evicter.names
    jobs = [evicter.start(name) for name in evicter.names]
    node(evicter, ours, "held")
    evicter.hold(theirs, "mine")
    line = Line(at_poll={3: lambda: evicter.end(jobs[0])})
    verdicts = wait(evicter, *evicter.names, line=line).data["verdicts"]
    assert verdicts[ours]["ok"] and not verdicts[free]["ok"] and not verdicts[theirs]["ok"]
    assert line.writes == 1, "what is leaving already is not asked again"
    assert [evicter.leaving(job) for job in jobs[1:]] == [False, False]


def test_a_refused_eviction_is_told_with_its_reason_and_waited_for(evicter: Any) -> None:
    name = evicter.names[0]
    quick, kept = evicter.start(name), evicter.guard(name, "its budget allows 0 of 2 to leave")
    node(evicter, name, "held")
    said: list[str] = []
    found = verdict(wait(evicter, name, timeout=1, said=said.append), name)
    assert not found["ok"] and "its budget allows 0 of 2 to leave" in found["reason"]
    reasons = {job: reason for job, reason in found["waits"].items() if job.startswith((quick, kept))}
    assert len(reasons) == 2 and "its budget allows 0 of 2 to leave" in "; ".join(reasons.values())
    assert any("its budget allows" in line for line in said) and evicter.leaving(quick)

    def both_end() -> None:
        evicter.end(quick)
        evicter.end(kept)

    assert verdict(wait(evicter, name, line=Line(at_poll={3: both_end})), name)["ok"]


def test_a_refusal_that_only_a_person_can_end_ends_the_wait(evicter: Any) -> None:
    name = evicter.names[0]
    evicter.guard(name, "two budgets claim it", for_good=True)
    node(evicter, name, "held")
    line = Line()
    found = verdict(wait(evicter, name, line=line, timeout=60), name)
    assert not found["ok"] and "two budgets claim it" in found["reason"] and line.polls == 1


def test_an_eviction_that_finds_nobody_ends_no_batch(evicter: Any) -> None:
    name = evicter.names[0]
    job = evicter.start(name)
    node(evicter, name, "held")
    # The look is answered, the eviction is not.
    line = Line(at_write={1: lambda: evicter.faults.outage(times=1)}, at_poll={4: lambda: evicter.end(job)})
    assert verdict(wait(evicter, name, line=line), name)["ok"]


def test_check_mode_asks_nothing_to_leave(evicter: Any) -> None:
    name = evicter.names[0]
    job = evicter.start(name)
    node(evicter, name, "held")
    wait(evicter, name, check_mode=True)
    assert not evicter.leaving(job)


def test_t1_a_node_that_was_lost_after_the_last_look_leaves_no_evidence(keeper: Any) -> None:
    lost, kept = keeper.names[0], keeper.names[1]

    class Losing(Line):
        def confirm(self) -> dict[str, str]:
            return {lost: "another run works on it"}

    for name in (lost, kept):
        node(keeper, name, "held")
    found = wait(keeper, lost, kept, line=Losing())
    assert verdict(found, kept)["ok"] and [event.node for event in found.events] == [kept]
    assert not verdict(found, lost)["ok"] and verdict(found, lost)["reason"] == "another run works on it"
