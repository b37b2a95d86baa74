# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""network_gate measures ports: with the real iperf3 between two namespaces, and with an ib_write_bw without RDMA."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network import claimed, tools
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.gate import network_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.speeds import speeds_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import strange
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import cables, perftest
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

RAILS = {"name": "rail_write", "tool": "ib_write_bw", "links": "rails", "of_rate": 0.92, "seconds": 2, **cables.ABOUT}
TCP = {"name": "tcp", "tool": "iperf3", "links": "store", "of_rate": 0.9, "seconds": 2, "streams": 2, **cables.ABOUT}


def profile(*speeds: dict[str, Any], **other: Any) -> dict[str, Any]:
    plain = cables.profile()
    return {**plain, "network": {**plain["network"], "speeds": list(speeds), **other}}


def judged(params: dict[str, Any], **how: Any) -> dict[str, Any]:
    return dict(network_gate(params, Context(**how)).data)


def said(found: dict[str, Any]) -> tuple[str, str]:
    return found["verdict"], found["remedy"]


# -- RDMA ports, in pairs ----------------------------------------------------------------------------------------------


@pytest.fixture(name="rails")
def _rails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """The options of a gate that measures two rails. devices: how each of them does."""

    def make(**devices: dict[str, Any]) -> dict[str, Any]:
        params = cables.params(tmp_path, neighbours=None, profile=profile(RAILS), speeds=["rail_write"])
        known = {"sysfs": params["sysfs_path"], "devices": {"mlx5_0": {"rate": 391.2}, "mlx5_1": {"rate": 391.2}}}
        known["devices"].update(devices)
        for port in cables.RAILS:
            cables.rdma(tmp_path, port, **{"counters/port_xmit_data": 0})
        (tmp_path / "perftest.json").write_text(json.dumps(known), encoding="utf-8")
        monkeypatch.setenv("PERFTEST", str(tmp_path / "perftest.json"))
        script = made.program(tmp_path / "ib_write_bw", f'exec {sys.executable} -SE {perftest.__file__} "$@"')
        return {**params, "ib_write_bw": script, "speed_timeout": 40}

    return make


def test_each_rail_is_measured_against_its_neighbour(rails: Callable[..., dict[str, Any]]) -> None:
    found = judged(rails())
    cells = {row["entity"]: row for row in found["checks"] if row["id"] == "speed.rail_write"}
    assert found["verdict"] == "pass", found["msg"]
    assert {name: (row["measured"], row["wanted"]) for name, row in cells.items()} == dict.fromkeys(
        cables.RAILS, (391.2, 368.0)
    )
    assert cells[cables.RAILS[0]]["unit"] == "Gb/s, ib_write_bw, 1 queue pairs of 8 MiB"
    assert found["tool"]["name"] == "kernel and ib_write_bw"


@pytest.mark.parametrize(
    ("device", "verdict", "remedy", "word"),
    [
        ({"rate": 367.9}, "fail", "field_diag", "mlx5_1/1: 367.9 Gb/s"),
        ({"rate": 391.2, "wire": 0.5}, "inconclusive", "retest", "the kernel saw"),
        ({"rate": 0.0}, "inconclusive", "retest", "0 messages"),
    ],
)
def test_one_rail_that_is_slow_and_one_that_never_left_the_host(
    rails: Callable[..., dict[str, Any]], device: dict[str, Any], verdict: str, remedy: str, word: str
) -> None:
    found = judged(rails(mlx5_1=device))
    assert said(found) == (verdict, remedy) and word in str(found["findings"]), found["msg"]


def test_a_counter_that_is_not_told_proves_nothing(rails: Callable[..., dict[str, Any]]) -> None:
    found = judged(rails(mlx5_1={"rate": 391.2, "untold": True}))
    assert said(found) == ("inconclusive", "retest") and "does not tell how much left" in str(found["findings"])


def test_nor_does_one_that_the_driver_never_keeps_and_that_is_a_matter_of_the_profile(
    rails: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    untold = {"rate": 391.2, "untold": True}
    params = rails(mlx5_0=untold, mlx5_1=untold)
    for port in cables.RAILS:
        device, _slash, number = port.partition("/")
        shutil.rmtree(tmp_path / "sys" / "class" / "infiniband" / device / "ports" / number / "counters")
    found = judged(params)
    told = {row["entity"]: row["remedy"] for row in found["findings"] if "ib_write_bw" in row["text"]}
    assert found["verdict"] == "inconclusive" and told == dict.fromkeys(cables.RAILS, "remediate_config"), found


def test_a_tool_that_is_not_there_measures_nothing(rails: Callable[..., dict[str, Any]]) -> None:
    found = judged({**rails(), "ib_write_bw": "/nonexistent"})
    assert found["verdict"] == "inconclusive" and "not installed" in str(found["findings"])


def test_half_of_what_it_wrote_is_not_enough_though_it_counts_half_of_its_time(
    rails: Callable[..., dict[str, Any]],
) -> None:
    """It counts the middle of its time; the rest of what it wrote has to have left by the port as well."""
    found = judged(rails(mlx5_1={"rate": 391.2, "wire": 1.0}))
    assert said(found) == ("inconclusive", "retest") and "the kernel saw" in str(found["findings"])


@pytest.mark.parametrize(("side", "word"), [("serves", "exit status 3"), ("writes", "exit status 3")])
def test_both_sides_have_to_end_well(rails: Callable[..., dict[str, Any]], side: str, word: str) -> None:
    found = judged(rails(mlx5_1={"rate": 391.2, side: 3}))
    assert found["verdict"] == "inconclusive" and word in str(found["findings"]), found["msg"]


@pytest.mark.parametrize(
    ("device", "word"),
    [({"counted": 0.2}, "too short"), ({"unit": "MB/sec"}, "it measured in MB/sec")],
)
def test_an_instant_and_another_unit_are_no_figures(
    rails: Callable[..., dict[str, Any]], device: dict[str, Any], word: str
) -> None:
    found = judged(rails(mlx5_1={"rate": 391.2, **device}))
    assert said(found) == ("inconclusive", "retest") and word in str(found["findings"]), found["msg"]


def test_what_is_down_is_not_loaded_and_check_mode_loads_nothing(
    rails: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    params = {**rails(), "ib_write_bw": made.program(tmp_path / "noted", f"touch {tmp_path}/ran; exit 1")}
    assert judged(params, check_mode=True)["verdict"] == "inconclusive"
    cables.rdma(tmp_path, cables.RAILS[1], state="1: DOWN")
    assert said(judged(params)) == ("fail", "fabric") and not (tmp_path / "ran").exists()


# -- Ethernet ports ----------------------------------------------------------------------------------------------------


def ip(*words: str, space: str = "") -> None:
    subprocess.run(["ip", *(["-n", space] if space else []), *words], check=True, capture_output=True, timeout=30)


@pytest.fixture(name="wire")
def _wire(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A port of this machine, and the address of an iperf3 at the other end of its wire."""
    number = os.getpid() % 16384
    port, other, space = f"gft{number}a", f"gft{number}b", f"gft{number}"
    net = f"198.18.{number // 64 % 256}.{number % 64 * 4}".rpartition(".")
    here, there = f"{net[0]}.{int(net[2]) + 1}", f"{net[0]}.{int(net[2]) + 2}"
    ip("netns", "add", space)
    try:
        ip("link", "add", port, "type", "veth", "peer", "name", other, "netns", space)
        ip("addr", "add", f"{here}/30", "dev", port)
        ip("addr", "add", f"{there}/30", "dev", other, space=space)
        ip("link", "set", port, "up")
        ip("link", "set", other, "up", space=space)
        server = subprocess.Popen(
            ["ip", "netns", "exec", space, "iperf3", "-s", "--forceflush", "-B", there], stdout=subprocess.PIPE
        )
        try:
            assert server.stdout is not None and b"---" in server.stdout.readline()
            yield port, there
        finally:
            server.kill()
            server.communicate()
    finally:
        ip("netns", "del", space)


def over(port: str, server: str, **speed: Any) -> dict[str, Any]:
    """The options of a gate that measures this port with the real iperf3."""
    links = cables.links("store", "ethernet", ports=[port], rate_gbps=10)
    speeds = [{**TCP, "of_rate": 0.01, "seconds": 1, **speed}]
    return {
        "profile": {**made.profile(), "network": {"links": [links], "speeds": speeds}},
        "speeds": ["tcp"],
        "servers": {port: server},
        "speed_timeout": 30,
    }


ABLE = shutil.which("iperf3") is not None and os.geteuid() == 0


@pytest.mark.skipif(not ABLE, reason="there is no iperf3 here, or no root")
def test_the_real_iperf3_fills_a_port(wire: tuple[str, str]) -> None:
    port, server = wire
    found = judged(over(port, server))
    assert found["verdict"] == "pass", found["msg"]
    [cell] = [row for row in found["checks"] if row["id"] == "speed.tcp"]
    assert cell["entity"] == port and cell["measured"] > 0.1 and found["tool"]["version"].startswith("iperf 3")
    refused = judged(over(port, f"{server}:5999"))
    assert said(refused) == ("inconclusive", "retest") and "refused" in str(refused["findings"]).lower()


DOCUMENT: dict[str, Any] = {
    "start": {"version": "iperf 3.12", "test_start": {"protocol": "TCP", "num_streams": 2}},
    "end": {
        "streams": [{}, {}],
        "sum_sent": {"seconds": 2.0, "bytes": 23_750_000_000, "bits_per_second": 95e9},
        "sum_received": {"seconds": 2.01, "bytes": 23_700_000_000, "bits_per_second": 23.7e9 * 8 / 2.01},
    },
}


def store(folder: Path, document: Any, *, sent: int = 25_000_000_000, body: str = "") -> dict[str, Any]:
    """The options of a gate whose iperf3 prints this, and has sent so many bytes by the port."""
    params = cables.params(folder, neighbours=None, profile=profile(TCP), speeds=["tcp"], tests=["store"])
    cables.netdev(folder, **{"statistics/tx_bytes": 0})
    text = document if isinstance(document, str) else json.dumps(document)
    (folder / "iperf3.json").write_text(text, encoding="utf-8")
    counter = folder / "sys/class/net" / cables.STORE / "statistics/tx_bytes"
    script = f'echo "$@" >{folder}/called; {body}\necho {sent} >{counter}; cat {folder}/iperf3.json'
    return {**params, "servers": {cables.STORE: "10.0.0.9"}, "iperf3": made.program(folder / "iperf3", script)}


def altered(path: str, value: Any) -> dict[str, Any]:
    document = copy.deepcopy(DOCUMENT)
    *parents, last = path.split("/")
    place = document
    for name in parents:
        place = place[name]
    place[last] = value
    return document


def test_an_iperf3_that_is_fast_enough_over_that_very_port(tmp_path: Path) -> None:
    found = judged(store(tmp_path, DOCUMENT))
    assert found["verdict"] == "pass", found["msg"]
    called = (tmp_path / "called").read_text(encoding="utf-8")
    assert called == "-c 10.0.0.9 -p 5201 --bind-dev ens1f0np0 -J -t 2 -P 2 --connect-timeout 10000\n"


@pytest.mark.parametrize(
    ("document", "verdict", "word"),
    [
        (
            altered("end/sum_received", {"seconds": 2, "bytes": 22.4e9, "bits_per_second": 89.6e9}),
            "fail",
            "89.6 Gb/s",
        ),
        (altered("error", "unable to connect to server: Connection refused"), "inconclusive", "refused"),
        (altered("end", {}), "inconclusive", "cannot be read"),
        (altered("end/streams", [{}]), "inconclusive", "something else"),
        (altered("start/test_start/protocol", "UDP"), "inconclusive", "something else"),
        (altered("end/sum_sent/seconds", 0.2), "inconclusive", "do not fit"),
        (
            altered("end/sum_sent", {"seconds": 0.2, "bytes": 2.4e9, "bits_per_second": 96e9}),
            "inconclusive",
            "too short",
        ),
        (altered("end/sum_sent/bits_per_second", 190e9), "inconclusive", "do not fit"),
        (altered("end/sum_sent/bits_per_second", "95e9x"), "inconclusive", "cannot be read"),
        (altered("end/sum_sent/bits_per_second", float("nan")), "inconclusive", "do not fit"),
        (json.dumps(DOCUMENT)[:-9], "inconclusive", "cannot be read"),
        ("", "inconclusive", "cannot be read"),
        (json.dumps(DOCUMENT) * 2, "inconclusive", "cannot be read"),
        ('{"end": 1, "end": 2}', "inconclusive", "cannot be read"),
    ],
)
def test_what_iperf3_may_say_instead(tmp_path: Path, document: Any, verdict: str, word: str) -> None:
    found = judged(store(tmp_path, document))
    assert found["verdict"] == verdict and word in str(found["findings"]), found["msg"]


@pytest.mark.parametrize(
    ("how", "word"),
    [
        ({"sent": 1_000_000}, "the kernel saw"),
        ({"body": "exit 1"}, "exit status 1"),
        ({"body": "kill -9 $$"}, "signal 9"),
    ],
)
def test_figures_that_nothing_stands_behind(tmp_path: Path, how: dict[str, Any], word: str) -> None:
    found = judged(store(tmp_path, DOCUMENT, **how))
    assert found["verdict"] == "inconclusive" and word in str(found["findings"]), found["msg"]


# -- the section, and what a node may claim ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "wanted"),
    [
        ("10.0.0.9", ("10.0.0.9", 5201)),
        ("10.0.0.9:5300", ("10.0.0.9", 5300)),
        ("fd00::1", ("fd00::1", 5201)),
        ("[fd00::1]:5300", ("fd00::1", 5300)),
        ("store.example:1", ("store.example", 1)),
    ],
)
def test_where_a_server_is(server: str, wanted: tuple[str, int]) -> None:
    assert tools.place(server, 5201) == wanted


@pytest.mark.parametrize(
    "row",
    [
        {**RAILS, "links": "nothing"},
        {**RAILS, "links": "store"},
        {**TCP, "links": "rails"},
        {**RAILS, "of_rate": 1.1},
        {**RAILS, "of_rate": 0},
        {**RAILS, "seconds": 0.5},
        {**RAILS, "tool": "netcat"},
        {**TCP, "streams": 0.5},
    ],
)
def test_a_speed_that_cannot_be_measured_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        speeds_of(wanted_of(profile(row)), [row["name"]])


def test_the_schema_knows_speeds_and_a_port_without_a_server_is_a_setting(tmp_path: Path) -> None:
    profiles.check(profile(RAILS, TCP), made.PROFILE_SCHEMA)
    found = judged({**store(tmp_path, DOCUMENT), "servers": None})
    assert said(found) == ("inconclusive", "remediate_config") and "iperf3 server ens1f0np0" in found["msg"]


def test_a_node_cannot_leave_a_speed_out_or_claim_one_that_is_too_low(rails: Callable[..., dict[str, Any]]) -> None:
    params = rails()
    verdict, asked = judged(params), (params["profile"], ["rails"], {})
    every = judged({**params, "tests": ["rails"]})
    assert claimed.asked(*asked, ["rail_write"]) == {"tests": ["rails", "speed.rail_write"], "neighbours": {}}
    assert claimed.asked(*asked) == {"tests": ["rails"], "neighbours": {}}
    assert claimed.lacking(*asked, every, ["rail_write"]) == ""
    assert strange(every, claimed.own(*asked, ["rail_write"])) == "" and verdict["verdict"] == "pass"
    for value in (367.0, float("inf"), "391", True, None):
        lied = copy.deepcopy(every)
        [row, *_others] = [row for row in lied["checks"] if row["id"] == "speed.rail_write"]
        row["measured"] = value
        assert "below 368" in claimed.lacking(*asked, lied, ["rail_write"])
    lied["checks"].remove(row)
    assert "required cells" in claimed.lacking(*asked, lied, ["rail_write"])
    assert "measured by" in strange({**every, "tool": {"name": "kernel"}}, claimed.own(*asked, ["rail_write"]))
