# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes on after the answer was sent: commissioning, deploying, releasing."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any, Optional

from . import statuses as s
from .config import Config
from .hardware import BmcError, bmc_of, power_until, write_entry
from .store import Machine, Store

Image = Optional[dict[str, Any]]
_INSTALLATION_FAILED = "Installation failed (refer to the installation log for more information)."


class Jobs:
    """One thread a job. A job that was aborted or overtaken ends without a trace."""

    def __init__(self, store: Store, config: Config) -> None:
        self._store = store
        self._config = config
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._numbers = itertools.count(900)
        #: Faults for tests: (kind, hostname) -> text of the failure.
        self.faults: dict[tuple[str, str], str] = {}

    def close(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(timeout=10)

    def start(self, kind: str, machine: Machine) -> None:
        """The caller has the machine in the job's first status already."""
        machine.job += 1
        work = {
            "commission": self._commission,
            "test": self._test,
            "deploy": self._deploy,
            "release": self._release,
            "erase": self._erase,
            "rescue": self._rescue,
            "exit rescue": self._rescue,
        }[kind]
        thread = threading.Thread(target=self._run, args=(kind, work, machine.system_id, machine.job), daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        thread.start()

    def resume(self) -> None:
        """Jobs that a stop of the server has interrupted."""
        kinds = {s.COMMISSIONING: "commission", s.TESTING: "test", s.DEPLOYING: "deploy", s.RELEASING: "release"}
        kinds |= {s.DISK_ERASING: "erase", s.ENTERING_RESCUE_MODE: "rescue", s.EXITING_RESCUE_MODE: "exit rescue"}
        with self._store.changing() as machines:
            for machine in machines.values():
                if machine.status in kinds:
                    self.start(kinds[machine.status], machine)

    def _run(self, kind: str, work: Callable[[Machine], None], system_id: str, job: int) -> None:
        with self._store.reading() as machines:
            machine = machines.get(system_id)
        if machine is None or self._over.wait(self._config.delays.get(kind, 0.0)):
            return
        fault = self.faults.get((kind, machine.hostname))
        error = ""
        try:
            if fault:
                raise BmcError(fault)
            work(machine)
        except (BmcError, OSError, KeyError) as exc:
            error = str(exc)
        with self._store.changing() as machines:
            if machines.get(system_id) is machine and machine.job == job:
                self._ended(kind, machine, error)

    def _image(self, machine: Machine) -> Image:
        if machine.osystem != "custom":
            return None
        images = self._config.images
        return images.get(machine.distro_series) or images.get(f"custom/{machine.distro_series}")

    # -- the work: slow, outside the store's lock ----------------------------------------------------------------

    def _commission(self, machine: Machine) -> None:
        """Ask the BMC; what a boot into the ephemeral system would read is in the configuration. Ends powered off."""
        bmc = bmc_of(machine, self._config)
        found = bmc.identity()
        known = next((one for one in self._config.nodes if one.get("mac", "").lower() in machine.macs), {})
        if known.get("serial"):
            found.setdefault("system_serial", str(known["serial"]))
            found.setdefault("uuid", str(known.get("uuid", "")))
        power_until(bmc, "off")
        machine.hardware = found

    def _test(self, machine: Machine) -> None:
        """A boot into the ephemeral system as well; one that runs on is told so by its power alone."""
        power_until(bmc_of(machine, self._config), "on" if machine.previous_status == s.DEPLOYED else "off")

    def _deploy(self, machine: Machine) -> None:
        image = self._image(machine)
        if image is None and self._config.boot_root is not None:
            raise BmcError(f"no artifact for {machine.osystem}/{machine.distro_series}")
        for mac in machine.macs[:1]:
            write_entry(self._config, mac, image, machine.user_data)
        bmc = bmc_of(machine, self._config)
        power_until(bmc, "off")
        bmc.boot_from_network()
        power_until(bmc, "on")

    def _release(self, machine: Machine) -> None:
        power_until(bmc_of(machine, self._config), "off")
        for mac in machine.macs[:1]:
            write_entry(self._config, mac, None)

    def _erase(self, machine: Machine) -> None:
        """A boot into the ephemeral system, which this rack has not: the disk stays as it is."""
        self._release(machine)

    def _rescue(self, machine: Machine) -> None:
        """Into the ephemeral system, and back to what was there before; its own boot is none of this rack's."""
        off = machine.status == s.EXITING_RESCUE_MODE and machine.previous_status != s.DEPLOYED
        power_until(bmc_of(machine, self._config), "off" if off else "on")

    # -- the end: quick, under the store's lock ------------------------------------------------------------------

    def _ended(self, kind: str, machine: Machine, error: str) -> None:
        ends = {"commission": self._commissioned, "test": self._tested, "deploy": self._deployed}
        ends |= {"rescue": self._rescued, "exit rescue": self._out_of_rescue}
        ends.get(kind, self._released)(machine, error)

    def _commissioned(self, machine: Machine, error: str) -> None:
        machine.results["commissioning"] = next(self._numbers)
        machine.owner = machine.owner if error else ""
        machine.commissioning_status = 3 if error else 2
        machine.testing_status = -1 if error else 2
        machine.move(s.FAILED_COMMISSIONING if error else s.READY)
        machine.status_message = f"Marking node failed - {error}" if error else "Commissioning"
        machine.power_state = "error" if error else "off"

    def _tested(self, machine: Machine, error: str) -> None:
        """Back to where it was; whatever failed before is forgotten."""
        machine.results["testing"] = next(self._numbers)
        machine.testing_status = 3 if error else 2
        kept = machine.previous_status if machine.previous_status in (s.DEPLOYED, s.READY, s.BROKEN) else s.READY
        machine.move(s.FAILED_TESTING if error else kept)
        machine.status_message = f"Marking node failed - {error}" if error else "Testing"

    def _deployed(self, machine: Machine, error: str) -> None:
        machine.results["installation"] = next(self._numbers)
        machine.move(s.FAILED_DEPLOYMENT if error else s.DEPLOYED)
        machine.error_description = _INSTALLATION_FAILED if error else machine.error_description  # kept for ever
        machine.status_message = f"Marking node failed - {error}" if error else "Deployed"
        machine.netboot = bool(error) or machine.ephemeral_deploy
        machine.power_state = "error" if error else "on"

    def _rescued(self, machine: Machine, error: str) -> None:
        machine.move(s.FAILED_RESCUE_MODE if error else s.RESCUE_MODE)
        machine.status_message = f"Marking node failed - {error}" if error else "Rescue mode"

    def _out_of_rescue(self, machine: Machine, error: str) -> None:
        back = machine.previous_status if machine.previous_status in (s.DEPLOYED, s.READY) else s.READY
        machine.move(s.FAILED_EXIT if error else back)
        machine.owner = "" if back == s.READY and not error else machine.owner
        machine.status_message = f"Marking node failed - {error}" if error else "Exited rescue mode"

    def released(self, machine: Machine, power: str = "off") -> None:
        """Of one that is off there is nothing to wait for, and a DPU keeps its power."""
        self._released(machine, "")
        machine.power_state = power

    def _released(self, machine: Machine, error: str) -> None:
        if error:
            machine.move(s.FAILED_DISK_ERASING if machine.status == s.DISK_ERASING else s.FAILED_RELEASING)
            machine.status_message = f"Marking node failed - {error}"
            machine.power_state = "error"
            return
        if machine.status == s.DISK_ERASING:
            machine.move(s.RELEASING)
        machine.move(s.READY if machine.commissioning_status == 2 else s.NEW)
        machine.status_message = "Released"
        machine.owner = machine.osystem = machine.distro_series = machine.hwe_kernel = machine.agent_name = ""
        machine.annotations = {}
        machine.ephemeral_deploy, machine.netboot = False, True
        machine.power_state = "off"
