# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One task for machines behind IPMI, whose library serves one at a time: each has a process, and none the ledger."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible import constants as C
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import settle
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi import link
from contract.permit.rig import Controller
from fake_bmc import ipmi_server
from fake_bmc.ipmi_server import IpmiSim

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ipmi_server.PROGRAM, reason="needs ipmi_sim (Debian package openipmi)"),
]
PATIENCE = 8.0
#: Looks for the processes below the one that is named: its worker, that one's first process, and those below that; what
#: other tests have started before and share is none of them. When no more than so many speak to BMCs, and each file has
#: its word in it, it kills one and tells which there were.
KILLER = """
import json, os, pathlib, signal, sys, time
tests, whom, most, before = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
files = [one.split(":", 1) for one in sys.argv[5:]]
def says(word, name):
    place = pathlib.Path(name)
    return place.exists() and word in place.read_text()
def below(pids):
    found = []
    for one in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if int((one / "stat").read_text().rpartition(")")[2].split()[1]) in pids:
                found.append(int(one.name))
        except OSError:
            pass
    return found
while True:
    workers = [one for one in below([tests]) if one not in [os.getpid(), *before]]
    firsts = below(workers)
    speaking = below(firsts)
    if speaking and len(speaking) <= most and all(says(*one) for one in files):
        break
    time.sleep(0.02)
worker = next(one for one in workers if set(below([one])) & set(firsts))
killed = {"worker": worker, "speaker": speaking[0]}[whom]
os.kill(killed, signal.SIGKILL)
print(json.dumps(firsts + speaking))
"""


@contextmanager
def silent() -> Iterator[str]:
    """A BMC that is there and says nothing."""
    with socket.socket(type=socket.SOCK_DGRAM) as dead:
        dead.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{dead.getsockname()[1]}"


class Site(Controller):
    """So many machines that run behind ipmi_sim, and so many whose BMC is silent; all are held but the last one."""

    def __init__(self, folder: Path, running: ExitStack, live: int, dead: int) -> None:
        hosts = [f"gpu{number:03}" for number in range(1, live + dead + 1)]
        super().__init__(folder, dict.fromkeys(hosts, _Nowhere()))  # type: ignore[arg-type]
        self.sims: dict[str, IpmiSim] = {}
        shared = {"gpufleet_bmc_protocol": "ipmi", "gpufleet_bmc_username": ipmi_server.USER}
        for number, host in enumerate(hosts):
            address = running.enter_context(silent()) if number < dead else self._live(running, host, number)
            more = {"gpufleet_bmc_password": ipmi_server.PASSWORD, "gpufleet_bmc_address": address}
            self.hosts[host].update(shared, **more)

    def _live(self, running: ExitStack, host: str, number: int) -> str:
        sim = IpmiSim(self.folder / f"bmc-{host}", serial=f"S-{host}", guid=f"{number:032x}")
        self.sims[host] = running.enter_context(sim)
        sim.set_power("1")
        return f"127.0.0.1:{sim.port}"

    def held(self) -> None:
        found = self.of_all("scheduler_node", state="held", why="reimage")
        assert all(one["ok"] for one in found.values()), found

    @contextmanager
    def meanwhile_killed(self, whom: str, most: int, *said: str) -> Iterator[list[int]]:
        """The processes that were there then."""
        asked = [sys.executable, "-c", KILLER, str(os.getpid()), whom, str(most), json.dumps(children()), *said]
        there: list[int] = []
        with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True) as killer:
            try:
                yield there
                there += json.loads(killer.communicate(timeout=30)[0])
            finally:
                killer.kill()


class _Nowhere:
    url = ""


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setattr(C, "DEFAULT_LOCAL_TMP", str(tmp_path / "of-this-run"))
    (tmp_path / "of-this-run").mkdir()
    monkeypatch.setattr(settle, "PACE", ((float("inf"), 0.05),))
    monkeypatch.setattr(link, "PATIENCE", PATIENCE)
    with ExitStack() as stack:
        yield stack


def children() -> list[int]:
    """Of this process, of all its threads."""
    lists = (thread / "children" for thread in Path("/proc/self/task").iterdir())
    return [int(one) for each in lists for one in each.read_text(encoding="ascii").split()]


def writes(sim: IpmiSim) -> list[str]:
    return [line for line in sim.calls() if line.startswith("set power")]


def told(found: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[bool, bool, str]]:
    return {host: (one["ok"], one["changed"], one["kind"]) for host, one in found.items()}


def test_dead_bmcs_cost_those_that_live_nothing_and_each_is_served_once(tmp_path: Path, running: ExitStack) -> None:
    site = Site(tmp_path, running, live=9, dead=4)
    in_service = list(site.hosts)[-1]
    site.held()
    site.node(in_service, state="IDLE", reason="", by="")
    site.later(600)
    began = time.monotonic()
    found = site.of_all("redfish_power", state="force_off", timeout=60.0)
    took = time.monotonic() - began
    dead = [host for host in site.hosts if host not in site.sims]
    live = [host for host in site.sims if host != in_service]
    assert told(found) == {
        **dict.fromkeys(dead, (False, False, "unreachable")), **dict.fromkeys(live, (True, True, "")),
        in_service: (False, False, "evidence_missing"),
    }  # fmt: skip
    assert took < 2 * PATIENCE + 4, "one after the other, the dead ones alone are four times that patience"
    for host in live:
        assert site.sims[host].power() == "Off" and len(writes(site.sims[host])) == 1, site.sims[host].calls()
        assert found[host]["result"]["after"] == {"power": "off"}
        assert (
            site.events("intent", host).count("redfish_power")
            == 1
            == site.events("outcome", host).count("redfish_power")
        )
    assert site.sims[in_service].power() == "On" and not writes(site.sims[in_service])
    for host in [*dead, in_service]:
        assert "redfish_power" not in site.events("intent", host)
    assert ipmi_server.PASSWORD not in json.dumps(found)
    again = site.of_all("redfish_power", state="force_off", timeout=60.0)
    assert {told(again)[host] for host in live} == {(True, False, "")}
    assert [len(writes(site.sims[host])) for host in live] == [1] * 8


def test_a_process_that_dies_is_its_own_hosts_verdict(tmp_path: Path, running: ExitStack) -> None:
    site = Site(tmp_path, running, live=3, dead=1)
    site.held()
    powers = [f"0:{sim.folder}/power" for sim in site.sims.values()]
    with site.meanwhile_killed("speaker", 1, *powers) as there:
        found = site.of_all("redfish_power", state="force_off", timeout=60.0)
    assert told(found) == {"gpu001": (False, False, "unreachable"), **dict.fromkeys(site.sims, (True, True, ""))}
    assert "did not come to its end" in found["gpu001"]["reason"]
    assert gone(there)


def test_a_write_whose_process_dies_is_looked_after_and_not_sent_again(tmp_path: Path, running: ExitStack) -> None:
    """It may have been sent: that is found out by another process, and by reading."""
    site = Site(tmp_path, running, live=1, dead=0)
    site.held()
    [sim] = site.sims.values()
    (sim.folder / "lag").write_text("2")
    with site.meanwhile_killed("speaker", 1, f"set power:{sim.folder}/calls") as there:
        found = site.of_all("redfish_power", state="force_off", timeout=60.0)
    assert told(found) == {"gpu001": (True, True, "")} and sim.power() == "Off"
    assert writes(sim) == ["set power 0"] and site.events("outcome").count("redfish_power") == 1
    assert gone(there)


def test_who_is_killed_takes_its_processes_along(tmp_path: Path, running: ExitStack) -> None:
    site = Site(tmp_path, running, live=0, dead=4)
    site.held()
    with site.meanwhile_killed("worker", 4) as there:
        assert site.run("redfish_power", batch=True, state="force_off", timeout=60.0) == {}
    assert len(there) >= 2 and gone(there), there


def gone(there: list[int]) -> bool:
    """Are they, soon? One whose parent is dead waits for nobody of ours."""
    end = time.monotonic() + PATIENCE / 2
    while any(_lives(one) for one in there) and time.monotonic() < end:
        time.sleep(0.05)
    left = [one for one in there if _lives(one)]
    for one in left:
        os.kill(one, signal.SIGKILL)
    return not left


def _lives(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
