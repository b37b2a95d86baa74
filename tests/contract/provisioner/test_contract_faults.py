# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every provisioner's driver must do where something goes wrong, for many nodes, with secrets and with images."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _away as away
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    ConfigError,
    EvidenceMissing,
    NotOurs,
    Refused,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names, ways
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.watch import watch
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from calls import Killed, Line, await_all, deployed, lead, ready, watch_all
from sites import BMC_PASSWORD
from suite.skips import not_applicable

pytestmark = pytest.mark.many_runs

# -- what goes wrong ---------------------------------------------------------------------------------------------


def test_a_wrong_login_is_tried_once_and_shown_nowhere(site: Any) -> None:
    for call in (lead, lambda options, goal, **more: await_all(site, goal, options, **more)):
        site.faults.forget()
        with pytest.raises(AuthFailed) as caught:
            call(site.new(), "ready", **site.wrong_login())
        assert len(site.faults.calls) <= 1, "tried again"
        told = json.dumps(caught.value.as_result())
        assert not any(secret in told for secret in (*site.secrets, "not-th1s-one"))


def test_nobody_listens(site: Any) -> None:
    options = {**site.new(), **site.nowhere()}
    with pytest.raises(Unreachable):
        lead(options, "ready")
    with pytest.raises(Unreachable):
        await_all(site, "ready", options, timeout=0.5, **site.nowhere())


def test_an_outage_in_the_middle_of_a_wait_passes(site: Any) -> None:
    options = ready(site)
    for way in site.faults.unusable:
        site.faults.strike(way, 3)
        assert await_all(site, "ready", options)["verdicts"][options["name"]]["ok"], way
        site.faults.strike(way)
        with pytest.raises((Unreachable, BadAnswer)):
            await_all(site, "ready", options, timeout=0.3)
        with pytest.raises((Unreachable, BadAnswer)):
            lead(options, "ready")


@pytest.mark.parametrize("status", [200, 400, 500])
def test_an_answer_that_is_nested_too_deep_is_none(service: Any, status: int) -> None:
    """A parser gives up there with an error of its own, which would end a batch."""
    options = ready(service)
    deep = (status, {"Content-Type": "application/json"}, b'{"error_message": ' + b"[" * 100_000)
    service.proxy.fault = lambda asked: deep
    with pytest.raises((BadAnswer, Refused, Unreachable)):
        lead(options, "ready")
    with pytest.raises((BadAnswer, Refused, Unreachable)):
        watch_all(service, "ready", options, timeout=0.3)


def test_c8_a_step_waits_for_a_provisioner_that_is_away_and_is_taken_once(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(away, "AWAY_SECONDS", 30.0)
    options = {**ready(site), "image": site.image(), "deploy_id": "5"}
    site.faults.outage(times=4)
    assert lead(options, "deployed")["changed"]
    assert await_all(site, "deployed", options)["verdicts"][options["name"]]["ok"]
    assert site.deployments() == 1


class Leaveless(Line):
    """The scheduler, which is asked for leave to write, is frozen."""

    asked = 0

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> str | None:
        self.asked += 1
        raise Unreachable("scontrol did not end within 60 s", details={"slow": 60.0})


def test_c8_a_scheduler_that_is_away_at_a_write_is_no_outage_of_the_provisioner(
    site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not asked again for the provisioner's sake, and no other host is kept from the provisioner for it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    line = Leaveless()
    with pytest.raises(Unreachable, match="scontrol did not end"):
        lead(site.new(), "ready", line=line, run_cache="run-1")
    assert line.asked == 1 and lead(site.new(), "ready", run_cache="run-1")["changed"]


def test_c8_a_step_whose_write_was_not_answered_is_left_to_the_next_run(service: Any) -> None:
    options = {**ready(service), "image": service.image(), "deploy_id": "5"}
    service.faults.lose_answer()
    with pytest.raises((Unreachable, BadAnswer)):
        lead(options, "deployed")
    assert len(service.faults.writes) == 1


def test_a_write_whose_answer_is_lost_is_known_again(site: Any) -> None:
    for nth in itertools.count(1):
        options = {**ready(site), "image": site.image(), "deploy_id": "5"}
        site.faults.lose_answer(nth)
        with contextlib.suppress(Unreachable, BadAnswer):
            lead(options, "deployed")
        lost = len(site.faults.writes) >= nth
        lead(options, "deployed")
        assert await_all(site, "deployed", options)["verdicts"][options["name"]]["ok"]
        assert site.deployments() == 1 and not lead(options, "deployed")["changed"]
        if not lost:
            break
    assert nth > 1, "there was no write whose answer could be lost"


def test_a_batch_whose_write_loses_its_answer_is_deployed_once(site: Any) -> None:
    batch = [{**ready(site), "image": site.image(), "deploy_id": "5"} for _n in range(2)]
    site.faults.lose_answer()
    verdicts = await_all(site, "deployed", *batch)["verdicts"]
    assert all(one["ok"] for one in verdicts.values()), verdicts
    assert site.deployments() == 2


def _demand_told(site: Any) -> None:
    if not site.tells_failures:
        not_applicable("there only time tells that a deployment failed")


def test_a_node_that_fails_gets_a_verdict(site: Any) -> None:
    _demand_told(site)
    good = deployed(site)
    bad, goal, words = site.stumbles()
    verdicts = await_all(site, goal, good, bad)["verdicts"]
    assert verdicts[good["name"]]["ok"], "one dead node never stops its batch"
    verdict = verdicts[bad["name"]]
    assert not verdict["ok"] and verdict["reason"].startswith(words) and len(verdict["reason"]) > len(words)
    assert BMC_PASSWORD not in json.dumps(verdict)


def test_t1_a_state_that_only_a_person_can_end_is_no_wait(site: Any) -> None:
    options = {**deployed(site), "image": site.image("2"), "deploy_id": "6"}
    site.strand(options["name"])
    with pytest.raises(NotOurs, match="needs a person"):
        lead(options, "deployed")
    result = await_all(site, "deployed", options, timeout=30)
    verdict = result["verdicts"][options["name"]]
    assert not verdict["ok"] and "needs a person" in verdict["reason"], verdict
    assert result["polls"] == 1 and site.faults.writes == []


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


def _died(moment: int, *way: Callable[[Line], Any]) -> bool:
    """Go this way, and be killed before its write of that number, if there are as many."""
    line = Line(die_at=moment)
    try:
        for part in way:
            part(line)
    except Killed:
        return True
    return False


def test_killed_between_any_two_writes_and_run_again(site: Any) -> None:
    for moment in itertools.count():
        site.faults.forget()
        options = {**site.new(), "image": site.image(), "deploy_id": "7"}
        died = _died(
            moment,
            lambda line, options=options: lead(options, "ready", line=line),
            lambda line, options=options: await_all(site, "ready", options, line=line),
            lambda line, options=options: lead(options, "deployed", line=line),
            lambda line, options=options: await_all(site, "deployed", options, line=line),
        )
        lead(options, "ready")
        assert await_all(site, "ready", options)["verdicts"][options["name"]]["ok"]
        lead(options, "deployed")
        assert await_all(site, "deployed", options)["verdicts"][options["name"]]["ok"]
        assert site.deployments() == 1, "a deployment is begun once, however often its run was killed"
        assert not lead(options, "deployed")["changed"]
        if not died:
            break
    assert moment > 1, "there were no two writes to be killed between"


def test_killed_in_the_middle_of_a_reimage(site: Any) -> None:
    """The old image must never be taken for the new one."""
    for moment in itertools.count():
        options = {**deployed(site, "1"), "image": site.image("2"), "deploy_id": "8"}
        died = _died(
            moment,
            lambda line, options=options: lead(options, "deployed", line=line),
            lambda line, options=options: await_all(site, "deployed", options, line=line),
        )
        lead(options, "deployed")
        assert await_all(site, "deployed", options)["verdicts"][options["name"]]["ok"]
        assert site.deployments() == 1
        assert lead(options, "deployed")["image"]["version"] == "2"
        if not died:
            break
    assert moment > 0, "there was no write to be killed before"


def test_killed_in_the_middle_of_a_hold(site: Any) -> None:
    if not site.driver.holds:
        return  # that it says so is tested above
    for moment in range(2):
        options = deployed(site)
        for state in ("maintenance", "serviceable"):
            with contextlib.suppress(Killed):
                lead(options, state, line=Line(die_at=moment), run_id="run1")
            assert lead(options, state, run_id="run2")["maintenance"] == (state == "maintenance")


# -- batches -----------------------------------------------------------------------------------------------------


def test_sixty_nodes_are_one_list_request_a_poll(site: Any) -> None:
    batch = [{"name": name} for name in site.many(60)]
    site.faults.forget()
    seen = await_all(site, "deployed", *batch, check=True)
    assert len(seen["verdicts"]) == 60 and seen["polls"] == 1
    assert len(site.faults.calls) <= 2 * site.blocks_of_60, site.faults.calls
    site.faults.forget()
    polled = await_all(site, "released", *batch, timeout=2)
    assert len(site.faults.reads) == (polled["polls"] + site.lookups) * site.blocks_of_60


def test_many_nodes_begin_a_step_together(site: Any) -> None:
    batch = [{**ready(site), "image": site.image()} for _number in range(4)]
    held = batch[2]["name"]
    line = Line(refuse=(held,))
    verdicts = await_all(site, "deployed", *batch, line=line)["verdicts"]
    assert [verdicts[one["name"]]["ok"] for one in batch] == [True, True, False, True], verdicts
    assert "running work" in verdicts[held]["reason"] and site.native(held) != site.native(batch[0]["name"])


def test_many_writers_at_once_lose_nothing(site: Any) -> None:
    """Where two writes at once would lose one, they are sent one at a time."""
    nodes = [site.new() for _number in range(8)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda one: lead(one, "enrolled"), nodes))
    assert all(one["changed"] for one in results)
    for one in nodes:
        assert not lead(one, "enrolled")["changed"], "it was lost"


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
    assert not verdict["ok"] and "elsewhere" in verdict["reason"] and site.faults.calls == []
    nodes = [{"host": "gpu001", "provisioner_cloud": "elsewhere"}]
    params = {**params, "provisioner_cloud": None, "nodes": nodes}
    assert "ok" in watch({**params, "provisioner_cloud": ""}, ctx).as_dict(ctx)["verdicts"]["gpu001"]


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
    """To whom it concerns: a provisioner that keeps no BMC is never told it."""
    options = site.new_password(ready(site), "rotated-Pa55")
    result = lead(options, "enrolled", update_password="always")
    assert result["changed"] == site.keeps_bmc and "rotated-Pa55" not in json.dumps(result)
    sent = " ".join(call.what + call.body.decode() for call in site.faults.calls)
    assert ("rotated-Pa55" in sent) == site.keeps_bmc


def test_what_drivers_share_is_told_apart(site: Any) -> None:
    """One variable for all provisioners: each takes its own part."""
    others = {name: {"of": "another"} for name in names.DRIVERS}
    options = {**site.new(), "driver": {**others, site.name: site.extras}}
    lead(options, "ready")
    assert await_all(site, "ready", options)["verdicts"][options["name"]]["ok"]


# -- images, and who boots ---------------------------------------------------------------------------------------


def test_an_image_without_what_the_driver_needs_is_refused_first(site: Any) -> None:
    options = ready(site)
    for key in site.driver.image_needs:
        image = {**site.image(), key: ""}
        with pytest.raises(ConfigError, match=f"the image lacks {key}"):
            lead(options, "deployed", image=image)
    assert site.faults.calls == []
    unneeded = {"url", "named"} - set(site.driver.image_needs)
    image = {key: value for key, value in site.image().items() if key not in unneeded}
    assert lead(options, "deployed", image=image)["changed"]


def test_whether_a_machine_must_be_booted_by_others_is_declared(site: Any) -> None:
    options = {**ready(site), "image": site.image()}
    begun = lead(options, "deployed")
    assert begun["pending"] and (begun["step"] == "boot") == (not site.driver.owns_power)
    result = watch_all(site, "deployed", options)
    verdict = result["verdicts"][options["name"]]
    assert verdict["ok"] == site.driver.owns_power
    if site.driver.owns_power:
        return
    assert verdict["step"] == "boot" and "must now boot" in verdict["reason"] and "1 to boot" in result["summary"]
    again = lead(options, "deployed")
    assert again["step"] == "boot" and again["pending"] and not again["changed"]
    never = watch_all(site, "deployed", options, booted=True, timeout=0.3)["verdicts"][options["name"]]
    assert not never["ok"] and "still" in never["reason"] and never["step"] == ""
    site.boot(options["name"])
    assert watch_all(site, "deployed", options, booted=True)["verdicts"][options["name"]]["ok"]


def test_who_owns_no_power_stands_in_the_list_of_names(site: Any) -> None:
    """The BMC's verbs read it there: they import no driver."""
    powerless = ways.powerless(site.name, site.connection().get("provisioner_url"))
    assert powerless == (not site.driver.owns_power) and site.name in names.DRIVERS
    assert (site.name in names.NO_MAINTENANCE) == (not site.driver.holds)
    assert names.STATELESS.get(site.name, ()) == site.driver.stateless
    assert site.driver.stateless or site.driver.deploy_proof != "network_boot"


def test_who_reads_a_ca_is_declared_to_speak_tls_itself(site: Any) -> None:
    """So that the tests of TLS take it, which a site that says nothing would be spared."""
    assert site.own_tls == ("provisioner_ca_path" in names.DRIVERS[site.name]) or site.two_ways
