# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every provisioner's driver must do, against a real Ironic and against the MAAS server of this project."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    EvidenceMissing,
    NotOurs,
    Refused,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.watch import watch
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from contract.proxy import DROP
from sites import BMC_PASSWORD
from suite import Killed, Line, await_all, deployed, lead, ready

STATES = ("enrolled", "ready", "deployed", "released", "maintenance", "serviceable")


# -- the way of a node -------------------------------------------------------------------------------------------


def test_from_nothing_to_ready(site: Any) -> None:
    options = site.new()
    predicted = lead(options, "ready", check=True)
    assert predicted["changed"] and predicted["pending"] and predicted["provisioner_id"] == ""
    assert site.proxy.writes == [], "check mode sends no write"
    begun = lead(options, "ready")
    assert begun["changed"] and begun["pending"] and begun["provisioner_id"] and begun["step"]
    assert begun["before"] == {"state": "absent"}
    verdict = await_all(site, "ready", options)["verdicts"][options["name"]]
    assert verdict["ok"] and verdict["state"] == "ready"
    again = lead(options, "ready")
    assert not again["changed"] and not again["pending"] and again["inspection"] == "passed"


def test_a_second_run_writes_nothing(site: Any) -> None:
    options = deployed(site)
    for state in ("enrolled", "ready", "deployed"):
        result = lead(options, state)
        assert not result["changed"] and not result["pending"] and result["state"] == "deployed"
        assert result["before"] == result["after"] and result["asked"] == []
    for until in ("ready", "deployed"):
        assert await_all(site, until, options)["verdicts"][options["name"]]["ok"]
    assert site.proxy.writes == []


def test_deployed_with_an_image(site: Any) -> None:
    options = {**ready(site), "image": site.image()}
    assert lead(options, "deployed", check=True)["state"] == "deploying"
    assert site.proxy.writes == []
    begun = lead(options, "deployed")
    assert begun["changed"] and begun["pending"] and begun["state"] == "deploying"
    assert await_all(site, "deployed", options)["verdicts"][options["name"]]["state"] == "deployed"
    result = lead(options, "deployed")
    assert not result["changed"] and result["image"]["label"] == "gold-1"


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


def test_released_and_released_again(site: Any) -> None:
    options = deployed(site)
    assert lead(options, "released", check=True)["state"] == "releasing" and site.proxy.writes == []
    begun = lead(options, "released")
    assert begun["changed"] and begun["pending"]
    assert await_all(site, "released", options)["verdicts"][options["name"]]["state"] == "ready"
    assert not lead(options, "released")["changed"]


def test_annotations(site: Any) -> None:
    options = deployed(site)
    assert lead(options, "deployed", annotations={"rack": "r12"})["changed"]
    assert not lead(options, "deployed", annotations={"rack": "r12"})["changed"]
    assert lead(options, "deployed", annotations={"rack": ""})["changed"]
    assert not lead(options, "deployed", annotations={"rack": ""})["changed"]


def test_a_changed_bmc_address_is_written(site: Any) -> None:
    options = {**ready(site), "bmc_address": "https://127.0.0.77:9443"}
    if site.name == "ironic":
        options["driver"] = {"deploy_interface": "fake", "driver_info": {"note": "moved"}, "driver": "fake-hardware"}
    result = lead(options, "enrolled")
    assert result["changed"] and result["before"] != result["after"]
    assert not lead(options, "enrolled")["changed"]


@pytest.mark.parametrize("state", STATES)
def test_check_mode_sends_no_write(site: Any, state: str) -> None:
    fresh, done = site.new(), {**deployed(site), "image": site.image("2")}
    for options in (fresh, done):
        if options is fresh and state not in ("enrolled", "ready"):
            continue
        lead(options, state, check=True, erase=True, redeploy=True, update_password="always")
    await_all(site, "deployed", done, check=True)
    assert site.proxy.writes == []


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
    wanted = {
        "ironic": ("target=provide", "target=active", "target=deleted"),
        "maas": ("op=commission", "op=deploy", "op=release"),
    }
    assert all(any(word in what for what in hard) for word in wanted[site.name])
    assert not any(word in what for what in mild for word in wanted[site.name])
    assert all(nodes == (options["name"],) for _what, _destructive, nodes in line.writes)


# -- what is not ours --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whose", ["hold_by_somebody", "owned_by_somebody", "protect"])
def test_what_is_somebody_elses_is_left_alone(site: Any, whose: str) -> None:
    options = {**deployed(site), "image": site.image("2")}
    getattr(site, whose)(options["name"])
    for state in STATES:
        with pytest.raises(NotOurs) as caught:
            lead(options, state)
        assert caught.value.node == options["name"] and caught.value.details["foreign"]
    verdict = await_all(site, "deployed", options)["verdicts"][options["name"]]
    assert not verdict["ok"] and "not ours" in verdict["reason"]
    assert site.proxy.writes == []


def test_our_own_hold(site: Any) -> None:
    options = deployed(site)
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


def test_the_token_of_another_controller_is_foreign(site: Any) -> None:
    """The form of a token proves nothing: the run in it must be one that our own ledger knows for this node."""
    options = {**deployed(site), "run_id": "run8", "known_runs": ["run7"]}
    lead({**options, "run_id": "other-site-1"}, "maintenance")
    site.proxy.forget()
    for state in STATES:
        with pytest.raises(NotOurs, match="gpufleet:other-site-1"):
            lead({**options, "image": site.image("2")}, state)
    waiting = {**options, "image": site.image("2")}
    verdict = await_all(site, "deployed", waiting)["verdicts"][options["name"]]
    assert not verdict["ok"] and "other-site-1" in verdict["reason"]
    assert site.proxy.writes == []
    assert not lead({**options, "known_runs": ["other-site-1"]}, "serviceable")["maintenance"]


def test_our_own_hold_of_a_node_that_is_not_deployed(site: Any) -> None:
    options = ready(site)
    assert lead(options, "maintenance", run_id="run7")["maintenance"]
    assert not lead(options, "maintenance", run_id="run8")["changed"]
    assert not lead(options, "serviceable")["maintenance"]


def test_another_machine_behind_the_name_is_refused(site: Any) -> None:
    options = ready(site)
    other = site.new()
    with pytest.raises(Refused, match="MAC belongs to"):
        lead({**options, "name": other["name"]}, "ready")
    if site.name == "maas":
        site.machine(options["name"]).hardware["system_serial"] = options["serial"]
    with pytest.raises(Refused, match="another machine"):
        lead({**options, "serial": "S-other"}, "deployed", image=site.image())
    assert site.proxy.writes == []


def test_a_node_that_nobody_enrolled(site: Any) -> None:
    with pytest.raises(Refused, match="does not know"):
        lead(site.new(), "deployed", image=site.image())
    verdict = await_all(site, "ready", site.new())["verdicts"]
    assert [(one["ok"], one["state"]) for one in verdict.values()] == [(False, "absent")]


# -- what goes wrong ---------------------------------------------------------------------------------------------


def test_a_wrong_login_is_tried_once_and_shown_nowhere(site: Any) -> None:
    wrong = {"provisioner_password": "not-th1s-one", "provisioner_api_key": "fleetkey:token:not-th1s-one"}
    for call in (lambda: lead({**site.new(), **wrong}, "ready"), lambda: await_all(site, "ready", site.new(), **wrong)):
        site.proxy.forget()
        with pytest.raises(AuthFailed) as caught:
            call()
        assert len(site.proxy.asked) == 1
        told = json.dumps(caught.value.as_result())
        assert not any(secret in told for secret in (*site.secrets, "not-th1s-one"))


def test_nobody_listens(site: Any) -> None:
    options = {**site.new(), "provisioner_url": "http://127.0.0.1:9/MAAS"}
    with pytest.raises(Unreachable):
        lead(options, "ready")
    with pytest.raises(Unreachable):
        await_all(site, "ready", options, timeout=0.5, provisioner_url="http://127.0.0.1:9/MAAS")


@pytest.mark.parametrize(
    "answer",
    [DROP, (200, {"Content-Type": "text/html"}, b"<h1>Wartung</h1>"), (200, {}, b'{"nodes": 7}'), (502, {}, b"")],
    ids=["dropped", "html", "odd json", "502"],
)
def test_an_outage_in_the_middle_of_a_wait_passes(site: Any, answer: Any) -> None:
    options = ready(site)
    count = iter(range(100))
    site.proxy.fault = lambda asked: answer if next(count) < 3 else None
    assert await_all(site, "ready", options)["verdicts"][options["name"]]["ok"]
    site.proxy.fault = lambda asked: answer
    with pytest.raises((Unreachable, BadAnswer)):
        await_all(site, "ready", options, timeout=0.3)
    with pytest.raises((Unreachable, BadAnswer)):
        lead(options, "ready")


def test_a_node_that_cannot_become_ready_gets_a_verdict(site: Any) -> None:
    good = ready(site)
    bad = site.fails_to_become_ready(site.new())
    lead(bad, "ready")
    verdicts = await_all(site, "ready", good, bad)["verdicts"]
    assert verdicts[good["name"]]["ok"], "one dead node never stops its batch"
    verdict = verdicts[bad["name"]]
    wanted = {"ironic": "manage led back to enroll: ", "maas": "Failed commissioning: "}[site.name]
    assert not verdict["ok"] and verdict["reason"].startswith(wanted) and len(verdict["reason"]) > len(wanted)
    assert BMC_PASSWORD not in json.dumps(verdict)


def test_a_node_without_proof_that_it_is_drained_is_refused_alone(site: Any) -> None:
    first, second = deployed(site), deployed(site)
    batch = [{**one, "image": site.image("2")} for one in (first, second)]
    line = Line(refuse=(first["name"],))
    with pytest.raises(EvidenceMissing):
        lead(batch[0], "deployed", line=line)
    verdicts = await_all(site, "deployed", *batch, line=line)["verdicts"]
    assert not verdicts[first["name"]]["ok"] and "running work" in verdicts[first["name"]]["reason"]
    assert verdicts[second["name"]]["ok"]
    assert lead({**first, "image": site.image("1")}, "deployed")["changed"] is False, "it was not touched"


@pytest.mark.parametrize("moment", range(12))
def test_killed_between_any_two_writes_and_run_again(site: Any, moment: int) -> None:
    options = {**site.new(), "image": site.image(), "deploy_id": "7"}
    line = Line(die_at=moment)
    try:
        lead(options, "ready", line=line)
        await_all(site, "ready", options, line=line)
        lead(options, "deployed", line=line)
        await_all(site, "deployed", options, line=line)
    except Killed:
        pass
    lead(options, "ready")
    assert await_all(site, "ready", options)["verdicts"][options["name"]]["ok"]
    lead(options, "deployed")
    assert await_all(site, "deployed", options)["verdicts"][options["name"]]["ok"]
    assert site.deployments() == 1, "a deployment is begun once, however often its run was killed"
    assert not lead(options, "deployed")["changed"]


@pytest.mark.parametrize("moment", range(4))
def test_killed_in_the_middle_of_a_reimage(site: Any, moment: int) -> None:
    """The old image must never be taken for the new one."""
    options = {**deployed(site, "1"), "image": site.image("2"), "deploy_id": "8"}
    line = Line(die_at=moment)
    try:
        lead(options, "deployed", line=line)
        await_all(site, "deployed", options, line=line)
    except Killed:
        pass
    lead(options, "deployed")
    assert await_all(site, "deployed", options)["verdicts"][options["name"]]["ok"]
    assert site.deployments() == 1
    assert lead(options, "deployed")["image"]["version"] == "2"


def test_killed_in_the_middle_of_a_hold(site: Any) -> None:
    for moment in range(2):
        options = deployed(site)
        for state in ("maintenance", "serviceable"):
            with contextlib.suppress(Killed):
                lead(options, state, line=Line(die_at=moment), run_id="run1")
            assert lead(options, state, run_id="run2")["maintenance"] == (state == "maintenance")


# -- batches -----------------------------------------------------------------------------------------------------


def test_sixty_nodes_are_one_list_request_a_poll(site: Any) -> None:
    batch = [{"name": name} for name in site.many(60)]
    site.proxy.forget()
    seen = await_all(site, "deployed", *batch, check=True)
    assert len(seen["verdicts"]) == 60 and seen["polls"] == 1
    assert len(site.proxy.asked) <= 2 * site.blocks_of_60, [one.path for one in site.proxy.asked]
    site.proxy.forget()
    polled = await_all(site, "released", *batch, timeout=2)
    lists = site.proxy.lists(site.list_path)
    # MAAS looks the names up once; from then on each poll asks by id.
    assert len(lists) == (polled["polls"] + (1 if site.name == "maas" else 0)) * site.blocks_of_60
    assert [one for one in site.proxy.asked if not one.is_write and one not in lists] == []


def test_progress_is_told_when_it_moves(site: Any) -> None:
    batch = [site.new(), site.new()]
    for one in batch:
        lead(one, "ready")
    told: list[str] = []
    result = await_all(site, "ready", *batch, say=told.append)
    assert result["summary"] == "2/2 ready" and told[-1] == "2/2 ready"
    lines = [line for line in told if "/2 ready" in line]
    assert all(one != other for one, other in zip(lines, lines[1:]))


def test_a_host_of_another_provisioner_is_told_so(site: Any) -> None:
    ctx = Context()
    nodes = [{"host": "gpu001", "provisioner_url": "http://elsewhere/"}]
    params = {**site.connection(), "until": "ready", "timeout": 1, "interval": 0.1, "nodes": nodes}
    verdict = watch(params, ctx).as_dict(ctx)["verdicts"]["gpu001"]
    assert not verdict["ok"] and "elsewhere" in verdict["reason"] and site.proxy.asked == []


# -- secrets -----------------------------------------------------------------------------------------------------


def test_no_secret_leaves_the_driver(site: Any) -> None:
    options = site.new()
    line = Line()
    said: list[str] = []
    told = [lead(options, "ready", check=True), lead(options, "ready", line=line)]
    told.append(await_all(site, "ready", options, line=line, say=said.append))
    told.append(lead(options, "enrolled", update_password="always", line=line))
    text = json.dumps([told, line.writes, said], default=str)
    assert not any(secret in text for secret in site.secrets)


def test_the_bmc_password_can_be_sent_again(site: Any) -> None:
    options = {**ready(site), "bmc_password": "rotated-Pa55"}
    if site.name == "ironic":
        options["driver"] = {**site.extras, "driver_info": {"fake_password": "rotated-Pa55"}}
    result = lead(options, "enrolled", update_password="always")
    assert result["changed"] and "rotated-Pa55" not in json.dumps(result)
    body = b" ".join(one.body for one in site.proxy.writes)
    assert b"rotated-Pa55" in body


def test_what_two_drivers_share_is_told_apart(site: Any) -> None:
    """One variable for both provisioners: each takes its own part."""
    options = site.new()
    options["driver"] = {
        "ironic": {"driver": "fake-hardware", "deploy_interface": "fake"},
        "maas": {"enable_ssh": False},
    }
    lead(options, "ready")
    assert await_all(site, "ready", options)["verdicts"][options["name"]]["ok"]
