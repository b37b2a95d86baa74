# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packs on the controller all that is known of a node, for the maker of a part; see the module of that name."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _private as private
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._evidence.specs import BUNDLE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import story
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.places import check_file
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import utc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._case import Case, named, summary
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._heard import heard

#: Bytes of a file that a person adds; a maker's own report of a machine with eight GPUs has some megabytes.
MOST = 256 * 1024 * 1024
#: What of the ledger a maker asks for; how it was come by is the site's own.
_KINDS = ("state", "verdict", "attempt", "identity", "lift", "note", "passport", "measure")
_LAST, _SHOWN, _WIDTH = 2000, 30, 120
#: By reading of the BMC's, its file, what it tells, and under which key of the result it stands.
_OF_THE_BMC: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "bmc": (
        "bmc/machine.json",
        "the machine as its BMC tells it",
        ("address", "power", "identity", "hardware", "macs"),
    ),
    "bmc_log": (
        "bmc/log.json",
        "the BMC's log of events, the newest first",
        ("log", "entries", "total", "unread", "bmc_time", "bmc_time_said", "bmc_ahead"),
    ),
}


class ActionModule(VerbAction):
    NAME = "evidence_bundle"
    SPEC = BUNDLE

    def _goes_elsewhere(self) -> bool:
        return False  # ledger and folder are here

    def writes(self, params: Mapping[str, Any]) -> bool:
        return False

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        heard(self)
        check_file(os.path.join(params["folder"], "a.tar.xz"), "the evidence")
        at = time.time()
        node_id = self.node_id(create=False)
        added = {Path(path).name: _content(path) for path in params["files"]}
        machine = self._machine(params, node_id)
        case = Case({"host": self._host, "case": params["case"], "node_id": node_id, "machine": machine}, at)
        last = self._of_ledger(case, node_id)
        self._of_bmc(case, params)
        _of_node(case, params["node"])
        for name, content in added.items():
            case.copy(f"files/{named(name)}", content, f"{name}, as it was given")
        stamp = utc(at).replace("-", "").replace(":", "")
        case.about["name"] = named(self._host, machine.get("serial") or "", params["case"], stamp)
        return self._written(params["folder"], case, last)

    def _written(self, folder: str, case: Case, last: list[str]) -> dict[str, Any]:
        case.text("README.txt", summary(case.about, case.paths(), case.lacks, last), "what became of it, in short")
        packed, told = case.archive()
        path = os.path.join(folder, f"{case.about['name']}.tar.xz")
        digest = hashlib.sha256(packed).hexdigest()
        if not self._task.check_mode:
            private.write_for_people(path, packed, "the evidence")
        text = f"evidence in {path}" + (f" for {case.about['case']}" if case.about["case"] else "")
        note = Event("note", "evidence", {"text": text, "sha256": digest, "case": case.about["case"]})
        return {
            "changed": True,
            "path": path,
            "sha256": digest,
            "files": [row["path"] for row in told["files"]],
            "lacks": told["lacks"],
            "events": [note.as_dict()] if case.about["node_id"] else [],
        }

    def _machine(self, params: Mapping[str, Any], node_id: str) -> dict[str, str]:
        """Who it is: by its BMC, where that is the machine; else by the ledger."""
        told = {} if self._is_another(params["bmc"]) else dict(params["bmc"].get("identity") or {})
        known = {row["kind"]: row["value"] for row in self.ledger().aliases(node_id)} if node_id else {}
        found = {
            "serial": known.get("serial"),
            "uuid": known.get("system_uuid"),
            **{k: v for k, v in told.items() if v},
        }
        return {name: str(value) for name, value in found.items() if value}

    @staticmethod
    def _is_another(bmc: Mapping[str, Any]) -> bool:
        return bool((bmc.get("machine") or {}).get("contradicts"))

    def _of_ledger(self, case: Case, node_id: str) -> list[str]:
        """What became of it, the newest last."""
        if not node_id:
            case.lack("ledger", "it has never seen this node")
            return []
        ledger = self.ledger()
        told = story.story(ledger, node_id, last=_LAST, all_kinds=False)
        events = ledger.history(node_id, kinds=_KINDS, last=_LAST)
        case.text("ledger/story.txt", "\n".join(story.lines(told, _WIDTH)) + "\n", "what became of it, a line each")
        case.data("ledger/events.json", events, "verdicts with what was measured, states, attempts, swaps")
        passport = ledger.passport(node_id)
        if passport is None:
            case.lack("passport", "none was ever issued")
        else:
            case.data("ledger/passport.json", passport["envelope"], "the newest passport, signed")
        return [f"{one['at']}  {one['text']}" for one in told["events"][-_SHOWN:]]

    def _of_bmc(self, case: Case, params: Mapping[str, Any]) -> None:
        """Another machine's log would condemn the wrong part."""
        another = self._is_another(params["bmc"]) or self._is_another(params["bmc_log"])
        for name, (path, tells, keys) in _OF_THE_BMC.items():
            why = "another machine is behind this BMC" if another else _why_not(params[name])
            if why:
                case.lack(name, why)
                continue
            case.data(path, {key: params[name][key] for key in keys if key in params[name]}, tells)
            for hole in params[name].get("unread") or []:
                case.lack(name, str(hole))
            if (params[name].get("log") or {}).get("shared"):
                case.lack(name, "events of other machines behind the same BMC stand in this log as well")


def _of_node(case: Case, told: Mapping[str, Any]) -> None:
    why = _why_not(told)
    if why:
        case.lack("node", why)
        return
    for name, one in (told.get("readings") or {}).items():
        if one["ended"] != "exit" or one["rc"] != 0:
            how = one["ended"] if one["ended"] != "exit" else f"exit status {one['rc']}"
            case.lack(f"node {name}", f"{' '.join(one['argv'])}: {how} {short(one['errors'], 200)}".rstrip())
        if one["text"]:
            head = (
                f"# {' '.join(one['argv'])}: {one['ended']}, {one['rc']}, {one['seconds']} s, boot {told['boot_id']}\n"
            )
            case.text(f"node/{name}.txt", head + one["text"], one["what"])


def _why_not(told: Mapping[str, Any]) -> str:
    """Why there is nothing of it; empty where there is."""
    if not told or told.get("skipped"):
        return "it was not asked"
    error = told.get("error") or told.get("unreachable")
    return short(told.get("msg") or "it failed without a word") if told.get("failed") or error else ""


def _content(path: str) -> bytes:
    """:raises ConfigError: where it cannot be read, or is larger than anything that a maker asks for."""
    try:
        if os.path.getsize(path) > MOST:
            raise ConfigError("a file is too large for a case", wanted=f"at most {MOST // 1024 // 1024} MiB", seen=path)
        return Path(path).read_bytes()
    except OSError as exc:
        raise ConfigError(f"a file of the option files cannot be read: {exc.strerror}", seen=path) from exc
