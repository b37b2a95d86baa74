# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read out of a Warewulf node's record, and written into it, for any record."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _deployment as deployment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import DEPLOYED, READY
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import BY_NAME, Image
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf import record, tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf.api import Seen
from hypothesis import example, given, settings
from hypothesis import strategies as st
from suite.properties import at_most
from warewulf_server.conf import NODE_FIELDS, merged, read, with_profiles

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=6)
SHORT = st.dictionaries(WORDS, WORDS, max_size=3)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=6,
)
ARGS = st.lists(st.sampled_from(["quiet", "hpc=1", "gpufleet.deploy=old-1", "~quiet"]), max_size=4)
RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "profiles": st.lists(st.sampled_from("abc"), max_size=2),
        "image name": st.sampled_from(["u24", "gold-1"]),
        "comment": WORDS,
        "tags": SHORT,
        "kernel": st.fixed_dictionaries({}, optional={"version": WORDS, "args": ARGS}),
        "network devices": st.dictionaries(WORDS, SHORT, max_size=2),
    },
)
#: One record of each kind and some odd ones: the suite's time is dear.
FEW = settings(max_examples=at_most(40), deadline=None)
IMAGE = Image.of({"name": "gold", "version": "1", "named": "gold-1"}, needs=BY_NAME, deploy_id="d-7")
OVERLAYS = {"system overlay": "t0"}
assert IMAGE is not None


def written(before: Any, after: Any) -> Any:
    """As the driver sends it, and Warewulf takes it."""
    changed = record.differing(before, after)
    if record.only_adds(before, after):
        return merged(record.pruned(before), read(record.merging(before, changed), {}), append=False)
    return after


@FEW
@given(RECORDS, SHORT)
@example({"tags": {"a": "1"}}, {"a": ""})
def test_each_change_is_there_after_it_and_nothing_else_is_lost(before: Any, tags: dict[str, str]) -> None:
    """A merge takes nothing away: what does is sent as a whole record."""
    assert IMAGE is not None
    wishes = (
        lambda one: record.with_tags(one, tags),
        lambda one: record.with_image(one, IMAGE),
        lambda one: record.without_image(one),
        lambda one: record.with_note(one, {"named": "x"}),
    )
    for wish in wishes:
        after = wish(copy.deepcopy(before))
        assert record.pruned(written(before, after)) == record.pruned(after)
        assert record.differing(after, wish(copy.deepcopy(after))) == {}, "made once, it stays"


@FEW
@given(RECORDS)
def test_the_kernel_is_told_this_deployment_and_no_other(before: Any) -> None:
    assert IMAGE is not None
    after = record.with_image(copy.deepcopy(before), IMAGE)
    assert deployment.ids_in(" ".join(after["kernel"]["args"]).encode()) == ["d-7"]
    kept = [one for one in before.get("kernel", {}).get("args", ()) if not one.startswith("gpufleet.deploy=")]
    assert after["kernel"]["args"][:-1] == kept
    cleared = record.without_image(after)
    assert deployment.ids_in(json.dumps(cleared).encode()) == [] and "image name" not in cleared


@FEW
@given(st.one_of(WORDS, JSON.map(json.dumps)), st.tuples(st.integers(0), WORDS, WORDS))
@example('{"named": "u24", "before": "x"}', (1, "runtime", ""))
@example('{"named": "u24", "before": ["x", null, 1]}', (1, "runtime", ""))
@example('{"named": "u24", "next": 1}', (1, "runtime", ""))
def test_whatever_stands_in_our_note_a_node_has_a_state_with_a_way_on(text: str, seen: Any) -> None:
    known = {"image name": "u24", "tags": {record.NOTE: text}}
    word = record.native(known, Seen(*seen), lambda: "")
    found = record.state("n1", known, Seen(*seen), word, frozenset())
    assert word in tables.STATES and found.state == tables.STATES[word]
    assert all(word in tables.STEPS[goal] for goal in tables.STEPS)
    if not isinstance(record.noted(known).get("named"), str):
        assert found.deploy_id == "" or word in (tables.BEGUN, tables.BEGUN_OVER)


@pytest.mark.parametrize("spelled", [("system", "runtime", "ipxe"), ("SYSTEM_OVERLAY", "RUNTIME_OVERLAY", "IPXE")])
def test_what_a_node_did_before_its_order_is_no_news_of_it(spelled: tuple[str, str, str]) -> None:
    system, runtime, first = spelled
    assert IMAGE is not None

    known = record.note(IMAGE, Seen(50, runtime, "__RUNTIME__.img.gz"))

    def word(now: Seen) -> str:
        return record.native(record.with_note(record.with_image({}, IMAGE), known), now, lambda: "")

    assert word(Seen(50, runtime, "__RUNTIME__.img.gz")) == tables.SET
    assert word(Seen(49, system, "x")) == tables.SET, "older than the order"
    assert word(Seen()) == tables.SET, "the server was restarted"
    assert word(Seen(50, first, "default.ipxe")) == tables.LOADING
    assert word(Seen(51, "", "gold-1.img.gz")) == tables.LOADING, "4.6 has no word for the image"
    assert word(Seen(52, system, "x")) == word(Seen(60, runtime, "x")) == tables.SENT
    assert word(Seen(52, system, "NOT_FOUND")) == word(Seen(60, runtime, "BAD_ASSET")) == tables.NOT_SERVED
    assert word(Seen(60, runtime, "NOT_FOUND")) == tables.SENT


@FEW
@given(
    st.dictionaries(
        st.sampled_from("abc"),
        st.fixed_dictionaries(
            {},
            optional={
                "image name": st.sampled_from(["u24", "u26"]),
                "profiles": st.lists(st.sampled_from(["a", "b", "c", "~a", "~b"]), max_size=3),
            },
        ),
    ),
    st.lists(st.sampled_from(["a", "b", "c", "~a"]), max_size=3),
)
def test_the_image_of_its_profiles_is_the_one_that_a_node_without_its_own_has(profiles: Any, names: Any) -> None:
    node = {"profiles": names}
    merged_node = with_profiles({"nodes": {"n1": node}, "nodeprofiles": profiles}, "n1")
    assert record.inherited(node, profiles) == record.image_of(read(merged_node, NODE_FIELDS))


def test_an_order_that_is_begun_again_keeps_whose_the_node_was() -> None:
    assert IMAGE is not None
    known = record.with_note({"image name": "u24"}, {"named": "u24", "name": "u", "version": "24", "deploy_id": "d-1"})
    known["tags"][record.NOTE] = json.dumps({**record.noted(known), "booted": True})
    before = record.state("n1", known, Seen(), record.native(known, Seen(), lambda: ""), frozenset())
    begun = record.with_note(record.with_image(known, IMAGE), record.beginning(before, IMAGE, OVERLAYS))
    word = record.native(begun, Seen(), lambda: "")
    after = record.state("n1", begun, Seen(), word, frozenset())
    assert (after.native, after.state, after.deploy_id, after.stamp) == (
        tables.BEGUN_OVER,
        DEPLOYED,
        "d-1",
        before.stamp,
    )
    assert record.beginning(after, IMAGE, OVERLAYS) == record.noted(begun)
    fresh = record.state("n1", {}, Seen(), record.native({}, Seen(), lambda: ""), frozenset())
    first = record.with_note(record.with_image({}, IMAGE), record.beginning(fresh, IMAGE, OVERLAYS))
    found = record.state("n1", first, Seen(), record.native(first, Seen(), lambda: ""), frozenset())
    assert (found.native, found.state, found.deploy_id) == (tables.BEGUN, READY, "")


@FEW
@given(JSON)
def test_whatever_an_inventory_of_overlays_says_what_is_not_built_anew_is_not_built(found: Any) -> None:
    now = record.built({"system overlay": found, "runtime overlay": {"overlays": ["hosts"], "mtime": "t1"}})
    assert "runtime overlay" in record.unbuilt({"runtime overlay": "t1"}, now)
    assert "runtime overlay" not in record.unbuilt({"runtime overlay": "t0"}, now)
    assert record.unbuilt(now, {}) == []
    assert record.unbuilt({}, {"system overlay": ""}) == ["system overlay"], "there is none"
