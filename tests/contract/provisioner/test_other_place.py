# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ledger has the node at another provisioner, for each driver that there is and that is to come."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _moved as moves
from ansible_collections.gpufleet.baremetal.plugins.module_utils._deployment import NONCE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import WrongMachine
from calls import declined, deployed, lead, ready, states, watch_all

#: Of a driver without a URL the word for its place is that there is none.
ELSEWHERE = {"url": "https://elsewhere.example.com", "cloud": ""}


def at(options: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"known_at": {"provisioner": options["provisioner"], **ELSEWHERE, **more}, "known_deployed": True}


def refused(site: Any, options: dict[str, Any], *, words: str, **known: Any) -> None:
    for state in states(site):
        with pytest.raises(WrongMachine, match="was deployed, or adopted, at") as told:
            lead(options, state, image=site.image(), **known)
        assert "https://elsewhere.example.com" in told.value.wanted and words in told.value.seen, told.value
        for way in ("gpufleet_provisioner_url", "migrate_provisioner", "force_reason"):
            assert way in told.value.do
        assert told.value.node == options["name"] and told.value.address
    for until in ("ready", "deployed", "released"):
        waited = watch_all(site, until, {**options, **known, "image": site.image()}, timeout=0)
        verdict = waited["verdicts"][options["name"]]
        assert not verdict["ok"] and verdict["kind"] == "wrong_machine" and words in verdict["reason"], verdict
    assert site.faults.writes == []


def test_r3_a_node_of_another_place_is_not_made_here(site: Any) -> None:
    options = site.new()
    site.faults.forget()
    refused(site, options, words="no record of it", **at(options))


def test_r3_a_record_of_others_is_not_taken_for_it(site: Any) -> None:
    options = ready(site)
    refused(site, options, words="not by us", **at(options, tells="d-of-ours"))


def test_r3_nor_has_it_left_where_it_never_was(site: Any) -> None:
    """The one that has it would boot it still, when the third one is told of it."""
    options = ready(site)
    there = {"provisioner": "a third one", "provisioner_url": "https://third.example.com"}
    if declined(site, "holds", lambda: lead(options, "left", moved_to=there)):
        return
    with pytest.raises(WrongMachine, match="was deployed, or adopted, at"):
        lead(options, "left", moved_to=there, **at(options))
    assert site.faults.writes == []


def test_r3_what_tells_our_newest_deployment_is_the_place_under_another_name(site: Any) -> None:
    options = deployed(site, deploy_id="d-newest")
    known = {"known_deploy_ids": ["d-older", "d-newest"], **at(options, tells="d-newest")}
    if site.driver.deploy_proof != NONCE:  # nothing there tells which deployment it is
        return refused(site, options, words="not by us", **known)
    told = lead(options, "deployed", **known)
    assert not told["pending"] and site.faults.writes == [], told
    with pytest.raises(WrongMachine, match="was deployed, or adopted, at"):
        lead(options, "deployed", **{**known, **at(options, tells="d-older")})


def test_r3_a_reason_says_that_it_is_the_same_one(site: Any) -> None:
    options = ready(site)
    assert not lead(options, "ready", force_reason="renamed", **at(options)).get("changed")


def test_r3_its_own_place_is_no_other_one(site: Any) -> None:
    options = ready(site)
    here = {"known_at": {**moves.place_of(options), "tells": "d-of-ours"}}
    assert not lead(options, "ready", **here)["changed"]
