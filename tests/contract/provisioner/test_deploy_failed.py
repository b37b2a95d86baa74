# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""That a deployment failed is told as long as it is so: whose such a node is rests on who ordered that deployment."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import NotOurs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import FAILED, NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from calls import await_all, deployed, lead, ready, watch_all
from suite.skips import not_applicable

pytestmark = pytest.mark.many_runs


def _demand_told(site: Any) -> None:
    if not site.tells_failures:
        not_applicable("there only time tells that a deployment failed")


def look(site: Any, options: dict[str, Any]) -> NodeState:
    """The node, by itself and in a list, which must agree; it may go on between two looks."""
    wanted = Wanted(host=options["name"], name=options["name"], extras=options["driver"])
    with contextlib.closing(site.driver(site.connection(), Context(node=options["name"]))) as driver:
        before = told(driver.find(wanted))
        ids = driver.resolve([wanted])
        listed = driver.states(list(ids.values()))[ids[options["name"]]]
        assert told(listed) in (before, told(driver.find(wanted)))
    return listed


def told(state: NodeState) -> tuple[bool, str, str]:
    return state.deploy_failed, state.state, state.last_error


def test_c7_a_deployment_that_a_restart_of_the_provisioner_ended_says_nothing_of_the_node(ironic_site: Any) -> None:
    options = {**deployed(ironic_site), "image": ironic_site.image("2"), "deploy_id": "6"}
    lead(options, "deployed")
    ironic_site.until(options["name"], "active")
    ironic_site.restarted_amid(options["name"], "deploying")
    told = await_all(ironic_site, "deployed", options)["verdicts"][options["name"]]
    assert (told["ok"], told["kind"]) == (False, "unreachable") and "can't be resumed by conductor" in told["reason"]
    assert lead(options, "deployed")["changed"], "the next run orders it anew"
    assert await_all(ironic_site, "deployed", options)["verdicts"][options["name"]]["ok"]


#: What a conductor noted, as Ironic's own exceptions word it, and what is told of it.
NOT_THE_NODE = {
    "image": (
        "Validation of image href http://a/k failed, reason: Got HTTP code 503 instead of 200.",
        "could not fetch an image",
    ),
    "download": ("Failed to download image http://a/k, reason: timed out", "could not fetch an image"),
    "ipmi": ("IPMI call failed: power status..", "did not reach the BMC"),
    "redfish": (
        "Redfish connection failed for node 7: Unable to connect to https://b/redfish",
        "did not reach the BMC",
    ),
    "switch": ("Failed to set node power state to power off.", "could not switch the power by the BMC"),
}


@pytest.mark.parametrize("name", NOT_THE_NODE)
def test_c7_what_the_provisioner_could_not_reach_says_nothing_of_the_node(ironic_site: Any, name: str) -> None:
    words, told_of_it = NOT_THE_NODE[name]
    options = {**ready(ironic_site), "image": ironic_site.image()}
    ironic_site.fails_to_deploy(options, f"Deploy step deploy.deploy failed: {words}")
    told = watch_all(ironic_site, "deployed", options)["verdicts"][options["name"]]
    assert (told["ok"], told["kind"]) == (False, "unreachable"), told
    assert f"{told_of_it}, which says nothing of the node" in told["reason"] and words in told["reason"]
    assert lead(options, "deployed")["changed"], "the next run orders it anew"
    assert await_all(ironic_site, "deployed", options)["verdicts"][options["name"]]["ok"]


def test_a_deployment_that_failed_is_told_with_the_systems_words_until_a_later_one_is_good(site: Any) -> None:
    _demand_told(site)
    options = {**ready(site), "image": site.image()}
    assert not look(site, options).deploy_failed, "nothing was deployed yet"
    words = site.fails_to_deploy(options)
    failed = look(site, options)
    assert failed.deploy_failed and failed.state == FAILED and words in failed.last_error
    verdict = watch_all(site, "deployed", options)["verdicts"][options["name"]]
    assert not verdict["ok"] and words in verdict["reason"] and verdict["kind"] == "", "a word about the node"
    lead(options, "deployed")
    assert not look(site, options).deploy_failed, "the next one is under way"
    assert await_all(site, "deployed", options)["verdicts"][options["name"]]["ok"]
    good = look(site, options)
    assert not good.deploy_failed and words not in good.last_error


def test_a_node_whose_deployment_failed_is_whoevers_ordered_it(site: Any) -> None:
    _demand_told(site)
    options = {**ready(site), "image": site.image()}
    site.fails_to_deploy(options)
    site.faults.forget()
    for state in ("deployed", "released"):
        with pytest.raises(NotOurs, match="no note that we deployed"):
            lead(options, state, known_deployed=False)
    assert site.faults.writes == []
    assert lead(options, "released", known_deployed=True)["changed"]
    assert await_all(site, "released", options)["verdicts"][options["name"]]["ok"]
    assert not look(site, options).deploy_failed, "what was given back is nobody's failure"


def test_what_failed_before_any_deployment_is_no_deployment_that_failed(site: Any) -> None:
    """Else whoever looked at the hardware of a machine would have its node kept from us as somebody else's."""
    _demand_told(site)
    options, goal, _words = site.stumbles()
    assert not await_all(site, goal, options)["verdicts"][options["name"]]["ok"]
    assert look(site, options).deploy_failed == (goal == "deployed")
