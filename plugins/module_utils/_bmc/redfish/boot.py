# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one-time boot override over Redfish: where it lies, what may be asked, what it says. PRIVATE to the collection.

The override stands in the system, or in its settings object (``/Settings``, ``/SD``), or is spread over both: the
one that holds ``BootSourceOverrideTarget``, the settings object before the system, is written and read back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import answers, select
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.machine import SAME_LOOK, Machine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    FleetError,
    Refused,
    Unsupported,
)

ENABLED = "BootSourceOverrideEnabled"
TARGET = "BootSourceOverrideTarget"
MODE = "BootSourceOverrideMode"
URI = "HttpBootUri"
_LIST = "@Redfish.AllowableValues"

TARGETS = {c.PXE: "Pxe", c.UEFI_HTTP: "UefiHttp"}
NAMES = {name: target for target, name in TARGETS.items()}
MODES = {c.UEFI: "UEFI", c.LEGACY: "Legacy"}
_MODE_NAMES = {name: mode for mode, name in MODES.items()}
_ENABLED_NAMES = {"Once": c.ONCE, "Continuous": c.CONTINUOUS, "Disabled": c.DISABLED}
#: What a precondition failed says: the tag is missing, or is not the one.
_TAG_PROBLEMS = frozenset({412, 428})


class RedfishBoot(c.Boot):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.address = machine.address

    def override(self) -> c.BootOverride:
        return read_state(self._machine, max_age=0.0 if self._machine.wrote else SAME_LOOK).override

    def check(self, target: str, mode: str, uri: str) -> None:
        check(self._machine, read_state(self._machine, max_age=SAME_LOOK), target, mode, uri)

    def offer(self) -> c.BootOffer:
        state = read_state(self._machine, max_age=SAME_LOOK)
        return c.BootOffer(
            targets=None if state.targets is None else tuple(NAMES.get(name, name) for name in state.targets),
            modes=None if state.modes is None else tuple(name.lower() for name in state.modes),
            http_boot_uri=takes_uri(self._machine, state),
            shows=self._machine.quirk("boot_readback") != "blind",
        )

    def clear(self, *, destructive: bool = False) -> str:
        state = read_state(self._machine, max_age=SAME_LOOK)
        return self._ask(state, lambda where: no_request(self._machine, where), destructive)

    def set_once(self, target: str, mode: str, uri: str, *, destructive: bool) -> str:
        machine, state = self._machine, read_state(self._machine, max_age=SAME_LOOK)
        check(machine, state, target, mode, uri)
        return self._ask(state, lambda where: request(machine, where, target, mode, uri), destructive)

    def _ask(self, state: State, body: Callable[[State], Mapping[str, Any]], destructive: bool) -> str:
        """Ask for it where the override lies; a BMC that refers us to another place is followed there once."""
        try:
            return _patch(self._machine, state, body(state), destructive)
        except Refused as exc:
            other = _elsewhere(self._machine, state, exc)
            if other is None:
                raise
            return _patch(self._machine, other, body(other), destructive)


@dataclass(frozen=True)
class State:
    """The resource that holds the override, and what it says."""

    uri: str
    boot: Mapping[str, Any]
    etag: str
    override: c.BootOverride
    targets: tuple[str, ...] | None
    modes: tuple[str, ...] | None


def read_state(machine: Machine, *, max_age: float = 0.0) -> State:
    """Look at the override, in the settings object if it holds the target, else in the system."""
    settings = machine.settings
    if settings:
        try:
            state = _state(machine, settings, max_age)
        except (Unsupported, BadAnswer):
            pass  # an advertised link that leads nowhere
        else:
            if TARGET in state.boot:
                return state
    return _state(machine, machine.uri, max_age)


def _state(machine: Machine, uri: str, max_age: float = 0.0) -> State:
    seen = machine.look(uri, max_age=max_age)
    boot = select.section(seen.doc, "Boot")
    aliases = machine.quirk("boot_target_alias") or {}
    return State(
        uri=uri,
        boot=boot,
        etag=seen.etag,
        override=c.BootOverride(
            enabled=_ENABLED_NAMES.get(str(boot.get(ENABLED)), c.UNKNOWN),
            target=NAMES.get(str(boot.get(TARGET)), str(boot.get(TARGET) or c.UNKNOWN)),
            mode=_MODE_NAMES.get(str(boot.get(MODE)), c.UNKNOWN),
            uri=str(boot.get(URI) or ""),
            may_be=next((NAMES[asked] for asked, shown in aliases.items() if boot.get(TARGET) in shown), ""),
        ),
        targets=_listed(machine, boot, TARGET),
        modes=_listed(machine, boot, MODE),
    )


def _listed(machine: Machine, boot: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    """What is allowed: the system and its settings each list a part of it on some (BlueField-3)."""
    own = select.section(machine.system(), "Boot")
    lists = [found for found in (boot.get(name + _LIST), own.get(name + _LIST)) if isinstance(found, list)]
    return tuple(dict.fromkeys(str(value) for found in lists for value in found)) if lists else None


def takes_uri(machine: Machine, state: State) -> bool:
    return URI in state.boot and URI not in (machine.quirk("boot_omit") or ())


def check(machine: Machine, state: State, target: str, mode: str, uri: str) -> None:
    """:raises Unsupported: for what this BMC is known not to take, before anything is written."""
    name = TARGETS[target]
    if TARGET not in state.boot and ENABLED not in state.boot:
        raise _lacks(machine, "this BMC has no boot override", f"{TARGET} in the system or its settings", "")
    unlisted = machine.quirk("boot_target_unlisted") or ()
    if state.targets is not None and name not in state.targets and name not in unlisted:
        raise _lacks(machine, f"this BMC cannot boot from {name}", name, ", ".join(state.targets))
    if uri and not takes_uri(machine, state):
        raise _lacks(
            machine,
            "this BMC takes no URI to boot from",
            URI,
            "set the machine's BIOS attribute for it (Dell HttpDev1Uri, HPE UrlBootFile), or let DHCP give the URI",
        )
    if mode == c.KEEP or state.override.mode == mode or _takes_mode(machine, state, mode):
        return
    seen = str(state.boot.get(MODE) or "no mode told") + (f", of {', '.join(state.modes)}" if state.modes else "")
    wanted = f"{MODE} {MODES[mode]}"
    raise _lacks(machine, f"this BMC cannot switch the boot mode to {mode}", wanted, seen, _KEEP)


#: What to do about a mode that cannot be asked for.
_KEEP = "set mode to keep: such a BMC boots as its BIOS is set"


def _takes_mode(machine: Machine, state: State, mode: str) -> bool:
    """A mode that is listed may be asked for, and one that is not listed where any is told and no list is there."""
    if MODE in (machine.quirk("boot_omit") or ()):
        return False
    return state.boot.get(MODE) is not None if state.modes is None else MODES[mode] in state.modes


def _lacks(machine: Machine, what: str, wanted: str, seen: str, do: str = "") -> FleetError:
    return Unsupported(
        what, address=machine.address, wanted=wanted, seen=seen, do=do or "bmc_info shows what this BMC offers"
    )


def _elsewhere(machine: Machine, state: State, refusal: FleetError) -> State | None:
    if refusal.details.get("meaning") not in (answers.ELSEWHERE, answers.READ_ONLY):
        return None
    suffix = machine.quirk("boot_settings")
    places = [machine.settings, f"{machine.uri.rstrip('/')}{suffix}" if suffix else ""]
    for place in places:
        if not place or place == state.uri:
            continue
        try:
            return _state(machine, place)
        except (Unsupported, BadAnswer):
            continue
    return None


def request(machine: Machine, state: State, target: str, mode: str, uri: str) -> dict[str, Any]:
    """The smallest Boot section that asks for it; some BMCs want all of it each time."""
    full = machine.quirk("boot_request") == "full" or machine.quirk("boot_readback") == "blind"
    omit = machine.quirk("boot_omit") or ()
    body: dict[str, Any] = {TARGET: TARGETS[target]}
    if full or state.boot.get(ENABLED) != "Once":
        body[ENABLED] = "Once"
    shown = state.boot.get(MODE)
    asked = MODES.get(mode, shown)  # null in both where none is told and the mode is kept
    if asked is not None and MODE not in omit and (asked != shown or full):
        body[MODE] = asked
    if uri:
        body[URI] = uri
    return body


def no_request(machine: Machine, state: State) -> dict[str, Any]:
    """The Boot section that asks for no override."""
    body: dict[str, Any] = {TARGET: "None", ENABLED: "Disabled"}
    if state.boot.get(MODE) is not None and MODE not in (machine.quirk("boot_omit") or ()):
        body[MODE] = str(state.boot[MODE])
    return body


def _patch(machine: Machine, state: State, body: Mapping[str, Any], destructive: bool) -> str:
    shown = "Boot " + " ".join(f"{key}={value}" for key, value in sorted(body.items()) if key != URI)
    for number, tag in enumerate(_tags(state)):
        try:
            headers = partial(_headers, machine, state, tag)
            answer = machine.write("PATCH", state.uri, {"Boot": body}, shown, destructive=destructive, headers=headers)
        except Refused as exc:
            if exc.details.get("status") not in _TAG_PROBLEMS or number == len(_tags(state)) - 1:
                raise
            continue
        return c.WITHHELD if answer is None else c.SENT
    raise AssertionError("the last tag either works or raises")


#: Stands for "read the resource again and use the tag of that": tags of some BMCs change at each read.
_FRESH = "(fresh)"


def _tags(state: State) -> list[str]:
    """Forms of If-Match to try in turn: as given, strong, read again, any, none."""
    given = [state.etag, state.etag[2:]] if state.etag.startswith("W/") else [state.etag]
    return [*given, _FRESH, "*", ""] if state.etag else ["", _FRESH, "*"]


def _headers(machine: Machine, state: State, tag: str) -> dict[str, str]:
    if tag == _FRESH:
        tag = machine.look(state.uri).etag or "*"
    return {"If-Match": tag} if tag else {}
