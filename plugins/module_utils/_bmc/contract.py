# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The port ``bmc``: what every driver can do, in words of no protocol. PRIVATE to the collection.

A driver reads and writes one machine through its BMC. It proves nothing: it says what the BMC said. The verbs
(power.py, boot.py, info.py) read before and after, wait, and judge.

What a driver owes:

* Before each single write it asks ``ctx.may_write``; on False it returns :data:`WITHHELD` and sends nothing.
* A write that cannot be repeated harmlessly is sent once. Where its answer is lost, :class:`LostAnswer` is raised,
  and the verb reads what came of it. Only an explicit "not now" of the BMC lets a driver ask again.
* Whatever the peer or the library does, a :class:`FleetError` comes out and nothing else.
* One login attempt: a refusal is :class:`AuthFailed` at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, Unreachable

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
class BootOverride:
    """The boot override as the BMC shows it."""

    enabled: str = UNKNOWN
    target: str = UNKNOWN
    mode: str = UNKNOWN
    uri: str = ""

    def as_dict(self) -> dict[str, str]:
        return asdict(self)

    def is_once(self, target: str, mode: str, uri: str = "") -> bool:
        """Does it say what was asked for? A mode to be kept and a URI that was not given match anything."""
        return (
            self.enabled == ONCE
            and self.target == target
            and (mode == KEEP or self.mode == mode)
            and (not uri or self.uri == uri)
        )


@dataclass(frozen=True)
class Capabilities:
    """What this BMC says that it can do. None: it does not say, which is no permission."""

    protocol: str
    power: tuple[str, ...] | None = None
    boot_targets: tuple[str, ...] | None = None
    boot_modes: tuple[str, ...] | None = None
    http_boot_uri: bool = False
    #: False where this BMC is known not to show a one-time override that it has taken.
    shows_boot_override: bool = True
    quirks: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


class Bmc(ABC):
    """One machine behind one BMC, connected at the first call. Use it as a context manager: it must be closed."""

    #: What to show a person; never with credentials.
    address: str

    @abstractmethod
    def identity(self) -> Identity:
        """Serial, UUID, maker, model, the BMC's firmware."""

    @abstractmethod
    def power_state(self) -> str:
        """ON, OFF, CHANGING or UNKNOWN: one look, now."""

    @abstractmethod
    def set_power(self, kind: str, *, destructive: bool) -> str:
        """Ask for one change of power, once; SENT or WITHHELD.

        :raises Unsupported: when the BMC does not offer it; nothing was sent.
        :raises LostAnswer: when it may or may not have been taken.
        :raises Refused: when the BMC said no.
        """

    @abstractmethod
    def boot_override(self) -> BootOverride:
        """The override as shown now."""

    @abstractmethod
    def check_boot(self, target: str, mode: str, uri: str) -> None:
        """Whether :meth:`set_boot_once` could be asked at all; sends no write.

        :raises Unsupported: saying what this BMC lacks.
        """

    @abstractmethod
    def set_boot_once(self, target: str, mode: str, uri: str) -> str:
        """Ask for a one-time override of the next boot; SENT or WITHHELD. It may be repeated harmlessly."""

    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What the BMC offers, and what is known of its kind."""

    def restart_marker(self) -> str:
        """Something that changes with each restart, where the BMC has it; empty where not."""
        return ""

    @abstractmethod
    def close(self) -> None:
        """Give back what the BMC holds for us. Never raises."""

    def __enter__(self) -> Bmc:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
