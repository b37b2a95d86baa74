# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people and other writers do to a node of Warewulf while it is being written, and between two runs."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Changed, NotOurs, Refused, WrongMachine
from calls import (
    Line,
    Waits,
    deployed,
    is_ordered_for_no_other_machine,
    lead,
    moves_to_no_other_machine,
    ready,
    watch_all,
)

OTHER_BMC = {"ipaddr": "127.99.0.1"}


@pytest.fixture
def site(warewulf_site: Any) -> Any:
    return warewulf_site


def begun_over_adopted(site: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A node that was adopted, and over whose image an order was begun; its options, and what our ledger knows."""
    options = ready(site)
    site.server.conf.change(options["name"], lambda one: one.update({"image name": "gold-1"}))
    stamp = lead(options, "enrolled")["stamp"]
    known = {"known_deployed": True, "known_stamps": [stamp], "known_deploy_ids": []}
    site.server.builds = False
    with pytest.raises(Refused, match="did not build them"):
        lead({**options, "image": site.image("2"), "deploy_id": "d-9"}, "deployed", **known)
    site.server.builds = True
    return options, known


def test_a_third_image_over_an_order_that_was_begun_over_what_was_adopted_is_somebodys(site: Any) -> None:
    """What was noted of the adopted one is no word on an image that a person has set since."""
    options, known = begun_over_adopted(site)
    assert lead({**options, "image": site.image("2"), "deploy_id": "d-10"}, "deployed", **known)["changed"], (
        "still ours"
    )
    options, known = begun_over_adopted(site)
    site.server.config.images["gold-3"] = dict(site.server.config.images["gold-1"])
    site.server.conf.change(options["name"], lambda one: one.update({"image name": "gold-3"}))
    site.faults.forget()
    for state, more in (("deployed", {"image": site.image("2"), "deploy_id": "d-10"}), ("released", {})):
        with pytest.raises(NotOurs, match="deployed"):
            lead({**options, **more}, state, **known)
    assert site.faults.writes == [] and site.record(options["name"])["image name"] == "gold-3"


def test_a_mac_of_another_node_is_given_to_no_node_that_is_enrolled_already(site: Any) -> None:
    """Warewulf would serve one of both the other's image."""
    one, other = ready(site), deployed(site, deploy_id="d-b")
    site.faults.forget()
    with pytest.raises(WrongMachine, match=other["name"]):
        lead({**one, "boot_mac": other["boot_mac"]}, "ready")
    assert (
        site.faults.writes == [] and site.record(one["name"])["network devices"]["default"]["hwaddr"] == one["boot_mac"]
    )
    assert lead({**one, "boot_mac": site.new()["boot_mac"]}, "ready")["changed"], "a card that was swapped"


def begun(site: Any) -> dict[str, Any]:
    options = {**ready(site), "image": site.image(), "deploy_id": "d-1"}
    site.server.builds = False
    with pytest.raises(Refused, match="did not build them"):
        lead(options, "deployed")
    site.server.builds = True
    return options


def ordered(site: Any) -> dict[str, Any]:
    options = {**ready(site), "image": site.image(), "deploy_id": "d-1"}
    lead(options, "deployed")
    return options


@pytest.mark.parametrize("stands", [begun, ordered, deployed])
def test_an_order_that_stands_moves_to_no_other_machine(site: Any, stands: Callable[[Any], Any]) -> None:
    """The serial of the record is our own word."""
    moves_to_no_other_machine(site, stands(site))


def test_a_node_at_rest_is_ordered_for_no_other_machine(site: Any) -> None:
    is_ordered_for_no_other_machine(site, site.other_card)


def before_write(site: Any, nth: int, do: Callable[[], None], *, path: str = "") -> None:
    """Somebody does this right before the nth request that writes to this path arrives."""
    count = itertools.count(1)

    def fault(asked: Any) -> None:
        if asked.is_write and asked.path.endswith(path) and next(count) == nth:
            do()

    site.proxy.fault = fault


def as_read(site: Any, nth: int, do: Callable[[], None], path: str) -> None:
    """Somebody does this right before the nth reading of this path."""
    count = itertools.count(1)

    def fault(asked: Any) -> None:
        if not asked.is_write and asked.path.endswith(path) and next(count) == nth:
            do()

    site.proxy.fault = fault


def test_a_record_that_is_given_another_bmc_while_leave_is_waited_for_is_left(site: Any) -> None:
    """Warewulf's own power commands would reach it."""
    for state, begin in (("deployed", ready), ("released", deployed)):
        options = begin(site)
        name = options["name"]
        line = Waits(1, lambda name=name: site.server.conf.change(name, lambda one: one.update(ipmi=OTHER_BMC)))
        with pytest.raises(Changed, match="bmc: 127.99.0.1"):
            lead({**options, "image": site.image()}, state, line=line)
        assert site.faults.writes == [], state


def test_whoever_takes_a_node_amid_its_order_keeps_it(site: Any) -> None:
    """The image is looked up, the record is read, overlays are built for minutes: a person may come at any of these."""
    marks = (lambda name: site.tag(name, "gpufleet-hold", "Anna swaps a DIMM"), site.owned_by_somebody)
    for mark in marks:
        for path in ("/api/images/gold-1", "/raw", "/overlays"):
            options = {**ready(site), "image": site.image(), "deploy_id": "d-1"}
            as_read(site, 1 if path != "/api/images/gold-1" else 2, functools.partial(mark, options["name"]), path)
            with pytest.raises(Changed, match="somebody has taken, held or given back"):
                lead(options, "deployed")
            assert site.faults.writes == [] and "image name" not in site.record(options["name"]), path
        options = {**ready(site), "image": site.image(), "deploy_id": "d-1"}
        before_write(site, 1, functools.partial(mark, options["name"]), path="/overlays/build")
        with pytest.raises(Changed, match="somebody has taken, held or given back"):
            lead(options, "deployed")
        assert site.deployments() == 0
        site.faults.forget()
        with pytest.raises(NotOurs):
            lead(options, "deployed")


def test_an_image_that_somebody_sets_between_judgement_and_write_is_left(site: Any) -> None:
    fresh, ours = {**ready(site), "image": site.image()}, deployed(site, deploy_id="d-1")
    for options, state in ((fresh, "deployed"), (ours, "released")):
        change = functools.partial(
            site.server.conf.change, options["name"], lambda one: one.update({"image name": "gold-2"})
        )
        as_read(site, 1, change, "/raw")
        with pytest.raises(Changed, match="image name: gold-2"):
            lead(options, state)
        assert site.faults.writes == [] and site.record(options["name"])["image name"] == "gold-2"
        site.faults.forget()


def test_a_hold_of_ours_is_written_over_nobodys(site: Any) -> None:
    options = ready(site)
    as_read(site, 1, lambda: site.hold_by_somebody(options["name"]), "/raw")
    with pytest.raises(Changed, match="Anna swaps a DIMM"):
        lead(options, "maintenance")
    site.faults.forget()
    assert site.record(options["name"])["tags"]["gpufleet-hold"] == "Anna swaps a DIMM"


def test_an_image_that_somebody_sets_while_overlays_are_built_or_a_boot_is_noted_is_left(site: Any) -> None:
    options = {**ready(site), "image": site.image()}
    change = functools.partial(
        site.server.conf.change, options["name"], lambda one: one.update({"image name": "gold-2"})
    )
    before_write(site, 1, change, path="/overlays/build")
    with pytest.raises(Changed, match="image name: gold-2"):
        lead(options, "deployed")
    assert site.deployments() == 0
    site.faults.forget()
    options = {**ready(site), "image": site.image()}
    lead(options, "deployed")
    site.boot(options["name"])
    change = functools.partial(
        site.server.conf.change, options["name"], lambda one: one.update({"image name": "gold-2"})
    )
    as_read(site, 1, change, "/raw")
    verdict = watch_all(site, "deployed", options, booted=True)["verdicts"][options["name"]]
    assert not verdict["ok"] and "image name: gold-2" in verdict["reason"] and verdict["kind"] != ""


def test_each_write_of_an_order_and_of_a_release_can_hit_running_work(site: Any) -> None:
    """Overlays are served to whatever boots next as well."""
    options = {**ready(site), "image": site.image(), "deploy_id": "d-1"}
    for state, count in (("deployed", 3), ("released", 1)):
        line = Line()
        lead(options, state, line=line)
        assert [hard for _what, hard, _hosts in line.writes] == [True] * count, state


def test_a_node_that_somebody_enters_while_it_is_being_entered_keeps_their_record(site: Any) -> None:
    options = site.new()
    theirs = {"comment": "Anna's", "profiles": ["default"]}
    change = functools.partial(site.server.conf.change, options["name"], lambda one: one.update(theirs))
    before_write(site, 1, change)
    with pytest.raises(Refused, match="already exists"):
        lead(options, "enrolled")
    assert site.server.conf.load()["nodes"][options["name"]] == theirs


def test_a_new_record_that_somebody_elses_write_took_away_is_not_believed(site: Any) -> None:
    """Warewulf has answered 200 to both."""
    options = site.new()
    conf = site.server.conf
    before, save = conf.load(), conf.save

    def lost(content: Any) -> None:
        save(content)
        save(before)

    conf.save = lost
    try:
        with pytest.raises(Changed, match="does not know the node"):
            lead(options, "enrolled")
    finally:
        del conf.save
    assert lead(options, "enrolled")["changed"]


def test_a_tag_is_taken_away_and_what_others_write_at_that_moment_stays(site: Any) -> None:
    """A whole record would take its place, with whatever stood there when it was read."""
    options = ready(site)
    name = options["name"]
    site.tag(name, "sku", "h200")
    lead(options, "maintenance")

    def writes() -> None:
        site.server.conf.change(name, lambda one: one.update(comment="rack 7"))
        site.tag(name, "row", "12")

    before_write(site, 1, writes)
    lifted = lead(options, "serviceable")
    site.faults.forget()
    record = site.server.conf.load()["nodes"][name]
    assert lifted["changed"] and not lifted["maintenance"] and record["comment"] == "rack 7"
    assert record["tags"]["row"] == "12" and record["tags"]["sku"] == "h200" and not record["tags"].get("gpufleet-hold")
    assert not lead(options, "enrolled")["maintenance"]
