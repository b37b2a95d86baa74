# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site's profile demands less is told, and what it demands more is not."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.action import gpu_state_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.weakened import LESS, MORE, of_gate
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.test_asked_by_the_controller import Site
from hypothesis import given, settings
from hypothesis import strategies as st
from suite.properties import at_most

SHIPPED: dict[str, Any] = yaml.safe_load((made.PROFILES / "h100-sxm-8.yaml").read_text(encoding="utf-8"))
WHERE = "/etc/gpufleet/profiles/h100-sxm-8.yaml"
GATES = ("gpu_state_gate", "gpu_bandwidth_gate", "collective_gate", "dcgm_gate", "soak_gate")
OURS = "ten nodes of this site"


def weaker(used: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    rows = [row for gate in GATES for row in of_gate(gate, SHIPPED, used, WHERE)]
    return {row["what"]: (row["from"], row["to"]) for row in rows}


def numbers(value: Any, path: tuple[Any, ...] = (), key: str = "") -> Iterator[tuple[tuple[Any, ...], str]]:
    """Where each number of a profile that is weighed stands, and by what key."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from numbers(inner, (*path, name), key if name == "value" else str(name))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from numbers(inner, (*path, at), key)
    elif isinstance(value, (int, float)) and key in LESS | MORE:
        yield path, key


NUMBERS = [(path, key) for path, key in numbers(SHIPPED) if path[0] != "schema"]
ROWS = [(section, rows, at) for section, rows in
        (("gpu_state", "cells"), ("gpu_bandwidth", "cases"), ("collective", "tests"), ("dcgm", "tests"))
        for at in range(len(SHIPPED[section][rows]))]  # fmt: skip


def changed(path: tuple[Any, ...], by: float) -> dict[str, Any]:
    used = copy.deepcopy(SHIPPED)
    place: Any = used
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] += by
    if isinstance(place, dict):
        place["source"] = OURS
    return used


def test_the_shipped_one_is_no_weaker_than_itself_whoever_says_so() -> None:
    used = json.loads(json.dumps(SHIPPED))
    used["title"] = "ours"
    for name in ("count", "power"):
        used["gpu"][name].update(source=OURS, date="2026-12-01", conditions="here")
    assert weaker(used) == {}


@given(at=st.sampled_from(NUMBERS), by=st.floats(0.01, 5))
@settings(max_examples=at_most(60))
def test_each_number_is_told_where_it_demands_less_and_only_there(at: tuple[tuple[Any, ...], str], by: float) -> None:
    path, key = at
    less, more = (-by, by) if key in LESS else (by, -by)
    found = weaker(changed(path, less))
    assert len(found) == 1, found
    [(what, (before, after))] = found.items()
    assert what.startswith(str(path[0])) and (after < before) == (key in LESS)
    rows = [row for gate in GATES for row in of_gate(gate, SHIPPED, changed(path, less), WHERE)]
    assert {row["source"] for row in rows} == {OURS}
    assert weaker(changed(path, more)) == {}


@given(at=st.sampled_from(ROWS))
@settings(max_examples=at_most(40))
def test_what_is_left_out_is_told_with_the_place_of_the_profile(at: tuple[str, str, int]) -> None:
    section, rows, number = at
    used = copy.deepcopy(SHIPPED)
    gone = used[section][rows].pop(number)
    what = f"{section}.{rows}.{gone['name']}"
    assert weaker(used)[what] == ("demanded", "left out")
    [row] = [row for row in of_gate(f"{section}_gate", SHIPPED, used, WHERE) if row["what"] == what]
    assert row["source"] == WHERE


def test_whole_sections_and_more_gpus_and_errors_that_are_passed_over() -> None:
    used = {**copy.deepcopy(SHIPPED), "gpu_state": None, "collective": {"tests": []}}
    used["gpu"]["device_ids"]["value"] = ["2330", "2331"]
    used["dcgm"]["ignore_errors"] = [{"id": 121, "source": OURS, "date": "2026-12-01", "conditions": "here"}]
    assert weaker(used) == {
        "gpu_state": ("demanded", "left out"),
        "collective.tests.all_reduce": ("demanded", "left out"),
        "gpu.device_ids": (["2330"], ["2330", "2331"]),
        "dcgm.ignore_errors.121": ("demanded", "left out"),
    }


@pytest.mark.parametrize(
    ("row", "key", "value", "told"),
    [
        ("sram_threshold", "since", "570", True),
        ("sram_threshold", "since", "535", False),
        ("sram_threshold", "since", None, False),
        ("row_remap", "since", "550", True),
        ("row_remap", "until", "600", True),
    ],
)
def test_a_cell_that_is_demanded_of_fewer_drivers_is_told(row: str, key: str, value: Any, told: bool) -> None:
    used = copy.deepcopy(SHIPPED)
    [cell] = [one for one in used["gpu_state"]["cells"] if one["name"] == row]
    cell.update({key: value})
    if value is None:
        del cell[key]
    assert (f"gpu_state.cells.{row}.{key}" in weaker(used)) == told


@pytest.mark.parametrize("gone", [None, "none"])
def test_a_number_that_is_removed_is_told(gone: Any) -> None:
    used = copy.deepcopy(SHIPPED)
    before = used["gpu"]["count"]["value"]
    if gone is None:
        del used["gpu"]["count"]["value"]
    else:
        used["gpu"]["count"]["value"] = gone
    assert weaker(used) == {"gpu.count": (before, gone)}


def test_what_nobody_can_weigh_is_told() -> None:
    used = copy.deepcopy(SHIPPED)
    used["collective"]["tests"][0]["algorithm"] = "ring"
    used["gpu"]["power"]["unit"] = "kW"
    assert weaker(used) == {
        "collective.tests.all_reduce.algorithm": ("default", "ring"),
        "gpu.power.unit": ("W", "kW"),
    }


def test_a_gate_tells_of_what_it_reads_alone() -> None:
    used = changed(("dcgm", "tests", 0, "level"), 1)
    assert of_gate("dcgm_gate", SHIPPED, used, WHERE) and not of_gate("gpu_state_gate", SHIPPED, used, WHERE)
    assert not of_gate("kernel_log_gate", SHIPPED, changed(("gpu", "count", "value"), -1), WHERE)


def test_what_is_measured_between_nodes_is_a_part_of_two_sections() -> None:
    links = {"name": "rails", "kind": "infiniband", "ports": ["mlx5_0/1"], "rate_gbps": 400}
    speeds = [{"name": "write", "links": "rails", "of_rate": 0.92}, {"name": "tcp", "links": "rails", "of_rate": 0.95}]
    fabric = {"name": "ring", "algorithm": "ring", "of_rate": 0.92}
    shipped = {**SHIPPED, "network": {"links": [links], "speeds": speeds}}
    shipped["collective"] = {**SHIPPED["collective"], "fabric": [fabric]}
    used = copy.deepcopy(shipped)
    used["network"]["links"][0]["rate_gbps"], used["network"]["speeds"][0]["of_rate"] = 200, 0.5
    del used["network"]["speeds"][1], used["collective"]["fabric"]
    used["collective"]["tests"][0]["minimum"] = 1
    assert {row["what"]: (row["from"], row["to"]) for row in of_gate("pair_gate", shipped, used, WHERE)} == {
        "network.links.rails.rate_gbps": (400, 200),
        "network.speeds.write.of_rate": (0.92, 0.5),
        "network.speeds.tcp": ("demanded", "left out"),
        "collective.fabric.ring": ("demanded", "left out"),
    }
    assert not of_gate("pair_gate", shipped, shipped, WHERE) and not of_gate("pair_gate", SHIPPED, shipped, WHERE)
    assert of_gate("pair_gate", shipped, {**used, "network": None}, WHERE)


def test_the_result_of_a_gate_tells_it_and_a_shipped_profile_has_nothing_to_tell(tmp_path: Any) -> None:
    used = changed(("gpu", "power", "value"), -100)
    (tmp_path / "h100-sxm-8.yaml").write_text(yaml.safe_dump(used), encoding="utf-8")
    site = Site(tmp_path)

    def told(**args: Any) -> dict[str, Any]:
        args, broke = {"fail_on": "never", **args}, {"msg": "it broke", "failed": True}
        return site.run(gpu_state_gate.ActionModule, broke, args, gpufleet_sku="h100-sxm-8")

    [row] = told(profile_path=[str(tmp_path)])["weakened"]
    assert row == {"what": "gpu.power", "from": 700, "to": 600, "source": OURS}
    assert told(profile=used)["weakened"] == [row]
    assert "weakened" not in told()


@pytest.mark.parametrize("shipped", [SHIPPED, {}], ids=["of a SKU that is shipped", "of one that is not"])
@pytest.mark.parametrize(("part", "told"), [(0.5, True), (0.92, False), (0.95, False)])
def test_a_part_of_a_line_rate_that_no_sound_port_stays_under_is_told(shipped: Any, part: float, told: bool) -> None:
    """No figure of it is shipped, for ports are the site's; a rule of ours it is all the same."""
    speed = {"name": "wire", "of_rate": part, "source": OURS}
    used = {**shipped, "network": {"speeds": [speed]}, "collective": {"fabric": [{**speed, "name": "rails"}]}}
    found = {
        gate: {row["what"]: row for row in of_gate(gate, shipped, used, WHERE)}
        for gate in ("network_gate", "pair_gate")
    }
    names = ("network.speeds.wire.of_rate", "collective.fabric.rails.of_rate")
    assert [name in found["pair_gate"] for name in names] == [told, told]
    assert [name in found["network_gate"] for name in names] == [told, False]
    if told:
        assert found["pair_gate"][names[0]] == {"what": names[0], "from": 0.92, "to": part, "source": OURS}
