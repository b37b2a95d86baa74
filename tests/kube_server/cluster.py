# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the API server keeps, and what its controllers do about it at once.

Each change of an object is a new resourceVersion for it; a write that changes nothing is none, and leaves no trace in
the book. The node controller keeps the taints by the conditions and by the cordon.
"""

from __future__ import annotations

import copy
import itertools
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Optional

from kube_server.patches import Object, written

CONTROLLER = "kube-controller-manager"
#: Condition, its bad values, the taint.
_BY_CONDITION = (
    ("Ready", ("False",), "node.kubernetes.io/not-ready"),
    ("Ready", ("Unknown", ""), "node.kubernetes.io/unreachable"),
    ("MemoryPressure", ("True",), "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", ("True",), "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", ("True",), "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", ("True",), "node.kubernetes.io/network-unavailable"),
)
_CORDONED = "node.kubernetes.io/unschedulable"
_KEPT = {taint for _kind, _values, taint in _BY_CONDITION} | {_CORDONED}


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Cluster:
    """kind -> (namespace, name) -> object; kinds are the plural names of the paths."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.objects: dict[str, dict[tuple[str, str], Object]] = {}
        self._versions = itertools.count(200)
        #: Versions before this one are compacted: a list that began by then cannot be gone on with.
        self.compacted = 0
        self.version = 0
        #: Does the controller look at the budgets as soon as something of them changes?
        self.budgets_reckoned = True

    def of(self, kind: str) -> dict[tuple[str, str], Object]:
        return self.objects.setdefault(kind, {})

    def _next(self) -> str:
        self.version = next(self._versions)
        return str(self.version)

    # -- what happens to an object -----------------------------------------------------------------------------

    def create(self, kind: str, content: Mapping[str, Any], manager: str = "kubelet") -> Object:
        with self.lock:
            made: Object = copy.deepcopy(dict(content))
            about = made.setdefault("metadata", {})
            about.update(uid=str(uuid.uuid4()), resourceVersion=self._next(), creationTimestamp=now())
            made["metadata"]["managedFields"] = written({}, made, manager, now(), "")
            self.of(kind)[about.get("namespace", ""), about["name"]] = made
            self._controlled(kind, made)
            return made

    def change(
        self, kind: str, space: str, name: str, how: Callable[[Object], Optional[Object]], manager: str, part: str = ""
    ) -> Object:
        """``how`` is given a copy, and changes it or returns another."""
        with self.lock:
            before = self.of(kind)[space, name]
            draft = copy.deepcopy(before)
            after = how(draft) or draft
            self._stored(kind, before, after, manager, part)
            found = self.of(kind)[space, name]
            self._controlled(kind, found)
            return self.of(kind)[space, name]

    def _stored(self, kind: str, before: Object, after: Object, manager: str, part: str) -> None:
        about = after["metadata"]
        for key in ("uid", "resourceVersion", "managedFields", "creationTimestamp"):
            about[key] = before["metadata"][key]
        for key in ("annotations", "labels"):
            if about.get(key) == {}:
                del about[key]
        spec = after.get("spec")
        if kind == "nodes" and isinstance(spec, dict):
            for key in [key for key in ("taints", "unschedulable") if not spec.get(key)]:
                spec.pop(key, None)
        if after == before:
            return
        about["managedFields"] = written(before, after, manager, now(), part)
        about["resourceVersion"] = self._next()
        self.of(kind)[about.get("namespace", ""), about["name"]] = after

    def delete(self, kind: str, space: str, name: str) -> None:
        with self.lock:
            self._next()
            del self.of(kind)[space, name]

    def compact(self) -> None:
        """Five minutes pass: pages of lists that were begun are no longer there."""
        with self.lock:
            self.compacted = int(self._next())

    # -- its controllers ---------------------------------------------------------------------------------------

    def _controlled(self, kind: str, made: Object) -> None:
        if kind == "nodes":
            self._taint(made)
        elif kind in ("pods", "poddisruptionbudgets") and self.budgets_reckoned:
            self.reckon()

    def _taint(self, node: Object) -> None:
        taints = node.get("spec", {}).get("taints") or []
        due = [{"key": key, "effect": "NoSchedule"} for key in self._due(node)]
        kept = [one for one in taints if one["key"] not in _KEPT or one["effect"] != "NoSchedule" or one in due]
        wanted = kept + [one for one in due if one not in kept]
        if wanted != taints:
            after = copy.deepcopy(node)
            after.setdefault("spec", {})["taints"] = wanted
            self._stored("nodes", node, after, CONTROLLER, "")

    def _due(self, node: Object) -> list[str]:
        told = {one["type"]: one["status"] for one in node.get("status", {}).get("conditions") or []}
        due = [taint for kind, values, taint in _BY_CONDITION if told.get(kind, "False") in values]
        return due + ([_CORDONED] if node.get("spec", {}).get("unschedulable") else [])

    def reckon(self) -> None:
        """The disruption controller looks at all budgets."""
        for (space, name), budget in list(self.of("poddisruptionbudgets").items()):
            pods = [one for one in self.of("pods").values() if self.claims(budget, one)]
            healthy = sum(is_ready(one) for one in pods if not one["metadata"].get("deletionTimestamp"))
            wanted = int(budget["spec"].get("minAvailable", 0))
            status = {
                "observedGeneration": budget["metadata"].get("generation", 1),
                "disruptionsAllowed": max(0, healthy - wanted),
                "currentHealthy": healthy,
                "desiredHealthy": wanted,
                "expectedPods": len(pods),
            }
            after = {**copy.deepcopy(budget), "status": status}
            if after != budget:
                after["metadata"]["resourceVersion"] = self._next()
                self.of("poddisruptionbudgets")[space, name] = after

    def claims(self, budget: Object, pod: Object) -> bool:
        wanted = budget["spec"].get("selector", {}).get("matchLabels") or {}
        labels = pod["metadata"].get("labels") or {}
        same = budget["metadata"]["namespace"] == pod["metadata"]["namespace"]
        return same and bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())


def is_ready(pod: Object) -> bool:
    told = {one["type"]: one["status"] for one in pod.get("status", {}).get("conditions") or []}
    return told.get("Ready") == "True"
