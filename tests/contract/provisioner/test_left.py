# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two ends of a way from one provisioner to another, for each driver that there is and that is to come."""

from __future__ import annotations

import contextlib
from typing import Any
from urllib.error import HTTPError

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _moved as moves
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    EvidenceMissing,
    NotOurs,
    Refused,
)
from calls import declined, deployed, lead, ready

THERE = {"provisioner": "elsewhere", "provisioner_url": "https://elsewhere.example.com"}
RUN = {"run_id": "run7", "known_runs": ["run7"]}


def leaves(options: dict[str, Any], **more: Any) -> Any:
    return lead(options, "left", **{"moved_to": THERE, **RUN, **more})


def by_hand(site: Any, options: dict[str, Any]) -> None:
    """What a person does there, as the words of the refusal say, where no record rests by itself."""
    if site.name == "bcm":
        with pytest.raises(Refused, match="take that out of its record"):
            leaves(options)
        site.record(options["name"])["mac"] = "00:00:00:00:00:00"
    site.faults.forget()


def test_what_is_deployed_there_has_not_left(site: Any) -> None:
    options = deployed(site)
    if declined(site, "holds", lambda: leaves(options)):
        return
    foretold = leaves(options, check=True)
    assert foretold["release"] and foretold["boots"] and foretold["tells"]["name"], foretold
    with pytest.raises(Refused, match="may still boot this node, or wipe it") as told:
        leaves(options)
    assert told.value.seen and told.value.node == options["name"] and told.value.address
    assert site.faults.writes == []


def test_its_record_says_where_it_went_and_no_run_takes_it_up_there(site: Any) -> None:
    options = ready(site)
    if declined(site, "holds", lambda: leaves(options)):
        return
    by_hand(site, options)
    assert leaves(options, check=True)["changed"] and site.faults.writes == []
    first = leaves(options)
    assert first["changed"] and first["maintenance"] and "+moved:to elsewhere at https://elsewhere" in first["hold"]
    [event] = first["events"]
    assert (event["kind"], event["name"]) == (moves.KIND, moves.LEFT) and event["data"]["agrees"], event
    site.faults.forget()
    assert not leaves(options)["changed"] and site.faults.writes == []
    for state in ("enrolled", "ready", "released", "maintenance", "serviceable"):
        with pytest.raises(NotOurs, match="was moved from here to another provisioner"):
            lead(options, state, **RUN)
    assert site.faults.writes == []


def test_a_row_that_calls_it_otherwise_since_does_not_hide_what_is_there(site: Any) -> None:
    """A record that somebody has taken up again may boot the machine, whatever our inventory calls it now."""
    options = ready(site)
    if declined(site, "holds", lambda: leaves(options)):
        return
    by_hand(site, options)
    [event] = leaves(options)["events"]
    before = {"known_move": {"name": moves.LEFT, "run_id": "run6", "data": event["data"]}}
    told_alone = ("boot_mac", "bmc_address") if site.name == "xcat" else ("boot_mac",)  # by more xCAT finds it itself
    row = {key: value for key, value in options.items() if key not in told_alone}
    other = {**row, "provisioner_id": "gpu-otherwise", **before}
    site.faults.forget()
    again = leaves(other)
    assert (again["provisioner_id"], again["changed"]) == (event["data"]["from"]["id"], False), again
    assert [one["data"]["boots"] for one in again["events"]] == ["nothing"] and site.faults.writes == []
    for mark in site.marks:
        with contextlib.suppress(HTTPError):  # one that a node at rest does not take
            mark(options["name"])
    with pytest.raises(NotOurs):
        leaves(other)
    assert site.faults.writes == []


def test_who_comes_needs_proof_that_it_left_and_is_taken_up_where_it_was_before(site: Any) -> None:
    options = ready(site)
    if declined(site, "holds", lambda: leaves(options)):
        return
    by_hand(site, options)
    leaves(options)
    here = moves.place_of(options)
    site.faults.forget()
    left = {"name": moves.LEFT, "run_id": "run7", "data": {"from": moves.place_of(THERE), "to": here}}
    third = {"from": moves.place_of(THERE), "to": {"provisioner": "a third one"}}
    for wrong in (
        None,
        {**left, "run_id": "run6"},
        {**left, "data": third},
        {**left, "name": moves.MOVED, "data": third},
    ):
        with pytest.raises(EvidenceMissing, match="another provisioner may still boot this node"):
            lead(options, "moved", known_move=wrong, **RUN)
    assert site.faults.writes == []
    where_it_was = {"known_at": moves.place_of(THERE), "known_deployed": True}
    back = lead(options, "moved", known_move=left, **where_it_was, **RUN)
    assert back["changed"] and not back["maintenance"] and back["hold"] == "" and not back["here"], back
    [event] = back["events"]
    assert event["name"] == moves.MOVED and event["data"]["carried"]["serial"] == options["serial"]
    assert f"gpufleet_provisioner: {site.name}" in back["inventory"]
    site.faults.forget()
    came = {"name": moves.MOVED, "run_id": "run7", "data": event["data"]}
    again = lead(options, "moved", known_move=came, **RUN)
    assert not again["changed"] and again["here"] and again["events"] == [] and site.faults.writes == []
    assert again["inventory"] == back["inventory"]


def test_whoever_still_asks_the_one_that_it_left_is_told_the_other(site: Any) -> None:
    options = ready(site)
    site.faults.forget()
    here, there = moves.place_of(options), {**moves.place_of(THERE), "name": "n17"}
    data = {"from": here, "to": there, "inventory": ["gpufleet_provisioner: elsewhere"]}
    for name, words in ((moves.MOVED, "was moved to elsewhere at .* as n17"), (moves.LEFT, "did not come to its end")):
        with pytest.raises(ConfigError, match=words) as told:
            lead(options, "enrolled", known_move={"name": name, "run_id": "r", "data": data})
        assert name == moves.LEFT or "gpufleet_provisioner: elsewhere" in told.value.do
    assert site.faults.calls == [], "nothing is asked of it"
    back = {"from": moves.place_of(THERE), "to": here}
    assert not lead(options, "enrolled", known_move={"name": moves.MOVED, "run_id": "r", "data": back})["changed"]


def test_a_move_that_goes_nowhere_or_beside_another_one_is_refused(site: Any) -> None:
    options = ready(site)
    if declined(site, "holds", lambda: leaves(options)):
        return
    site.faults.forget()
    own = {key: options.get(key) for key in ("provisioner", "provisioner_url", "provisioner_cloud")}
    for nowhere in ({}, own):
        with pytest.raises(ConfigError, match="to which other provisioner"):
            leaves(options, moved_to=nowhere)
    elsewhere = {"from": moves.place_of(options), "to": {"provisioner": "a third one", "url": "", "cloud": ""}}
    for name in moves.EVENTS:
        with pytest.raises(ConfigError, match="elsewhere, or on another way"):
            leaves(options, known_move={"name": name, "run_id": "r", "data": elsewhere})
    assert site.faults.calls == []
