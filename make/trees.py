# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the collection would do with machines of which there are only recorded Redfish trees.

    trees.py FOLDER [--format text|json] [--system ID]

For each tree: the chosen system, its identity, the resets, where the boot override would be written and how, the MAC
addresses, the event log; or the error that a run would end with. The drivers themselves are asked, over HTTP, by a BMC
that serves the recording. What they claim is then held against the recording itself. The exit status is 1 where a claim
is wrong, a recording cannot be read or Python gave up, and 2 where there is no tree.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.driver import RedfishBmc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._text import harmless_all
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from trees_claims import source, wrong
from trees_recorded import RecordedBmc, Tree, trees

#: Seconds for one question; a recording answers at once.
_TIMEOUT = 20.0
_KINDS = (c.POWER_ON, c.FORCE_OFF, c.GRACEFUL_OFF, c.RESTART)
_TARGETS = (c.PXE, c.UEFI_HTTP)
_ROOT = "/redfish/v1"
#: So many of the newest events are shown in JSON; of the first of them a line is for people.
_EVENTS = 5


class Look:
    """The questions about one tree."""

    def __init__(self, bmc: RecordedBmc, system: str) -> None:
        self._bmc = bmc
        self._params = {
            "bmc_address": bmc.url, "bmc_username": "nobody", "bmc_password": "nothing", "bmc_system_id": system,
            "timeout": _TIMEOUT,
        }  # fmt: skip

    def _asked(self, question: Callable[[RedfishBmc], Any]) -> Any:
        """The answer, of a connection of its own; writes before it are forgotten."""
        self._bmc.writes.clear()
        with RedfishBmc(self._params, Context()) as bmc:
            return question(bmc)

    def all(self) -> dict[str, Any]:
        uri, quirks = self._asked(lambda bmc: (bmc.machine.uri, list(bmc.quirks())))
        identity = self._asked(lambda bmc: bmc.identify.identity().as_dict())
        manager = self._asked(lambda bmc: bmc.machine.manager_uri())
        return {
            "system": uri,
            "identity": {
                name: {"value": value, "source": source(name, self._bmc, uri, manager) if value else ""}
                for name, value in identity.items()
            },
            "power": self._asked(lambda bmc: bmc.power.state()),
            "restart_shows_by": self._asked(_restart_shows_by),
            "resets": {kind: self._or_error(partial(self._reset, kind)) for kind in _KINDS},
            "boot": {target: self._or_error(partial(self._boot, target)) for target in _TARGETS},
            "override": self._or_error(lambda: self._asked(lambda bmc: bmc.boot.override().as_dict())),
            **self._asked(_macs),
            "log": self._or_error(lambda: self._asked(_log)),
            "quirks": quirks,
            "unlisted": self._asked(lambda bmc: list(bmc.machine.quirk("boot_target_unlisted") or ())),
        }

    def _or_error(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except FleetError as exc:
            return {"error": _told(exc)}

    def _reset(self, kind: str) -> dict[str, Any]:
        self._asked(lambda bmc: bmc.power.set(kind, destructive=False))
        return _written(self._bmc)

    def _boot(self, target: str) -> dict[str, Any]:
        self._asked(lambda bmc: bmc.boot.set_once(target, c.KEEP, "", destructive=False))
        return _written(self._bmc)


def _written(bmc: RecordedBmc) -> dict[str, Any]:
    method, uri, body = bmc.writes[-1]
    return {"method": method, "uri": uri, "body": body}


def _restart_shows_by(bmc: RedfishBmc) -> str:
    power = bmc.power
    if power.restart_marker():
        return power.restart_proof()
    return c.START_STAGE if power.start_stage() else "off and on (state reset is done as cycle)"


def _macs(bmc: RedfishBmc) -> dict[str, Any]:
    told = bmc.cards.macs()
    return {"macs": [mac.as_dict() for mac in told.found], "macs_unread": list(told.unread)}


def _log(bmc: RedfishBmc) -> dict[str, Any]:
    found = bmc.events.newest(_EVENTS)
    newest = [one.as_dict() for one in found.entries]
    told = {"uri": found.name.uri, "kind": found.name.kind, "total": found.total, "unread": list(found.unread)}
    return {**told, "newest": [{name: one[name] for name in ("id", "at", "severity", "message")} for one in newest]}


def _told(exc: FleetError) -> dict[str, Any]:
    """An error as a run would tell it, less the address, which is the recording's."""
    parts = {"kind": exc.kind, "what": exc.what, "wanted": exc.wanted, "seen": exc.seen, "do": exc.do}
    return {key: value for key, value in parts.items() if value}


def look(name: str, tree: Tree | str, system: str = "") -> dict[str, Any]:
    """All that is to be said of a tree; ``wrong``, ``unreadable`` and ``traceback`` are what must not be."""
    report: dict[str, Any] = {"tree": name, "asked": system, "wrong": []}
    if not isinstance(tree, str) and any(uri.startswith(_ROOT + _ROOT) for uri in tree):
        tree = f"it lies a folder too deep: the layout is NAME{_ROOT}/**/index.json"
    if isinstance(tree, str):
        report["unreadable"] = tree
    else:
        with RecordedBmc(tree) as bmc:
            try:
                _ask(report, bmc, system)
            except Exception:
                report["traceback"] = traceback.format_exc()
    shown: dict[str, Any] = harmless_all(report)
    return shown


def _ask(report: dict[str, Any], bmc: RecordedBmc, system: str) -> None:
    try:
        report.update(Look(bmc, system).all())
    except FleetError as exc:
        report["error"] = {"at": exc.address.removeprefix(bmc.url), **_told(exc)}
    root = bmc.document(_ROOT)
    report["service"] = {key: root[key] for key in ("Vendor", "Product", "RedfishVersion") if key in root}
    report["wrong"] = wrong(report, bmc)


# -- for people --------------------------------------------------------------------------------------------------------


def text(report: Mapping[str, Any]) -> str:
    lines = [report["tree"], *(f"    {line}" for line in _lines(report))]
    lines.extend(f"    WRONG: {line}" for line in report["wrong"])
    lines.extend(f"    {line}" for line in report.get("traceback", "").splitlines())
    return "\n".join(lines)


def _lines(report: Mapping[str, Any]) -> list[str]:
    if "unreadable" in report:
        return [f"{'unreadable':<14}{report['unreadable']}"]
    if "error" in report:
        return [f"{'error':<14}{_error(report['error'])}"]
    if "system" not in report:
        return []
    found = [("system", f"{report['system']}, power {report['power']}")]
    found += [(name, f"{one['value']}  ({one['source']})") for name, one in report["identity"].items() if one["value"]]
    found += [("reset", f"{kind}: {_written_as(one)}") for kind, one in report["resets"].items()]
    found += [("restart", f"shows by {report['restart_shows_by']}")]
    found += [("boot", f"{target}: {_written_as(one)}") for target, one in report["boot"].items()]
    for one in report["macs"]:
        local = ", locally administered" if one["locally_administered"] else ""
        found.append(("mac", f"{one['mac']}{local}  ({', '.join(one['sources'])})"))
    found += [("not read", line) for line in report["macs_unread"]]
    found += [("log", _log_as(report["log"]))]
    found += [("quirks", ", ".join(report["quirks"]) or "none")]
    return [f"{name:<14}{said}" for name, said in found]


def _written_as(one: Mapping[str, Any]) -> str:
    if "error" in one:
        return _error(one["error"])
    return f"{one['method']} {one['uri']} {json.dumps(one['body'])}"


def _log_as(one: Mapping[str, Any]) -> str:
    if "error" in one:
        return _error(one["error"])
    newest = next((f", the newest {row['at']} {row['severity']}: {row['message']}" for row in one["newest"]), "")
    unread = "".join(f"; not read: {line}" for line in one["unread"])
    return f"{one['uri']} ({one['kind']}), {one['total']} entries{newest}{unread}"


def _error(one: Mapping[str, str]) -> str:
    more = [f"{key.capitalize()}: {one[key]}" for key in ("at", "wanted", "seen", "do") if one.get(key)]
    return ". ".join([f"{one['kind']}: {one['what']}", *more])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make trees")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--system", default="", help="the Id of the machine's system, where a BMC has several")
    given = parser.parse_args(arguments)
    if not given.folder.is_dir():
        parser.error(f"{given.folder} is no folder")
    reports = [look(name, tree, given.system) for name, tree in trees(given.folder)]
    if not reports:
        parser.error(f"no recorded Redfish tree in {given.folder}: NAME/redfish/v1/**/index.json, or NAME.tar.xz")
    bad = [one["tree"] for one in reports if one["wrong"] or {"traceback", "unreadable"} & set(one)]
    if given.format == "json":
        print(json.dumps({"trees": reports, "bad": bad}, indent=2))
    else:
        print("\n\n".join(text(one) for one in reports))
        print(f"\n{len(reports)} trees, {len(bad)} of them bad{': ' if bad else ''}{', '.join(bad)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
