# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mark of quarantine at the provisioner, of every driver: whose it is, who lifts it, and whom it keeps off."""

from __future__ import annotations

import contextlib
import itertools
import urllib.error
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    EvidenceMissing,
    FleetError,
    NotOurs,
    NotProven,
    Refused,
)
from calls import Killed, Line, await_all, declined, deployed, lead, ready
from contract.proxy import LOSE

pytestmark = pytest.mark.slow
WHY = "Xid 79 on GPU 3; remedy: power_cycle"
MARK = f"gpufleet:run7+quarantine:{WHY} (by anna@ctl1)"
GIVEN = {"why": WHY, "author": "anna@ctl1", "run_id": "run7"}
OURS = {"known_runs": ["run7"], "run_id": "run8"}


def holds_of(told: dict[str, Any]) -> list[tuple[str, str]]:
    return [(event["name"], event["data"]["hold_token"]) for event in told["events"] if event["kind"] == "maintenance"]


@pytest.mark.parametrize("there", [ready, deployed])
def test_a_mark_says_why_and_who_and_stays_until_it_is_readmitted(site: Any, there: Any) -> None:
    options = there(site)
    if declined(site, "holds", lambda: lead(options, "quarantined")):
        assert declined(site, "holds", lambda: lead(options, "readmitted"))
        return
    foretold = lead(options, "quarantined", check=True, **GIVEN)
    assert foretold["changed"] and foretold["hold"] == MARK and site.faults.writes == []
    told = lead(options, "quarantined", **GIVEN)
    assert told["changed"] and told["maintenance"] and told["hold"] == MARK and holds_of(told) == [("held", MARK)]
    again = lead(options, "quarantined", why="another finding", **OURS)
    assert not again["changed"] and again["hold"] == MARK and holds_of(again) == [("held", MARK)]
    left = lead(options, "serviceable", **OURS)
    assert not left["changed"] and left["hold"] == MARK and "quarantine stays" in str(left["warnings"])
    site.faults.forget()
    assert not lead(options, "readmitted", known_mark="", **OURS)["changed"] and site.faults.calls == []
    assert lead(options, "readmitted", check=True, **OURS)["changed"] and site.faults.writes == []
    lifted = lead(options, "readmitted", **OURS)
    assert lifted["changed"] and not lifted["maintenance"] and lifted["hold"] == ""
    assert holds_of(lifted) == [("lifted", MARK)]
    assert not lead(options, "readmitted", **OURS)["changed"]


def test_another_controllers_mark_is_left_alone_and_keeps_its_node(site: Any) -> None:
    options = {**deployed(site), "known_runs": ["run8"], "run_id": "run8"}
    if declined(site, "holds", lambda: lead(options, "quarantined")):
        return
    lead({**options, "known_runs": ["other-site-1"]}, "quarantined", why="theirs", run_id="other-site-1")
    site.faults.forget()
    for state in ("quarantined", "readmitted", "serviceable", "deployed", "released"):
        with pytest.raises(NotOurs, match="gpufleet:other-site-1"):
            lead({**options, "image": site.image("2")}, state)
    verdict = await_all(site, "deployed", {**options, "image": site.image("2")})["verdicts"][options["name"]]
    assert not verdict["ok"] and "other-site-1" in verdict["reason"] and site.faults.writes == []


def test_a_persons_mark_is_never_taken_for_one_of_quarantine(site: Any) -> None:
    for mark in site.marks if site.driver.holds else ():
        options = deployed(site)
        mark(options["name"])
        for state in ("quarantined", "readmitted"):
            with pytest.raises(NotOurs):
                lead(options, state, **OURS)
        assert site.faults.writes == []


def test_a_hold_for_other_work_of_ours_is_left_as_it_is(site: Any) -> None:
    """A mark in its place would let a remedy pass, with hands inside the machine."""
    options = deployed(site)
    if declined(site, "holds", lambda: lead(options, "quarantined")):
        return
    held = lead(options, "maintenance", why="hands inside", run_id="run7")["hold"]
    assert not lead(options, "readmitted", **OURS)["changed"], "that is no mark of quarantine"
    site.faults.forget()
    for check in (True, False):
        with pytest.raises(Refused, match="for other work") as refused:
            lead(options, "quarantined", check=check, why="it stays dark", author="ben", **OURS)
        assert held in str(refused.value)
    with pytest.raises(Refused, match="lift it first"):
        lead({**options, "image": site.image("2")}, "deployed", **OURS)
    assert site.faults.writes == [] and lead(options, "maintenance", **OURS)["hold"] == held


def test_a_maintenance_is_laid_over_a_mark_and_ends_by_its_own_word(site: Any) -> None:
    """With hands inside the machine no remedy passes, and whoever readmits the node takes the mark alone."""
    options = deployed(site)
    if declined(site, "holds", lambda: lead(options, "quarantined")):
        return
    lead(options, "quarantined", **GIVEN)
    own = "gpufleet:run8:hands inside"
    foretold = lead(options, "maintenance", why="hands inside", check=True, **OURS)
    held = lead(options, "maintenance", why="hands inside", **OURS)
    assert held["changed"] and held["maintenance"] and held["hold"] == foretold["hold"] == f"{own} over {MARK}"
    assert not lead(options, "maintenance", why="again", **OURS)["changed"]
    with pytest.raises(Refused, match="lift it first"):
        lead({**options, "image": site.image("2")}, "deployed", **OURS)
    back = lead(options, "serviceable", **OURS)
    assert back["changed"] and back["maintenance"] and back["hold"] == MARK and holds_of(back) == [("held", MARK)]
    lead(options, "maintenance", why="hands inside", **OURS)
    freed = lead(options, "readmitted", **OURS)
    assert freed["changed"] and freed["maintenance"] and freed["hold"] == own and holds_of(freed) == [("held", own)]
    assert not lead(options, "readmitted", **OURS)["changed"]
    done = lead(options, "serviceable", **OURS)
    assert done["changed"] and not done["maintenance"] and holds_of(done) == [("lifted", own)]


def test_no_mark_stands_over_a_deployment_that_is_under_way(site: Any) -> None:
    """It would never end in a maintenance, or nobody would boot the machine for it."""
    options = {**ready(site), "image": site.image(), **OURS}
    if declined(site, "holds", lambda: lead(options, "quarantined")):
        return
    lead(options, "deployed")
    try:
        lead(options, "quarantined", **GIVEN)
    except Refused as exc:
        assert exc.seen in site.driver.busy, exc
    if lead(options, "deployed", check=True)["step"] == "boot":
        foretold = lead(options, "deployed", check=True)
        assert foretold["changed"] and foretold["hold"] == ""
        told = lead(options, "deployed")
        assert told["changed"] and told["step"] == "boot" and holds_of(told) == [("lifted", MARK)]
    assert await_all(site, "deployed", options)["verdicts"][options["name"]]["ok"]


@pytest.mark.parametrize("state", ["clean wait", "wait call-back", "inspect wait", "clean hold"])
def test_ironics_work_is_frozen_by_no_mark_and_goes_on_where_one_stood(ironic_site: Any, state: str) -> None:
    """In a maintenance its agent's heartbeats do nothing, and no timeout ends the wait for them."""
    options = {**ready(ironic_site), **OURS, "known_deployed": True}
    name = options["name"]
    ironic_site.set_state(name, state, None)
    for check in (True, False):
        with pytest.raises(Refused, match=f"is at work with the node.*{state}"):
            lead(options, "quarantined", check=check, **GIVEN)
    assert not ironic_site.ask("GET", f"/nodes/{name}")["maintenance"]
    ironic_site.set_state(name, "available", None)
    lead(options, "quarantined", **GIVEN)
    ironic_site.set_state(name, state, None)
    goal = "deployed" if state == "wait call-back" else "ready"
    options = {**options, "image": ironic_site.image()}
    if state == "clean hold":
        with pytest.raises(NotOurs, match="needs a person"):
            lead(options, goal)
        return
    with pytest.raises(EvidenceMissing):
        lead(options, goal, line=Line(refuse=(name,)))
    assert ironic_site.ask("GET", f"/nodes/{name}")["maintenance"]
    told = lead(options, goal)
    assert told["changed"] and told["pending"] and holds_of(told) == [("lifted", MARK)], told
    assert not ironic_site.ask("GET", f"/nodes/{name}")["maintenance"]


def test_a_remedy_that_the_provisioner_does_takes_the_mark_with_its_own_leave_alone(site: Any) -> None:
    options = {**deployed(site), **OURS}
    if declined(site, "holds", lambda: lead(options, "quarantined")):
        return
    lead(options, "quarantined", **GIVEN)
    site.faults.forget()
    with pytest.raises(EvidenceMissing):
        lead(options, "released", line=Line(refuse=(options["name"],)))
    assert site.faults.writes == [] and lead(options, "quarantined", **OURS)["hold"] == MARK
    foretold = lead(options, "released", check=True)
    assert foretold["step"] and site.faults.writes == []
    told = lead(options, "released")
    assert told["changed"] and told["hold"] == ""
    assert await_all(site, "released", options)["verdicts"][options["name"]]["ok"]


def test_a_node_that_the_provisioner_does_not_know_needs_no_mark(site: Any) -> None:
    for state in ("quarantined", "readmitted") if site.driver.holds else ():
        told = lead(site.new(), state, **GIVEN)
        assert not told["changed"] and told["after"] == {"state": "absent"} and told["events"] == []
    assert site.faults.writes == []


def test_ironic_deploys_a_marked_node_for_nobody(ironic_site: Any) -> None:
    options = ready(ironic_site)
    lead(options, "quarantined", **GIVEN)
    node = ironic_site.ask("GET", f"/nodes/{options['name']}")
    assert node["maintenance"] and node["maintenance_reason"] == MARK
    with pytest.raises(urllib.error.HTTPError) as refused:
        ironic_site.ask("PUT", f"/nodes/{options['name']}/states/provision", {"target": "active"})
    assert b"maintenance" in refused.value.read()


def test_maas_locks_a_marked_machine_and_never_calls_it_broken(maas_site: Any) -> None:
    """``mark_broken`` would release it, and switch it off."""
    options = deployed(maas_site)
    lead(options, "quarantined", **GIVEN)
    machine = maas_site.machine(options["name"])
    assert machine.locked and machine.power_state == "on" and maas_site.native(options["name"]) == "Deployed"
    assert MARK in machine.description
    assert not [one for one in maas_site.proxy.writes if "mark_broken" in one.query]


def test_a_remedy_that_is_refused_leaves_the_mark(maas_site: Any) -> None:
    from maas_server.answers import Answer

    options = deployed(maas_site)
    lead(options, "quarantined", **GIVEN)
    maas_site.server.intercept = lambda asked: Answer.text(409, "no") if asked.op == "release" else None
    try:
        with pytest.raises(Refused):
            lead({**options, **OURS}, "released")
    finally:
        maas_site.server.intercept = None
    assert lead({**options, **OURS}, "quarantined")["hold"] == MARK
    assert maas_site.machine(options["name"]).locked


def test_a_remedy_whose_answer_was_lost_is_under_way_without_the_mark(maas_site: Any) -> None:
    """Once it stood again, nobody but a person would have it lifted from a machine that is being released."""
    options = {**deployed(maas_site), **OURS}
    lead(options, "quarantined", **GIVEN)
    maas_site.proxy.fault = lambda asked: LOSE if "op=release" in f"{asked.query}" else None
    with pytest.raises(FleetError) as lost:
        lead(options, "released")
    maas_site.proxy.fault = lambda asked: None
    assert lost.value.details["ordered"] == "released"
    machine = maas_site.machine(options["name"])
    assert "quarantine" not in machine.description and not machine.locked
    assert await_all(maas_site, "released", options)["verdicts"][options["name"]]["ok"]


@pytest.mark.parametrize("there", [ready, deployed])
def test_killed_in_the_middle_of_a_mark_and_run_again(site: Any, there: Any) -> None:
    if not site.driver.holds:
        return  # that it says so is tested above
    for moment in itertools.count():
        options, died = there(site), False
        for state in ("quarantined", "readmitted"):
            try:
                lead(options, state, line=Line(die_at=moment), **{**OURS, **GIVEN})
            except Killed:
                died = True
            again = lead(options, state, **{**OURS, **GIVEN})
            assert (again["hold"], again["maintenance"]) == ((MARK, True) if state == "quarantined" else ("", False))
        if not died:
            break
    assert moment > 0, "there was no write to be killed before"


def test_a_mark_that_somebody_takes_away_meanwhile_or_puts_back_is_not_proven(maas_site: Any) -> None:
    """Who believed it would let the node be deployed by anybody."""
    options = deployed(maas_site)
    server = maas_site.server

    def unlocked(asked: Any) -> None:
        if asked.method == "GET":
            maas_site.machine(options["name"]).locked = False

    def marked(asked: Any) -> None:
        if asked.method == "GET":
            maas_site.machine(options["name"]).description = MARK

    with meanwhile(server, unlocked), pytest.raises(NotProven, match="does not read back"):
        lead(options, "quarantined", **GIVEN)
    assert lead(options, "quarantined", **{**OURS, **GIVEN})["maintenance"]
    with meanwhile(server, marked), pytest.raises(NotProven, match="does not read back"):
        lead(options, "readmitted", **OURS)


@contextlib.contextmanager
def meanwhile(server: Any, happens: Any) -> Iterator[None]:
    """It happens before each request, and the request is served."""
    server.intercept = happens
    try:
        yield
    finally:
        server.intercept = None
