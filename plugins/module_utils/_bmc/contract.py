# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The port ``bmc``: what every driver can do, in words of no protocol. PRIVATE to the collection.

A driver reads and writes one machine through its BMC. It proves nothing: it says what the BMC said. The verbs
(power.py, boot.py, info.py, log.py) read before and after, wait, and judge.

What a driver owes:

* Before each single write it asks ``ctx.may_write``; on False it returns :data:`WITHHELD` and sends nothing.
* A write that cannot be repeated harmlessly is sent once. Where its answer is lost, :class:`LostAnswer` is raised,
  and the verb reads what came of it. Only an explicit "not now" of the BMC lets a driver ask again.
* Whatever the peer or the library does, a :class:`FleetError` comes out and nothing else.
* One login attempt: a refusal is :class:`AuthFailed` at once.

A driver is a list of capabilities (``Bmc.has``), small classes of their own. What a protocol does not know is not
there, and whoever asks for it is told so by :meth:`Bmc.part`. A new capability is a class and a property here, and a
class in each driver that has it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, cast

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.told import Log, Macs, Parts
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, Unreachable, Unsupported

# Power states. Anything else that a BMC may say is one of the last two.
ON = "on"
OFF = "off"
CHANGING = "changing"
UNKNOWN = "unknown"

# Kinds of set_power.
POWER_ON = "on"
FORCE_OFF = "force_off"
GRACEFUL_OFF = "graceful_off"
RESTART = "restart"

# How far a machine is in its start: at its beginning, or near its end and after it.
EARLY = "early"
LATE = "late"
# By what a BMC shows a restart, beside the power state.
RESET_TIME = "reset_time"
RESET_COUNT = "reset_count"
START_STAGE = "start_stage"

# What became of a write.
SENT = "sent"
WITHHELD = "withheld"

# What a boot override is good for.
ONCE = "once"
CONTINUOUS = "continuous"
DISABLED = "disabled"

# Boot targets and modes that verbs ask for. A driver may read others; it gives them in the peer's own words.
PXE = "pxe"
UEFI_HTTP = "uefi_http"
UEFI = "uefi"
LEGACY = "legacy"
KEEP = "keep"
#: As a target: no boot but the machine's own.
NOTHING = "none"


class LostAnswer(Unreachable):
    """The request left, and no answer came back: what it did is to be read, not guessed, and never sent again."""

    kind = "lost_answer"


class NotNow(FleetError):
    """The BMC refused for now: busy, not ready, in POST. It may be asked again.

    :param after: seconds that the BMC asked us to wait; 0 where it did not say.
    """

    kind = "refused"

    def __init__(self, what: str, *, after: float = 0.0, **more: Any) -> None:
        super().__init__(what, **more)
        self.after = after


@dataclass(frozen=True)
class Identity:
    """Who the machine is, as its BMC tells; an empty string where it does not."""

    serial: str = ""
    uuid: str = ""
    manufacturer: str = ""
    model: str = ""
    bmc_firmware: str = ""

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True)
class KnownBy:
    """By what the machine goes, as its BMC tells; what stands there where nobody has set anything may be among it.

    What is the machine's own contradicts another machine's. What may be that of a part of it, or the BMC's, can agree,
    and its difference says nothing.
    """

    serials: tuple[str, ...] = ()
    uuids: tuple[str, ...] = ()
    #: Serials of its boards and of the chassis that it stands in, which its neighbours may have too.
    of_parts: tuple[str, ...] = ()
    #: Those of them that belong to this machine and to no other, as far as its BMC tells.
    alone: tuple[str, ...] = ()
    #: UUIDs that some BMCs of the kind make up themselves.
    of_the_bmc: tuple[str, ...] = ()


@dataclass(frozen=True)
class BootOverride:
    """The boot override as the BMC shows it."""

    enabled: str = UNKNOWN
    target: str = UNKNOWN
    mode: str = UNKNOWN
    uri: str = ""
    #: The target that this BMC is known to show as this one: it may as well be somebody else's.
    may_be: str = ""

    def as_dict(self) -> dict[str, str]:
        return {name: value for name, value in asdict(self).items() if name != "may_be"}

    def stands(self) -> bool:
        """Does it say that the next boot, and no other, is another one than the machine's own?"""
        return self.enabled == ONCE and self.target.lower() != NOTHING

    def is_once(self, target: str, mode: str, uri: str = "", *, ours: bool = False) -> bool:
        """Does it say what was asked for? A mode to be kept and a URI that was not given match anything.

        :param ours: it was we who set what stands there: then what it may be is what it is.
        """
        return (
            self.enabled == ONCE
            and target in (self.target, self.may_be if ours else self.target)
            and (mode == KEEP or self.mode == mode)
            and (not uri or self.uri == uri)
        )


@dataclass(frozen=True)
class BootOffer:
    """What a BMC says that its boot override can do. None: it does not say, which is no permission."""

    targets: tuple[str, ...] | None = None
    modes: tuple[str, ...] | None = None
    http_boot_uri: bool = False
    #: False where this BMC is known not to show a one-time override that it has taken.
    shows: bool = True


class Capability(ABC):
    """One kind of thing that a BMC can be asked for. A driver has those that its protocol knows, and no others."""

    #: What it is called in messages.
    title: ClassVar[str]
    #: The BMC's, as in :class:`Bmc`.
    address: str


class Power(Capability):
    """The power of the machine."""

    title = "power"

    @abstractmethod
    def state(self) -> str:
        """ON, OFF, CHANGING or UNKNOWN: one look, now."""

    @abstractmethod
    def set(self, kind: str, *, destructive: bool) -> str:
        """Ask for one change of power, once; SENT or WITHHELD.

        :raises Unsupported: when the BMC does not offer it; nothing was sent.
        :raises LostAnswer: when it may or may not have been taken.
        :raises Refused: when the BMC said no.
        """

    @abstractmethod
    def offer(self) -> tuple[str, ...] | None:
        """The kinds of :meth:`set` that the BMC offers; None where it does not say."""

    def restart_marker(self) -> str:
        """Something that changes with each restart, where the BMC has it; empty where not."""
        return ""

    def restart_proof(self) -> str:
        """What a marker that has changed is called: the BMC's time of the last reset, or its count of them."""
        return RESET_TIME

    def start_stage(self) -> str:
        """EARLY or LATE in the machine's start, where the BMC is known to tell; empty where not."""
        return ""


class Boot(Capability):
    """The one-time boot override."""

    title = "one-time boot"

    @abstractmethod
    def override(self) -> BootOverride:
        """The override as shown now."""

    @abstractmethod
    def check(self, target: str, mode: str, uri: str) -> None:
        """Whether :meth:`set_once` could be asked at all; sends no write.

        :raises Unsupported: saying what this BMC lacks.
        """

    @abstractmethod
    def set_once(self, target: str, mode: str, uri: str, *, destructive: bool) -> str:
        """Ask for a one-time override of the next boot; SENT or WITHHELD. It may be repeated harmlessly.

        :param destructive: whether the machine may be running: its next restart, whoever asks for it, boots that.
        """

    def clear(self, *, destructive: bool = False) -> str:
        """Ask for no override at all; SENT or WITHHELD. It may be repeated harmlessly.

        :param destructive: as of :meth:`set_once`, where it is the first step to another override.
        """
        raise Unsupported("this driver clears no boot override", address=self.address)

    @abstractmethod
    def offer(self) -> BootOffer:
        """What the override can do, and whether it can be seen."""


class Identify(Capability):
    """Who the machine is."""

    title = "identity"

    @abstractmethod
    def identity(self) -> Identity:
        """Serial, UUID, maker, model, the BMC's firmware."""

    def known_by(self, *, parts: bool = False) -> KnownBy:
        """Asked before each verb that writes: what it takes, and no more.

        :param parts: also what takes further requests, such as the serial of the chassis.
        """
        told = self.identity()
        return KnownBy(serials=(told.serial,), uuids=(told.uuid,))


class Cards(Capability):
    """The machine's network cards."""

    title = "network cards"

    @abstractmethod
    def macs(self) -> Macs:
        """The union of the MAC addresses of all places where the BMC tells any; never raises for a single place."""


class Inventory(Capability):
    """What the machine consists of."""

    title = "parts of the machine"

    @abstractmethod
    def hardware(self, firmware: Sequence[str] = ()) -> Parts:
        """What it tells of processors, memory, GPUs, drives and firmware; never raises for a single place.

        :param firmware: components whose version is wanted, beside the BIOS.
        """


class Events(Capability):
    """What has happened to the machine: its system event log, which is read and never cleared."""

    title = "system event log"

    @abstractmethod
    def newest(self, most: int, since: float | None = None) -> Log:
        """Its newest entries. What could not be read of a log that was found is told in it.

        :param most: how many there may be.
        :param since: seconds since the epoch. What is known to be older is left out; an entry without a time is not.
        :raises Unsupported: where the BMC shows no such log.
        """


class Bmc(ABC):
    """One machine behind one BMC, connected at the first call. Use it as a context manager: it must be closed."""

    #: The protocol's name in the registry.
    protocol: ClassVar[str]
    #: May several of it be asked at once in one process?
    in_threads: ClassVar[bool] = True
    #: What to show a person; never with credentials.
    address: str
    #: What the driver can do: one object a capability, each of which speaks when it is asked and not before.
    has: tuple[Capability, ...] = ()

    @property
    def power(self) -> Power:
        return cast(Power, self.part(Power))

    @property
    def boot(self) -> Boot:
        return cast(Boot, self.part(Boot))

    @property
    def identify(self) -> Identify:
        return cast(Identify, self.part(Identify))

    @property
    def cards(self) -> Cards:
        return cast(Cards, self.part(Cards))

    @property
    def inventory(self) -> Inventory:
        return cast(Inventory, self.part(Inventory))

    @property
    def events(self) -> Events:
        return cast(Events, self.part(Events))

    def part(self, wanted: type[Capability]) -> Capability:
        """The part of this driver that can do it.

        :raises Unsupported: where the driver has none; nothing was sent.
        """
        for part in self.has:
            if isinstance(part, wanted):
                return part
        raise Unsupported(
            f"{wanted.title} is nothing that the collection can do over {self.protocol}",
            address=self.address,
            wanted=wanted.title,
            seen=f"{self.protocol}: {', '.join(part.title for part in self.has) or 'nothing'}",
            do="set gpufleet_bmc_protocol to another protocol that this BMC speaks",
        )

    def certificate(self) -> str:
        """SHA-256 of the certificate that this BMC showed; empty where it showed none."""
        return ""

    def quirks(self) -> tuple[str, ...]:
        """The names of the rows that fit this BMC."""
        return ()

    def explain(self, problem: FleetError) -> None:
        """Called with what ends a verb: say more of it, if the BMC can be asked what it meant. Never raises."""
        return

    @abstractmethod
    def close(self) -> None:
        """Give back what the BMC holds for us. Never raises."""

    def __enter__(self) -> Bmc:
        return self

    def __exit__(self, kind: object, problem: object, trace: object) -> None:
        try:
            if isinstance(problem, FleetError):
                self.explain(problem)
        finally:
            self.close()
