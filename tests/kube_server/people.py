# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What kubelets, people and controllers of others do in the cluster, past the API; each is one change."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Optional

from kube_server.cluster import Cluster, now
from kube_server.patches import Object, merged

HOLD = "gpufleet.io/hold"
#: The annotation by which Slinky is told why a node was cordoned.
REASON = "nodeset.slinky.slurm.net/node-cordon-reason"
SPACE = "train"


class People:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._numbers = itertools.count(1)

    def node(self, name: str, *, machine: str = "", gpus: Optional[int] = 8, **labels: str) -> Object:
        """Its kubelet registers it: a new object, without GPUs before their device plugin has come."""
        about = {"name": name, "labels": {"kubernetes.io/hostname": name, "nvidia.com/gpu.present": "true", **labels}}
        told = {"bootID": f"boot-1-of-{name}", "systemUUID": machine, "machineID": "m", "kubeletVersion": "v1.36.2"}
        amount = {"cpu": "224", "pods": "110", **({} if gpus is None else {"nvidia.com/gpu": str(gpus)})}
        quiet = ("MemoryPressure", "DiskPressure", "PIDPressure")
        status = {
            "capacity": dict(amount),
            "allocatable": dict(amount),
            "conditions": [{"type": kind, "status": "False"} for kind in quiet] + [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": f"10.0.0.{next(self._numbers)}"}],
            "nodeInfo": told,
        }
        return self.cluster.create("nodes", {"metadata": about, "spec": {}, "status": status})

    def again(self, name: str, **more: Any) -> Object:
        """The object is deleted, and a kubelet registers the node anew."""
        self.cluster.delete("nodes", "", name)
        return self.node(name, **more)

    def patch(self, name: str, body: Mapping[str, Any], manager: str, part: str = "") -> Object:
        return self.cluster.change("nodes", "", name, lambda draft: merged(draft, body), manager, part)

    # -- kubelets ----------------------------------------------------------------------------------------------

    def condition(self, name: str, kind: str, status: str) -> None:
        def how(draft: Object) -> None:
            told = [one for one in draft["status"]["conditions"] if one["type"] != kind]
            draft["status"]["conditions"] = [*told, {"type": kind, "status": status, "lastTransitionTime": now()}]

        self.cluster.change("nodes", "", name, how, "kubelet", "status")

    def heartbeat(self, name: str) -> None:
        beat = {"status": {"beat": next(self._numbers)}}
        self.patch(name, beat, "kubelet", "status")

    def gpus(self, name: str, free: int, there: int = 8) -> None:
        body = {"capacity": {"nvidia.com/gpu": str(there)}, "allocatable": {"nvidia.com/gpu": str(free)}}
        self.patch(name, {"status": body}, "kubelet", "status")

    def boot(self, name: str, boot_id: str) -> None:
        self.patch(name, {"status": {"nodeInfo": {"bootID": boot_id}}}, "kubelet", "status")
        self.condition(name, "Ready", "True")

    # -- people ------------------------------------------------------------------------------------------------

    def taint(
        self, name: str, key: str, value: str = "", *, effect: str = "NoSchedule", by: str = "kubectl-taint"
    ) -> None:
        def how(draft: Object) -> None:
            draft["spec"].setdefault("taints", []).append({"key": key, "value": value, "effect": effect})

        self.cluster.change("nodes", "", name, how, by)

    def cordon(self, name: str, reason: str = "", *, by: str = "kubectl-cordon") -> None:
        about = {"metadata": {"annotations": {REASON: reason}}} if reason else {}
        self.patch(name, {**about, "spec": {"unschedulable": True}}, by)

    def uncordon(self, name: str, *, by: str = "kubectl-uncordon") -> None:
        self.patch(name, {"spec": {"unschedulable": None}}, by)

    def hold(self, name: str, token: str, run: str, *, by: str) -> None:
        """As this collection's runs write it, by whoever."""

        def how(draft: Object) -> None:
            draft["metadata"].setdefault("annotations", {})[HOLD] = token
            others = [one for one in draft["spec"].get("taints") or [] if one["key"] != HOLD]
            draft["spec"]["taints"] = [*others, {"key": HOLD, "value": run, "effect": "NoSchedule"}]
            draft["spec"]["unschedulable"] = True

        self.cluster.change("nodes", "", name, how, by)

    def wipe_taints(self, name: str, *, by: str = "argocd") -> None:
        """Who applies a list of taints of his own takes away all others."""
        self.patch(name, {"spec": {"taints": None}}, by)

    def free(self, name: str) -> None:
        """A person gives the node back, whoever held it, and clears what the controller would not put on anew."""
        marks = {
            "metadata": {"annotations": {HOLD: None, REASON: None}},
            "spec": {"unschedulable": None, "taints": None},
        }
        for kind in ("MemoryPressure", "DiskPressure"):
            self.condition(name, kind, "False")
        self.patch(name, marks, "kubectl-edit")

    # -- pods --------------------------------------------------------------------------------------------------

    def pod(
        self, node: str, *, owner: str = "ReplicaSet", gpus: int = 1, more: Optional[Mapping[str, Any]] = None
    ) -> str:
        """One that runs; returns its namespace and name."""
        name = f"job-{next(self._numbers):04d}"
        owned = [{"kind": owner, "name": name, "controller": True}] if owner else []
        limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        body = {
            "metadata": {"name": name, "namespace": SPACE, "labels": {"app": name}, "ownerReferences": owned},
            "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"limits": limits}}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }
        self.cluster.create("pods", merged(body, more or {}), "kube-scheduler")
        return f"{SPACE}/{name}"

    def budget(self, pod: str, name: str, least: int = 1) -> None:
        app = pod.partition("/")[2]
        spec = {"minAvailable": least, "selector": {"matchLabels": {"app": app}}}
        about = {"name": name, "namespace": SPACE, "generation": 1}
        self.cluster.create("poddisruptionbudgets", {"metadata": about, "spec": spec, "status": {}}, "kubectl")

    def ends(self, pod: str) -> None:
        space, _slash, name = pod.partition("/")
        self.cluster.delete("pods", space, name)
