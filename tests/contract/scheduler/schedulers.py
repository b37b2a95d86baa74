# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the contract suite needs of a scheduler: what people, agents and jobs do there, past the driver.

One class a driver. What a driver cannot do, it declares itself (``KEEPS_NODES``, ``EVICTS``); a site adds nothing to
that. A site's own commands never pass through its ``faults`` and are not counted there.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.none.driver import NoScheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.registry import DRIVERS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.driver import Slurm
from contract.faults import GARBAGE, OUTAGE, REFUSAL, Faults, HttpFaults, Said, ToolFaults
from contract.proxy import Proxy
from contract.scheduler import slurm_rest
from contract.scheduler.versioned.driver import Versioned
from contract.scheduler.versioned.service import LOST, SHORT, Service


class Site(ABC):
    driver: ClassVar[type[Scheduler]]
    #: Where a driver has more than one site: which of its ways this is.
    NAME: ClassVar[str] = ""
    #: Starts other people's programs.
    real: ClassVar[bool] = False
    #: Three nodes that are in service when a test begins.
    names: tuple[str, ...] = ("gpu001", "gpu002", "gpu003")
    unknown = "gpu999"
    #: Texts that could mean more than one node, or something else altogether.
    wrong_names: tuple[str, ...] = ()
    faults: Optional[Faults] = None
    #: Options of a driver that is no part of the collection, known while a test lasts.
    own_options: ClassVar[dict[str, dict[str, object]]] = {}
    #: The options by which it is reached.
    reached: Mapping[str, str] = MappingProxyType({})

    @property
    def connection(self) -> dict[str, str]:
        return {"scheduler": self.driver.NAME, **self.reached}

    def register(self, patch: pytest.MonkeyPatch) -> None:
        """For the time of the test, as a driver that no user sees."""
        patch.setitem(DRIVERS, self.driver.NAME, self.driver)
        for name, option in self.own_options.items():
            patch.setitem(names.OPTIONS, name, option)
        if self.own_options:
            patch.setitem(names.LEADS, self.driver.NAME, tuple(self.own_options))

    def open(self) -> Scheduler:
        return self.driver(self.connection)


class KeepingSite(Site):
    """A scheduler that knows nodes."""

    faults: Faults

    @abstractmethod
    def hold(self, name: str, text: str) -> None:
        """A person's own; an empty text where there is a way to give none."""

    @abstractmethod
    def lift(self, name: str) -> None:
        """A person gives the node back, whoever held it."""

    @abstractmethod
    def texts(self, name: str) -> list[str]:
        """Of all holds on the node, as the scheduler itself has them."""

    @abstractmethod
    def take_down(self, name: str) -> None:
        """The scheduler itself takes it out of service for what its agent told, with a mark that nobody else wrote and
        that stays."""

    @abstractmethod
    def lose(self, name: str) -> None:
        """As :meth:`take_down`, for no more than that its agent does not answer."""

    @abstractmethod
    def change(self, name: str) -> None:
        """Something of the node changes that makes it nobody else's."""

    @abstractmethod
    def start(self, name: str) -> str:
        """A job that runs; returns its id, or how the driver's ids of it begin."""

    @abstractmethod
    def end(self, job: str) -> None:
        """It is over, by itself."""

    @abstractmethod
    def silence(self, name: str) -> None:
        """The node's agent is gone, and the scheduler has seen it."""

    @abstractmethod
    def wake(self, name: str) -> None:
        """The agent is back, after another boot."""

    @abstractmethod
    def damage(self, name: str) -> None:
        """The scheduler finds something that stands in the way of a resume, without touching a hold of ours."""

    @abstractmethod
    def repair(self, name: str) -> None:
        """What :meth:`damage` did is undone."""


class EvictingSite(KeepingSite):
    """One whose work has to be made to leave."""

    @abstractmethod
    def guard(self, name: str, reason: str, *, for_good: bool = False) -> str:
        """Work that refuses to leave, and says why."""

    @abstractmethod
    def leaving(self, job: str) -> bool:
        """Has it been asked, and said yes?"""


# -- the sites -------------------------------------------------------------------------------------------------


def _said(text: str) -> Said:
    return Said(1, err=f"{text}\n")


class SlurmSite(KeepingSite):
    driver = Slurm
    real = True
    wrong_names = ("gpu[001-003]", "gpu001,gpu002", "ALL", "all", "-a", "gpu001;reboot", "gpu 1", "$(id)")
    _WAYS = {
        OUTAGE: _said("slurm_load_node error: Unable to contact slurm controller (connect failure)"),
        "too slow": _said("slurm_load_node error: Socket timed out on send/recv operation"),
        GARBAGE: Said(0, out="<>\n"),
        "silence": Said(0),
        REFUSAL: _said("slurm_load_node error: Protocol authentication error"),
    }

    def __init__(self, request: pytest.FixtureRequest, folder: Path) -> None:
        self.slurm = request.getfixturevalue("slurm")
        self.reached = {"scheduler_conf": str(self.slurm.conf)}
        tools = {name: [str(shutil.which(name))] for name in ("scontrol", "squeue")}
        self.faults = ToolFaults(folder, tools, [r"^scontrol update\b"], self._WAYS)
        patch = request.getfixturevalue("monkeypatch")
        patch.setenv("PATH", str(self.faults.path), prepend=":")

    def hold(self, name: str, text: str) -> None:
        self.slurm.update(name, "State=DRAIN", f"Reason={text or ' '}")

    def lift(self, name: str) -> None:
        self.slurm.update(name, "State=RESUME")

    def texts(self, name: str) -> list[str]:
        shown = self.slurm.show(name)
        return [shown["Reason"].strip()] if {"DRAIN", "DOWN", "FAIL"} & set(shown["State"].split("+")) else []

    def take_down(self, name: str) -> None:
        # It registers with too little, then with enough: the drain and its reason stay.
        self.damage(name)
        self.repair(name)

    def lose(self, name: str) -> None:
        # What slurmctld writes once SlurmdTimeout has passed, by the user that it writes as.
        self.slurm.update(name, "State=DOWN", "Reason=Not responding")

    def change(self, name: str) -> None:
        self.start(name)

    def start(self, name: str) -> str:
        return str(self.slurm.job(name))

    def end(self, job: str) -> None:
        self.slurm.end_job(job)

    def silence(self, name: str) -> None:
        self.slurm.power_off(name)
        self.slurm.wait_for(lambda: "NOT_RESPONDING" in self.slurm.state(name), "silence is noticed", 40)

    def wake(self, name: str) -> None:
        self.slurm.boot(name, again=True)

    def damage(self, name: str) -> None:
        self._register(name, 99_999_999)
        self.slurm.wait_for(lambda: "INVALID_REG" in self.slurm.state(name), "registration is refused", 40)

    def repair(self, name: str) -> None:
        self._register(name, 100)
        self.slurm.wait_for(lambda: "INVALID_REG" not in self.slurm.state(name), "registration is accepted", 40)

    def _register(self, name: str, megabytes: int) -> None:
        self.slurm.power_off(name)
        self.slurm.set_memory(name, megabytes)
        # Of the same boot: what slurmctld takes for a boot after the node's last answer (its own clock less the uptime
        # that slurmd told some time before) it takes out of service, and on a busy machine that time is a second.
        self.slurm.boot(name)


class SlurmRestSite(SlurmSite):
    """The same cluster, asked by slurmrestd. What people do there they do with the commands."""

    NAME = "slurmrestd"

    def __init__(self, request: pytest.FixtureRequest, folder: Path) -> None:
        self.slurm = request.getfixturevalue("slurm")
        self.rest = slurm_rest.Newer(self.slurm)
        request.addfinalizer(self.rest.close)
        self._proxy = Proxy(self.rest.url)
        request.addfinalizer(self._proxy.close)
        self.faults = HttpFaults(self._proxy)
        self.reached = {
            "scheduler_url": self._proxy.url,
            "scheduler_token_path": slurm_rest.token_file(folder, slurm_rest.token(self.slurm)),
            "scheduler_slurm_user": "root",
        }


class VersionedSite(EvictingSite):
    driver = Versioned
    own_options: ClassVar[dict[str, dict[str, object]]] = {"scheduler_url": {"type": "str"}}
    wrong_names = ("gpu001,gpu002", "", "*", "gpu001/holds", "GPU001")

    def __init__(self, request: pytest.FixtureRequest, folder: Path) -> None:
        self.service = Service()
        request.addfinalizer(self.service.close)
        self.service.new_nodes(*self.names)
        self._proxy = Proxy(self.service.url)
        request.addfinalizer(self._proxy.close)
        self.faults = HttpFaults(self._proxy)
        self.reached = {"scheduler_url": self._proxy.url}

    def hold(self, name: str, text: str) -> None:
        self.service.hold(name, text, "alice")

    def lift(self, name: str) -> None:
        self.service.lift(name)

    def texts(self, name: str) -> list[str]:
        return [hold.text for hold in self.service.nodes[name].holds]

    def take_down(self, name: str) -> None:
        self.service.hold(name, SHORT, "system")

    def lose(self, name: str) -> None:
        self.service.hold(name, LOST, "system")

    def change(self, name: str) -> None:
        self.service.touch(name)

    def start(self, name: str) -> str:
        return self.service.start_work(name)

    def end(self, job: str) -> None:
        self.service.end_work(job)

    def silence(self, name: str) -> None:
        self.service.agent(name, "dead")

    def wake(self, name: str) -> None:
        self.service.agent(name, "alive", booted="boot-2")

    def damage(self, name: str) -> None:
        self.service.set_fault(name, "7 of 8 GPUs")

    def repair(self, name: str) -> None:
        self.service.set_fault(name, "")

    def guard(self, name: str, reason: str, *, for_good: bool = False) -> str:
        return self.service.start_work(name, reason, for_good)

    def leaving(self, job: str) -> bool:
        return self.service.work[job].leaving


class NoSite(Site):
    driver = NoScheduler

    def __init__(self, request: Any, folder: Path) -> None:
        """There is nothing to start."""


SITES: tuple[type[Site], ...] = (SlurmSite, SlurmRestSite, VersionedSite, NoSite)


def params(sites: tuple[type[Site], ...]) -> list[Any]:
    return [pytest.param(site, id=site.NAME or site.driver.NAME) for site in sites]
