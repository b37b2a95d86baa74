# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slinky's operator, as its documentation says what it does about nodes and the pods of its NodeSets.

A node that is cordoned has its Slurm nodes drained, with what stands in an annotation of the node as the reason; one
that is not has those undrained that the operator itself drained. A reason that is there it keeps, and those of others
it leaves alone. What Slurm then says of each stands in the pod's conditions, with the reason as the message of each.
"""

from __future__ import annotations

from kube_server.cluster import Cluster
from kube_server.patches import Object
from kube_server.people import REASON, People

PREFIX = "SlurmNodeState"
#: How each reason begins that the operator has set.
OURS = "slurm-operator: "


class Slinky:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        #: By pod, Slurm's words for its node, and why it is drained.
        self.states: dict[str, set[str]] = {}
        self.reasons: dict[str, str] = {}

    def slurmd(self, people: People, node: str) -> str:
        owner = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "name": "gpus", "controller": True}
        pod = people.pod(node, more={"metadata": {"ownerReferences": [owner]}})
        self.states[pod] = {"Idle"}
        self.reconcile()
        return pod

    def says(self, pod: str, *states: str) -> None:
        """What Slurm says of its node from now on, whether it is drained or not."""
        self.states[pod] = {*states, *(self.states[pod] & {"Drain"})}
        self.reconcile()

    def person(self, pod: str, *, drains: str = "") -> None:
        """Drains its Slurm node with this reason, or resumes it, which forgets that; the operator sees it later."""
        if drains:
            self.states[pod].add("Drain")
            self.reasons[pod] = drains
        else:
            self.states[pod].discard("Drain")
            self.reasons.pop(pod, None)

    def reconcile(self) -> None:
        for pod in list(self.states):
            space, _slash, name = pod.partition("/")
            found = self.cluster.of("pods").get((space, name))
            if found is not None:
                self._drained(pod, self.cluster.of("nodes")["", found["spec"]["nodeName"]])
                self.cluster.change("pods", space, name, lambda draft, of=pod: self._told(draft, of), "slurm-operator")

    def _drained(self, pod: str, node: Object) -> None:
        if not self.reasons.get(pod, OURS).startswith(OURS):
            return
        if node["spec"].get("unschedulable"):
            self.states[pod].add("Drain")
            said = (node["metadata"].get("annotations") or {}).get(REASON, "Node was cordoned, Pod must be cordoned")
            self.reasons.setdefault(pod, OURS + said[:256].strip())
        else:
            self.states[pod].discard("Drain")
            self.reasons.pop(pod, None)

    def _told(self, draft: Object, pod: str) -> None:
        kept = [one for one in draft["status"].get("conditions") or [] if not one["type"].startswith(PREFIX)]
        said = [
            {"type": PREFIX + one, "status": "True", "message": self.reasons.get(pod, "")}
            for one in sorted(self.states[pod])
        ]
        draft["status"]["conditions"] = [*kept, *said]
