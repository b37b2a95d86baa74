# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a list of servers on the controller, where it lies; see the module of the same name."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.places import check_in_project
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import shown
from ansible_collections.gpufleet.baremetal.plugins.module_utils._private import check_place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._servers import LIST, RULES, SPEC
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _servers as lists
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction, display
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._heard import heard
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_record import Record
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_sources import SECRETS, check_source
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_trust import for_a_run
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._servers import Server


class ActionModule(VerbAction):
    NAME = "servers_import"
    SPEC = SPEC
    RULES = RULES
    FILLED = frozenset[str]()

    #: A host that is to be made of the list, for this run.
    _made: dict[str, Any] | None = None

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        # Last, when nothing is spelled anew any more: a lookup of ours is a template only as long as it is marked.
        return {**result, "add_host": self._made} if self._made and not result.get("failed") else result

    def _goes_elsewhere(self) -> bool:
        return False  # the list is here

    def _looks(self) -> bool:
        return False  # no ledger is asked

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        heard(self)
        params = {**params, "path": os.path.expanduser(params["path"])}
        check_in_project(params["path"])
        servers = _read(params["path"], _stamp(params["path"]), json.dumps({name: params[name] for name in LIST}))
        if params["server"]:
            return self._taken(_named(servers, params["server"], params["path"]), params["group"])
        self._demand_no_strangers(servers, params["path"])
        told: dict[str, Any] = self._written(servers, params) if params["dest"] else {"changed": False}
        if params["sources"]:
            told["compared"] = lists.compare(servers, [self._found(*one) for one in enumerate(params["sources"], 1)])
        lines = _lines(servers, params, told)
        display.display("\n" + "\n".join(shown(line, self._secrets) for line in lines) + "\n")
        return {**told, "events": [], "servers": [_told(one) for one in servers], "lines": lines}

    def _demand_no_strangers(self, servers: Sequence[Server], path: str) -> None:
        """:raises ConfigError: where the inventory of this run has other machines of these names."""
        hosts = self._vars.get("hostvars") or {}

        def known(host: str, variable: str) -> str:
            return str(self.host_var(variable, host) or "") if host in hosts else ""

        wrong = lists.strangers(servers, known)
        if wrong:
            raise ConfigError(
                f"{len(wrong)} server(s) would take the place of another machine:\n  " + "\n  ".join(wrong[:20]) + "\n",
                address=path,
                do="correct the list or the inventory",
                details={"mistakes": wrong},
            )

    def _taken(self, server: Server, group: str) -> dict[str, Any]:
        """For a run alone, as add_host does it, and with the variables that an inventory would give it."""
        told = server.record.variables.items()
        variables = {name: for_a_run(value) for name, value in told if value not in ("", None)}
        self._made = {"host_name": server.name, "groups": [group], "host_vars": variables}
        return {"changed": False, "events": [], "servers": [_told(server)], "lines": []}

    def _found(self, number: int, source: Mapping[str, Any]) -> tuple[list[Record], bool]:
        """What a source of an inventory has, and whether it only adds to others."""
        kind = check_source(source, number)
        self._conceal({key: source.get(key) for key in SECRETS}, [key for key in SECRETS if source.get(key)])
        where = str(source.get("name") or f"source {number} ({source['type']})")
        try:
            return kind.read(source, where), bool(source.get("join_only", False))
        except FleetError as exc:
            raise exc.located(node=where) from None

    def _written(self, servers: Sequence[Server], params: Mapping[str, Any]) -> dict[str, Any]:
        check_place(params["dest"], "the list")
        if self._task.check_mode:
            return self._merged(servers, params)
        with lists.kept_from_others(params["dest"]):
            return self._merged(servers, params)

    def _merged(self, servers: Sequence[Server], params: Mapping[str, Any]) -> dict[str, Any]:
        path = params["dest"]
        before = lists.text_of(path)
        known = lists.read(path, {**params, "password_refs": None, "delimiter": ""}) if before.strip() else []
        merged = lists.merge(known, servers, purge=params["purge"])
        after = lists.clean(merged.servers)
        # What stood there and what comes may each be right and together be wrong: one address in two rows.
        lists.read(f"{path} as it would be", {**params, "password_refs": None}, after)
        changed = after != before
        if changed and not self._task.check_mode:
            lists.write(path, after)
        told = {"changed": changed, "dest": path, "merged": merged.told()}
        if self._task.diff and changed:
            told["diff"] = {"before_header": path, "after_header": path, "before": before, "after": after}
        return told


def _stamp(path: str) -> tuple[int, ...]:
    """Which content of the file it is; a loop over its servers reads it once."""
    try:
        about = os.stat(path)
    except OSError:
        return ()
    return (about.st_dev, about.st_ino, about.st_mtime_ns, about.st_size)


@functools.lru_cache(maxsize=2)
def _read(path: str, _content: tuple[int, ...], options: str) -> tuple[Server, ...]:
    return tuple(lists.read(path, json.loads(options)))


def _named(servers: Sequence[Server], name: str, path: str) -> Server:
    found = next((one for one in servers if one.name == name), None)
    if found is None:
        raise ConfigError(f"the list has no server {name!r}", address=path)
    return found


def _told(server: Server) -> dict[str, Any]:
    return {"name": server.name, "where": server.record.where, "cells": dict(server.cells)}


def _lines(servers: Sequence[Server], params: Mapping[str, Any], result: Mapping[str, Any]) -> list[str]:
    lines = [f"{params['path']}: {len(servers)} server(s), no mistake"]
    for word, told in (result.get("compared") or {}).items():
        lines.append(f"{_COMPARED[word]}: {', '.join(told) or 'none'}")
    merged = result.get("merged")
    if merged is None:
        return lines
    counts = [f"{len(merged[key])} {word}" for key, word in _WORDS.items() if merged[key]]
    lines.append(f"{params['dest']}: {', '.join(counts)}")
    lines += [f"  {name}: {', '.join(columns)}" for name, columns in merged["changed"].items()]
    return lines


_COMPARED = {"missing": "listed, and found nowhere", "unexpected": "found, and in no list"}
_WORDS = {
    "new": "new",
    "changed": "changed",
    "same": "as they were",
    "kept": "of which this list does not speak, kept",
    "removed": "of which this list does not speak, removed",
}
