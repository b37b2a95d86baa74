# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What IPMI alone can get wrong: lost packets, other hashes, long passwords, sessions left open."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.boot import pxe_boot
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi import link as ipmi_link
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.driver import IpmiBmc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.power import power
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    FleetError,
    NotProven,
    Refused,
    Unreachable,
    Unsupported,
)
from fake_bmc.ipmi_server import PASSWORD, PROGRAM, USER, IpmiSim
from fake_bmc.udp_relay import OPEN_RESPONSE, RAKP2, RAKP4, UdpRelay

from .conftest import POWER, PXE, Ctx

pytestmark = pytest.mark.skipif(not PROGRAM, reason="needs ipmi_sim (Debian package openipmi)")


@pytest.fixture
def sim(tmp_path: Path) -> Iterator[IpmiSim]:
    with IpmiSim(tmp_path / "sim") as running:
        yield running


def params(sim: IpmiSim, **more: Any) -> dict[str, Any]:
    given = {
        "bmc_protocol": "ipmi",
        "bmc_address": f"127.0.0.1:{sim.port}",
        "bmc_username": USER,
        "bmc_password": PASSWORD,
    }
    return {**given, "timeout": 20.0, **more}


def test_who_it_is(sim: IpmiSim) -> None:
    with IpmiBmc(params(sim), Ctx()) as bmc:
        found = bmc.identify.identity()
    assert (found.serial, found.manufacturer, found.model) == ("SN0001", "Example", "GPU8")
    assert found.uuid and found.bmc_firmware


def test_a_process_forked_from_one_that_has_spoken_ipmi_speaks_it_too(sim: IpmiSim) -> None:
    """pyghmi has one thread for all sessions of a process, and a fork has none: its first session waited for ever."""

    def state() -> str:
        with IpmiBmc(params(sim), Ctx()) as bmc:
            return bmc.power.state()

    with IpmiBmc(params(sim), Ctx()) as open_one:
        assert open_one.power.state() == c.OFF
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.write(writing, state().encode())
            finally:
                os._exit(0)
        os.close(writing)
        try:
            assert select.select([reading], [], [], 30)[0] and os.read(reading, 99).decode() == c.OFF
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(reading)
        assert open_one.power.state() == c.OFF, "what the fork forgot is its own"
    assert state() == c.OFF


def test_a_command_without_an_answer_is_not_repeated(sim: IpmiSim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ipmi_link, "_ONCE_SECONDS", 1.0)
    process: Any = sim._process
    with IpmiBmc(params(sim), Ctx()) as bmc:
        assert bmc.power.state() == c.OFF
        link = bmc.machine.link
        os.kill(process.pid, signal.SIGSTOP)
        with pytest.raises(c.LostAnswer):
            link.command(0x00, 0x02, (0x01,), once=True)
        os.kill(process.pid, signal.SIGCONT)
        # The packet lay in the socket's queue: it is done when the BMC wakes, and done once.
        Ctx().wait(bmc.power.state, lambda state: state == c.ON, timeout=60, interval=0.2, wanted="on")
    assert [call for call in sim.calls() if call.startswith("set power")] == ["set power 1"]


def test_a_command_is_sent_once_however_long_the_lease_takes_to_renew(
    sim: IpmiSim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two looks for the answer the lease is renewed, and a blocked ledger takes longer than any answer."""
    monkeypatch.setattr(ipmi_link, "_ONCE_SECONDS", 0.5)
    ctx = Ctx()
    sim.set_power("1")
    relay = UdpRelay((sim.address, sim.port), lambda: len([one for one in sim.calls() if one.startswith("set")]))
    with contextlib.closing(relay), IpmiBmc(params(sim, bmc_address=relay.address), ctx) as bmc:
        assert bmc.power.state() == c.ON
        relay.lose_answer()
        beats = iter([0.0, 3.0])
        monkeypatch.setattr(ctx.watch, "beat", lambda: time.sleep(next(beats, 0.0)))
        with pytest.raises(c.LostAnswer):
            bmc.machine.link.command(0x00, 0x02, (0x03,), once=True)
        # A second packet would be on its way now: the BMC answers a read only after it.
        assert bmc.power.state() == c.ON
    assert [call for call in sim.calls() if call.startswith("set ")] == ["set reset 1"]


def test_t1_a_power_request_whose_answer_is_lost_is_not_repeated(
    sim: IpmiSim, relay: UdpRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second reset would stop what the first one has started."""
    monkeypatch.setattr(ipmi_link, "_ONCE_SECONDS", 0.5)
    sim.set_power("1")
    with IpmiBmc(params(sim, bmc_address=relay.address), Ctx()) as bmc:
        relay.lose_answer()
        with pytest.raises(c.LostAnswer):
            bmc.power.set(c.RESTART, destructive=True)

    def sent() -> list[str]:
        return [call for call in sim.calls() if call.startswith("set ")]

    assert Ctx().wait(sent, bool, timeout=60, interval=0.05, wanted="the request that got no answer") == ["set reset 1"]


def test_t1_a_command_that_is_refused_has_no_answer(sim: IpmiSim) -> None:
    with IpmiBmc(params(sim), Ctx()) as bmc:
        get_boot_options = 0x09
        assert bmc.machine.link.command(0x00, get_boot_options, (0x05, 0, 0))
        with pytest.raises(Refused, match="refuses this command"):
            bmc.machine.link.command(0x00, get_boot_options, (0x7E, 0, 0))
        with pytest.raises(Unsupported, match="does not know this command"):
            bmc.machine.link.command(0x00, 0x3E)


def test_another_bmc_of_the_same_flaw_is_no_quirk(tmp_path: Path) -> None:
    """The row names this simulator's ids. A BMC with others that clears the valid bit has proven nothing either."""
    with IpmiSim(tmp_path / "other", ids="0x0a15 0x0801") as sim, pytest.raises(NotProven, match="does not show it"):
        pxe_boot({**PXE, **params(sim, serial="SN0001")}, Ctx())


def test_the_efi_flag_is_kept_or_set(sim: IpmiSim) -> None:
    def asked(mode: str) -> str:
        ctx = Ctx()
        pxe_boot({**PXE, **params(sim, serial="SN0001"), "mode": mode, "accept_inconclusive": True}, ctx)
        return [what for what, _destructive in ctx.watch.asked][-1]

    assert "mode=uefi" in asked("uefi")
    assert "mode=legacy" in asked("legacy")


def test_http_boot_is_not_in_ipmi(sim: IpmiSim) -> None:
    with pytest.raises(Unsupported, match="no boot from a URI"):
        pxe_boot({**PXE, **params(sim), "target": "uefi_http"}, Ctx())
    assert sim.calls() == []


def test_limits_of_the_protocol(sim: IpmiSim) -> None:
    with pytest.raises(ConfigError, match="too long for IPMI") as caught:
        power({**POWER, **params(sim, bmc_password="x" * 21)}, Ctx())
    assert "x" * 21 not in str(caught.value)


KEY = "a-key-of-19-bytes-x"  # one less than a key may have: the simulator cuts the last one off


@pytest.mark.parametrize(
    ("given", "works"),
    [(KEY, True), ("0x" + KEY.encode().hex(), True), ("another-key", False), ("", False)],
    ids=["text", "hex", "another", "none"],
)
def test_b6_a_bmc_with_a_key_of_its_own(tmp_path: Path, given: str, works: bool) -> None:
    with IpmiSim(tmp_path / "keyed", key=KEY) as sim, IpmiBmc(params(sim, bmc_ipmi_kg=given), Ctx()) as bmc:
        if works:
            assert bmc.power.state() == c.OFF
            return
        with pytest.raises(FleetError) as caught:
            bmc.power.state()
    assert caught.value.kind == "auth" and "gpufleet_bmc_ipmi_kg" in caught.value.do
    assert not given or given not in str(caught.value.as_result())


@pytest.mark.parametrize("kg", ["x" * 21, "0xabc", "0x" + "00" * 21, "0xzz"])
def test_b6_a_key_that_is_none_is_refused_without_a_word_of_it(kg: str) -> None:
    with pytest.raises(ConfigError, match="Kg") as caught:
        ipmi_link.key_of(kg, "ipmi://bmc:623")
    assert kg not in str(caught.value.as_result())


@pytest.mark.parametrize(("asked", "level"), [("operator", 3), ("administrator", 4), ("", 4)])
def test_b6_the_privilege_that_is_named_is_asked_for(sim: IpmiSim, asked: str, level: int) -> None:
    with IpmiBmc(params(sim, bmc_ipmi_privilege=asked), Ctx()) as bmc:
        assert bmc.power.state() == c.OFF
        assert bmc.machine.link._session.privlevel == level


@pytest.mark.parametrize("level", ["operator", "admin"])
def test_b6_a_user_without_the_highest_privilege_changes_power(tmp_path: Path, level: str) -> None:
    with IpmiSim(tmp_path / "levels", level=level) as sim:
        power({**POWER, **params(sim), "bmc_ipmi_privilege": "operator", "state": "on"}, Ctx())
        assert sim.power() == "On"


@pytest.mark.parametrize(
    "address,found", [("host", ("host", 623)), ("10.0.0.1:6230", ("10.0.0.1", 6230)), ("[::1]:7", ("::1", 7))]
)
def test_addresses(address: str, found: tuple[str, int]) -> None:
    assert ipmi_link.host_and_port(address) == found


@pytest.mark.parametrize("address", ["host:port", "user:secret@host", ""])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(ConfigError):
        ipmi_link.host_and_port(address)


@pytest.fixture
def relay(sim: IpmiSim) -> Iterator[UdpRelay]:
    before = UdpRelay((sim.address, sim.port), lambda: len(sim.calls()))
    yield before
    before.close()


def through(relay: UdpRelay, sim: IpmiSim, **more: Any) -> str:
    with IpmiBmc({**params(sim), "bmc_address": relay.address, **more}, Ctx()) as bmc:
        return bmc.power.state()


@pytest.mark.slow
@pytest.mark.parametrize("lost", [1, 3, 6])
def test_b7_the_first_packets_are_lost(sim: IpmiSim, relay: UdpRelay, lost: int) -> None:
    """pyghmi by itself gives up after four, and says None."""
    relay.outage(times=lost)
    assert through(relay, sim, timeout=60.0) == c.OFF


@pytest.mark.slow
@pytest.mark.parametrize("kind", [OPEN_RESPONSE, RAKP2, RAKP4])
def test_b7_a_late_answer_is_no_wrong_password(sim: IpmiSim, relay: UdpRelay, kind: int) -> None:
    """It comes when the login has been begun anew, and would fit the new one but for its random numbers."""
    relay.stale = kind
    assert through(relay, sim, timeout=60.0) == c.OFF
    assert relay.stale == -1


@pytest.mark.slow
def test_b7_a_slow_bmc_is_given_time(sim: IpmiSim, relay: UdpRelay) -> None:
    relay.delay = 1.2
    assert through(relay, sim, timeout=60.0) == c.OFF


@pytest.mark.slow
@pytest.mark.parametrize("kind", [OPEN_RESPONSE, RAKP2, RAKP4])
def test_b7_a_login_has_an_end(sim: IpmiSim, relay: UdpRelay, kind: int) -> None:
    relay.lost = frozenset((kind,))
    with pytest.raises(Unreachable, match="does not answer"):
        through(relay, sim, timeout=6.0)


def test_b7_a_session_that_the_bmc_drops_is_begun_again(sim: IpmiSim, relay: UdpRelay) -> None:
    relay.dropped = 1
    assert through(relay, sim) == c.OFF
    assert relay.dropped == 0


def test_b7_a_bmc_that_drops_every_session_is_left_alone_longer_each_time(
    sim: IpmiSim, relay: UdpRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers at once, and each beginning takes one of its few sessions."""
    monkeypatch.setattr(ipmi_link, "_PAUSE_SECONDS", 0.1)
    relay.dropped = float("inf")
    with pytest.raises(Unreachable, match="given up the login.*the last of 5 logins that were begun"):
        through(relay, sim)
    assert relay.logins == 5
    assert all(gap >= 0.09 * 2**turn for turn, gap in enumerate(relay.gaps)), relay.gaps


@pytest.mark.slow
@pytest.mark.parametrize(
    "reply",
    [b"", b"\x06\x00\xff\x07", b"\x06\x00\xff\x07" + bytes(40), bytes(range(64))],
    ids=["nothing", "header", "zeros", "noise"],
)
def test_noise_instead_of_ipmi(reply: bytes) -> None:
    """Whatever a stranger on that port answers, an error of ours comes out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(20)
        over = threading.Event()

        def answer() -> None:
            while not over.is_set():
                try:
                    _data, peer = server.recvfrom(1024)
                    server.sendto(reply, peer)
                except OSError:
                    return

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        given = {"bmc_address": f"127.0.0.1:{server.getsockname()[1]}", "bmc_username": USER, "bmc_password": PASSWORD}
        try:
            with pytest.raises(FleetError), IpmiBmc({**given, "timeout": 2.0}, Ctx()) as bmc:
                bmc.power.state()
        finally:
            over.set()


@pytest.mark.slow
def test_sessions_are_given_back(sim: IpmiSim) -> None:
    """ipmi_sim holds few sessions: more tasks than that in a row only work if each is closed."""
    for _turn in range(40):
        with IpmiBmc(params(sim), Ctx()) as bmc:
            assert bmc.power.state() == c.OFF
