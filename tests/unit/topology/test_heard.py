# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a node is, out of what lldpd, nvidia-smi and ibnetdiscover print: and nowhere, where that proves nothing."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._topology import fabric, heard
from ansible_collections.gpufleet.baremetal.plugins.module_utils._topology.info import topology_info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._topology.judge import judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from hypothesis import given, settings
from hypothesis import strategies as st
from suite import programs
from suite.properties import at_most

UUID = "9c6f5af3-53bf-49b5-a436-b66766c413c3"
ZERO = "00000000-0000-0000-0000-000000000000"


def row(port: str, name: str, mac: str = "00:00:5e:00:53:01", **more: Any) -> dict[str, Any]:
    """One neighbour in the form of lldpctl -f json0."""
    bridge = [{"type": "Bridge", "enabled": True}]
    chassis = {"id": [{"type": "mac", "value": mac}], "name": [{"value": name}], "capability": bridge, **more}
    return {"name": port, "via": "LLDP", "chassis": [chassis], "port": [{"id": [{"type": "ifname", "value": "swp1"}]}]}


def lldp(*rows: dict[str, Any]) -> str:
    return json.dumps({"lldp": [{"interface": list(rows)} if rows else {}]})


def test_each_port_leads_to_its_switch_and_a_neighbour_that_is_none_is_passed_over() -> None:
    host = row(
        "eth2", "gpu002", capability=[{"type": "Bridge", "enabled": False}, {"type": "Station", "enabled": True}]
    )
    nameless = row("eth3", "", mac="00:00:5e:00:53:09")
    found = heard.neighbours(lldp(row("eth0", "leaf-a1"), row("eth0", "leaf-a1"), host, nameless))
    assert [(one.port, one.leaf, one.leaf_id) for one in found] == [
        ("eth0", "leaf-a1", "00:00:5e:00:53:01"),
        ("eth3", "00:00:5e:00:53:09", "00:00:5e:00:53:09"),
    ]
    assert heard.neighbours(lldp()) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"lldp": 1}', '{"lldp": [{"interface": [{"name": "x"}]}]}'])
def test_what_is_no_answer_of_lldpd_is_told_as_that(text: str) -> None:
    with pytest.raises(ValueError):
        heard.neighbours(text)


@settings(max_examples=at_most(60))
@given(
    st.recursive(
        st.none() | st.text(max_size=3) | st.integers(),
        lambda part: (
            st.lists(part)
            | st.dictionaries(
                st.sampled_from(("lldp", "interface", "name", "chassis", "id", "value", "capability")), part
            )
        ),
        max_leaves=12,
    )
)
def test_no_document_breaks_the_reader(document: Any) -> None:
    with contextlib.suppress(ValueError):
        assert all(one.leaf for one in heard.neighbours(json.dumps(document)))


@pytest.mark.parametrize(
    ("rows", "domain", "trouble"),
    [
        ([f"{UUID}, 4026, Completed, Success"] * 4, f"{UUID}.4026", ""),
        ([f"{UUID.upper()}, 4026, Completed, Success"], f"{UUID}.4026", ""),
        # An H100: by this all nodes would be in one domain.
        ([f"{ZERO}, 0, Completed, Success"] * 8, "", ""),
        (["N/A, N/A, Not Supported, N/A"], "", ""),
        ([f"{ZERO}, 4026, Completed, Insufficient Resources"] * 4, "", "Completed Insufficient Resources"),
        ([f"{UUID}, 4026, Completed, Success", f"{UUID}, 7, Completed, Success"], "", "several NVLink domains"),
        ([f"{UUID}, 4026, Completed, Success", f"{ZERO}, 0, In Progress, N/A"], "", "several NVLink domains"),
        ([f"{UUID}, 4026, In Progress, N/A"] * 4, f"{UUID}.4026", "In Progress N/A"),
        ([], "", "no answer of nvidia-smi"),
        (["No devices were found"], "", "no answer of nvidia-smi"),
    ],
)
def test_both_parts_of_a_domain_are_needed_on_each_gpu(rows: list[str], domain: str, trouble: str) -> None:
    found = heard.domain("\n".join(rows) + "\n")
    assert found.id == domain and trouble in found.trouble and bool(found.trouble) == bool(trouble)


#: In the form of NVIDIA's topograph tests, with names of our own.
FABRIC = """\
Switch	65 "S-00000000000000a1"		# "MF0;leaf-a1:MQM9701/U1" enhanced port 0 lid 73 lmc 0
[1]	"H-e000000000000011"[1](e000000000000011) 		# "gpu001 mlx5_0" lid 647 4xNDR
[2]	"H-e000000000000021"[1](e000000000000021) 		# "MT4129 ConnectX7   Mellanox Technologies" lid 648 4xNDR
[35]	"S-00000000000000f1"[32]		# "MF0;spine-1:MQM9701/U1" lid 236 4xNDR
[65]	"H-00000000000000b0"[1](00000000000000b0) 		# "Mellanox Technologies Aggregation Node" lid 193 4xNDR

Switch	65 "S-00000000000000f1"		# "MF0;spine-1:MQM9701/U1" enhanced port 0 lid 236 lmc 0
[32]	"S-00000000000000a1"[35]		# "MF0;leaf-a1:MQM9701/U1" lid 73 4xNDR

Ca	1 "H-e000000000000011"		# "gpu001 mlx5_0"
[1](e000000000000011) 	"S-00000000000000a1"[1]		# lid 647 lmc 0 "MF0;leaf-a1:MQM9701/U1" lid 73 4xNDR
"""


def test_a_port_is_known_by_its_guid_whatever_it_is_called() -> None:
    leaf = ["leaf-a1", "00000000000000a1"]
    assert fabric.leaves(FABRIC.splitlines()) == {"e000000000000011": leaf, "e000000000000021": leaf}


@pytest.mark.parametrize(
    "text", ["", "ibpanic: can't open UMAD port", FABRIC.replace("a1", "b2").replace('"H-', '"S-')]
)
def test_what_is_no_fabric_is_told_as_that(text: str) -> None:
    with pytest.raises(ValueError, match="no port of a host"):
        fabric.leaves(text.splitlines())


def test_a_port_of_two_switches_is_of_two_fabrics() -> None:
    with pytest.raises(ValueError, match="leads to two switches"):
        fabric.leaves([*FABRIC.splitlines(), *FABRIC.replace("00000000000000a1", "00000000000000a2").splitlines()])


def port(sysfs: Path, name: str, guid: str, layer: str = "InfiniBand") -> None:
    place = sysfs / "class" / "infiniband" / name / "ports" / "1"
    (place / "gids").mkdir(parents=True)
    (place / "link_layer").write_text(f"{layer}\n", encoding="ascii")
    (place / "gids" / "0").write_text(f"fe80:0000:0000:0000:{guid}\n", encoding="ascii")


def looked(tmp_path: Path, **more: Any) -> dict[str, Any]:
    params = {"sources": ["lldp", "nvlink", "infiniband"], "sysfs_path": str(tmp_path), "timeout": 10, "lldpctl": ""}
    return topology_info({**params, "nvidia_smi": "", **more}, Context()).data


def program(folder: Path, name: str, body: str) -> str:
    return programs.put(folder / name, f"#!/bin/sh\n{body}\n")


def test_a_node_is_asked_and_what_tells_nothing_is_told(tmp_path: Path) -> None:
    port(tmp_path, "mlx5_0", "e000:0000:0000:0011")
    port(tmp_path, "mlx5_1", "e000:0000:0000:0012")
    port(tmp_path, "mlx5_bond", "e000:0000:0000:0013", "Ethernet")
    (tmp_path / "answer").write_text(lldp(row("eth0", "leaf-a1"), row("eth1", "leaf-b1")), encoding="utf-8")
    lldpctl = program(tmp_path, "lldpctl", f'[ "$*" = "-f json0" ] && cat {tmp_path}/answer')
    smi = program(tmp_path, "nvidia-smi", "echo 'Field \"fabric.clusterUuid\" is not a valid field to query.'; exit 2")
    found = looked(tmp_path, lldpctl=lldpctl, nvidia_smi=smi, ports=["eth0", "mlx5_0*"])
    assert found["neighbours"] == [{"port": "eth0", "leaf": "leaf-a1", "leaf_id": "00:00:5e:00:53:01"}]
    assert found["guids"] == {"mlx5_0/1": "e000000000000011"} and found["domain"] == ""
    assert list(found["unread"]) == ["nvlink"] and "exit status 2" in found["unread"]["nvlink"]
    nothing = looked(tmp_path / "none", lldpctl=str(tmp_path / "gone"), nvidia_smi=str(tmp_path / "gone"))
    assert sorted(nothing["unread"]) == ["infiniband", "lldp", "nvlink"]
    told = {"lldp": lldp(row("eth1", "leaf-b1")), "nvlink": f"{UUID}, 1, Completed, Success\n"}
    files = looked(tmp_path, told=told, guids=["0xE000000000000011"])
    assert files["domain"] == f"{UUID}.1" and files["guids"] == {"e000000000000011": "e000000000000011"}
    assert looked(tmp_path, told=told, guids=["mlx5_0"])["unread"].keys() == {"infiniband"}


def test_ports_that_count_and_are_not_there_are_told(tmp_path: Path) -> None:
    """A wrong name of one would leave no port to look at, as if no switch had been heard."""
    port(tmp_path, "mlx5_0", "e000:0000:0000:0011")
    told = {"lldp": lldp(row("eth0", "leaf-a1"), row("eth1", "leaf-b1"))}
    unread = looked(tmp_path, told=told, ports=["ens1f0np0"], sources=["lldp", "infiniband"])["unread"]
    assert unread["lldp"] == "no port that hears a switch among ens1f0np0, which count; there are eth0, eth1"
    assert unread["infiniband"] == "no InfiniBand port with a GUID among ens1f0np0, which count; there are mlx5_0/1"
    alone = looked(tmp_path, told={"lldp": lldp()}, sources=["lldp"])
    assert alone["unread"] == {"lldp": "no port that hears a switch"}


def test_an_answer_of_lldpctl_with_a_key_twice_is_none() -> None:
    twice = lldp(row("eth0", "leaf-a1")).replace('"name": "eth0"', '"name": "eth1", "name": "eth0"')
    with pytest.raises(ValueError, match="a key stands twice"):
        heard.neighbours(twice)


def seen(*leaves: str, domain: str = "", **unread: str) -> dict[str, Any]:
    rows = [{"port": f"eth{at}", "leaf": leaf, "leaf_id": f"id-{leaf}"} for at, leaf in enumerate(leaves)]
    return {"neighbours": rows, "domain": domain, "unread": unread}


@pytest.mark.parametrize(
    ("wanted", "what", "verdict", "words"),
    [
        ({"leaf": ["leaf-a1"]}, seen("leaf-a1", "leaf-a1"), "pass", ""),
        ({"leaf": ["id-leaf-a1"]}, seen("leaf-a1"), "pass", ""),
        ({"leaf": ["leaf-a1", "leaf-a2"]}, seen("leaf-a1", "leaf-a2"), "pass", ""),
        ({"leaf": ["leaf-a1"]}, seen("leaf-a1", "leaf-b1"), "fail", "eth1 leads to leaf-b1"),
        ({"leaf": ["leaf-a1"]}, seen(), "inconclusive", ""),
        ({"leaf": ["leaf-a1"]}, seen(lldp="lldpctl: missing"), "inconclusive", "lldp tells nothing"),
        ({"leaf": ["leaf-a1"]}, seen("leaf-a1", nvlink="nvidia-smi: missing"), "pass", ""),
        ({"domain": f"{UUID}.1"}, seen(domain=f"{UUID}.1"), "pass", ""),
        ({"domain": f"{UUID}.1"}, seen(domain=f"{UUID}.2"), "fail", "and not in"),
        ({"domain": f"{UUID}.1"}, seen(), "inconclusive", ""),
        ({"domain": f"{UUID}.1"}, seen(domain=f"{UUID}.1", nvlink="In Progress"), "inconclusive", "In Progress"),
        ({"leaf": ["leaf-a1"], "domain": f"{UUID}.1"}, seen("leaf-a1"), "inconclusive", ""),
    ],
)
def test_the_plan_and_what_was_seen(wanted: dict[str, Any], what: dict[str, Any], verdict: str, words: str) -> None:
    sheet = judge(wanted, what)
    assert sheet.verdict == verdict and words in "; ".join(finding.text for finding in sheet.findings)
    assert verdict != "fail" or sheet.remedy == "fabric"
