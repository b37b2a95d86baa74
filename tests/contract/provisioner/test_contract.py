# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every provisioner's driver must do, whatever it speaks to. What differs is declared: by the driver, or by its
site. The drivers are listed in ``conftest.py``."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _deployment as deployment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    EvidenceMissing,
    NotOurs,
    Refused,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import registry
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Network
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import of_task
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from calls import Line, await_all, declined, deployed, lead, ready, states

# -- the way of a node -------------------------------------------------------------------------------------------


def test_from_nothing_to_ready(site: Any) -> None:
    options = site.new()
    predicted = lead(options, "ready", check=True)
    assert predicted["changed"] and predicted["pending"] and predicted["provisioner_id"] == ""
    assert site.faults.writes == [], "check mode sends no write"
    begun = lead(options, "ready")
    # On a busy machine a step of a moment may be over before it is looked at.
    assert begun["changed"] and begun["provisioner_id"]
    assert begun["pending"] == bool(begun["step"]) or begun["state"] == "ready"
    assert begun["before"] == {"state": "absent"}
    verdict = await_all(site, "ready", options)["verdicts"][options["name"]]
    assert verdict["ok"] and verdict["state"] == "ready"
    again = lead(options, "ready")
    inspected = "passed" if site.driver.inspects else "unsupported"
    assert not again["changed"] and not again["pending"] and again["inspection"] == inspected


def test_a_second_run_writes_nothing(site: Any) -> None:
    options = deployed(site)
    for state in ("enrolled", "ready", "deployed"):
        result = lead(options, state)
        assert not result["changed"] and not result["pending"] and result["state"] == "deployed"
        assert result["before"] == result["after"] and result["asked"] == []
    for until in ("ready", "deployed"):
        assert await_all(site, until, options)["verdicts"][options["name"]]["ok"]
    assert site.faults.writes == []


def test_deployed_with_an_image(site: Any) -> None:
    options = {**ready(site), "image": site.image()}
    assert lead(options, "deployed", check=True)["state"] == "deploying"
    assert site.faults.writes == []
    begun = lead(options, "deployed")
    # On a busy machine a deploy of a second may be over before it is looked at.
    assert begun["changed"] and begun["state"] == ("deploying" if begun["pending"] else "deployed")
    assert await_all(site, "deployed", options)["verdicts"][options["name"]]["state"] == "deployed"
    result = lead(options, "deployed")
    assert not result["changed"] and result["image"]["label"] == "gold-1"


def test_j7_an_order_is_told_as_one_and_nothing_that_goes_before_it(site: Any) -> None:
    """Whose the node is rests on it, also where the run is killed right before its request."""
    way, options = Line(), site.new()
    lead(options, "ready", line=way)
    await_all(site, "ready", options, line=way)
    assert way.writes and way.orders == []
    options, line = {**options, "image": site.image()}, Line()
    begun = lead(options, "deployed", line=line)
    assert line.orders == ["deployed"] and begun["ordered"] == "deployed"
    assert await_all(site, "deployed", options)["verdicts"][options["name"]]["ok"] and site.deployments() == 1
    given = Line()
    assert lead(options, "released", line=given)["ordered"] == "released" and given.orders == ["released"]
    await_all(site, "released", options)
    again = Line()
    await_all(site, "deployed", {**options, "known_deployed": True}, line=again)
    assert again.orders == ["deployed"]


def test_another_image_is_deployed_over_it(site: Any) -> None:
    options = {**deployed(site, "1"), "image": site.image("2")}
    assert lead(options, "deployed")["changed"]
    assert await_all(site, "deployed", options)["verdicts"][options["name"]]["ok"]
    result = lead(options, "deployed")
    assert not result["changed"] and result["image"]["version"] == "2"


def test_redeploy_deploys_the_same_image_again(site: Any) -> None:
    options = deployed(site)
    assert lead(options, "deployed", redeploy=True)["changed"]
    assert await_all(site, "deployed", options)["verdicts"][options["name"]]["ok"]
    assert site.deployments() == 1


def test_one_deployment_has_one_id(site: Any) -> None:
    options = deployed(site, deploy_id="41")
    assert not lead(options, "deployed")["changed"]
    assert not lead({**options, "deploy_id": None}, "deployed")["changed"], "any deployment of this image will do"
    options["deploy_id"] = "42"
    assert lead(options, "deployed")["changed"]
    assert await_all(site, "deployed", options)["verdicts"][options["name"]]["ok"]
    assert not lead(options, "deployed")["changed"]


@pytest.mark.parametrize("format", ["ramdisk", "whole-disk"])
def test_c1_the_order_takes_the_id_of_its_deployment_to_the_node(site: Any, format: str) -> None:
    assert site.driver.deploy_proof in deployment.PROOFS
    if site.driver.deploy_proof != deployment.NONCE:
        return
    options = {**ready(site), "image": site.image("1", format)}
    for deploy_id in ("7f0c2a0e6f1c", "another-1"):
        given = {**options, "deploy_id": deploy_id}
        assert lead(given, "deployed")["deploy_proof"] == "nonce"
        assert await_all(site, "deployed", given)["verdicts"][options["name"]]["ok"]
        assert deployment.ids_in(site.taken_there(options["name"])) == [deploy_id], "and no other"
        assert not lead(given, "deployed")["changed"]
        assert not lead(options, "deployed")["changed"], "any deployment of this image will do"


def test_released_and_released_again(site: Any) -> None:
    options = deployed(site)
    predicted = lead(options, "released", check=True)
    assert predicted["changed"] and predicted["state"] != "deployed" and site.faults.writes == []
    begun = lead(options, "released")
    assert begun["changed"] and begun["pending"] == (begun["state"] != "ready")
    assert await_all(site, "released", options)["verdicts"][options["name"]]["state"] == "ready"
    assert not lead(options, "released")["changed"]


def test_annotations(site: Any) -> None:
    options = deployed(site)
    if declined(site, "annotates", lambda: lead(options, "deployed", annotations={"rack": "r12"})):
        return
    assert lead(options, "deployed", annotations={"rack": "r12"})["changed"]
    assert not lead(options, "deployed", annotations={"rack": "r12"})["changed"]
    assert lead(options, "deployed", annotations={"rack": ""})["changed"]
    assert not lead(options, "deployed", annotations={"rack": ""})["changed"]


def test_a_changed_bmc_address_is_written(site: Any) -> None:
    """Where the provisioner keeps it; else the address is none of its business."""
    options = site.moved_bmc(ready(site))
    result = lead(options, "enrolled")
    assert result["changed"] == (result["before"] != result["after"]) == site.keeps_bmc
    assert not lead(options, "enrolled")["changed"]


def test_check_mode_sends_no_write(site: Any) -> None:
    fresh, done = site.new(), {**deployed(site), "image": site.image("2")}
    wishes = {"erase": site.driver.erases, "redeploy": True, "update_password": "always"}
    for state in states(site):
        for options in (fresh, done) if state in ("enrolled", "ready") else (done,):
            lead(options, state, check=True, **wishes)
    await_all(site, "deployed", done, check=True)
    assert site.faults.writes == []


def test_erasing_is_asked_for_or_refused(site: Any) -> None:
    """Who asks for it must never get a release that leaves the disks as they are."""
    options = deployed(site)
    if declined(site, "erases", lambda: lead(options, "released", erase=True)):
        assert declined(site, "erases", lambda: await_all(site, "released", options, erase=True))
        return
    assert lead(options, "released", erase=True)["changed"]
    assert any("eras" in call.what or b"eras" in call.body or b"clean" in call.body for call in site.faults.writes)


def test_destructive_is_said_of_what_can_hit_work(site: Any) -> None:
    options = {**site.new(), "image": site.image()}
    line = Line()
    lead(options, "ready", line=line)
    await_all(site, "ready", options, line=line)
    lead(options, "deployed", line=line)
    await_all(site, "deployed", options, line=line)
    lead(options, "released", line=line)
    said = [(what, destructive) for what, destructive, nodes in line.writes]
    mild = [what for what, destructive in said if not destructive]
    hard = [what for what, destructive in said if destructive]
    wanted = site.destructive_words
    assert all(any(word in what for what in hard) for word in wanted)
    assert not any(word in what for what in mild for word in wanted)
    assert all(nodes == (options["name"],) for _what, _destructive, nodes in line.writes)


# -- what is not ours --------------------------------------------------------------------------------------------


def test_what_is_somebody_elses_is_left_alone(site: Any) -> None:
    for mark in site.marks:
        options = {**deployed(site), "image": site.image("2")}
        mark(options["name"])
        for state in states(site):
            with pytest.raises(NotOurs) as caught:
                lead(options, state)
            assert caught.value.node == options["name"] and caught.value.details["foreign"]
        verdict = await_all(site, "deployed", options)["verdicts"][options["name"]]
        assert not verdict["ok"] and "not ours" in verdict["reason"]
        assert site.faults.writes == []


def test_our_own_hold(site: Any) -> None:
    options = deployed(site)
    if declined(site, "holds", lambda: lead(options, "maintenance")):
        assert declined(site, "holds", lambda: lead(options, "serviceable"))
        return
    held = lead(options, "maintenance", why="reseat", run_id="run7")
    assert held["changed"] and held["maintenance"] and held["hold"] == "gpufleet:run7:reseat"
    assert [(event["kind"], event["name"]) for event in held["events"]] == [("maintenance", "held")]
    again = lead(options, "maintenance", why="other", run_id="run8")
    assert not again["changed"] and again["hold"] == "gpufleet:run7:reseat"
    with pytest.raises(Refused, match="maintenance under our own token"):
        lead(options, "released")
    verdict = await_all(site, "released", options)["verdicts"][options["name"]]
    assert not verdict["ok"] and "our own maintenance" in verdict["reason"]
    lifted = lead(options, "serviceable")
    assert lifted["changed"] and not lifted["maintenance"] and lifted["hold"] == ""
    assert [(event["kind"], event["name"]) for event in lifted["events"]] == [("maintenance", "lifted")]
    assert not lead(options, "serviceable")["changed"]


@pytest.mark.parametrize(
    "why",
    [
        "xid79 State=IDLE [bob@2026-11-20T10:40:13]",
        "a\r\ngpufleet:run9:mine\n\n b\u2028c\x85d",
        'said "x" & <b>ö</b> \\ %20; $(id) at https://root:calvin@bmc, password: hunter2x',
        " " * 600 + "y" * 600,
    ],
)
def test_s3_whatever_a_finding_says_our_own_hold_is_ours(site: Any, why: str) -> None:
    options = ready(site)
    if declined(site, "holds", lambda: lead(options, "maintenance")):
        return
    known = {"known_runs": ["run7"], "run_id": "run8"}
    held = lead(options, "maintenance", why=why, run_id="run7")
    (event,) = held["events"]
    assert held["hold"] == event["data"]["hold_token"] and held["hold"].startswith("gpufleet:run7:")
    assert "calvin" not in held["hold"] and "hunter2x" not in held["hold"]
    again = lead(options, "maintenance", why=why, **known)
    assert not again["changed"] and again["hold"] == held["hold"]
    assert lead(options, "serviceable", **known)["hold"] == ""


def test_the_token_of_another_controller_is_foreign(site: Any) -> None:
    """The form of a token proves nothing: the run in it must be one that our own ledger knows for this node."""
    options = {**deployed(site), "run_id": "run8", "known_runs": ["run7"]}
    if declined(site, "holds", lambda: lead(options, "maintenance")):
        return
    lead({**options, "run_id": "other-site-1"}, "maintenance")
    site.faults.forget()
    for state in states(site):
        with pytest.raises(NotOurs, match="gpufleet:other-site-1"):
            lead({**options, "image": site.image("2")}, state)
    waiting = {**options, "image": site.image("2")}
    verdict = await_all(site, "deployed", waiting)["verdicts"][options["name"]]
    assert not verdict["ok"] and "other-site-1" in verdict["reason"]
    assert site.faults.writes == []
    assert not lead({**options, "known_runs": ["other-site-1"]}, "serviceable")["maintenance"]


def test_our_own_hold_of_a_node_that_is_not_deployed(site: Any) -> None:
    options = ready(site)
    if declined(site, "holds", lambda: lead(options, "maintenance")):
        return
    assert lead(options, "maintenance", run_id="run7")["maintenance"]
    assert not lead(options, "maintenance", run_id="run8")["changed"]
    assert not lead(options, "serviceable")["maintenance"]


def test_a_mac_that_another_node_has_is_no_new_node(site: Any) -> None:
    options = ready(site)
    with pytest.raises(WrongMachine, match="MAC belongs to"):
        lead({**options, "name": site.new()["name"]}, "ready")
    assert site.faults.writes == []


def _refused_everywhere(site: Any, options: dict[str, Any]) -> None:
    """By whatever would write; where nothing is to be written, nothing is."""
    site.faults.forget()
    refused = set()
    for state in states(site):
        try:
            assert not lead({**options, "image": site.image("2")}, state)["changed"], state
        except WrongMachine as exc:
            assert exc.node == options["name"] and "another machine" in exc.what
            refused.add(state)
    assert refused >= {"enrolled", "ready", "deployed", "released"} | ({"maintenance"} & set(states(site)))
    waiting = {**options, "image": site.image("2"), "deploy_id": "9"}
    for goal in ("deployed", "released"):
        verdict = await_all(site, goal, waiting, timeout=5)["verdicts"][options["name"]]
        assert not verdict["ok"] and "another machine" in verdict["reason"], verdict
    assert site.faults.writes == []


def test_r3_another_serial_behind_the_name_is_refused_by_every_step(site: Any) -> None:
    options = deployed(site)
    site.other_serial(options["name"], "S-other")
    _refused_everywhere(site, options)


def test_r3_another_card_behind_the_name_is_refused_by_every_step(site: Any) -> None:
    options = deployed(site)
    site.other_card(options["name"], "52:54:ff:ff" + options["boot_mac"][11:])
    site.forget_serial(options["name"])
    _refused_everywhere(site, options)


def test_r3_a_serial_outvotes_a_list_of_cards_that_may_lack_some(site: Any) -> None:
    options = deployed(site)
    site.other_serial(options["name"], options["serial"])
    site.other_card(options["name"], "52:54:ff:fe" + options["boot_mac"][11:])
    if _network(options).complete:
        _refused_everywhere(site, options)
        return
    assert await_all(site, "deployed", options)["verdicts"][options["name"]]["ok"]
    assert lead(options, "released")["changed"]


def test_u3_a_machine_whose_board_was_swapped_goes_on_with_the_record_that_it_has(site: Any) -> None:
    """Who swapped it has told the ledger, and not the provisioner."""
    options = deployed(site)
    site.other_serial(options["name"], "S-swapped-out")
    _refused_everywhere(site, options)
    told = {**options, "image": site.image("2"), "deploy_id": "9", "known_former_serials": ["S-swapped-out"]}
    assert lead(told, "deployed", redeploy=True)["changed"]
    assert await_all(site, "deployed", told)["verdicts"][options["name"]]["ok"]


def test_r3_a_record_that_has_but_the_name_of_the_machine_is_no_permit(site: Any) -> None:
    options = deployed(site)
    site.forget_serial(options["name"])
    assert lead(options, "enrolled", check=True)["agrees"] == ["boot_mac"]
    site.faults.forget()
    known = {key: value for key, value in options.items() if key != "boot_mac"}
    stranger = {**known, "bmc_address": "https://127.0.0.99"}
    for state in ("enrolled", "released"):
        with pytest.raises(EvidenceMissing, match="nothing shows"):
            lead(stranger, state)
    verdict = await_all(site, "released", stranger, timeout=5)["verdicts"][options["name"]]
    assert not verdict["ok"] and verdict["kind"] == "evidence_missing", verdict
    looked = lead(stranger, "enrolled", check=True, force_reason="only looked at")
    assert looked["agrees"] == [] and site.faults.writes == []
    assert lead(stranger, "released", force_reason="the only one in this rack")["changed"]


def test_a_serial_in_another_spelling_is_the_same_machine(site: Any) -> None:
    options = deployed(site)
    site.other_serial(options["name"], f" {options['serial'].lower()} ")
    assert not lead(options, "deployed")["changed"]
    assert await_all(site, "deployed", options)["verdicts"][options["name"]]["ok"]


def _network(options: dict[str, Any]) -> Network:
    ctx = Context(node=options["name"])
    with registry.connected(options, ctx) as driver:
        found = driver.find(of_task(options, driver.name, driver.image_needs, options["name"]))
        assert found is not None and driver.address
        return driver.network(found, ask=True)


def test_the_network_of_a_node_is_known(site: Any) -> None:
    options = ready(site)
    assert options["boot_mac"] in _network(options).macs


def test_a_node_that_nobody_enrolled(site: Any) -> None:
    with pytest.raises(Refused, match="does not know"):
        lead(site.new(), "deployed", image=site.image())
    verdict = await_all(site, "ready", site.new())["verdicts"]
    assert [(one["ok"], one["state"]) for one in verdict.values()] == [(False, "absent")]
