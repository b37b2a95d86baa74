# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one-time boot override over Redfish: where it lies, what may be asked, what it says. PRIVATE to the collection.

The override stands in the system, or in its settings object (``/Settings``, ``/SD``), or is spread over both: the
one that holds ``BootSourceOverrideTarget``, the settings object before the system, is written and read back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import answers, select
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    FleetError,
    Refused,
    Unsupported,
)

if TYPE_CHECKING:
    from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.driver import RedfishBmc

ENABLED = "BootSourceOverrideEnabled"
TARGET = "BootSourceOverrideTarget"
MODE = "BootSourceOverrideMode"
URI = "HttpBootUri"
_LIST = "@Redfish.AllowableValues"

#: What was read so many seconds ago, with no write since, is one look at the machine together with the next read.
SAME_LOOK = 1.0

TARGETS = {c.PXE: "Pxe", c.UEFI_HTTP: "UefiHttp"}
NAMES = {name: target for target, name in TARGETS.items()}
MODES = {c.UEFI: "UEFI", c.LEGACY: "Legacy"}
_MODE_NAMES = {name: mode for mode, name in MODES.items()}
_ENABLED_NAMES = {"Once": c.ONCE, "Continuous": c.CONTINUOUS, "Disabled": c.DISABLED}
#: What a precondition failed says: the tag is missing, or is not the one.
_TAG_PROBLEMS = frozenset({412, 428})


@dataclass(frozen=True)
class State:
    """The resource that holds the override, and what it says."""

    uri: str
    boot: Mapping[str, Any]
    etag: str
    override: c.BootOverride
    targets: tuple[str, ...] | None
    modes: tuple[str, ...] | None


def read_state(bmc: RedfishBmc, *, max_age: float = 0.0) -> State:
    """Look at the override, in the settings object if it holds the target, else in the system."""
    settings = bmc.settings
    if settings:
        try:
            state = _state(bmc, settings, max_age)
        except (Unsupported, BadAnswer):
            pass  # an advertised link that leads nowhere
        else:
            if TARGET in state.boot:
                return state
    return _state(bmc, bmc.uri, max_age)


def _state(bmc: RedfishBmc, uri: str, max_age: float = 0.0) -> State:
    seen = bmc.look(uri, max_age=max_age)
    boot = select.section(seen.doc, "Boot")
    aliases = bmc.quirk("boot_target_alias") or {}
    return State(
        uri=uri,
        boot=boot,
        etag=seen.etag,
        override=c.BootOverride(
            enabled=_ENABLED_NAMES.get(str(boot.get(ENABLED)), c.UNKNOWN),
            target=_target(boot.get(TARGET), aliases),
            mode=_MODE_NAMES.get(str(boot.get(MODE)), c.UNKNOWN),
            uri=str(boot.get(URI) or ""),
        ),
        targets=_names(boot.get(TARGET + _LIST)),
        modes=_names(boot.get(MODE + _LIST)),
    )


def _target(said: Any, aliases: Mapping[str, tuple[str, ...]]) -> str:
    name = next((asked for asked, shown in aliases.items() if said in shown), str(said or c.UNKNOWN))
    return NAMES.get(name, name)


def _names(listed: Any) -> tuple[str, ...] | None:
    return tuple(str(name) for name in listed) if isinstance(listed, list) else None


def takes_uri(bmc: RedfishBmc, state: State) -> bool:
    return URI in state.boot and URI not in (bmc.quirk("boot_omit") or ())


def check(bmc: RedfishBmc, state: State, target: str, mode: str, uri: str) -> None:
    """:raises Unsupported: for what this BMC is known not to take, before anything is written."""
    name = TARGETS[target]
    if TARGET not in state.boot and ENABLED not in state.boot:
        raise _lacks(bmc, "this BMC has no boot override", "BootSourceOverrideTarget in the system or its settings", "")
    unlisted = bmc.quirk("boot_target_unlisted") or ()
    if state.targets is not None and name not in state.targets and name not in unlisted:
        raise _lacks(bmc, f"this BMC cannot boot from {name}", name, ", ".join(state.targets))
    if uri and not takes_uri(bmc, state):
        raise _lacks(
            bmc,
            "this BMC takes no URI to boot from",
            URI,
            "set the machine's BIOS attribute for it (Dell HttpDev1Uri, HPE UrlBootFile), or let DHCP give the URI",
        )
    if mode == c.KEEP or state.override.mode == mode:
        return
    omitted = MODE in (bmc.quirk("boot_omit") or ())
    listed = state.modes is None or MODES[mode] in state.modes
    if omitted or not listed or state.boot.get(MODE) is None:
        wanted = f"{MODE} {MODES[mode]}"
        raise _lacks(bmc, f"this BMC cannot switch the boot mode to {mode}", wanted, str(state.boot.get(MODE)))


def _lacks(bmc: RedfishBmc, what: str, wanted: str, seen: str) -> FleetError:
    return Unsupported(what, address=bmc.address, wanted=wanted, seen=seen, do="bmc_info shows what this BMC offers")


def set_once(bmc: RedfishBmc, target: str, mode: str, uri: str) -> str:
    """Ask for the override where it lies; a BMC that refers us to another place is followed there once."""
    state = read_state(bmc, max_age=SAME_LOOK)
    check(bmc, state, target, mode, uri)
    try:
        return _patch(bmc, state, target, mode, uri)
    except Refused as exc:
        other = _elsewhere(bmc, state, exc)
        if other is None:
            raise
        return _patch(bmc, other, target, mode, uri)


def _elsewhere(bmc: RedfishBmc, state: State, refusal: FleetError) -> State | None:
    if refusal.details.get("meaning") not in (answers.ELSEWHERE, answers.READ_ONLY):
        return None
    suffix = bmc.quirk("boot_settings")
    places = [bmc.settings, f"{bmc.uri.rstrip('/')}{suffix}" if suffix else ""]
    for place in places:
        if not place or place == state.uri:
            continue
        try:
            return _state(bmc, place)
        except (Unsupported, BadAnswer):
            continue
    return None


def request(bmc: RedfishBmc, state: State, target: str, mode: str, uri: str) -> dict[str, Any]:
    """The smallest Boot section that asks for it; some BMCs want all of it each time."""
    full = bmc.quirk("boot_request") == "full" or bmc.quirk("boot_readback") == "blind"
    omit = bmc.quirk("boot_omit") or ()
    body: dict[str, Any] = {TARGET: TARGETS[target]}
    if full or state.boot.get(ENABLED) != "Once":
        body[ENABLED] = "Once"
    shown = state.boot.get(MODE)
    asked = MODES.get(mode, shown)
    if shown is not None and MODE not in omit and (asked != shown or full):
        body[MODE] = asked
    if uri:
        body[URI] = uri
    return body


def _patch(bmc: RedfishBmc, state: State, target: str, mode: str, uri: str) -> str:
    body = request(bmc, state, target, mode, uri)
    shown = "Boot " + " ".join(f"{key}={value}" for key, value in sorted(body.items()) if key != URI)
    for number, tag in enumerate(_tags(state)):
        try:
            headers = partial(_headers, bmc, state, tag)
            answer = bmc.write("PATCH", state.uri, {"Boot": body}, shown, destructive=False, headers=headers)
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


def _headers(bmc: RedfishBmc, state: State, tag: str) -> dict[str, str]:
    if tag == _FRESH:
        tag = bmc.look(state.uri).etag or "*"
    return {"If-Match": tag} if tag else {}
