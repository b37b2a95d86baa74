# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Holds what a driver claims of a recorded tree against the recording. It shares no line with the drivers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trees_recorded import RecordedBmc

#: Where each part of an identity stands.
_SOURCES = {
    "serial": "{system}#/SerialNumber",
    "uuid": "{system}#/UUID",
    "manufacturer": "{system}#/Manufacturer",
    "model": "{system}#/Model",
    "bmc_firmware": "{manager}#/FirmwareVersion",
}
#: What a change of power may be asked by.
_RESETS = {
    "on": {"On"},
    "force_off": {"ForceOff"},
    "graceful_off": {"GracefulShutdown", "Off"},
    "restart": {"ForceRestart", "PowerCycle", "GracefulRestart"},
}
_TARGETS = {"pxe": "Pxe", "uefi_http": "UefiHttp"}
_TARGET = "BootSourceOverrideTarget"
#: Kinds of system that are no machine of their own (DMTF ComputerSystem, SystemType).
_NO_MACHINE = {"DPU", "Composed", "Virtual", "VirtuallyPartitioned", "OS", "PhysicallyPartitioned"}


def source(name: str, bmc: RecordedBmc, system: str, manager: str) -> str:
    """Where a part of an identity stands. Of a Dell SerialNumber is the board's, and its service tag stands in SKU."""
    dell = str(bmc.document(system).get("Manufacturer") or "").startswith("Dell")
    place = "{system}#/SKU" if dell and name == "serial" else _SOURCES[name]
    return place.format(system=system, manager=manager)


def wrong(report: Mapping[str, Any], bmc: RecordedBmc) -> list[str]:
    """Each claim that the recording does not bear out, in words."""
    if "system" not in report:
        return []
    return [line for check in (_system, _identity, _resets, _boot, _macs, _log) for line in check(report, bmc)]


def _at(doc: Any, *path: str) -> Any:
    for key in path:
        doc = doc.get(key) if isinstance(doc, dict) else None
    return doc


def _pointed(bmc: RecordedBmc, source: str) -> Any:
    uri, _mark, pointer = source.partition("#/")
    return _at(bmc.document(uri), *pointer.split("/"))


def _system(report: Mapping[str, Any], bmc: RecordedBmc) -> Iterator[str]:
    doc = bmc.document(report["system"])
    if not _at(doc, "Actions", "#ComputerSystem.Reset", "target"):
        yield f"{report['system']} cannot be reset: it is no machine"
    power = str(doc.get("PowerState"))
    if report["power"] in ("on", "off") and power.lower() != report["power"]:
        yield f"power {report['power']} is claimed, and {power} recorded"
    machines = [uri for uri, one in _others(report["system"], bmc) if _alike(one)]
    if machines and not report["asked"]:
        yield f"{report['system']} is chosen, and {', '.join(machines)} could be as well"


def _others(chosen: str, bmc: RecordedBmc) -> Iterator[tuple[str, dict[str, Any]]]:
    collection = str(_at(bmc.document("/redfish/v1"), "Systems", "@odata.id") or "")
    for member in bmc.document(collection).get("Members") or []:
        uri = str(_at(member, "@odata.id") or "")
        if uri and uri.rstrip("/").lower() != chosen.rstrip("/").lower():
            yield uri, bmc.document(uri)


def _alike(doc: Mapping[str, Any]) -> bool:
    """A machine that can be reset and has a BIOS: two of these are never told apart by guessing."""
    own = str(doc.get("SystemType")) not in _NO_MACHINE and not str(doc.get("Id") or "").startswith("HGX_")
    return own and bool(_at(doc, "Actions", "#ComputerSystem.Reset", "target")) and bool(_at(doc, "Bios"))


def _identity(report: Mapping[str, Any], bmc: RecordedBmc) -> Iterator[str]:
    for name, one in report["identity"].items():
        if one["value"] and str(_pointed(bmc, one["source"])) != one["value"]:
            yield f"{name} {one['value']} is claimed, and does not stand in {one['source']}"


def _listed(report: Mapping[str, Any], bmc: RecordedBmc) -> list[str] | None:
    action = _at(bmc.document(report["system"]), "Actions", "#ComputerSystem.Reset") or {}
    listed = action.get("ResetType@Redfish.AllowableValues")
    if isinstance(listed, list):
        return [str(one) for one in listed]
    for parameter in bmc.document(str(action.get("@Redfish.ActionInfo") or "")).get("Parameters") or []:
        if _at(parameter, "Name") == "ResetType" and isinstance(_at(parameter, "AllowableValues"), list):
            return [str(one) for one in parameter["AllowableValues"]]
    return None


def _resets(report: Mapping[str, Any], bmc: RecordedBmc) -> Iterator[str]:
    listed = _listed(report, bmc)
    target = _at(bmc.document(report["system"]), "Actions", "#ComputerSystem.Reset", "target")
    for kind, one in report["resets"].items():
        if "error" in one:
            continue
        sent = str(_at(one, "body", "ResetType"))
        if (one["method"], one["uri"]) != ("POST", target):
            yield f"{kind} is sent as {one['method']} to {one['uri']}, and the action is {target}"
        if sent not in _RESETS[kind] or (listed is not None and sent not in listed):
            yield f"{kind} is asked by {sent}, which is not it, or not among {listed}"


def _boot(report: Mapping[str, Any], bmc: RecordedBmc) -> Iterator[str]:
    system = bmc.document(report["system"])
    settings = str(_at(system, "@Redfish.Settings", "SettingsObject", "@odata.id") or "")
    places = [report["system"], *([settings] if settings else [])]
    lists = [_at(bmc.document(uri), "Boot", f"{_TARGET}@Redfish.AllowableValues") for uri in places]
    listed = {str(value) for found in lists if isinstance(found, list) for value in found}
    for target, one in report["boot"].items():
        if "error" in one:
            continue
        boot = _at(one, "body", "Boot") or {}
        now = _at(bmc.document(one["uri"]), "Boot", "BootSourceOverrideEnabled")
        if one["method"] != "PATCH" or one["uri"] not in places:
            yield f"the boot override is written by {one['method']} to {one['uri']}, which is not of this machine"
        if boot.get(_TARGET) != _TARGETS[target] or boot.get("BootSourceOverrideEnabled", now) != "Once":
            yield f"{boot} is no one-time boot from {target}"
        if listed and _TARGETS[target] not in {*listed, *report["unlisted"]}:
            yield f"{_TARGETS[target]} is written, and not listed"


def _macs(report: Mapping[str, Any], bmc: RecordedBmc) -> Iterator[str]:
    for one in report["macs"]:
        digits = one["mac"].replace(":", "")
        for source in one["sources"]:
            if digits not in re.sub("[:.-]", "", _text(_pointed(bmc, source))).lower():
                yield f"the MAC {one['mac']} is claimed, and does not stand in {source}"


def _log(report: Mapping[str, Any], bmc: RecordedBmc) -> Iterator[str]:
    """What is shown of the log stands in it."""
    log = report["log"]
    if "error" in log:
        return
    entries = bmc.document(str(_at(bmc.document(log["uri"]), "Entries", "@odata.id") or "")).get("Members") or []
    ids = {str(_at(one, "Id") or str(_at(one, "@odata.id")).rpartition("/")[2]) for one in entries}
    for one in log["newest"]:
        if one["id"] not in ids and not log["unread"]:
            yield f"the event {one['id']} is claimed, and does not stand in {log['uri']}"
    if entries and not log["newest"]:
        yield f"{log['uri']} has {len(entries)} entries, and none is claimed"


def _text(value: Any) -> str:
    """Whatever stands there, as text."""
    return " ".join(str(item) for item in value) if isinstance(value, list) else str(value)
