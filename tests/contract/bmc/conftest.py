# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One face for all BMCs of the suite: our faithful server, sushy-tools' emulator, and ipmi_sim."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import boot, power, settle
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi import link as ipmi_link
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi import machine as ipmi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import link as redfish_link
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import machine as redfish
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import task as redfish_task
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline
from contract import newcomers
from contract.bmc.rigs import Rig
from contract.faults import Faults, HttpFaults
from contract.proxy import Proxy
from fake_bmc import emulator, ipmi_server
from fake_bmc.redfish_server import PASSWORD, USER, FakeBmc
from fake_bmc.sessions import UUID
from fake_bmc.tls import Authority
from fake_bmc.udp_relay import UdpRelay

POWER = {"state": "on", "timeout": 20.0, "graceful_timeout": 1.0}
PXE = {
    "target": "pxe", "mode": "keep", "http_boot_uri": None, "power": "none", "prove": "auto",
    "accept_inconclusive": False, "timeout": 20.0, "boot_mac": "52:54:00:00:00:01",
}  # fmt: skip


class Watch(Lifeline):
    """Notes what a verb asked leave for; ``deny`` raises instead of giving it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []
        self.deny: Optional[Exception] = None

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> Optional[str]:
        self.asked.append((what, destructive))
        if self.deny:
            raise self.deny
        return None


class Ctx(Context):
    """A context whose lifeline is a Watch."""

    def __init__(self, **more: Any) -> None:
        self.watch = Watch()
        super().__init__(node="node1", lifeline=self.watch, **more)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same waits, in shorter steps."""
    monkeypatch.setattr(settle, "PACE", ((5.0, 0.05), (float("inf"), 0.2)))
    for module, name, value in (
        (power, "_RESET_PACE", 0.05), (power, "_REFUSED_SECONDS", 0.5), (power, "_PROBE_EVERY", 2),
        (boot, "_READBACK_SECONDS", 1.0), (boot, "_READBACK_PACE", 0.05), (boot, "_BOOT_PACE", 0.05),
        (redfish, "_AGAIN_SECONDS", 0.1), (redfish, "_SETTLE_SECONDS", 0.2),
        (redfish_link, "RETRY_SECONDS", 0.1), (redfish_link, "PATIENCE_BROKEN", 1.0),
        (redfish_task, "POLL_SECONDS", 0.05), (ipmi, "_AGAIN_SECONDS", 0.2),
        (ipmi_link, "_ONCE_SECONDS", 3.0),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


class HttpRig(Rig):
    """What Redfish BMCs have in common."""

    bmc: Any
    authority: Authority
    _proxy: Optional[Proxy] = None

    def network(self) -> tuple[Faults, str]:
        self._proxy = Proxy(self.bmc.url, self.authority.server_context("127.0.0.1"))
        return HttpFaults(self._proxy), self._proxy.url

    def close(self) -> None:
        if self._proxy:
            self._proxy.close()


class RedfishRig(HttpRig):
    def __init__(self, bmc: FakeBmc, authority: Authority) -> None:
        self.bmc = bmc
        self.authority = authority
        self.params = {
            "bmc_protocol": "redfish",
            "bmc_address": bmc.url,
            "bmc_username": USER,
            "bmc_password": PASSWORD,
            "bmc_ca_path": str(authority.path),
            "system_uuid": UUID,
        }

    def power(self) -> str:
        return self.bmc.machine.power

    def force(self, power: str) -> None:
        machine, lag = self.bmc.machine, self.bmc.machine.lag
        machine.lag = 0.0
        machine.reset("On" if power == "On" else "ForceOff")
        assert machine.power == power
        machine.lag = lag

    def writes(self) -> int:
        return len(self.bmc.writes)

    def refused(self) -> int:
        return self.bmc.failed_logins

    def probe(self) -> Optional[dict[str, str]]:
        return self.bmc.machine.probe()

    def hang_shutdown(self) -> None:
        self.bmc.machine.shuts_down = False

    def lie(self) -> None:
        self.bmc.faults["liar"] = True


class EmulatorRig(HttpRig):
    blind = True
    real = True

    def __init__(self, bmc: emulator.Emulator, authority: Authority) -> None:
        self.bmc = bmc
        self.authority = authority
        self.params = {
            "bmc_protocol": "redfish",
            "bmc_address": bmc.url,
            "bmc_username": USER,
            "bmc_password": PASSWORD,
            "bmc_ca_path": str(authority.path),
            "system_uuid": emulator.SYSTEM,
        }
        self._own = 0

    def power(self) -> str:
        return str(self.bmc.system()["PowerState"])

    def force(self, power: str) -> None:
        kind = "On" if power == "On" else "ForceOff"
        path = f"/redfish/v1/Systems/{emulator.SYSTEM}"
        self.bmc.request("POST", f"{path}/Actions/ComputerSystem.Reset", {"ResetType": kind})
        self.bmc.request("PATCH", path, {"Boot": {"BootSourceOverrideTarget": "Hdd"}})
        self._own = len(self.bmc.log("POST")) + len(self.bmc.log("PATCH"))

    def writes(self) -> int:
        return len(self.bmc.log("POST")) + len(self.bmc.log("PATCH")) - self._own

    def refused(self) -> int:
        return self.bmc.refused()

    def probe(self) -> Optional[dict[str, str]]:
        """The emulator has no machine: a boot is a power-on, from where its boot device then points."""
        system = self.bmc.system()
        if system["PowerState"] != "On":
            return None
        network = system["Boot"]["BootSourceOverrideTarget"] == "Pxe"
        boots = len([path for path in self.bmc.log("POST") if path.endswith("Reset")])
        return {
            "boot_id": f"boot-{boots}",
            "cmdline": "BOOTIF=01-52-54-00-00-00-01" if network else "",
            "uptime": "0.1",
        }


class IpmiRig(Rig):
    blind = True
    real = True

    def __init__(self, sim: ipmi_server.IpmiSim) -> None:
        self.sim = sim
        self.params = {
            "bmc_protocol": "ipmi",
            "bmc_address": f"{sim.address}:{sim.port}",
            "bmc_username": ipmi_server.USER,
            "bmc_password": ipmi_server.PASSWORD,
            "system_uuid": ipmi_server.UUID,
        }
        self._relay: Optional[UdpRelay] = None

    def network(self) -> tuple[Faults, str]:
        self._relay = UdpRelay((self.sim.address, self.sim.port), self.writes)
        return self._relay, self._relay.address

    def refused(self) -> int:
        """The client itself sees that the password is wrong, and ends there: it is counted how often it came so far."""
        return self._relay.logins if self._relay else 0

    def close(self) -> None:
        if self._relay:
            self._relay.close()

    def power(self) -> str:
        return self.sim.power()

    def force(self, power: str) -> None:
        self.sim.set_power("1" if power == "On" else "0")
        with open(self.sim.folder / "calls", "w", encoding="utf-8") as calls:
            calls.write("boot:none\n" if power == "On" else "")

    def writes(self) -> int:
        return len([call for call in self.sim.calls() if call.startswith("set ")])

    def probe(self) -> Optional[dict[str, str]]:
        return self.sim.probe()

    def hang_shutdown(self) -> None:
        (self.sim.folder / "hangs").touch()

    def lie(self) -> None:
        (self.sim.folder / "liar").touch()


@pytest.fixture
def fake(authority: Authority) -> Iterator[Any]:
    """Makes servers of our own: ``fake("ilo", lag=0.2)`` gives a rig."""
    running: list[FakeBmc] = []

    def make(name: str = "plain", *, tls: bool = True, **machine: Any) -> RedfishRig:
        context = authority.server_context("127.0.0.1") if tls else None
        running.append(FakeBmc(name, context=context, **machine).__enter__())
        return RedfishRig(running[-1], authority)

    yield make
    for bmc in running:
        bmc.__exit__()


@pytest.fixture(scope="session")
def shared_emulator(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[emulator.Emulator]:
    if not emulator.PYTHON.exists():
        pytest.skip("needs the environment of the built-in rack (make setup-rack)")
    with emulator.Emulator(tmp_path_factory.mktemp("emulator") / "one", authority) as running:
        yield running


@pytest.fixture(name="redfish")
def _redfish(fake: Any) -> Rig:
    rig: Rig = fake("plain", lag=0.1)
    return rig


@pytest.fixture(name="emulator")
def _emulator(shared_emulator: emulator.Emulator, authority: Authority) -> Rig:
    made = EmulatorRig(shared_emulator, authority)
    made.force("Off")
    return made


@pytest.fixture(name="ipmi_sim")
def _ipmi_sim(tmp_path: Path) -> Iterator[Rig]:
    if not ipmi_server.PROGRAM:
        pytest.skip("needs ipmi_sim (Debian package openipmi)")
    with ipmi_server.IpmiSim(tmp_path / "sim", lag=0.1) as sim:
        yield IpmiRig(sim)


OTHERS = [pytest.param(made, id=made.__module__.rpartition("site_")[2]) for made in newcomers.adapters("bmc", Rig)]


@pytest.fixture(
    params=["redfish", *(pytest.param(name, marks=pytest.mark.slow) for name in ("emulator", "ipmi_sim")), *OTHERS]
)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    """Each BMC in turn, its machine off: by a fixture of its name, or by the class of a newcomer's adapter."""
    how = request.param
    made: Rig = request.getfixturevalue(how) if isinstance(how, str) else how(request, tmp_path)
    yield made
    made.close()
