# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is Warewulf's own: writes that are lost, stages, profiles, and answers that say less than they seem to."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    Changed,
    ConfigError,
    FleetError,
    NotOurs,
    Refused,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import registry
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import of_batch
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from calls import Killed, Line, await_all, deployed, lead, ready, watch_all

#: What a version calls the last stages, and one before them.
VERSIONS = {"4.6.5": ("IPXE", "SYSTEM_OVERLAY", "RUNTIME_OVERLAY"), "4.7.0": ("ipxe", "system", "runtime")}


@pytest.fixture
def site(warewulf_site: Any) -> Any:
    return warewulf_site


def with_order(site: Any, **more: Any) -> dict[str, Any]:
    """A node whose deployment is ordered, and which is not booted yet."""
    options = {**ready(site), "image": site.image(), "deploy_id": "d-1", **more}
    lead(options, "deployed")
    return options


def look(site: Any, options: dict[str, Any], **more: Any) -> dict[str, Any]:
    """One look of the watcher: the verdict."""
    verdict: dict[str, Any] = watch_all(site, "deployed", options, timeout=0.0, **more)["verdicts"][options["name"]]
    return verdict


# -- what a boot is ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_the_stages_of_both_versions_are_understood(site: Any, version: str) -> None:
    site.server.config.version = version
    options = with_order(site)
    for stage in ("ipxe", "kernel", "image"):
        site.server.asks(stage, options["boot_mac"])
        assert look(site, options)["provision_state"] == "loading", stage
    for stage, word in zip(("system", "runtime"), VERSIONS[version][1:]):
        site.server.asks(stage, options["boot_mac"])
        assert site.server.status[options["name"]]["stage"] == word
        assert look(site, options)["provision_state"] == "all sent"
    verdict = watch_all(site, "deployed", options, booted=True)["verdicts"][options["name"]]
    assert verdict["ok"] and verdict["provision_state"] == "booted"


@pytest.mark.parametrize("ahead", [0.0, 3000.0, -3000.0])
def test_a_client_that_calls_on_a_running_node_is_no_boot(site: Any, ahead: float) -> None:
    """It asks for the last part each minute, up to the moment at which its power is cut. Taken for a boot, the machine
    would go on with the old image, and be told as deployed for ever. The server's clock may be another one."""
    site.server.clock, site.server.config.ahead = 0, ahead
    options = {**deployed(site, "1", deploy_id="d-1"), "image": site.image("2"), "deploy_id": "d-2"}
    lead(options, "deployed")
    assert look(site, options)["provision_state"] == "image set"
    site.server.asks("runtime", options["boot_mac"])
    assert look(site, options)["step"] == "boot"
    # Its power is cut a while after that, and it starts.
    options["booted_at"] = site.server.clock - ahead + 60
    assert look(site, options, booted=True)["reason"].startswith("still all sent"), "it has asked for nothing since"
    assert lead(options, "deployed")["step"] == "boot", "and a run after this one boots it anew"
    site.server.clock += 100
    site.boot(options["name"])
    verdict = watch_all(site, "deployed", options, booted=True)["verdicts"][options["name"]]
    assert verdict["ok"] and verdict["provision_state"] == "booted"


def test_where_nobody_tells_when_a_machine_was_booted_what_came_since_its_order_counts(site: Any) -> None:
    options = with_order(site)
    site.boot(options["name"])
    assert not look(site, options)["ok"]
    assert watch_all(site, "deployed", options, booted=True)["verdicts"][options["name"]]["ok"]


def test_a_node_that_boots_anew_is_deployed_once_it_has_asked_for_all_again(site: Any) -> None:
    """Its client is not the one that boots: what that is refused says nothing of what runs."""
    options = deployed(site, deploy_id="d-1")
    site.server.asks("runtime", options["boot_mac"], "BAD_ASSET")
    assert look(site, options)["ok"]
    site.server.asks("kernel", options["boot_mac"])
    assert look(site, options)["provision_state"] == "loading"
    site.boot(options["name"])
    assert look(site, options)["ok"], "the same image, once more"
    site.server.asks("kernel", options["boot_mac"], "NOT_FOUND")
    failed = look(site, options)
    assert not failed["ok"] and "it asked for kernel, and was answered NOT_FOUND" in failed["reason"]
    assert lead(options, "deployed")["step"] == "boot", "it is ordered anew"


def test_what_was_booted_is_known_after_a_restart_that_forgets_what_nodes_asked_for(site: Any) -> None:
    options = deployed(site, deploy_id="d-1")
    site.server.restart()
    assert not lead(options, "deployed")["pending"] and look(site, options)["ok"]


def test_a_restart_amid_a_boot_is_no_boot(site: Any) -> None:
    options = with_order(site)
    site.server.asks("kernel", options["boot_mac"])
    site.server.restart()
    assert look(site, options)["step"] == "boot"


def test_a_runtime_overlay_that_is_not_there_keeps_no_node_from_its_boot(site: Any) -> None:
    """Its loader goes on without."""
    options = with_order(site)
    site.server.asks("runtime", options["boot_mac"], "NOT_FOUND")
    assert look(site, options)["provision_state"] == "all sent"
    site.server.asks("runtime", options["boot_mac"], "BAD_ASSET")
    failed = look(site, options)
    assert "it asked for runtime, and was answered BAD_ASSET" in failed["reason"] and failed["kind"] == ""


# -- what is written ---------------------------------------------------------------------------------------------


def test_an_order_sets_the_image_builds_the_overlays_and_takes_the_id_to_the_node(site: Any) -> None:
    options = ready(site)
    site.server.conf.change("default", lambda one: one.update(kernel={"args": ["quiet"]}), "nodeprofiles")
    site.server.conf.change(options["name"], lambda one: one.update(kernel={"version": "6.8", "args": ["hpc=1"]}))
    line = Line()
    lead({**options, "image": site.image(), "deploy_id": "d-1"}, "deployed", line=line)
    record = site.record(options["name"])
    assert record["image name"] == "gold-1" and options["name"] in site.server.built
    assert record["kernel"] == {"version": "6.8", "args": ["quiet", "hpc=1", "gpufleet.deploy=d-1"]}
    assert line.orders == ["deployed"] and len(line.writes) == 3, "the order is the last of three writes"
    lead({**options, "image": site.image("2"), "deploy_id": "d-2"}, "deployed")
    assert site.record(options["name"])["kernel"]["args"][1:] == ["hpc=1", "gpufleet.deploy=d-2"]
    lead(options, "released")
    own = site.server.conf.load()["nodes"][options["name"]]
    assert "image name" not in own and own["kernel"] == {"version": "6.8", "args": ["hpc=1"]}
    site.server.conf.change("default", lambda one: one.pop("kernel"), "nodeprofiles")


def test_overlays_that_are_not_built_are_no_order(site: Any) -> None:
    options = {**ready(site), "image": site.image()}
    site.server.builds = False
    with pytest.raises(Refused, match="did not build them"):
        lead(options, "deployed")
    assert site.deployments() == 0
    site.server.builds = True
    assert lead(options, "deployed")["step"] == "boot" and site.deployments() == 1


def test_overlays_are_built_of_the_record_that_the_node_is_ordered_with(site: Any) -> None:
    """Also where an order was killed after its overlays were built, or its node is changed before it has booted."""
    device = {"device": "eno1", "ipaddr": "10.8.0.18", "netmask": "255.255.255.0"}
    options = {**ready(site), "image": site.image(), "deploy_id": "d-1", "driver": device}
    lead(options, "ready")
    with pytest.raises(Killed):
        lead(options, "deployed", line=Line(die_at=2))
    built = [site.server.built[options["name"]]]
    for last in (99, 77):
        options["driver"] = {**device, "ipaddr": f"10.8.0.{last}"}
        lead(options, "ready")
        assert lead(options, "deployed")["changed"]
        built.append(site.server.built[options["name"]])
        assert lead(options, "deployed")["step"] == "boot" and site.server.built[options["name"]] == built[-1]
    assert sorted(set(built)) == built, "each is newer than the one before"
    site.boot(options["name"])
    assert watch_all(site, "deployed", options, booted=True)["verdicts"][options["name"]]["ok"]


def test_a_write_that_somebody_elses_took_away_is_not_believed(site: Any) -> None:
    """Warewulf has answered 200 to both."""
    options = ready(site)
    conf = site.server.conf
    before, save = conf.load(), conf.save

    def lost(content: Any) -> None:
        save(content)
        save(before)

    conf.save = lost
    try:
        with pytest.raises(Refused, match="it is not there"):
            lead(options, "maintenance")
    finally:
        del conf.save
    assert lead(options, "maintenance")["maintenance"]


def test_an_image_that_somebody_sets_amid_an_order_is_left(site: Any) -> None:
    options = {**ready(site), "image": site.image()}
    conf, save = site.server.conf, site.server.conf.save

    def meddled(content: Any) -> None:
        content["nodes"][options["name"]]["image name"] = "gold-2"
        save(content)

    conf.save = meddled
    try:
        with pytest.raises((Refused, Changed)):
            lead(options, "deployed")
    finally:
        del conf.save
    assert site.record(options["name"])["image name"] == "gold-2"
    with pytest.raises(NotOurs):
        lead(options, "deployed", known_deployed=False)


def test_what_people_wrote_into_a_record_outlives_each_step(site: Any) -> None:
    options = ready(site)
    theirs = {"comment": "rack 7", "ipmi": {"ipaddr": "10.9.0.1", "password": "x-Secret-9"}, "asset key": "A1"}
    site.server.conf.change(options["name"], lambda one: one.update(theirs))
    site.tag(options["name"], "sku", "h200")
    told = [lead({**options, "image": site.image()}, "deployed"), lead(options, "maintenance")]
    told += [lead(options, "serviceable"), lead(options, "released")]
    own = site.server.conf.load()["nodes"][options["name"]]
    assert {key: own[key] for key in theirs} == theirs and own["tags"]["sku"] == "h200"
    assert "x-Secret-9" not in str(told)


def test_a_record_is_made_with_what_its_network_device_needs(site: Any) -> None:
    device = {"device": "eno1", "ipaddr": "10.8.0.18", "netmask": "255.255.255.0"}
    options = {**site.new(), "driver": {"warewulf": {**device, "network": "fabric"}}}
    lead(options, "ready")
    known = site.record(options["name"])
    assert known["network devices"] == {"fabric": {**device, "hwaddr": options["boot_mac"]}}
    moved = {**options, "driver": {**device, "ipaddr": "10.8.0.19"}}
    changed = lead(moved, "enrolled")
    assert changed["before"]["ipaddr"] == "10.8.0.18" and changed["after"]["ipaddr"] == "10.8.0.19"
    assert not lead(moved, "enrolled")["changed"]
    with pytest.raises(ConfigError, match="unknown keys in driver: kernel_arguments"):
        lead({**options, "driver": {"kernel_arguments": "x"}}, "ready")
    with pytest.raises(ConfigError, match=r"say profiles: \[gpu\]"):
        lead({**options, "driver": {"profiles": "gpu"}}, "ready")
    with pytest.raises(ConfigError, match="no annotations"):
        lead({**options, "image": site.image()}, "deployed", annotations={"owner": "me"})


# -- whose it is -------------------------------------------------------------------------------------------------


def test_an_image_of_the_profile_is_somebodys_but_on_a_record_of_our_own(site: Any) -> None:
    site.server.conf.change("gpu", lambda one: one.update({"image name": "gold-2"}), "nodeprofiles")
    theirs, ours = site.new(), {**site.new(), "driver": {"profiles": ["default", "gpu"]}}
    mac = {"default": {"hwaddr": theirs["boot_mac"]}}
    site.server.conf.change(theirs["name"], lambda one: one.update({"profiles": ["gpu"], "network devices": mac}))
    with pytest.raises(NotOurs, match="image gold-2"):
        lead(theirs, "ready", known_deployed=False)
    lead(ours, "ready")
    assert lead(ours, "ready", known_deployed=False)["provision_state"] == "image of its profile"
    assert lead({**ours, "image": site.image()}, "deployed")["changed"]
    site.boot(ours["name"])
    assert watch_all(site, "deployed", {**ours, "image": site.image()}, booted=True)["verdicts"][ours["name"]]["ok"]
    lead(ours, "released")
    assert lead(ours, "ready", known_deployed=False)["provision_state"] == "image of its profile"
    site.server.conf.change(ours["name"], lambda one: one.update({"image name": "gold-1"}))
    with pytest.raises(NotOurs, match="image gold-1"):
        lead(ours, "ready", known_deployed=False)


def test_an_image_that_a_person_has_set_over_ours_is_somebodys(site: Any) -> None:
    options = {**deployed(site, deploy_id="d-1"), "known_deployed": True, "known_deploy_ids": ["d-1"]}
    assert not lead(options, "deployed")["changed"]
    site.server.conf.change(options["name"], lambda one: one.update({"image name": "gold-2"}))
    with pytest.raises(NotOurs):
        lead(options, "deployed")


def test_a_killed_order_leaves_the_node_whose_it_was(site: Any) -> None:
    """Over another one's deployment it is still that one's; over nothing it is nobody's."""
    site.server.builds = False
    known = {"known_deployed": True, "known_deploy_ids": ["d-1"]}
    fresh, second = {**ready(site), "image": site.image()}, {**ready(site), "image": site.image()}
    for options in (fresh, second):
        with pytest.raises(Refused):
            lead({**options, "deploy_id": "d-9"}, "deployed")
    site.server.builds = True
    assert lead({**fresh, "deploy_id": "d-9"}, "deployed", known_deployed=False)["changed"]
    assert lead(second, "released", known_deployed=False)["changed"]
    over = {**deployed(site, deploy_id="d-1"), "image": site.image("2"), "deploy_id": "d-2"}
    site.server.builds = False
    with pytest.raises(Refused):
        lead(over, "deployed", **known)
    site.server.builds = True
    with pytest.raises(NotOurs):
        lead(over, "deployed", known_deployed=False)
    assert lead(over, "deployed", **known)["changed"] and site.deployments() == 1


def test_an_owner_that_is_ours_by_the_option_is_no_stranger(site: Any) -> None:
    options = ready(site)
    site.tag(options["name"], "owner", "ml-team")
    with pytest.raises(NotOurs, match="owner is ml-team"):
        lead(options, "ready")
    assert lead({**options, "driver": {"owners": ["ml-team"]}}, "ready")["owner"] == "ml-team"


def test_what_was_adopted_stays_so_while_its_client_calls(site: Any) -> None:
    options = ready(site)
    site.server.conf.change(options["name"], lambda one: one.update({"image name": "gold-1"}))
    stamp = lead(options, "enrolled")["stamp"]
    site.server.asks("runtime", options["boot_mac"])
    known = {"known_deployed": True, "known_stamps": [stamp], "known_deploy_ids": []}
    assert lead(options, "enrolled", **known)["foreign"] == ""
    site.server.conf.change(options["name"], lambda one: one.update({"image name": "gold-2"}))
    with pytest.raises(NotOurs):
        lead(options, "enrolled", **known)


def test_a_note_that_is_nested_too_deeply_to_be_read_is_none_and_the_other_nodes_have_their_verdicts(site: Any) -> None:
    one, other = deployed(site, deploy_id="d-1"), deployed(site, deploy_id="d-2")
    site.tag(one["name"], "gpufleet-deployment", "[" * 100_000)
    verdicts = watch_all(site, "deployed", one, other, timeout=0.0)["verdicts"]
    assert not verdicts[one["name"]]["ok"] and verdicts[other["name"]]["ok"], verdicts
    assert verdicts[one["name"]]["provision_state"] == "image of somebody's"


# -- what it answers ---------------------------------------------------------------------------------------------


def test_an_api_that_is_not_enabled_is_no_node_that_is_not_there(site: Any) -> None:
    """Both are 404. Taken for an absent node, each would be enrolled anew."""
    options = deployed(site)
    site.server.config.api = False
    with pytest.raises(BadAnswer, match="enabled: true"):
        lead(options, "ready")


@pytest.mark.parametrize(("code", "words"), [(200, "is no JSON"), (404, "nothing is served"), (400, "HTTP 400")])
def test_an_answer_that_is_nested_too_deeply_to_be_read_is_told_as_one(site: Any, code: int, words: str) -> None:
    options = ready(site)
    site.proxy.fault = lambda _asked: (code, {"Content-Type": "application/json"}, b"[" * 100_000)
    with pytest.raises(FleetError, match=words):
        lead(options, "ready")


def test_a_machine_outside_the_allowed_subnets_is_told_what_to_say_there(site: Any) -> None:
    options = ready(site)
    site.server.config.allowed = False
    site.faults.forget()
    with pytest.raises(AuthFailed, match="allowed subnets"):
        await_all(site, "ready", options)
    assert len(site.faults.calls) == 1


def test_an_image_is_asked_for_once_for_a_whole_batch(site: Any) -> None:
    rows = [{"host": f"g{number}", "image": {**site.image(), "named": "gold-9"}} for number in range(5)]
    with registry.connected(site.connection(), Context()) as driver:
        wanted = [of_batch(row, site.connection(), driver.name, driver.image_needs) for row in rows]
        lacking = driver.prerequisites([(one, None) for one in wanted])
    assert [host for host, _why in lacking] == [row["host"] for row in rows] and len(site.faults.calls) == 1
