# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""U2: BMCs that are asked in processes of their own, because their library serves one at a time."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_apart as apart
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_machines as machines
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._causes import Cause
from fake_bmc import ipmi_server
from fake_bmc.redfish_server import PASSWORD, USER
from sound_site import SoundSite

NODE = "node"


@pytest.mark.skipif(not ipmi_server.PROGRAM, reason="needs ipmi_sim (Debian package openipmi)")
def test_u2_bmcs_whose_library_serves_one_at_a_time_are_asked_at_once_all_the_same(
    site: SoundSite, tmp_path: Path
) -> None:
    """In processes of their own: what each finds comes back, and one that ends without a word is told."""
    with contextlib.ExitStack() as stack:
        for number, host in enumerate(site.hosts, 1):
            folder = tmp_path / host
            sim = stack.enter_context(ipmi_server.IpmiSim(folder))
            site.hosts[host].update(gpufleet_bmc_protocol="ipmi", gpufleet_bmc_address=f"127.0.0.1:{sim.port}")
            site.hosts[host].update(gpufleet_serial="SN0001" if number < 3 else "SN0009", gpufleet_boot_mac="")
        site.shared.update(gpufleet_bmc_username=ipmi_server.USER, gpufleet_bmc_password=ipmi_server.PASSWORD)
        # That two of them say one serial is the site's mistake, and told beside it.
        [cause] = [one for one in site.told(machines.look) if one["kind"] == NODE]
    assert (cause["kind"], cause["hosts"]) == (NODE, ["gpu003"]) and "is another one" in cause["what"]


@pytest.fixture
def silent(site: SoundSite, monkeypatch: pytest.MonkeyPatch) -> Iterator[SoundSite]:
    """Over IPMI none of its BMCs says anything, and each is asked for a second."""
    monkeypatch.setattr(machines, "_SILENT_CHILD_SECONDS", 8.0)
    monkeypatch.setattr(machines, "_IN_A_CHILD", {"timeout": 1.0})
    with socket.socket(type=socket.SOCK_DGRAM) as dead:
        dead.bind(("", 0))
        for number, host in enumerate(site.hosts.values(), 1):
            address = f"127.0.0.{number}:{dead.getsockname()[1]}"
            host.update(gpufleet_bmc_protocol="ipmi", gpufleet_bmc_address=address)
        site.shared.update(gpufleet_bmc_username=USER, gpufleet_bmc_password=PASSWORD)
        yield site


class Forks:
    """Does something to the first processes that are forked, before they ask, and knows when each was ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int, signs: int) -> None:
        self.spoilt: list[int] = []
        self.made: list[int] = []
        self.ended: dict[int, float] = {}
        fork, kill = os.fork, os.kill

        def forked() -> int:
            child = fork()
            if child:
                self.made.append(child)
            if child and len(self.spoilt) < number:
                kill(child, signs)
                self.spoilt.append(child)
            return child

        def killed(process: int, sign: int) -> None:
            self.ended[process] = time.monotonic()
            kill(process, sign)

        monkeypatch.setattr(os, "fork", forked)
        monkeypatch.setattr(os, "kill", killed)

    def none_is_left(self) -> bool:
        return not any(Path(f"/proc/{child}").exists() for child in self.made)


def was_asked(what: str) -> bool:
    return "does not answer" in what


def test_u2_a_look_that_hangs_in_its_process_is_ended_and_told_of_that_host_alone(
    silent: SoundSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped before it asks: whatever holds such a process up, the hosts behind that one are asked by another."""
    monkeypatch.setattr(machines, "_CHILDREN", 1)
    forks = Forks(monkeypatch, 1, signal.SIGSTOP)
    told = {host: cause for cause in silent.told(machines.look) for host in cause["hosts"]}
    hung = told.pop("gpu001")
    assert (hung["kind"], hung["what"], hung["do"]) == (NODE, "its look did not end within 8 s", "look at this BMC")
    assert sorted(told) == ["gpu002", "gpu003"] and all(was_asked(one["what"]) for one in told.values()), told
    assert len(forks.made) == 2 and forks.none_is_left()


def test_u2_looks_that_hang_are_ended_at_once_and_not_one_after_another(
    silent: SoundSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines, "_CHILDREN", 2)
    forks = Forks(monkeypatch, 2, signal.SIGSTOP)
    told = {host: cause["what"] for cause in silent.told(machines.look) for host in cause["hosts"]}
    assert sorted(host for host, what in told.items() if "did not end" in what) == ["gpu001", "gpu002"]
    assert was_asked(told["gpu003"]), told
    ends = [forks.ended[child] for child in forks.spoilt]
    assert max(ends) - min(ends) < 4.0, ends
    assert forks.none_is_left()


def hung_amid(most: int, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, str], Forks]:
    """What is told of four hosts that one process is to look at, three of whose looks hang; and the processes."""
    forks = Forks(monkeypatch, 0, 0)

    def look(host: str) -> None:
        if host != "gpu004":
            signal.pause()

    told: dict[str, str] = {}
    with apart.apart("bmc", ["gpu001"], look, 1.5, most) as children:
        children.end()
        children.fork(["gpu001", "gpu002", "gpu003", "gpu004"])
        for host, cause in children.answers():
            told[host] = cause.what if cause else ""
    return told, forks


def test_u2_looks_behind_one_that_hangs_are_made_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three BMCs that hang in one process cost as much as two: their times do not add up."""
    told, forks = hung_amid(4, monkeypatch)
    assert sorted(host for host, what in told.items() if "did not end" in what) == ["gpu001", "gpu002", "gpu003"]
    assert told["gpu004"] == "" and forks.none_is_left()
    _whole, first, second, third, _fourth = forks.made
    assert forks.ended[third] - forks.ended[second] < 1.0 < forks.ended[second] - forks.ended[first]


def test_u2_of_looks_that_hang_one_after_another_no_third_one_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no more processes may run, as where all of them hang. Who was not asked is told as that."""
    told, forks = hung_amid(1, monkeypatch)
    assert sorted(host for host, what in told.items() if "did not end within" in what) == ["gpu001", "gpu002"]
    assert "its BMC was not asked: the looks at 2 others" in told["gpu003"] and told["gpu003"] == told["gpu004"]
    assert len(forks.made) == 3 and forks.none_is_left()


def test_u2_a_process_that_dies_leaves_out_the_host_that_it_asked_and_no_other(
    silent: SoundSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines, "_CHILDREN", 1)
    forks = Forks(monkeypatch, 2, signal.SIGKILL)
    told = {host: cause["what"] for cause in silent.told(machines.look) for host in cause["hosts"]}
    assert sorted(host for host, what in told.items() if "broken off" in what) == ["gpu001", "gpu002"]
    assert sorted(host for host, what in told.items() if was_asked(what)) == ["gpu003"]
    assert forks.none_is_left()


def test_u2_a_defect_in_a_look_is_told_as_one_and_its_neighbours_are_looked_at(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Another run would meet it again: nobody is told to run again."""

    def look(host: str) -> Cause | None:
        if host == "gpu002":
            raise KeyError("what nobody foresaw")
        return None

    with apart.apart("bmc", ["gpu001", "gpu002", "gpu003"], look, 60.0, 1) as children:
        told = dict(children.answers())
    assert told.pop("gpu001") is told.pop("gpu003") is None
    cause = told.pop("gpu002")
    assert cause and (cause.kind, "defect of the collection" in cause.what) == (NODE, True)
    assert "KeyError('what nobody foresaw')" in cause.seen and "report" in cause.do and "run again" not in cause.do
    assert not capfd.readouterr().err, "no traceback amid what the run says"


def test_u2_a_look_that_is_given_up_leaves_no_process(silent: SoundSite, monkeypatch: pytest.MonkeyPatch) -> None:
    forks = Forks(monkeypatch, 3, signal.SIGSTOP)

    def given_up(*_given: object) -> None:
        raise KeyboardInterrupt

    batch = silent.batch()
    monkeypatch.setattr(batch, "each", given_up)
    with pytest.raises(KeyboardInterrupt):
        machines.look(batch)
    assert len(forks.made) == 3 and forks.none_is_left()
