# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""U2, U8: what BMCs, provisioner and scheduler lack is told before anything is written, whose it is kept apart."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action.preflight import _Record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import link
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_machines as machines
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_services as services
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight import Batch
from fake_bmc.redfish_server import PASSWORD, USER, FakeBmc
from fake_bmc.tls import Authority
from sound_site import SoundSite
from unit.scheduler import slurm_commands

SITE, SERVICE, NODE, THEIRS, NOTE = "site", "service", "node", "somebody_else", "note"


# -- BMCs ----------------------------------------------------------------------------------------------------------


class Bmcs(SoundSite):
    """Three nodes with a Redfish BMC each."""

    bmcs: dict[str, FakeBmc]


@pytest.fixture
def bmcs(site: SoundSite) -> Iterator[Any]:
    with contextlib.ExitStack() as stack:
        found = {}
        for number, host in enumerate(site.hosts, 1):
            bmc = found[host] = stack.enter_context(FakeBmc("plain"))
            its = {"SerialNumber": f"SN{number:04}", "UUID": f"5ac00000-0000-4000-8000-00000000000{number}"}
            bmc.vendor = {**bmc.vendor, "system": {**bmc.vendor["system"], **its}}
            site.hosts[host]["gpufleet_bmc_address"] = bmc.url
        site.shared.update(gpufleet_bmc_username=USER, gpufleet_bmc_password=PASSWORD)
        yield site, found
        assert not any(bmc.writes for bmc in found.values()), "a look writes nothing"


def test_u2_bmcs_that_answer_as_their_rows_say_have_nothing_told_of_them(bmcs: Any) -> None:
    site, found = bmcs
    assert site.told(machines.look) == []
    assert all(bmc.requests for bmc in found.values()), "each was asked"


def test_r6_a_row_that_names_a_port_alone_is_told_where_no_bmc_lists_it(bmcs: Any, tmp_path: Path) -> None:
    """As the role that comes after it does, unless the ledger knows the port's machine."""
    site, found = bmcs
    del site.hosts["gpu001"]["gpufleet_serial"]
    [cause] = site.told(machines.look)
    assert cause["hosts"] == ["gpu001"] and "nothing that this BMC tells" in cause["what"], cause
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
        node = ledger.identify("gpu001", aliases=[("mac", "7c:c2:55:00:00:01"), ("serial", "sn0001")])
        ids = {"gpu001": node}
        for serial, known in (("SN0001", True), ("SN0009", False)):
            system = {**found["gpu001"].vendor["system"], "SerialNumber": serial}
            found["gpu001"].vendor = {**found["gpu001"].vendor, "system": system}
            batch = site.batch(
                record=_Record(
                    lambda: ledger,
                    lambda host: ids.get(host, ""),
                    list(site.hosts),
                    lambda name, host: site.hosts[host].get(name),
                )
            )
            machines.look(batch)
            assert bool(batch.found["gpu001"]) is not known, batch.found


def test_u2_what_one_bmc_tells_leaves_out_that_node_alone(bmcs: Any) -> None:
    """One is another machine's, one refuses the login; the third is sound."""
    site, _found = bmcs
    site.hosts["gpu001"]["gpufleet_serial"] = "SN0002-OF-ANOTHER"
    site.hosts["gpu002"]["gpufleet_bmc_password"] = "not-this-one"
    told = {cause["hosts"][0]: cause for cause in site.told(machines.look)}
    assert {host: cause["kind"] for host, cause in told.items()} == {"gpu001": NODE, "gpu002": NODE}
    assert "is another one" in told["gpu001"]["what"] and "SN0001" in told["gpu001"]["seen"]
    assert "refuses the login" in told["gpu002"]["what"] or "login" in told["gpu002"]["what"]
    assert "not-this-one" not in json.dumps(told)


def test_u2_a_login_that_every_bmc_refuses_is_the_sites_and_one_line(bmcs: Any) -> None:
    site, _found = bmcs
    site.shared["gpufleet_bmc_password"] = "not-this-one"
    [cause] = site.told(machines.look)
    assert (cause["kind"], len(cause["hosts"])) == (SITE, 3), cause


def test_u8_two_rows_with_one_bmc_or_one_boot_port_are_told_as_that(bmcs: Any) -> None:
    site, _found = bmcs
    for name in ("gpufleet_bmc_address", "gpufleet_boot_mac"):
        site.hosts["gpu002"][name] = site.hosts["gpu001"][name]
    told = [cause for cause in site.told(machines.look) if cause["kind"] == SITE]
    assert [(cause["what"], cause["hosts"]) for cause in told] == [
        (f"2 hosts have one {name}", ["gpu001", "gpu002"]) for name in ("gpufleet_bmc_address", "gpufleet_boot_mac")
    ]


@pytest.mark.parametrize("apart", ["gpufleet_boot_mac", "gpufleet_system_uuid", ""])
def test_r4_two_rows_with_one_serial_and_nothing_beside_it_are_told(bmcs: Any, apart: str) -> None:
    """As after a rename, where the ledger knows one by its old name. A chassis may give its nodes one serial."""
    site, _found = bmcs
    for number, host in enumerate(("gpu001", "gpu002"), 1):
        site.hosts[host].update(gpufleet_serial=("sn0001", "SN0001")[number - 1])
        site.hosts[host].pop("gpufleet_boot_mac")
        site.hosts[host].update({apart: f"7c:c2:55:00:00:0{number}"} if apart else {})
    told = [cause for cause in site.told(machines.look) if "one gpufleet_serial" in cause["what"]]
    assert [cause["hosts"] for cause in told] == ([] if apart else [["gpu001", "gpu002"]])


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("gpufleet_bmc_address", "https://10.20.12.1", "10.20.12.1"),
        ("gpufleet_bmc_address", "HTTPS://bmc1.example.com:443/", "bmc1.example.com"),
        ("gpufleet_bmc_address", "https://[fd00::1]:443", "fd00:0::1"),
        ("gpufleet_boot_mac", "7c:c2:55:00:00:01", "7CC2.5500.0001"),
    ],
)
def test_u8_one_bmc_or_boot_port_in_two_spellings_is_told_as_one(
    site: SoundSite, name: str, first: str, second: str
) -> None:
    site.hosts["gpu001"][name], site.hosts["gpu002"][name] = first, second
    site.shared["gpufleet_bmc_password"] = ""  # nobody is asked
    [cause] = site.told(machines.look)
    assert (cause["what"], cause["hosts"]) == (f"2 hosts have one {name}", ["gpu001", "gpu002"])


def test_u2_two_hundred_bmcs_that_do_not_answer_are_one_line_in_seconds(site: SoundSite) -> None:
    site.grow(200)
    began = time.monotonic()
    batch = site.batch(threads=32)
    machines.look(batch)
    took = time.monotonic() - began
    assert all(len(causes) == 1 for causes in batch.found.values())
    assert took < 60, took
    [cause] = site.told(lambda other: other.found.update(batch.found))
    assert cause["kind"] == SITE and len(cause["hosts"]) == 200


def test_u2_bmcs_that_hang_or_stay_busy_are_told_soon(bmcs: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """One takes the connection and says nothing, one is not ready, over IPMI one is silent: each for as long as it
    may."""
    site, found = bmcs
    monkeypatch.setattr(machines, "_IN_THREADS", {"timeout": 60.0, "silence": 2.0})
    monkeypatch.setattr(link, "PATIENCE_BROKEN", 1.0)
    monkeypatch.setattr(machines, "_IN_A_CHILD", {"timeout": 1.0})
    found["gpu002"].faults["busy"] = 10**6
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket(type=socket.SOCK_DGRAM) as dead:
        dead.bind(("127.0.0.1", 0))
        site.hosts["gpu001"]["gpufleet_bmc_address"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        its = {"gpufleet_bmc_protocol": "ipmi", "gpufleet_bmc_address": f"127.0.0.1:{dead.getsockname()[1]}"}
        site.hosts["gpu003"].update(its)
        began = time.monotonic()
        told = {host: cause for cause in site.told(machines.look) for host in cause["hosts"]}
    assert {cause["kind"] for cause in told.values()} == {NODE}, told
    assert set(told) == set(site.hosts) and time.monotonic() - began < 15, told
    assert "asking 3 BMCs" in capsys.readouterr().out


def test_u2_a_bmc_that_works_and_is_slow_is_waited_for(bmcs: Any) -> None:
    """Each answer may take the 23 s that were seen of one; the session's login and end are requests too."""
    site, found = bmcs
    site.shared["gpufleet_bmc_auth"] = "session"
    assert site.told(machines.look) == []
    most = max(server.requests.total() for server in found.values())
    assert most > 3 and most * 23 < machines._IN_THREADS["timeout"] + machines._IN_THREADS["silence"], most


def test_u2_a_switch_in_the_words_of_an_ini_file_is_read_as_the_verbs_read_it(site: SoundSite, tmp_path: Path) -> None:
    """``gpufleet_bmc_verify_tls=false`` is text there, or in an extra variable; the certificate is nobody's."""
    with FakeBmc("plain", context=Authority(tmp_path).server_context("127.0.0.1")) as bmc:
        system = {**bmc.vendor["system"], "SerialNumber": "SN0001"}
        bmc.vendor = {**bmc.vendor, "system": system}
        site.hosts = {"gpu001": {**site.hosts["gpu001"], "gpufleet_bmc_address": bmc.url}}
        site.shared.update(gpufleet_bmc_username=USER, gpufleet_bmc_password=PASSWORD, gpufleet_bmc_verify_tls="false")
        assert site.told(machines.look) == [] and bmc.requests
        site.shared["gpufleet_bmc_verify_tls"] = "true"
        [cause] = site.told(machines.look)
        assert "certificate" in json.dumps(cause), cause


# -- scheduler -----------------------------------------------------------------------------------------------------


@pytest.fixture
def slurm(site: SoundSite, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Nodes that wait for their first boot, as new ones do."""
    new = {"state": "DOWN", "reason": "Not responding", "by": "slurm", "booted": "None"}
    world = slurm_commands.install(site.folder, nodes={host: dict(new) for host in site.hosts})
    monkeypatch.setenv("PATH", f"{site.folder / 'bin'}:{os.environ['PATH']}")
    site.shared["gpufleet_scheduler"] = "slurm"
    yield world
    calls = json.loads(world.read_text(encoding="utf-8"))["calls"]
    assert not [call for call in calls if call[:2] == ["scontrol", "update"]], "a look writes nothing"


def test_u2_nodes_that_slurm_knows_have_nothing_told_of_them(site: SoundSite, slurm: Path) -> None:
    assert site.told(services.scheduler) == []
    calls = json.loads(slurm.read_text(encoding="utf-8"))["calls"]
    assert len([call for call in calls if "node" in call]) == 1, "one question for all"


def test_u2_a_node_that_its_scheduler_does_not_know_stops_before_it_is_imaged(site: SoundSite, slurm: Path) -> None:
    """Of one that is like a node of its own the message names that."""
    for number, host in enumerate(site.hosts):
        site.hosts[host]["gpufleet_scheduler_node"] = f"other{number}.of-none"
        site.hosts[host]["ansible_host"] = f"10.1.1.{number}"
    [cause] = site.told(services.scheduler)
    assert (cause["kind"], len(cause["hosts"]), cause["instance"]) == (SITE, 3, "gpu001"), cause
    assert "gpu001" in cause["seen"] and "gpufleet_scheduler_node" in cause["do"]
    world = json.loads(slurm.read_text(encoding="utf-8"))
    slurm.write_text(json.dumps({**world, "nodes": {"login1": world["nodes"]["gpu001"]}}), encoding="utf-8")
    [cause] = site.told(services.scheduler)
    assert (cause["kind"], len(cause["hosts"]), cause["instance"]) == (SITE, 3, "gpu001"), cause
    assert "does not know the node other0.of-none" in cause["what"] and cause["do"]


def test_u2_a_clock_that_is_off_stops_a_run_before_it_fails_each_healthy_node(site: SoundSite, slurm: Path) -> None:
    """By this machine's clock each node is judged; of another zone, which differs by as much, nobody is stopped."""

    def told(ahead: float) -> list[dict[str, Any]]:
        world = json.loads(slurm.read_text(encoding="utf-8"))
        slurm.write_text(json.dumps({**world, "ahead": ahead}), encoding="utf-8")
        found: list[dict[str, Any]] = site.told(services.scheduler)
        return found

    assert told(1.0) == [], "whole seconds are told"
    for ahead, words in ((60.0, " s ahead"), (-60.0, " s behind")):
        [cause] = told(ahead)
        assert (cause["check"], cause["kind"], len(cause["hosts"])) == ("clock", SITE, 3), cause
        assert words in cause["seen"] and "baseline_max_clock_skew" in cause["wanted"] and "date -u" in cause["do"]
    site.hosts["gpu001"]["baseline_max_clock_skew"] = 90
    [cause] = told(60.0)
    assert cause["hosts"] == ["gpu002", "gpu003"]
    assert {(cause["kind"], "time zone" in cause["what"]) for cause in told(7200.0)} == {("note", True)}


def test_u8_two_hosts_on_one_node_of_the_scheduler_are_told(site: SoundSite, slurm: Path) -> None:
    site.hosts["gpu002"]["gpufleet_scheduler_node"] = "gpu001"
    told = site.told(services.scheduler)
    assert sorted(host for cause in told for host in cause["hosts"]) == ["gpu001", "gpu002"]
    assert all(cause["kind"] == SITE and "is also that of" in cause["what"] for cause in told)


def test_u8_one_node_of_the_scheduler_for_two_hundred_hosts_is_one_short_line(site: SoundSite, slurm: Path) -> None:
    site.grow(200)
    site.shared["gpufleet_scheduler_node"] = "gpu-node-1"
    lines = site.lines(services.scheduler)
    assert len(lines) == 3 and len(lines[-1]) < 300, lines[-1][:400]
    assert "all 200 nodes: its scheduler_node gpu-node-1 is also that of other hosts" in lines[-1]


def test_u2_a_node_that_somebody_holds_is_left_to_them(site: SoundSite, slurm: Path) -> None:
    world = json.loads(slurm.read_text(encoding="utf-8"))
    world["nodes"]["gpu002"].update(
        state="IDLE+DRAIN", reason="Anna swaps a DIMM", by="anna", booted="2026-11-20T10:12:58"
    )
    slurm.write_text(json.dumps(world), encoding="utf-8")
    [cause] = site.told(services.scheduler)
    assert (cause["kind"], cause["hosts"]) == (THEIRS, ["gpu002"]) and "Anna swaps a DIMM" in cause["seen"]


def test_a_node_that_slurms_topology_lacks_is_told_and_stops_nobody(site: SoundSite, slurm: Path) -> None:
    world = json.loads(slurm.read_text(encoding="utf-8"))
    world["topologies"] = {"": ["SwitchName=leaf-a1 Level=0 LinkSpeed=1 Nodes=gpu001"]}
    world["partitions"] = ["PartitionName=gpu Nodes=gpu[001-002]"]
    slurm.write_text(json.dumps(world), encoding="utf-8")
    [cause] = site.told(services.scheduler)
    assert (cause["kind"], cause["hosts"]) == (NOTE, ["gpu002"]) and "playbook topology" in cause["do"]
    assert "its partition gpu goes by" in cause["seen"]


def test_a_topology_in_a_form_that_nobody_here_reads_is_told_and_stops_nobody(site: SoundSite, slurm: Path) -> None:
    world = json.loads(slurm.read_text(encoding="utf-8"))
    world["topologies"] = {"": ["TorusName=t Dims=2x2x2 Nodes=gpu[001-008]"]}
    world["partitions"] = ["PartitionName=gpu Nodes=gpu[001-002]"]
    slurm.write_text(json.dumps(world), encoding="utf-8")
    [cause] = site.told(services.scheduler)
    assert cause["kind"] == NOTE and len(cause["hosts"]) == 3 and "TorusName=t" in cause["seen"]


class Imaged:
    """A ledger by which our runs have imaged gpu001, and held it never."""

    def certificate(self, host: str) -> str:
        return ""

    def former_serials(self) -> Mapping[str, Sequence[str]]:
        return {}

    def moves(self) -> Mapping[str, Mapping[str, Any]]:
        return {}

    def holds(self) -> Mapping[str, Mapping[str, Any]]:
        return {"gpu001": {"known_here": True}, "gpu002": {"known_here": False}, "gpu003": {"known_here": False}}


def test_r5_a_row_that_names_a_node_which_is_not_its_machines_is_told(site: SoundSite, slurm: Path) -> None:
    world = json.loads(slurm.read_text(encoding="utf-8"))
    new = world["nodes"]["gpu001"]
    world["nodes"].update(other8=new, other9={"state": "ALLOCATED", "reason": "", "by": ""})
    world["jobs"] = [{"id": "4711", "node": "other9"}]
    slurm.write_text(json.dumps(world), encoding="utf-8")
    site.hosts["gpu001"]["gpufleet_scheduler_node"] = "other9"
    site.hosts["gpu002"]["gpufleet_scheduler_node"] = "other8"
    batch = site.batch()
    asked = Batch(list(site.hosts), lambda name, host: batch.variable(name, host), batch.names, 1, Imaged())
    services.scheduler(asked)
    told = {host: causes for host, causes in asked.found.items() if causes}
    assert {host: [one.kind for one in causes] for host, causes in told.items()} == dict.fromkeys(
        ("gpu001", "gpu002"), [THEIRS]
    ), "a run asks the machine, and leaves nothing out for this"
    assert "4711" in told["gpu001"][0].seen and "is gpu002 there" in told["gpu002"][0].what


def test_u2_a_user_whom_slurm_lets_change_nothing_is_told(
    site: SoundSite, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    [cause] = site.told(services.scheduler)
    assert cause["kind"] == SITE and cause["what"] == "Slurm lets this user change no node", cause


def test_u2_a_slurm_that_does_not_answer_is_a_service(site: SoundSite, slurm: Path) -> None:
    for command in ("scontrol", "squeue"):
        text = "echo 'slurm_load_node error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
        (site.folder / "bin" / command).write_text(f"#!/bin/sh\n{text}\n")
    told = site.told(services.scheduler)
    assert [(cause["kind"], len(cause["hosts"])) for cause in told] == [(SERVICE, 3)], told


# -- all of it -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_u2_a_site_that_lacks_nothing_passes_and_one_wrong_machine_fails_alone(
    bmcs: Any, slurm: Path, maas: Any
) -> None:
    """Through the playbook, with every peer there. What is one node's own ends with that node, told once."""
    site, _found = bmcs
    assert site.book(ok=True)["findings"] == [] and "3 nodes: nothing stands in the way" in site.output
    site.hosts["gpu002"]["gpufleet_serial"] = "SN0003-OF-ANOTHER"
    result = site.book(ok=False)
    assert result["ok"] and [host for host, one in result["nodes"].items() if one["left_out"]] == ["gpu002"]
    assert "3 nodes: 1 left out" in result["lines"][0] and "SN0002" in result["nodes"]["gpu002"]["reason"]
    assert not (site.folder / "ledger.sqlite").exists() and not maas.store.machines
