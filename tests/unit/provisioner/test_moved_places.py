# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""After a move from one Ironic to another: which provisioner may the inventory name?"""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moved import (
    MOVED,
    apart,
    elsewhere,
    named,
    noted,
    place_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import contract
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.standing import _is_it

A = {"provisioner": "ironic", "url": "https://a.example:6385", "cloud": ""}
B = {"provisioner": "ironic", "url": "https://b.example:6385", "cloud": ""}
EVENT = {"name": MOVED, "data": {"from": A, "to": B}}


@pytest.mark.parametrize("url", ["https://b.example:6385", "https://B.example/baremetal/", "b.example:6385"])
def test_the_new_one_may_be_spelled_in_several_ways(url: str) -> None:
    assert elsewhere(EVENT, {**B, "url": url}) is None


@pytest.mark.parametrize("own", [A, {**B, "url": "https://c.example:6385"}, {**B, "provisioner": "maas"}])
def test_neither_the_old_one_nor_a_third_one_is_asked(own: dict[str, str]) -> None:
    """The third would enrol and deploy what the second still has."""
    refused = elsewhere(EVENT, own)
    assert refused is not None and refused.wanted == "ironic at https://b.example:6385"


def test_of_two_clouds_of_one_file_the_other_one_is_not_asked() -> None:
    clouds = {"name": MOVED, "data": {"from": A, "to": {"provisioner": "ironic", "url": "", "cloud": "west"}}}
    assert elsewhere(clouds, {"provisioner": "ironic", "url": "", "cloud": "west"}) is None
    assert elsewhere(clouds, {"provisioner": "ironic", "url": "", "cloud": "east"}) is not None


@pytest.mark.parametrize("own", [{"url": "https://a.example:6385"}, {}], ids=["a machine", "neither"])
def test_what_names_a_machine_is_not_taken_for_a_cloud(own: dict[str, str]) -> None:
    """The cloud's file says where it is, and nobody has read that: it may be the machine that the node left."""
    west = {"provisioner": "ironic", "url": "", "cloud": "west"}
    place = {"provisioner": "ironic", "url": "", "cloud": "", **own}
    assert elsewhere({"name": MOVED, "data": {"from": B, "to": west}}, place) is not None
    assert elsewhere({"name": MOVED, "data": {"from": west, "to": A}}, {**west, "cloud": "east"}) is not None


def test_one_that_nothing_but_its_name_says_is_itself() -> None:
    local = {"provisioner": "xcat", "url": "", "cloud": ""}
    assert elsewhere({"name": MOVED, "data": {"from": A, "to": local}}, local) is None


@pytest.mark.parametrize("key, value", [("url", "https://a.example:6385"), ("cloud", "west")])
def test_what_names_no_place_is_not_taken_for_one_that_does(key: str, value: str) -> None:
    """The one without may be this host's own server, whatever runs at the other place."""
    nowhere = {"provisioner": "xcat", "url": "", "cloud": ""}
    somewhere = {**nowhere, key: value}
    assert elsewhere({"name": MOVED, "data": {"from": A, "to": nowhere}}, somewhere) is not None
    assert elsewhere({"name": MOVED, "data": {"from": A, "to": somewhere}}, nowhere) is not None


@pytest.mark.parametrize(
    ("one", "other", "two"),
    [
        (A, {**A, "url": "https://A.example/baremetal/"}, False),
        (A, B, True),
        (A, {**A, "provisioner": "maas"}, True),
        ({**A, "url": "", "cloud": "west"}, {**A, "url": "", "cloud": "east"}, True),
        ({**A, "url": "", "cloud": "west"}, {**A, "url": "", "cloud": "west"}, False),
        ({**A, "url": "", "cloud": "west"}, A, True),
        ({**A, "cloud": "west"}, {**A, "cloud": "east"}, True),
        ({**A, "cloud": "west"}, {**B, "cloud": "west"}, False),
        ({**A, "cloud": "west"}, A, True),
        ({**A, "cloud": "west", "provisioner": "maas"}, {**A, "cloud": "east", "provisioner": "maas"}, False),
        ({**A, "url": ""}, {**A, "url": ""}, False),
        ({}, A, False),
        (A, {**A, "provisioner": ""}, False),
        ({**A, "url": "https://[a"}, A, True),
    ],
)
def test_r3_where_a_node_is_and_what_the_inventory_names_are_two_places_or_one(
    one: dict[str, str], other: dict[str, str], two: bool
) -> None:
    assert apart(one, other) is two and apart(other, one) is two


def test_r3_a_place_has_no_login() -> None:
    told = place_of({"provisioner": "xcat", "provisioner_url": "https://root:a@b@xcat.example:443/xcatws?x=1@2"})
    assert told == {"provisioner": "xcat", "url": "https://xcat.example:443/xcatws?x=1@2", "cloud": ""}
    hosts = {"gpufleet_provisioner": "maas", "gpufleet_provisioner_url": None, "gpufleet_provisioner_cloud": "west"}
    assert named(hosts.get) == {"provisioner": "maas", "url": "", "cloud": "west"}
    beside = {"provisioner": "ironic", "provisioner_url": "https://a.example", "provisioner_cloud": "west"}
    assert place_of(beside) == {"provisioner": "ironic", "url": "", "cloud": "west"}, "nobody reads the URL there"
    assert noted({"provisioner": ""}) == {} and noted(told) == {"provisioner_place": place_of(told)}


def test_of_a_cloud_the_url_that_an_older_event_noted_beside_it_is_no_place() -> None:
    """Ours is left for a cloud that the same URL was left beside; neither is the other, nor the machine of the URL."""
    noted_so = {"name": MOVED, "data": {"from": {**A, "cloud": "west"}, "to": {**A, "cloud": "east"}}}
    east, west = ({**A, "url": "", "cloud": cloud} for cloud in ("east", "west"))
    assert elsewhere(noted_so, east) is None
    refused = elsewhere(noted_so, west)
    assert refused is not None and (refused.wanted, refused.seen) == ("ironic at east", "ironic at west")


def at(**told: str) -> NodeState:
    return NodeState(**{"id": "u1", "name": "gpu001", "native": "Deployed", "state": contract.DEPLOYED, **told})


@pytest.mark.parametrize(
    ("tells", "node", "ours"),
    [
        ("d1", at(deploy_id="d1"), True),
        ("d1", at(deploy_id="d0"), False),
        ("s1", at(stamp="s1"), True),
        ("s1", at(stamp="s1", state=contract.READY), False),
        ("", at(), False),
        ("", at(stamp="s1"), False),
    ],
)
def test_r3_what_tells_nothing_is_no_proof(tells: str, node: NodeState, ours: bool) -> None:
    assert _is_it(node, tells) is ours
