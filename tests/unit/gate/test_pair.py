# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pair_gate over nodes that are folders: their shells, an ib_write_bw without RDMA, and an mpirun without MPI."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, EvidenceMissing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.registry import tests_between as between
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import digest
from ansible_collections.gpufleet.baremetal.tests.unit.gate import cables, paired
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate.paired import ALL, RAILS, RING, Lab, words

HOSTS = ("gpu1", "gpu2", "gpu3")
TCP = {"name": "tcp", "tool": "iperf3", "links": "store", "of_rate": 0.9, "seconds": 2, "streams": 2, **cables.ABOUT}


# -- port by port ------------------------------------------------------------------------------------------------------


def test_good_nodes_pass_and_each_port_was_measured_in_both_directions(tmp_path: Path) -> None:
    lab = Lab(tmp_path, *HOSTS)
    found = lab.judged(paired.profile(RAILS, ports=cables.RAILS))
    assert words(found) == dict.fromkeys(HOSTS, "pass"), found
    [_outcome, event] = [one for one in lab.events if one.node == "gpu2"]
    cells = {row["entity"]: row for row in event.data["checks"]}
    assert {port: (row["measured"], row["wanted"]) for port, row in cells.items()} == dict.fromkeys(
        cables.RAILS, (391.2, 368.0)
    )
    assert cells[cables.RAILS[0]]["unit"] == "Gb/s, ib_write_bw, 1 queue pairs of 8 MiB, the slower direction"
    assert event.data["asked"]["tests"] == ["rail_write"] and event.data["tool"]["name"] == "ib_write_bw"
    digests = {one.data["evidence_digest"] for one in lab.events if one.kind == "verdict"}
    assert len(digests) == len(HOSTS) and digest() not in digests, "of what each has printed"
    clients = [one for one in lab.asked if "while :;" in one]
    assert len(clients) == 3 * len(cables.RAILS) * 2, "three pairs of a ring, both ports, both ways"


@pytest.mark.parametrize(
    ("devices", "verdicts", "word"),
    [
        ({("gpu2", "mlx5_1"): {"rate": 90.0}}, ("pass", "fail", "pass"), "mlx5_1/1: with gpu1: 90 Gb/s"),
        (
            {("gpu1", "mlx5_1"): {"rate": 391.2, "to": {"gpu2": 90.0}}},
            ("inconclusive", "inconclusive", "pass"),
            "look at the path",
        ),
        (
            {("gpu2", "mlx5_1"): {"rate": 391.2, "wire": 0.5}},
            ("pass", "inconclusive", "pass"),
            "by the port",
        ),
        ({("gpu2", "mlx5_1"): {"rate": 0.0}}, ("pass", "inconclusive", "pass"), "0 messages"),
    ],
)
def test_a_node_with_a_bad_port_is_told_from_its_partners(
    tmp_path: Path, devices: Any, verdicts: tuple[str, ...], word: str
) -> None:
    found = Lab(tmp_path, *HOSTS, devices=devices).judged(paired.profile(RAILS))
    assert tuple(words(found).values()) == verdicts, found
    assert word in str([one["findings"] for one in found.values()])


def test_a_node_whose_tool_fails_takes_nobody_with_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path, *HOSTS)
    body = f'{tmp_path}/ib_write_bw "$@"; case "$PERFTEST" in *gpu2*) exit 3;; esac'
    found = lab.judged(paired.profile(RAILS), ib_write_bw=made.program(tmp_path / "broken", body))
    assert words(found) == {"gpu1": "pass", "gpu2": "inconclusive", "gpu3": "pass"}, found
    assert "exit status 3" in found["gpu2"]["reason"]


def test_a_node_that_was_rebooted_meanwhile_has_measured_nothing(tmp_path: Path) -> None:
    lab = Lab(tmp_path, *HOSTS)
    boot = tmp_path / "gpu2" / "boot_id"
    again = f'case "$PERFTEST" in *gpu2*) date +%N > {boot};; esac\nexec {tmp_path}/ib_write_bw "$@"'
    found = lab.judged(paired.profile(RAILS), ib_write_bw=made.program(tmp_path / "reboots", again))
    assert words(found) == {"gpu1": "pass", "gpu2": "inconclusive", "gpu3": "pass"}, found
    assert "does not tell how much" in found["gpu2"]["reason"]


# -- collectives -------------------------------------------------------------------------------------------------------


def wire(lab: Lab, **busbw: float) -> None:
    for first, second in (("gpu1", "gpu2"), ("gpu2", "gpu3"), ("gpu1", "gpu3")):
        lab.busbw[f"{first},{second}"] = busbw.get(f"{first}_{second}", 96.0)


def test_the_wire_is_measured_by_a_ring_and_held_against_the_line_rate(tmp_path: Path) -> None:
    lab = Lab(tmp_path, *HOSTS)
    wire(lab)
    found = lab.judged(paired.profile(fabric=(RING,)))
    assert words(found) == dict.fromkeys(HOSTS, "pass"), found
    [_outcome, event] = [one for one in lab.events if one.node == "gpu1"]
    cells = {(row["id"], row["entity"]): row for row in event.data["checks"]}
    busbw = cells["fabric.wire.busbw", "node"]
    assert (busbw["measured"], busbw["wanted"]) == (96.0, 92.0), "0.92 of 400 Gb/s, of each of two rails"
    assert busbw["unit"] == "GB/s busbw, 8 to 16 GiB, ring, 2 nodes"
    assert {cells["fabric.wire.rail", port]["measured"] for port in cables.RAILS} == {1.0}
    called = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    assert len(called) == 3
    for words_ in ("-x NCCL_ALGO=RING", "-x NCCL_NVLS_ENABLE=0", "-x NCCL_IB_HCA==mlx5_0:1,mlx5_1:1", "-np 2"):
        assert all(words_ in one for one in called)
    assert all(f"flock -w 20 -E 75 {tmp_path} /opt/nccl-tests/all_reduce_perf -b 8589934592" in one for one in called)


@pytest.mark.parametrize(
    ("busbw", "rails", "verdicts", "word"),
    [
        ({"gpu1_gpu2": 60.0, "gpu2_gpu3": 61.0}, {}, ("pass", "fail", "pass"), "61"),
        ({"gpu1_gpu2": 60.0}, {}, ("inconclusive", "inconclusive", "pass"), "look at the path"),
        ({}, {"mlx5_1": 0.5}, ("pass", "fail", "pass"), "gpu2 sent 67% of the mean over mlx5_1/1"),
        ({}, {"mlx5_1": 0.0, "mlx5_0": 0.0}, ("pass", "inconclusive", "pass"), "nothing left by the rails"),
        ({}, {"mlx5_1": 0.2, "mlx5_0": 0.2}, ("pass", "inconclusive", "pass"), "who takes part sends 432 at least"),
    ],
)
def test_a_slow_node_and_a_rail_for_which_others_carry(
    tmp_path: Path, busbw: dict[str, float], rails: dict[str, float], verdicts: tuple[str, ...], word: str
) -> None:
    lab = Lab(tmp_path, *HOSTS)
    wire(lab, **busbw)
    lab.of("gpu2")["rails"].update(rails)
    found = lab.judged(paired.profile(fabric=(RING,)))
    assert tuple(words(found).values()) == verdicts, found
    assert word in str([one["findings"] for one in found.values()])


@pytest.mark.parametrize(
    ("told", "word"),
    [
        ({"body": ""}, "printed no table"),
        ({"body": "Permission denied (publickey).\n", "rc": 255}, "exit status 255"),
        ({"body": "", "rc": 75}, "another gate loads that node"),
        (None, "12 values arrived wrong"),
    ],
)
def test_a_collective_that_did_not_run_or_computed_wrong_is_no_pass(
    tmp_path: Path, told: dict[str, Any] | None, word: str
) -> None:
    lab = Lab(tmp_path, *HOSTS)
    wire(lab)
    lab.mpirun.update(told or {})
    lab.wrong = "0" if told else "3"
    found = lab.judged(paired.profile(fabric=(RING,)))
    assert words(found) == dict.fromkeys(HOSTS, "inconclusive") and word in found["gpu1"]["reason"], found


def test_all_nodes_together_have_a_floor_of_their_own_and_blame_nobody(tmp_path: Path) -> None:
    lab = Lab(tmp_path, *HOSTS)
    lab.busbw["gpu1,gpu2,gpu3"] = 390.0
    assert words(lab.judged(paired.profile(fabric=(ALL,)))) == dict.fromkeys(HOSTS, "pass")
    [called] = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    assert "-np 3" in called and "NCCL_ALGO" not in called
    lab.busbw["gpu1,gpu2,gpu3"] = 299.0
    found = lab.judged(paired.profile(fabric=(ALL,)))
    assert {(one["verdict"], one["remedy"]) for one in found.values()} == {("inconclusive", "fabric")}


def test_a_table_says_nothing_of_a_node_whose_kernel_saw_too_little_leave(tmp_path: Path) -> None:
    lab = Lab(tmp_path, *HOSTS)
    lab.busbw["gpu1,gpu2,gpu3"] = 390.0
    lab.of("gpu3")["rails"] = {name.partition("/")[0]: 0.25 for name in cables.RAILS}
    found = lab.judged(paired.profile(fabric=(ALL,)))
    assert words(found) == {"gpu1": "pass", "gpu2": "pass", "gpu3": "inconclusive"}, found
    assert "fabric.whole.busbw" in {one["id"] for one in found["gpu3"]["findings"]}, "the figure is not its own"
    gathered = {**ALL, "program": "all_gather_perf"}
    lab.of("gpu3")["rails"] = {name.partition("/")[0]: 0.2 for name in cables.RAILS}
    assert words(lab.judged(paired.profile(fabric=(gathered,)))) == dict.fromkeys(HOSTS, "pass"), "a switch may forward"


# -- who takes part ----------------------------------------------------------------------------------------------------


class Permits(Lifeline):
    """A ledger that forbids one node, and lost another one meanwhile."""

    def __init__(self, forbidden: str = "", lost: str = "") -> None:
        self.forbidden, self.gone = forbidden, lost
        self.writes: list[tuple[str, ...]] = []

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> str | None:
        assert destructive and nodes
        self.writes.append(nodes)
        if self.forbidden in nodes:
            raise EvidenceMissing("jobs run there", node=self.forbidden)
        return None

    def confirm(self) -> dict[str, str]:
        return {self.gone: "another run has it"} if self.gone else {}


def test_whom_this_run_may_not_load_is_asked_for_nothing(tmp_path: Path) -> None:
    lab, permits = Lab(tmp_path, *HOSTS), Permits("gpu3")
    found = lab.judged(paired.profile(RAILS), ctx=Context(lifeline=permits))
    assert words(found) == {"gpu1": "pass", "gpu2": "pass", "gpu3": "evidence_missing"}, found
    assert "jobs run there" in found["gpu3"]["reason"] and {one.node for one in lab.events} == {"gpu1", "gpu2"}
    assert sorted(one.kind for one in lab.events) == ["outcome", "outcome", "verdict", "verdict"]
    assert len(permits.writes) > 1, "each round asks anew"
    own = next(address for address, told in lab.mpirun["hosts"].items() if told["name"] == "gpu3")
    assert not [one for one in lab.asked if own in one and "timeout" in one], "nobody calls it"


def test_a_node_that_has_not_the_address_of_the_inventory_is_not_measured_at_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path, *HOSTS, "gpu4")
    stale = next(address for address, told in lab.mpirun["hosts"].items() if told["name"] == "gpu4")
    lab.has("gpu4", "10.9.9.9")
    found = lab.judged(paired.profile(RAILS))
    assert words(found) == {**dict.fromkeys(HOSTS, "pass"), "gpu4": "inconclusive"}, found
    assert f"its address {stale} is none that it has" in found["gpu4"]["reason"]
    assert not [one for one in lab.asked if stale in one and "timeout" in one], "nothing is started there"


def test_ports_that_are_asked_for_their_addresses_prove_none_of_the_inventorys(tmp_path: Path) -> None:
    """One profile has a tool that is told the ports' own addresses, and one that dials the inventory's."""
    lab = Lab(tmp_path, "gpu1", "gpu2")
    lab.has("gpu2", "10.9.9.9")
    both = paired.profile(RAILS, TCP)
    both["network"]["links"].append(cables.links("store", "ethernet"))
    found = lab.judged(both)
    assert words(found)["gpu2"] == "inconclusive" and "is none that it has" in found["gpu2"]["reason"], found
    assert not [one for one in lab.asked if "timeout" in one], "nothing is started"


def test_nobody_is_held_against_the_profile_of_a_neighbour(tmp_path: Path) -> None:
    """Of the same model two have a lower floor, which the others' slow port would reach."""
    lab = Lab(tmp_path, *HOSTS, "gpu4", devices={("gpu3", "mlx5_1"): {"rate": 90.0}})
    low = paired.profile({**RAILS, "of_rate": 0.2})
    lab.profiles = {"gpu1": low, "gpu2": low}
    found = lab.judged(paired.profile(RAILS))
    expected = {"gpu1": "pass", "gpu2": "pass", "gpu3": "inconclusive", "gpu4": "inconclusive"}
    assert words(found) == expected and "with gpu4: 90 Gb/s" in found["gpu3"]["reason"], found


@pytest.mark.parametrize("stale", ["10.9.9.9", "127.0.0.1", ""])
def test_a_name_by_which_its_partner_would_reach_another_machine_is_not_dialled(tmp_path: Path, stale: str) -> None:
    lab, own = Lab(tmp_path, *HOSTS), {"gpu3": "127.0.1.1"}
    wire(lab)
    lab.named("gpu3", own)
    assert words(lab.judged(paired.profile(fabric=(RING,)))) == dict.fromkeys(HOSTS, "pass")
    calls = tmp_path / "calls"
    assert calls.read_text(encoding="utf-8").count("gpu3:1") == 2
    calls.unlink()
    lab.named("gpu3", {**own, "gpu1": stale})
    found = lab.judged(paired.profile(fabric=(RING,)))
    assert f"gpu1 resolves gpu3 to {stale or 'nothing'}, and gpu3 has no such address" in str(found)
    assert calls.read_text(encoding="utf-8").count("gpu3:1") == 1, "with gpu2 alone"
    assert words(found)["gpu1"] != "fail" != words(found)["gpu3"], found


def test_of_a_node_that_another_run_took_nothing_is_told(tmp_path: Path) -> None:
    lab = Lab(tmp_path, *HOSTS)
    found = lab.judged(paired.profile(RAILS), ctx=Context(lifeline=Permits(lost="gpu2")))
    assert words(found)["gpu2"] == "not_ours" and "gpu2" not in {one.node for one in lab.events}


def test_check_mode_runs_nothing(tmp_path: Path) -> None:
    lab = Lab(tmp_path, *HOSTS)
    found = lab.judged(paired.profile(RAILS), ctx=Context(check_mode=True))
    assert words(found) == dict.fromkeys(HOSTS, "inconclusive") and not lab.asked
    assert found["gpu1"]["findings"][0]["id"] == "check_mode"


def test_a_node_without_a_partner_and_a_profile_without_a_test_are_the_sites_trouble(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "gpu1")
    assert words(lab.judged(paired.profile(RAILS))) == {"gpu1": "config"} and not lab.asked
    assert words(lab.judged(paired.profile(RAILS), tests=["other"])) == {"gpu1": "config"}
    assert words(lab.judged(paired.profile())) == {"gpu1": "config"}
    assert not lab.events


# -- the section -------------------------------------------------------------------------------------------------------


def options() -> dict[str, Any]:
    return {"mpirun": ["mpirun"], "pci_path": "/sys", "timeout": 10}


@pytest.mark.parametrize(
    "row",
    [
        {**RING, "algorithm": "nvls"},
        {**RING, "algorithm": "default"},
        {**RING, "of_rate": 0},
        {**RING, "ports": []},
        {**RING, "ports": ["mlx5_0/1", "mlx5_0/1"]},
        {**RING, "ports": ["ens1f0np0"]},
        {**RING, "of": "rails"},
        {**ALL, "nodes": 1},
        {**ALL, "minimum": 0},
        {**ALL, "library": "rccl", "algorithm": "nvls"},
    ],
)
def test_a_pair_is_never_held_against_its_line_rate_but_by_a_ring(row: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        between(options(), wanted_of(paired.profile(fabric=(row,))), [])


def test_one_name_for_two_measurements_is_refused_before_any_is_dropped() -> None:
    for row, other in ((RAILS, {**RING, "name": RAILS["name"]}), ({**RAILS, "name": ALL["name"]}, ALL)):
        for names in ([], [row["name"]]):
            with pytest.raises(ConfigError, match=f"two measurements between nodes of one name: {row['name']}"):
                between(options(), wanted_of(paired.profile(row, fabric=(other,))), names)


def test_the_schema_knows_what_is_read() -> None:
    whole = paired.profile(RAILS, fabric=(RING, ALL))
    profiles.check(whole, made.PROFILE_SCHEMA)
    assert [test.name for test in between(options(), wanted_of(whole), [])] == ["rail_write", "wire", "whole"]
    assert [test.name for test in between(options(), wanted_of(whole), ["wire"])] == ["wire"]
    for key, value in (("algorithm", "nvls"), ("minimum", 300), ("nodes", 3)):
        broken = copy.deepcopy(whole)
        broken["collective"]["fabric"][0][key] = value
        with pytest.raises(ConfigError):
            profiles.check(broken, made.PROFILE_SCHEMA)


PAGE = made.CHECKOUT / "docs" / "how-to" / "measure-between-nodes.md"


@pytest.mark.skipif(not PAGE.is_file(), reason="this copy has no docs")
def test_the_section_on_the_page_is_read_as_it_stands() -> None:
    [section] = re.findall(r"```yaml\n(collective:\n.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    whole = {**made.profile(), **yaml.safe_load(section)}
    profiles.check(whole, made.PROFILE_SCHEMA)
    tests = between(options(), wanted_of(whole), [])
    wanted = [test.cells[f"fabric.{test.name}.busbw", "node"].wanted for test in tests]
    assert (wanted, [test.least for test in tests]) == ([368.0, 430.0], [0, 8])
