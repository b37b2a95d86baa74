# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks a node where it is, and holds that against the plan; see the module of the same name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._away import Away
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import in_order
from ansible_collections.gpufleet.baremetal.plugins.module_utils._topology import fabric
from ansible_collections.gpufleet.baremetal.plugins.module_utils._topology import heard as told_there
from ansible_collections.gpufleet.baremetal.plugins.module_utils._topology.info import topology_info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._topology.judge import GATE, judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._topology.specs import (
    INFINIBAND,
    LLDP,
    NVLINK,
    SPEC,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    Tool,
    answer,
    as_verdict,
    json_digest,
    now_utc,
    refusal,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _places as places
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._heard import heard
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._right_machine import OnItsMachine

#: What a node needs to know.
_FOR_NODE = ("sources", "ports", "guids", "lldpctl", "nvidia_smi", "sysfs_path", "timeout", "told")
_FILES = {LLDP: "lldp_file", NVLINK: "nvlink_file"}
_DOMAIN = re.compile(r"[0-9a-f-]{36}\.[0-9]{1,10}\Z")
#: A fabric is read once a run: that of thousands of hosts takes a second.
_FABRIC_SECONDS = 3600.0


class ActionModule(OnItsMachine):
    NAME = GATE
    SPEC = SPEC
    NODE_SIDE = True
    TELLS = {"verdict": (GATE,)}
    verb = staticmethod(topology_info)

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        heard(self)
        if params.get("told"):
            raise ConfigError("told is not for a task to set", do="name a file by lldp_file or nvlink_file")
        self._started = now_utc()
        leaf = params.get("leaf") or places.names(self.host_var(places.LEAF))
        given = {source: params[option] for source, option in _FILES.items() if params.get(option)}
        told = {source: _read(path) for source, path in given.items() if source in params["sources"]}
        return {**params, "leaf": [str(one) for one in leaf], "told": told}

    def _shipped(self, params: dict[str, Any]) -> dict[str, Any]:
        """What files tell of all that is asked for, is asked of no node."""
        known = {*params["told"], *([INFINIBAND] if params.get("guids") else [])}
        if known.issuperset(params["sources"]):
            seen = self._in_worker(params)
        else:
            self.on_its_own_node()
            self._right_machine()
            seen = super()._shipped({name: params[name] for name in _FOR_NODE})
        return seen if seen.get("failed") else self._concluded(params, self._checked(seen))

    def _checked(self, seen: Mapping[str, Any]) -> dict[str, Any]:
        """:raises BadAnswer: for what no module of ours says: a node's answer is a stranger's word."""
        try:
            rows = [
                {key: short(str(row[key]), 100) for key in ("port", "leaf", "leaf_id")} for row in seen["neighbours"]
            ]
            guids = {short(str(port), 100): told_there.plain_guid(guid) for port, guid in seen["guids"].items()}
            unread = {str(source): short(str(why), 300) for source, why in seen["unread"].items()}
            domain = str(seen["domain"])
            if len(rows) + len(guids) > told_there.MOST_PORTS or (domain and not _DOMAIN.match(domain)):
                raise ValueError("more than a node can have")
        except (KeyError, TypeError, ValueError, AttributeError) as exc:
            raise BadAnswer("what the node answered is no answer of topology_info", seen=short(str(exc), 200)) from exc
        return {"neighbours": rows, "domain": domain, "guids": guids, "unread": unread}

    def _concluded(self, params: Mapping[str, Any], seen: dict[str, Any]) -> dict[str, Any]:
        self._joined(params, seen)
        leaves = in_order(row["leaf"] for row in seen["neighbours"])
        ctx = Context(check_mode=bool(self._task.check_mode), diff=bool(self._task.diff), node=self._host)
        wanted = {"leaf": params["leaf"], "domain": str(params.get("domain") or "")}
        events = [places.looked(seen["neighbours"], seen["domain"]).as_dict()] if leaves or seen["domain"] else []
        facts = {"neighbours": seen["neighbours"], "leaves": leaves, "domain": seen["domain"], "unread": seen["unread"]}
        if not any(wanted.values()):
            return {"changed": False, **facts, "verdict": "", "events": events}
        told = answer(self._verdict(wanted, seen), {"tests": sorted(key for key in wanted if wanted[key])})
        result = {**told.as_dict(ctx), **facts}
        result["events"] = [*events, *result["events"]]
        why = refusal(result, str(params["fail_on"]), check_mode=bool(self._task.check_mode))
        return {**result, "failed": True, "msg": why} if why else result

    def _verdict(self, wanted: Mapping[str, Any], seen: Mapping[str, Any]) -> dict[str, Any]:
        sheet, evidence = judge(wanted, seen), json_digest(seen)
        return as_verdict(GATE, sheet, tool=Tool(GATE, "1"), started=self._started, evidence=evidence)

    def _joined(self, params: Mapping[str, Any], seen: dict[str, Any]) -> None:
        """The leaf of each InfiniBand port, as the fabric has it."""
        if INFINIBAND not in params["sources"] or INFINIBAND in seen["unread"]:
            return
        path = str(params.get("infiniband_file") or "")
        if not path:
            seen["unread"][INFINIBAND] = "name what ibnetdiscover printed by infiniband_file"
            return
        leaves = self._fabric(path)
        for port, guid in seen["guids"].items():
            name, leaf_id = leaves.get(guid) or ("", "")
            if name:
                seen["neighbours"].append({"port": port, "leaf": name, "leaf_id": leaf_id})
        if not any(guid in leaves for guid in seen["guids"].values()):
            seen["unread"][INFINIBAND] = f"none of its ports is in {path}: {', '.join(seen['guids'].values())}"

    def _fabric(self, path: str) -> dict[str, list[str]]:
        try:
            about = os.stat(path)
            what = f"fabric {path} {about.st_mtime_ns} {about.st_size}"
            return Away(self._run_as.process, self._host).once(what, lambda: _leaves(path), _FABRIC_SECONDS)
        except (OSError, ValueError) as exc:
            raise ConfigError(
                f"this is no fabric that ibnetdiscover has printed: {short(str(exc), 200)}",
                address=path,
                do="run ibnetdiscover as root on one node of the fabric, and keep what it prints in that file",
            ) from exc


def _leaves(path: str) -> dict[str, list[str]]:
    with open(path, encoding="utf-8", errors="replace") as file:
        return fabric.leaves(file)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as exc:
        raise ConfigError(f"the file cannot be read: {exc.strerror}", address=path, do="correct its path") from exc
