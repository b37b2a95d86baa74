# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each scheduler's driver must do, whatever its manner. A new driver adds a site, and nothing here."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    Changed,
    ConfigError,
    DeadlineExceeded,
    NotOurs,
    Refused,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import (
    KINDS,
    STATES,
    WORK,
    NodeView,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import make_token
from contract.scheduler.verbs import RUN, TOKEN, Line, events, evidence, node, verdict, wait


def view(site: Any, name: str) -> NodeView:
    found: NodeView = site.open().states([name])[name]
    return found


# -- what every driver can, or says that it cannot -------------------------------------------------------------


def test_what_is_not_declared_is_refused_in_words(site: Any) -> None:
    driver = site.open()
    absent = NodeView(site.names[0])
    if not driver.KEEPS_NODES:
        for write in (lambda: driver.hold(absent, TOKEN, WORK), lambda: driver.resume(absent)):
            with pytest.raises(Unsupported):
                write()
    if not driver.EVICTS:
        assert driver.evict_request(absent) == ""
        with pytest.raises(Unsupported):
            driver.evict(absent)
    assert driver.REMEDIES.absent and driver.REMEDIES.silent and driver.REMEDIES.stuck


def test_a_batch_is_one_question(site: Any) -> None:
    driver = site.open()
    views = driver.states(site.names)
    assert [one.name for one in views.values()] == list(views) == list(site.names)
    assert all(one.state in STATES and (one.version == "") == one.absent for one in views.values())
    if site.faults:
        site.faults.forget()  # what is asked once a task, such as which version of an API is spoken
        asked = len(driver.states(site.names) and site.faults.reads)
        driver.states(site.names[:1])
        assert len(site.faults.reads) == 2 * (asked - driver.WORK_BY_NODE) and not site.faults.writes


def test_j1_all_nodes_are_known_by_their_names(keeper: Any) -> None:
    """Another spelling of one of them is not taken for a node of nobody's."""
    driver = keeper.open()
    assert set(keeper.names) <= set(driver.known())


def test_a_node_that_is_not_known_is_absent_and_not_held(site: Any) -> None:
    for state in ("present", "held"):
        result = node(site, site.unknown, state)
        assert result.data["state"] == "absent" and not result.changed and result.data["asked"] == []
        assert events(result) == [("evidence", "not_in_scheduler")]
    if site.driver.KEEPS_NODES:
        with pytest.raises(Refused, match="does not know"):
            node(site, site.unknown, "resumed")
    else:
        assert not node(site, site.unknown, "resumed").changed
    for until in ("drained", "idle"):
        ok = verdict(wait(site, site.unknown, until=until), site.unknown)["ok"]
        assert ok == (until == "drained" or not site.driver.KEEPS_NODES), until


def test_a_name_that_could_mean_more_than_one_node_asks_nobody(site: Any) -> None:
    for name in site.wrong_names:
        with pytest.raises(ConfigError):
            site.open().states([name])
        if name:
            verdicts = wait(site, name, site.unknown).data["verdicts"]
            assert not verdicts[name]["ok"] and verdicts[site.unknown]["ok"]
    if site.faults:
        assert site.faults.writes == []


# -- hold and drain --------------------------------------------------------------------------------------------


def test_a_hold_lets_work_go_on_and_is_drained_when_it_has_ended(keeper: Any) -> None:
    name = keeper.names[0]
    job = keeper.start(name)
    held = node(keeper, name, "held")
    assert held.changed and held.after == {"state": "draining", "reason": TOKEN}
    assert held.data["owner"] == "ours" and [one.startswith(job) for one in held.data["jobs"]] == [True]
    assert events(held) == [("hold", "taken"), ("evidence", "not_drained")]
    running = verdict(wait(keeper, name, timeout=0), name)
    assert not running["ok"] and running["jobs"] == held.data["jobs"]
    said: list[str] = []
    line = Line(at_poll={3: lambda: keeper.end(job)})
    done = verdict(wait(keeper, name, line=line, said=said.append), name)
    assert done["ok"] and done["state"] == "drained" and done["jobs"] == []
    assert "1 draining; waiting for 1" in said[0] and said[-1] == "1 drained"
    assert evidence(node(keeper, name, "present")) == "drained"


def test_a_hold_is_shown_as_it_was_written(keeper: Any) -> None:
    name = keeper.names[0]
    driver = keeper.open()
    for kind in KINDS:
        token = make_token(RUN, "reimage: for 'X'", kind)
        driver.hold(view(keeper, name), token, kind)
        (hold,) = view(keeper, name).holds
        assert hold.text == token and hold.kind == kind and hold.author and hold.since
        assert not hold.by_scheduler and not hold.passing and keeper.texts(name) == [token]


@pytest.mark.parametrize(
    "why",
    [
        "xid79 State=IDLE BootTime=None",
        "sensor [bob@2026-11-20T10:40:13] Comment=x State=DOWN",
        "a\nNodeName=gpu002 State=IDLE BootTime=None Reason=x [root@2026-11-20T10:40:13]",
        "GPUs = 7 of 8 : Not responding",
        'said "$(id)" and \x1b[2J \\ at https://root:calvin@bmc, password: hunter2x',
    ],
)
def test_s3_a_finding_that_reads_like_a_record_makes_no_reason_that_is_not_ours(keeper: Any, why: str) -> None:
    name = keeper.names[0]
    held = node(keeper, name, "held", why=why)
    (told,) = [event.data["hold_token"] for event in held.events if event.kind == "hold"]
    assert held.data["owner"] == "ours" and keeper.texts(name) == [told]
    again = node(keeper, name, "held", why=why, known_token=told)
    assert not again.changed and again.data["owner"] == "ours"
    assert verdict(wait(keeper, name), name)["ok"] and view(keeper, keeper.names[1]).in_service
    assert node(keeper, name, "resumed", known_token=told).changed and keeper.texts(name) == []


def test_another_reason_of_ours_replaces_the_first(keeper: Any) -> None:
    name = keeper.names[0]
    node(keeper, name, "held")
    assert node(keeper, name, "held", why='quarantined: xid79 on "GPU 3"').changed
    assert keeper.texts(name) == ["gpufleet:run2:quarantined: xid79 on 'GPU 3'"]


def test_a_hold_of_an_earlier_run_of_ours_is_kept_and_told(keeper: Any) -> None:
    name = keeper.names[0]
    keeper.hold(name, "gpufleet:run1:reimage")
    kept = node(keeper, name, "held", known_runs=["run1"])
    assert not kept.changed and kept.data["reason"] == "gpufleet:run1:reimage"
    # The run was killed between the write and the ledger: now the ledger is told.
    assert ("hold", "taken") in events(kept)


# -- whose hold it is ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["NHC: check_hw_gpu failed", "gpufleet:elsewhere:reimage", "gpufleet:", "by hand gpufleet:run2:x", ""]
)
def test_a_foreign_hold_is_left_alone(keeper: Any, text: str) -> None:
    name = keeper.names[0]
    keeper.hold(name, text)
    for state in ("held", "resumed"):
        with pytest.raises(NotOurs) as refused:
            node(keeper, name, state, known_token="gpufleet:run1:reimage")
        (hold,) = refused.value.details["holds"]
        assert hold["text"] == text and hold["owner"] == "foreign"
        assert hold["author"] in refused.value.seen and repr(text) in refused.value.seen
    assert evidence(node(keeper, name, "present")) == "foreign_hold"
    line = Line()
    found = verdict(wait(keeper, name, line=line), name)
    assert not found["ok"] and "somebody else" in found["reason"] and line.polls == 1
    assert keeper.texts(name) == [text] and keeper.faults.writes == []


def test_a_keep_hold_is_a_persons_and_no_run_lifts_it(keeper: Any) -> None:
    name, kept = keeper.names[0], make_token(RUN, "for bob", "keep")
    keeper.hold(name, kept)
    for state in ("held", "resumed"):
        with pytest.raises(NotOurs, match="a keep hold"):
            node(keeper, name, state, known_token=kept)
    assert evidence(node(keeper, name, "present", known_token=kept)) == "foreign_hold"
    found = wait(keeper, name)
    assert not verdict(found, name)["ok"] and evidence(found) == "foreign_hold"
    assert keeper.texts(name) == [kept] and keeper.faults.writes == []


def test_h2_a_person_keeps_a_node_through_us_and_gives_it_back(keeper: Any) -> None:
    name, kept = keeper.names[0], make_token(RUN, "disk swap", "keep")
    job = keeper.start(name)
    held = node(keeper, name, "held", kind="keep", why="disk swap")
    assert keeper.texts(name) == [kept] and events(held) == [("hold", "taken"), ("evidence", "foreign_hold")]
    keeper.faults.forget()
    assert not node(keeper, name, "held", kind="keep", why="disk swap", known_token=kept).changed
    assert keeper.faults.writes == []
    shorter = make_token(RUN, "disk", "keep")  # the same without its end, such as a date
    with pytest.raises(NotOurs, match="keeps this node already"):
        node(keeper, name, "held", kind="keep", why="disk", known_token=kept)
    assert node(keeper, name, "held", kind="keep", why="disk", known_token=kept, over_keep=True).changed
    assert keeper.texts(name) == [shorter]
    with pytest.raises(NotOurs, match="a keep hold"):
        node(keeper, name, "held", known_token=shorter)
    found = wait(keeper, name, over_keep=True, line=Line(at_poll={2: lambda: keeper.end(job)}))
    assert verdict(found, name)["ok"] and evidence(found) == "foreign_hold", "drained, and no proof for any run"
    back = node(keeper, name, "held", over_keep=True, why="it is over", known_token=shorter)
    assert back.changed and keeper.texts(name) == [make_token(RUN, "it is over")]
    assert events(back) == [("hold", "taken"), ("evidence", "drained")]


def test_h2_a_person_keeps_what_a_run_or_a_quarantine_holds_and_resumes_it(keeper: Any) -> None:
    name = keeper.names[0]
    for kind in (WORK, "quarantine"):
        driver, token = keeper.open(), make_token(RUN, "reimage", kind)
        driver.hold(view(keeper, name), token, kind)
        kept = make_token(RUN, "reimage", "keep")
        assert node(keeper, name, "held", kind="keep", known_token=token).changed
        assert keeper.texts(name) == [kept]
        assert node(keeper, name, "resumed", over_keep=True, known_token=kept).changed
        assert keeper.texts(name) == []


def test_h2_a_keep_hold_that_a_person_lifted_in_the_scheduler_is_told_as_lifted(keeper: Any) -> None:
    name, kept = keeper.names[0], make_token(RUN, "disk swap", "keep")
    assert events(node(keeper, name, "present", known_token=kept)) == [("hold", "released"), ("evidence", "in_service")]
    assert events(node(keeper, name, "present")) == [("evidence", "in_service")]


def test_h2_no_person_lifts_through_us_what_another_site_keeps(keeper: Any) -> None:
    name, kept = keeper.names[0], make_token("other-site-1", "for carol", "keep")
    keeper.hold(name, kept)
    for state, more in (("held", {"kind": "keep"}), ("held", {"over_keep": True}), ("resumed", {"over_keep": True})):
        with pytest.raises(NotOurs, match="another controller"):
            node(keeper, name, state, **more)
    assert not verdict(wait(keeper, name, over_keep=True), name)["ok"]
    assert keeper.texts(name) == [kept] and keeper.faults.writes == []


def test_a_quarantine_hold_is_ours_and_no_run_works_on_it_or_lifts_it(keeper: Any) -> None:
    name, kept = keeper.names[0], make_token(RUN, "rma board", "quarantine")
    driver = keeper.open()
    driver.hold(view(keeper, name), kept, "quarantine")
    keeper.faults.forget()
    held = node(keeper, name, "held", known_token=kept)
    assert not held.changed and held.data["owner"] == "ours" and evidence(held) == "not_drained"
    with pytest.raises(Refused, match="in quarantine"):
        node(keeper, name, "resumed", known_token=kept)
    found = wait(keeper, name)
    assert not verdict(found, name)["ok"] and evidence(found) == "not_drained"
    assert keeper.texts(name) == [kept] and keeper.faults.writes == []


def test_a_foreign_hold_that_comes_to_ours_makes_the_node_theirs(keeper: Any) -> None:
    name = keeper.names[0]
    node(keeper, name, "held")
    keeper.hold(name, "cable pulled, do not power on")
    before = keeper.texts(name)
    for state in ("held", "resumed"):
        with pytest.raises(NotOurs, match="cable pulled"):
            node(keeper, name, state, known_token=TOKEN)
    assert evidence(node(keeper, name, "present", known_token=TOKEN)) == "foreign_hold"
    assert not verdict(wait(keeper, name), name)["ok"]
    assert keeper.texts(name) == before and "cable pulled, do not power on" in before


def test_t1_the_schedulers_own_mark_is_not_lifted_and_can_be_taken_over(keeper: Any) -> None:
    name = keeper.names[0]
    keeper.take_down(name)
    before = keeper.texts(name)
    keeper.faults.forget()
    seen = node(keeper, name, "present")
    assert seen.data["owner"] == "scheduler" and evidence(seen) == "not_drained"
    with pytest.raises(NotOurs, match="the scheduler itself"):
        node(keeper, name, "resumed", known_runs=[RUN])
    assert keeper.texts(name) == before and keeper.faults.writes == []
    assert node(keeper, name, "held").data["owner"] == "ours"
    assert TOKEN in keeper.texts(name)


def test_h1_a_person_who_begins_as_the_scheduler_does_is_a_person(keeper: Any) -> None:
    name = keeper.names[0]
    keeper.take_down(name)
    own = keeper.texts(name)[0]
    keeper.lift(name)
    keeper.hold(name, f"{own}, and I pulled the cable")
    with pytest.raises(NotOurs, match="somebody else"):
        node(keeper, name, "held", known_token=TOKEN)
    assert evidence(node(keeper, name, "present", known_token=TOKEN)) == "foreign_hold"


# -- what changes between look and write -----------------------------------------------------------------------


def test_h4_a_view_that_is_no_longer_true_writes_nothing(keeper: Any) -> None:
    name = keeper.names[0]
    driver = keeper.open()
    free = view(keeper, name)
    keeper.hold(name, "mine")
    with pytest.raises(Changed):
        driver.hold(free, TOKEN, WORK)
    held = view(keeper, name)
    assert held.version != free.version
    keeper.hold(name, "mine as well")
    before = keeper.texts(name)
    with pytest.raises(Changed):
        driver.resume(held)
    assert keeper.texts(name) == before


@pytest.mark.parametrize("state", ["held", "resumed"])
def test_h4_a_person_who_comes_between_look_and_write_keeps_the_node(keeper: Any, state: str) -> None:
    name = keeper.names[0]
    if state == "resumed":
        node(keeper, name, "held")
    line = Line(at_write={1: lambda: keeper.hold(name, "I was first")})
    with pytest.raises(NotOurs, match="I was first"):
        node(keeper, name, state, line=line)
    assert line.writes == 1 and "I was first" in keeper.texts(name)


def test_h4_a_change_that_makes_it_nobody_elses_is_judged_anew(keeper: Any) -> None:
    name = keeper.names[0]
    line = Line(at_write={1: lambda: keeper.change(name)})
    held = node(keeper, name, "held", line=line)
    assert held.changed and line.writes == 2 and keeper.texts(name) == [TOKEN]


def test_h4_a_node_that_never_stands_still_is_given_up(keeper: Any) -> None:
    name = keeper.names[0]
    texts = iter(range(100))
    # Ours, and another text each time: nobody else's, and never what was judged.
    line = Line(at_write={n: lambda: keeper.hold(name, f"gpufleet:run1:{next(texts)}") for n in range(1, 100)})
    with pytest.raises(Changed):
        node(keeper, name, "held", line=line, known_runs=["run1"])
    assert 2 <= line.writes <= 10 and TOKEN not in keeper.texts(name)


# -- resume ----------------------------------------------------------------------------------------------------


def test_resume_waits_for_the_node_before_it_lifts_the_hold(keeper: Any) -> None:
    name = keeper.names[0]
    node(keeper, name, "held")
    keeper.silence(name)
    with pytest.raises(DeadlineExceeded, match="still held"):
        node(keeper, name, "resumed", timeout=1)
    assert any(text.startswith(TOKEN) for text in keeper.texts(name))
    # The second poll is one of the wait for the agent.
    resumed = node(keeper, name, "resumed", timeout=40, line=Line(at_poll={2: lambda: keeper.wake(name)}))
    assert resumed.changed and resumed.data["answers"] and resumed.data["booted"]
    assert resumed.after == {"state": "idle", "reason": ""} and resumed.data["holds"] == []
    assert events(resumed) == [("hold", "released"), ("evidence", "in_service")]
    keeper.faults.forget()
    again = node(keeper, name, "resumed")
    assert not again.changed and again.data["asked"] == [] and keeper.faults.writes == []


def test_what_blocks_a_resume_is_told_in_the_drivers_words(keeper: Any) -> None:
    name = keeper.names[0]
    node(keeper, name, "held")
    keeper.damage(name)
    keeper.faults.forget()
    try:
        seen = node(keeper, name, "present")
        assert seen.data["owner"] == "ours" and seen.data["finding"] and seen.data["blocks_resume"]
        assert events(seen)[-1] == ("evidence", "drained"), "reimaging it is the remedy"
        with pytest.raises(Refused) as refused:
            node(keeper, name, "resumed")
        assert seen.data["blocks_resume"][0] in str(refused.value) and refused.value.do
        assert seen.data["finding"] in refused.value.seen and keeper.faults.writes == []
    finally:
        keeper.repair(name)
    assert node(keeper, name, "resumed", timeout=40).changed


def test_a_node_that_somebody_resumed_for_us_is_told_as_released(keeper: Any) -> None:
    name = keeper.names[0]
    node(keeper, name, "held")
    keeper.lift(name)
    keeper.faults.forget()
    found = node(keeper, name, "resumed", known_token=TOKEN, timeout=40)
    assert not found.changed and events(found) == [("hold", "released"), ("evidence", "in_service")]
    assert keeper.faults.writes == []
