# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""network_gate: ports that are missing, down, slow or that count errors, and cables that lead elsewhere."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network import claimed, lldp
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.gate import network_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.section import section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import strange, written
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import cables
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.mutated import shuffled

PROFILE = cables.profile()
#: One of the two rails, and where the kernel shows it.
RAIL, PLACE = cables.RAILS[1], "sys/class/infiniband/mlx5_1/ports/1"


def judged(params: dict[str, Any]) -> dict[str, Any]:
    return dict(network_gate(params, Context()).data)


def said(found: dict[str, Any]) -> tuple[str, str, str]:
    return found["verdict"], found["remedy"], "; ".join(finding["text"] for finding in found["findings"])


def test_a_machine_that_is_well_passes(tmp_path: Path) -> None:
    found = judged(cables.params(tmp_path))
    assert found["verdict"] == "pass", found["msg"]
    assert found["argv"][1:] == ["-f", "json0"]
    alone = judged({**cables.params(tmp_path), "neighbours": None, "lldpctl": "/nonexistent"})
    assert alone["verdict"] == "pass" and alone["tool"]["name"] == "kernel"


@pytest.mark.parametrize(
    ("told", "verdict", "remedy", "word"),
    [
        ({"state": "1: DOWN"}, "fail", "fabric", "mlx5_1/1 is down: 1: DOWN, 5: LinkUp"),
        ({"state": "2: INIT"}, "fail", "fabric", "mlx5_1/1 is down: 2: INIT"),
        ({"phys_state": "3: Disabled"}, "fail", "fabric", "4: ACTIVE, 3: Disabled"),
        ({"state": "9: SPINNING"}, "inconclusive", "retest", "in a state that nobody knows"),
        ({"state": "ACTIVE"}, "inconclusive", "retest", "in a state that nobody knows"),
        ({"phys_state": ""}, "inconclusive", "retest", "in a state that nobody knows"),
        ({"rate": "200 Gb/sec (4X HDR)"}, "fail", "reseat", "mlx5_1/1: 200 Gb/s, and the profile wants 400"),
        ({"rate": "400 Gb/sec (2X XDR)"}, "fail", "reseat", "mlx5_1/1: 2 lanes, and the profile wants 4"),
        ({"rate": "800 Gb/sec (4X XDR)"}, "inconclusive", "remediate_config", "800 Gb/s"),
        ({"rate": "400 Gb/sec"}, "inconclusive", "retest", "does not tell its rate"),
        ({"rate": "[N/A]"}, "inconclusive", "retest", "does not tell its rate"),
        ({"link_layer": "Ethernet"}, "inconclusive", "remediate_config", "a port of Ethernet"),
        ({"link_layer": ""}, "inconclusive", "remediate_config", "a port of no layer"),
        ({"counters/link_downed": 255}, "inconclusive", "remediate_config", "link_downed is at its end, 255"),
        ({"counters/symbol_error": 65535}, "inconclusive", "remediate_config", "symbol_error is at its end"),
        ({"counters/symbol_error": "N/A"}, "inconclusive", "retest", "does not tell symbol_error"),
        ({"counters/symbol_error": "-1"}, "inconclusive", "retest", "does not tell symbol_error"),
        ({"counters/symbol_error": 7, "counters/link_downed": 3}, "pass", "none", ""),
    ],
)
def test_what_an_infiniband_port_shows(
    tmp_path: Path, told: dict[str, Any], verdict: str, remedy: str, word: str
) -> None:
    params = cables.params(tmp_path)
    cables.rdma(tmp_path, RAIL, **told)
    found = judged(params)
    assert said(found)[:2] == (verdict, remedy) and word in said(found)[2], found["msg"]


@pytest.mark.parametrize(
    ("told", "verdict", "remedy", "word"),
    [
        ({"operstate": "down"}, "fail", "fabric", "ens1f0np0 is down: down"),
        ({"operstate": "lowerlayerdown"}, "fail", "fabric", "ens1f0np0 is down"),
        ({"operstate": "unknown"}, "inconclusive", "retest", "in a state that nobody knows: unknown"),
        ({"carrier": 0}, "inconclusive", "retest", "in a state that nobody knows: up"),
        ({"speed": 25000}, "fail", "reseat", "25 Gb/s, and the profile wants 100"),
        ({"speed": 200000}, "inconclusive", "remediate_config", "200 Gb/s"),
        ({"speed": -1}, "inconclusive", "retest", "does not tell its rate"),
        ({"speed": 0}, "inconclusive", "retest", "does not tell its rate"),
        ({"statistics/rx_crc_errors": ""}, "inconclusive", "retest", "does not tell statistics/rx_crc_errors"),
        ({"statistics/rx_crc_errors": 12}, "pass", "none", ""),
    ],
)
def test_what_a_network_device_shows(
    tmp_path: Path, told: dict[str, Any], verdict: str, remedy: str, word: str
) -> None:
    params = cables.params(tmp_path)
    cables.netdev(tmp_path, **told)
    found = judged(params)
    assert said(found)[:2] == (verdict, remedy) and word in said(found)[2], found["msg"]


@pytest.mark.parametrize("place", ["sys/class/net/ens1f0np0", "sys/class/infiniband/mlx5_1"])
def test_a_port_that_is_not_there_fails(tmp_path: Path, place: str) -> None:
    params = cables.params(tmp_path)
    shutil.rmtree(tmp_path / place)
    found = judged(params)
    assert said(found)[:2] == ("fail", "power_cycle") and "is not there" in said(found)[2]


def test_a_port_whose_driver_counts_in_words_of_its_own_is_a_matter_of_the_profile(tmp_path: Path) -> None:
    """bnxt_re, irdma and ionic have hw_counters alone: no retest changes that."""
    row = cables.links(kind="roce", ports=["bnxt_re0/1"])
    params = {**cables.params(tmp_path), "profile": cables.profile(row), "neighbours": {}}
    cables.rdma(tmp_path, "bnxt_re0/1", link_layer="Ethernet")
    place = tmp_path / "sys" / "class" / "infiniband" / "bnxt_re0" / "ports" / "1"
    assert judged(params)["verdict"] == "pass"
    shutil.rmtree(place / "counters")
    cables.write(place, {"hw_counters/rx_bytes": 5, "gid_attrs/ndevs/0": "", "gid_attrs/ndevs/1": "ens1f0np0"})
    found = judged(params)
    assert (found["verdict"], found["remedy"], len(found["findings"])) == ("inconclusive", "remediate_config", 1)
    assert "no folder counters: give the profile's links the kind ethernet, and ens1f0np0" in found["msg"]
    shutil.rmtree(place / "gid_attrs")
    assert "the kind ethernet" in judged(params)["msg"]


def test_roce_is_told_by_its_layer(tmp_path: Path) -> None:
    params = {**cables.params(tmp_path), "profile": cables.profile(cables.links(kind="roce"))}
    assert "a port of InfiniBand, and the profile wants Ethernet" in said(judged(params))[2]
    for port in cables.RAILS:
        cables.rdma(tmp_path, port, link_layer="Ethernet")
    assert judged(params)["verdict"] == "pass"


@pytest.mark.parametrize(
    ("place", "name", "before", "after", "most", "verdict", "word"),
    [
        (PLACE, "counters/symbol_error", 7, 8, 0, "fail", "mlx5_1/1: in 0.1 s rose symbol_error by 1"),
        (PLACE, "counters/symbol_error", 7, 8, 1, "pass", ""),
        (PLACE, "counters/symbol_error", 65530, 65535, 0, "fail", "rose symbol_error by 5"),
        (PLACE, "counters/link_downed", 250, 255, 9, "inconclusive", "link_downed is at its end, 255"),
        (PLACE, "counters/link_downed", 7, 0, 9, "inconclusive", "link_downed was set back meanwhile"),
        (PLACE, "counters/link_downed", 0, "N/A", 9, "inconclusive", "does not tell link_downed"),
        (PLACE, "state", "4: ACTIVE", "1: DOWN", 9, "fail", "mlx5_1/1 is down"),
        ("sys/class/net/ens1f0np0", "carrier_down_count", 1, 2, 0, "fail", "rose carrier_down_count by 1"),
    ],
)
def test_what_changes_between_two_looks(
    tmp_path: Path, place: str, name: str, before: Any, after: Any, most: int, verdict: str, word: str
) -> None:
    body = f"echo '{after}' > {tmp_path}/{place}/{name}"
    rows = [cables.links(errors=most), cables.links("store", "ethernet", errors=most)]
    params = cables.params(tmp_path, body=body, profile=cables.profile(*rows))
    cables.write(tmp_path / place, {name: before})
    found = judged(params)
    assert found["verdict"] == verdict and word in said(found)[2], found["msg"]


# -- where it leads ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "verdict", "remedy", "word"),
    [
        (cables.document(cables.heard(to="Ethernet1/2")), "fail", "fabric", "and the plan wants leaf01 Ethernet1/1"),
        (cables.document(cables.heard(switch="leaf02")), "fail", "fabric", "leads to leaf02"),
        (cables.document(cables.heard(port="ens9")), "inconclusive", "retest", "no neighbour was heard"),
        (cables.document(cables.heard(), cables.heard()), "inconclusive", "retest", "2 neighbours were heard"),
        (cables.document({**cables.heard(), "chassis": []}), "inconclusive", "retest", "does not name itself"),
        (cables.document({**cables.heard(), "port": None}), "inconclusive", "retest", "cannot be read"),
        (cables.document({"name": cables.STORE}), "inconclusive", "retest", "cannot be read"),
        (cables.document(), "inconclusive", "retest", "no neighbour was heard"),
        ("{}", "inconclusive", "retest", "cannot be read"),
        ("[]", "inconclusive", "retest", "cannot be read"),
        ('{"lldp": [], "lldp": []}', "inconclusive", "retest", "a key stands twice"),
        (cables.document(cables.heard())[:200], "inconclusive", "retest", "cannot be read"),
        (cables.document(cables.heard()) * 2, "inconclusive", "retest", "cannot be read"),
        ("lorem ipsum", "inconclusive", "retest", "cannot be read"),
        ("[" * 100000, "inconclusive", "retest", "cannot be read"),
        ("", "inconclusive", "retest", "it printed nothing"),
    ],
)
def test_where_a_port_leads(tmp_path: Path, output: str, verdict: str, remedy: str, word: str) -> None:
    found = judged(cables.params(tmp_path, output))
    assert said(found)[:2] == (verdict, remedy) and word in said(found)[2], found["msg"]


@pytest.mark.parametrize("plan", ["leaf01  Ethernet1/1", "0c:42:a1:00:00:01 Ethernet1/1"])
def test_a_neighbour_may_be_named_as_it_names_itself(tmp_path: Path, plan: str) -> None:
    assert judged(cables.params(tmp_path, neighbours={cables.STORE: plan}))["verdict"] == "pass"


@pytest.mark.parametrize(("kind", "verdict"), [("ifname", "fail"), ("local", "pass"), ("mac", "pass")])
def test_what_people_wrote_of_a_port_is_its_name_only_where_it_has_none(
    tmp_path: Path, kind: str, verdict: str
) -> None:
    """Of a port that was plugged to another one, the description is that of before."""
    told = cables.document(cables.heard(to="Ethernet1/2", kind=kind, descr="Ethernet1/1"))
    assert judged(cables.params(tmp_path, told))["verdict"] == verdict


def test_lldpctl_that_fails_has_told_nothing(tmp_path: Path) -> None:
    gone = judged(cables.params(tmp_path, lldpctl="/nonexistent/lldpctl"))
    assert said(gone)[:2] == ("inconclusive", "remediate_config") and "not installed" in said(gone)[2]
    assert "exit status 3" in said(judged(cables.params(tmp_path, body=f"cat {tmp_path}/heard.json; exit 3")))[2]


# -- the question, and a pass that is claimed --------------------------------------------------------------------------


def test_the_links_are_those_that_the_profile_knows(tmp_path: Path) -> None:
    unknown = judged({**cables.params(tmp_path), "tests": ["no_such_links"]})
    assert unknown["verdict"] == "inconclusive" and "no floor for no_such_links" in unknown["msg"]
    store = judged({**cables.params(tmp_path), "tests": ["store"]})
    assert {row["entity"] for row in store["checks"]} == {"node", cables.STORE}
    bad: list[dict[str, Any]] = [{"kind": "token_ring"}, {"ports": []}, {"ports": ["mlx5_0"]}, {"ports": ["../x/1"]}]
    bad += [{"rate_gbps": 0}, {"lanes": 0}, {"seconds": 0}, {"errors": -1}, {"errors": None}]
    bad += [{"ports": ["mlx5_0/1", "mlx5_0/1"]}, {"kind": "ethernet", "ports": ["../../x"], "lanes": None}]
    wrong = [cables.profile(cables.links(**row)) for row in bad]
    for one in [*wrong, cables.profile(cables.links(), cables.links("again"))]:
        with pytest.raises(ConfigError):
            section_of(wanted_of(one))
    with pytest.raises(ConfigError, match="no section network"):
        section_of(wanted_of(made.profile()))


def test_the_schema_knows_the_section() -> None:
    profiles.check(PROFILE, made.PROFILE_SCHEMA)
    bad: list[dict[str, Any]] = [
        {"kind": "token_ring"},
        {"ports": []},
        {"rate_gbps": 0},
        {"seconds": 0},
        {"errors": -1},
    ]
    for wrong in [*bad, {"source": ""}, {"errors": None}]:
        with pytest.raises(ConfigError):
            profiles.check(cables.profile(cables.links(**wrong)), made.PROFILE_SCHEMA)


def test_a_pass_has_every_cell_within_its_limits(tmp_path: Path) -> None:
    good = judged(cables.params(tmp_path))
    mine = claimed.own(PROFILE, [], cables.PLAN)
    assert claimed.lacking(PROFILE, [], cables.PLAN, good) == "" and strange(good, mine) == ""
    kept = written(good, mine)["checks"]
    assert {(row["id"], row["entity"]) for row in kept} == {(row["id"], row["entity"]) for row in good["checks"]}
    assert claimed.asked(PROFILE, [], cables.PLAN) == {"tests": ["rails", "store"], "neighbours": cables.PLAN}
    for cell, value in (("port_errors", 1), ("port_errors", -1), ("port_errors", True), ("port_errors", None)):
        lied = json.loads(json.dumps(good))
        next(row for row in lied["checks"] if row["id"] == cell)["measured"] = value
        assert f"it passes {cell} of" in claimed.lacking(PROFILE, [], cables.PLAN, lied)
    for cell in ("port_rate", "port_lanes", "port_state", "neighbour", "ended"):
        lied = json.loads(json.dumps(good))
        next(row for row in lied["checks"] if row["id"] == cell)["measured"] = 3
        assert f"it passes {cell} of" in strange(lied, mine)
    for at in range(len(good["checks"])):
        assert "required cells" in claimed.lacking(PROFILE, [], cables.PLAN, {**good, "checks": good["checks"][:at]})


def test_no_mutation_of_a_wrong_neighbour_is_the_right_one() -> None:
    bad = cables.document(cables.heard(to="Ethernet1/2"), cables.heard("ens9", "leaf09", "Ethernet1/9"))
    for seed in range(400):
        heard = lldp.read(shuffled(bad, random.Random(seed)))
        assert all("leaf01 Ethernet1/1" not in one for one in heard.neighbours.get(cables.STORE, [])), f"seed {seed}"
