# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes down what ledger and schedulers say of all hosts of the play; see the module of the same name."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.action.fleet_status import ActionModule as FleetStatus
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _private as private
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import metrics
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.causes import document
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.places import check_file
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import REPORT, utc
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._dossier import Dossier, expiring, first
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._leaves import redact_known
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._limit import tell_strangers
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._report_page import rendered

#: What the verb of the status is to do here, whatever else it has its defaults for.
_GIVEN: Mapping[str, Any] = {"by_cause": True, "report": False, "path": None}
#: The collector of a node exporter is another user, and what it reads names hosts and states alone.
_READABLE = 0o644


class ActionModule(FleetStatus):
    NAME = "fleet_report"
    SPEC = REPORT
    RULES = {"required_one_of": [["path", "data_path", "metrics_path"]]}

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        self._files = {name: params[name] for name in ("path", "data_path", "metrics_path") if params[name]}
        for path in self._files.values():
            check_file(path, "the report")
        _demand_apart(self._files)
        params.update({**self.unasked(), **_GIVEN})
        return params

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        tell_strangers(self._vars)
        now = time.time()
        if params["days"] < 1 or params["details"] < 0:
            raise ConfigError(
                "a report needs a time to look back over",
                wanted="days from 1 on, and details from 0 on",
                seen=f"days {params['days']}, details {params['details']}",
                do="correct the option",
            )
        self._dossier = Dossier(now - params["days"] * 86400, now, params["details"])
        told = super()._in_worker(params)
        content = redact_known(self._content(told, params["title"], now), self._secrets)
        # The metrics first: a folder that is made for all of them is to let everybody to these.
        for name, path in reversed(self._files.items()):
            self._write(path, _FORMS[name](content, now), _READABLE if name == "metrics_path" else private.MODE)
        return {
            "changed": True,
            "written": list(self._files.values()),
            "states": content["states"],
            "not_told": content["not_told"],
            "waves": content["waves"]["now"],
            "events": [],
        }

    def _of_one(self, url: str, hosts: list[str]) -> dict[str, dict[str, Any]]:
        told = super()._of_one(url, hosts)
        self._dossier.add(self.ledger(), told)
        return told

    def _content(self, told: Mapping[str, Any], title: str, now: float) -> dict[str, Any]:
        nodes = told["nodes"]
        return {
            **document(title, nodes, told["groups"], now),
            "since": utc(self._dossier.since),
            "expiring": expiring(nodes),
            **self._in_place(self._dossier.told()),
        }

    def _write(self, path: str, text: str, mode: int) -> None:
        """Whole or not at all: other programs read it meanwhile."""
        if not self._task.check_mode:
            private.write_for_people(path, text, "the report", mode)


def _demand_apart(files: Mapping[str, str]) -> None:
    """:raises ConfigError: where one of them would take the place of another."""
    named: dict[str, str] = {}
    for name, path in files.items():
        other = named.setdefault(os.path.realpath(path), name)
        if other != name:
            raise ConfigError(
                "two files of the report are one, and the second would take the place of the first",
                wanted="a file for each",
                seen=f"{other}: {files[other]}, {name}: {path}",
                do="name another file for one of them",
            )


def _page(content: Mapping[str, Any], now: float) -> str:
    return rendered({**content, "order": first(content["nodes"])})


_FORMS = {
    "path": _page,
    "data_path": lambda content, now: json.dumps(content, indent=2, sort_keys=True) + "\n",
    "metrics_path": lambda content, now: metrics.text(content["nodes"], now, content["waves"]["now"]),
}
