# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the inventory plans and what was seen of the cables are one, or nothing is written by either."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _places as places
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._places import Host

ONE, OTHER = "9c6f5af3-53bf-49b5-a436-b66766c413c3.7", "9c6f5af3-53bf-49b5-a436-b66766c413c3.8"


def at(*leaves: str) -> tuple[tuple[str, str], ...]:
    return tuple((leaf, f"id-{leaf}") for leaf in leaves)


def test_the_plan_counts_and_without_one_what_was_seen() -> None:
    hosts = {
        "gpu001": Host("n1", leaf=("leaf-a1",), switches=at("leaf-a1")),
        "gpu002": Host("n2", switches=at("leaf-a1"), domain=ONE),
        "gpu003": Host("n3", switches=at("leaf-a1", "leaf-b1"), block="r1", domain=OTHER),
        "gpu004": Host("n4", leaf=("id-leaf-b1",), switches=at("leaf-b1")),
        "gpu005": Host("n5", leaf=("id-leaf-b1",)),
        "gpu006": Host("n6", leaf=("leaf-c2", "leaf-c1"), switches=at("leaf-c1", "leaf-c2")),
        "gpu007": Host("n7", leaf=("leaf-c1", "id-leaf-c2"), switches=at("leaf-c2")),
    }
    places.demand(hosts)
    planned = {"leaf-a1": ["n1", "n2"], "leaf-b1": ["n4", "n5"], "leaf-c1_leaf-c2": ["n6", "n7"]}
    assert places.filled({"kind": "tree"}, hosts)["units"] == planned
    assert places.filled({"kind": "block"}, hosts)["units"] == {ONE: ["n2"], "r1": ["n3"]}
    given = {"kind": "tree", "units": {"x": ["n1"]}}
    assert places.filled(given, {}) == given
    with pytest.raises(ConfigError, match="no host has topology_block"):
        places.filled({"kind": "block"}, {"gpu001": Host("n1", leaf=("leaf-a1",))})


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ({"a": Host("a", leaf=("l1",), switches=at("l2"))}, "a is planned at l1, and was seen at l2"),
        ({"a": Host("a", leaf=("l1", "l2"), switches=at("l3"))}, "a is planned at l1 or l2, and was seen at l3"),
        (
            {"a": Host("a", switches=(("l1", "9"),)), "b": Host("b", switches=(("l2", "9"),))},
            "l1 and l2 are one switch, 9",
        ),
        (
            {"a": Host("a", leaf=("l1",), switches=(("l1", "9"),)), "b": Host("b", switches=(("l1", "8"),))},
            "l1 is what several switches call themselves: 8, 9",
        ),
        (
            {"a": Host("a", leaf=("l1", "l2"), switches=at("l1")), "b": Host("b", switches=at("l1"))},
            "l1 is in l1 and l1_l2",
        ),
        (
            {"a": Host("a", leaf=("l1", "l2")), "b": Host("b", leaf=("id-l2",), switches=at("l2"))},
            "l2 is in l1_l2 and l2",
        ),
        ({"a": Host("a", block="r1", domain=ONE), "b": Host("b", block="r1", domain=OTHER)}, "r1 was seen in 2 NVLink"),
        (
            {"a": Host("a", block="r1", domain=ONE), "b": Host("b", block="r2", domain=ONE)},
            "r1 and r2 were seen in one",
        ),
        ({"a": Host("a", block="r1", domain=ONE), "b": Host("b", domain=ONE)}, "were seen in one NVLink domain"),
    ],
)
def test_a_plan_that_the_cables_contradict_is_refused(hosts: dict[str, Host], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        places.demand(hosts)


def test_a_pair_that_calls_itself_by_one_name_is_one_leaf_where_a_node_is_at_both() -> None:
    both, one, other = ((("l1", "8"), ("l1", "9")), (("l1", "8"),), (("l1", "9"),))
    hosts = {name: Host(name, switches=switches) for name, switches in {"a": one, "b": other, "c": both}.items()}
    for order in ("abc", "cab", "acb"):
        places.demand({name: hosts[name] for name in order})
    assert places.filled({"kind": "tree"}, hosts)["units"] == {"l1": ["a", "b", "c"]}


@pytest.mark.parametrize("told", [["leaf-a1", "leaf-a2"], ("leaf-a1", "leaf-a2")])
def test_a_host_has_a_pair_as_a_list(tmp_path: Path, told: Any) -> None:
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
        variables = {places.LEAF: told, places.BLOCK: None}
        [one] = places.planned(ledger, {}, {"gpu001": "n1"}, lambda key, _host: variables[key]).values()
    assert one == Host("n1", leaf=("leaf-a1", "leaf-a2"))
    assert places.names("leaf-a1") == ("leaf-a1",) and places.names("") == places.names(None) == ()


def test_a_budget_counts_each_leaf_that_was_seen_and_the_one_domain() -> None:
    rows: list[dict[str, Any]] = [{"leaf": "leaf-b1"}, {"leaf": "leaf-a1"}, {"leaf": ""}, {}]
    look = {"data": {"neighbours": rows, "domain": ONE}}
    assert places.domains(places.LEAF, look) == ["leaf-a1", "leaf-b1"]
    assert places.domains(places.BLOCK, look) == [ONE]
    assert [places.domains(key, None) for key in places.KEYS] == [[], []]
