# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the contract suite needs to know of a provisioner: one adapter each, and nothing else tells them apart.

A new driver brings one subclass of :class:`Site`. What its driver cannot do it declares as the contract says; what
only its tests cannot do is declared here, as data.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import registry
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from contract.faults import Faults


@contextlib.contextmanager
def patched(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    """Constants of modules, or values of mappings, for a while."""
    with pytest.MonkeyPatch.context() as patch:
        for where, name, value in changes:
            (patch.setitem if isinstance(where, dict) else patch.setattr)(where, name, value)
        yield


BMC_PASSWORD = "bmc-Sup3rSecret"
SHA = {"1": "1" * 64, "2": "2" * 64}
_numbers = itertools.count(int(time.time()) % 100000 * 100)


class Site:
    """A provisioner in good health, and what can be done to it behind the driver's back."""

    #: The driver's name.
    name: str
    #: Starts other people's programs.
    real: ClassVar[bool] = False
    #: Each call of its driver starts a program: tests of many runs take their time.
    many_calls: ClassVar[bool] = False
    #: Its driver speaks TLS itself and reads ``provisioner_ca_path``: the tests put TLS of their own before
    #: ``provisioner_url``, which is plain HTTP.
    own_tls: ClassVar[bool] = False
    #: Its driver has two ways to its system, and TLS on the other one, whose tests are its own.
    two_ways: ClassVar[bool] = False
    #: Seconds between two looks of a wait. Each look at a real service costs it more than all that it does meanwhile.
    interval = 0.05
    faults: Faults
    secrets: tuple[str, ...] = (BMC_PASSWORD,)
    #: The option ``driver`` of each task.
    extras: dict[str, Any] = {}
    #: Requests that a poll of 60 nodes takes, and those before the first poll, of the same size, to look names up.
    blocks_of_60 = 1
    lookups = 0
    #: What is said of writes that can hit running work on the way to deployed and back.
    destructive_words: tuple[str, ...]
    #: What somebody else can do to a node so that it is not ours to touch; each is called with the node's name.
    marks: tuple[Callable[[str], None], ...]
    #: work -> what its order says, as it stands among the writes, and options that it takes. Of a driver with works.
    work: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {}
    #: Does its record have the machine's BMC, address and login? None: where it switches the power, and else not.
    tells_bmc: ClassVar[Optional[bool]] = None
    #: Does each write name what it was judged by, so that the system itself refuses one that comes too late?
    refuses_late: ClassVar[bool] = False
    #: Was a node sent on by the watcher as well, on its way from nothing to ready?
    watcher_writes = False

    #: Of a driver with several ways to its system, the one that this site is; and what its tests are called.
    own_way: ClassVar[Optional[type[Driver]]] = None
    label: ClassVar[str] = ""
    #: A driver that is no part of the collection, and the options that it reads.
    own_driver: Optional[type[Driver]] = None
    own_options: tuple[str, ...] = ("provisioner_url",)

    def __init__(self, folder: Path) -> None:
        """Start it, with what it keeps in this folder."""
        raise NotImplementedError

    @contextlib.contextmanager
    def in_good_health(self) -> Iterator[Site]:
        """For one test: nothing counted, no fault, and the driver known while it lasts."""
        self.faults.forget()
        undo = registry.register(self.own_driver, self.own_options) if self.own_driver else None
        try:
            yield self
        finally:
            self.faults.forget()
            if undo is not None:
                undo()

    def newest(self) -> int:
        """The number of the node that was made last, where nodes have one and many of them cost."""
        return 0

    def forget_since(self, number: int) -> None:
        """The nodes that came after this one are gone, whatever state they are in."""

    @property
    def driver(self) -> type[Driver]:
        found: type[Driver] = registry.DRIVERS[self.name].reached_by(self.connection())
        return found

    @property
    def keeps_bmc(self) -> bool:
        return self.driver.owns_power if self.tells_bmc is None else self.tells_bmc

    def connection(self) -> dict[str, Any]:
        """The options by which it is reached."""
        raise NotImplementedError

    def wrong_login(self) -> dict[str, Any]:
        """Make it refuse us: options in place of the right ones, or a refusal by itself."""
        self.faults.refuse_login()
        return {}

    def nowhere(self) -> dict[str, Any]:
        """Make it unreachable: options in place of the right ones, or an outage by itself."""
        self.faults.outage()
        return {}

    def new(self) -> dict[str, Any]:
        """The options of a node nobody has seen yet."""
        number = next(_numbers)
        mac = f"52:54:{number >> 24 & 255:02x}:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
        return {
            **self.connection(),
            "name": f"gpu{number:07d}",
            "boot_mac": mac,
            "serial": f"S{number}",
            "bmc_protocol": "redfish",
            "bmc_address": f"https://127.{number >> 16 & 63}.{number >> 8 & 255}.{number & 255}:8443",
            "bmc_username": "bmcadmin",
            "bmc_password": BMC_PASSWORD,
            "driver": self.extras,
        }

    def image(self, version: str = "1", format: str = "ramdisk") -> dict[str, Any]:
        """All keys that any driver may need."""
        return {
            "name": "gold",
            "version": version,
            "url": f"http://127.0.0.1:9/gold-{version}.img",
            "kernel_url": "http://127.0.0.1:9/vmlinuz",
            "sha256": SHA[version],
            "named": f"gold-{version}",
            "format": format,
        }

    def new_image(self, url: str, content: bytes) -> dict[str, Any]:
        """An image that nobody has brought there yet, and that lies at this address."""
        version = f"n{next(_numbers)}"
        return {
            "name": "gold",
            "version": version,
            "url": url,
            "sha256": hashlib.sha256(content).hexdigest(),
            "named": f"gold-{version}",
            "format": "ramdisk",
        }

    def moved_bmc(self, options: dict[str, Any]) -> dict[str, Any]:
        """The same node, with its BMC at another address."""
        return {**options, "bmc_address": options["bmc_address"].replace("8443", "9443")}

    def new_password(self, options: dict[str, Any], password: str) -> dict[str, Any]:
        """The same node, with another password of its BMC."""
        return {**options, "bmc_password": password}

    def until(self, name: str, *native: str) -> None:
        """Wait until the node is in one of these states there."""
        seen = functools.partial(self.native, name)
        wait_until(seen, lambda found: found in native, timeout=60, interval=0.05, wanted=" or ".join(native))

    #: Rights that a login may lack there, each by a word that whoever lacks it is told.
    rights: tuple[str, ...] = ()

    def without(self, right: str) -> dict[str, Any]:
        """Take this right from us until the faults are forgotten; options in place of the right ones. Owed beside
        ``rights``."""
        raise AssertionError(f"who names rights takes them away here: {right}")

    def is_ordered(self, name: str, named: str) -> bool:
        """Is this image on its way to the node, or will its next boot bring it? Asked past the driver; owed beside
        ``rights``."""
        raise AssertionError(f"who names rights tells here what boots next: {name}, {named}")

    #: Is a write done that is taken up after whoever sent it has given it up?
    done_late: ClassVar[bool] = True

    def patience(self, seconds: float) -> contextlib.AbstractContextManager[Any] | None:
        """Meanwhile an answer may take so long and no longer; None where the driver is none of the collection's."""
        return None

    # -- behind the driver's back ------------------------------------------------------------------------------

    def other_serial(self, name: str, serial: str) -> None:
        """The provisioner finds out that this machine has another serial number."""
        raise NotImplementedError

    def other_card(self, name: str, mac: str) -> None:
        """The provisioner knows one card of this machine, and it is this one."""
        raise NotImplementedError

    def forget_serial(self, name: str) -> None:
        """The provisioner knows no serial number of this machine any more."""
        raise NotImplementedError

    def strand(self, name: str) -> None:
        """Bring a deployed node where only a person can go on."""
        raise NotImplementedError

    def stumbles(self) -> tuple[dict[str, Any], str, str]:
        """A node that was begun and will fail: its options, the goal it does not reach, how its reason begins."""
        raise NotImplementedError

    #: Does the system itself tell that a deployment failed? Else the deadline of whoever waits decides.
    tells_failures = True

    def fails_to_deploy(self, options: dict[str, Any]) -> str:
        """The deployment of this node is ordered through the driver, and has failed there; the next one does not fail.
        Words of the system about it."""
        raise NotImplementedError

    def undeployable(self) -> tuple[tuple[dict[str, Any], str], ...]:
        """What this provisioner cannot deploy: options in place of a node's own, and words of the reason. None where it
        takes whatever is declared: what lacks a key that the driver needs is tried with all."""
        raise NotImplementedError

    def many(self, count: int) -> list[str]:
        """So many nodes that are ready; their names."""
        raise NotImplementedError

    def native(self, name: str) -> str:
        """The node's state in the provisioner's own word, asked past the driver."""
        raise NotImplementedError

    def power(self, name: str) -> str:
        """``on`` or ``off``, asked past the driver. Owed where the driver switches any."""
        raise AssertionError(f"who switches power tells here what it is: {name}")

    def taken_there(self, name: str) -> bytes:
        """What the order to deploy takes to the node, as it lies at the provisioner. Asked for only where the driver
        says that a deployment is known by its id."""
        raise NotImplementedError

    def boot(self, name: str) -> None:
        """Somebody boots the machine from the network. Asked for only where the driver says that it must be."""
        raise NotImplementedError

    def deployments(self) -> int:
        """Deployments that were asked for since the faults were forgotten."""
        raise NotImplementedError

    def orders_taken(self) -> int:
        """Those of :meth:`deployments` that it did not refuse."""
        return self.deployments()

    def close(self) -> None:
        """End what was started."""
