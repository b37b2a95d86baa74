# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""After a move from one Ironic to another: which provisioner may the inventory name?"""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moved import MOVED, elsewhere

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
