# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Kubernetes and those who live in it write on nodes and pods, as data. PRIVATE to the collection."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Remedies

#: Our mark: the key of the taint, whose value is the run, and of the annotation, which holds the token.
HOLD = "gpufleet.io/hold"
#: Who we are to the API server's book of who wrote which field.
MANAGER = "gpufleet"

#: Characters of a label's value, of one in a selector, and of a taint's.
LABEL = 63

#: Those that keep work away; ``PreferNoSchedule`` does not.
KEEPS_AWAY = ("NoSchedule", "NoExecute")

#: Taints of the node controller, which puts them on by a condition of the node and takes them off by it, whoever else
#: may have written one (measured for the first two with 1.36; source: node_lifecycle_controller.go).
#: Key: what it says, and whether it goes as soon as the kubelet reports.
CONTROLLER: Mapping[str, tuple[str, bool]] = {
    "node.kubernetes.io/not-ready": ("its kubelet says that it is not ready", True),
    "node.kubernetes.io/unreachable": ("its kubelet does not answer", True),
    "node.kubernetes.io/network-unavailable": ("its network is not set up", True),
    "node.kubernetes.io/memory-pressure": ("it is short of memory", False),
    "node.kubernetes.io/disk-pressure": ("it is short of disk", False),
    "node.kubernetes.io/pid-pressure": ("it is short of process ids", False),
}
#: Of these, those that say that the kubelet is silent, and nothing else.
SILENT = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
#: The controller's echo of a cordon.
CORDONED = "node.kubernetes.io/unschedulable"

#: Seconds from a hold until the last pod is bound, or given up, that the scheduler had chosen the node for before. A
#: gang waits for its last member in between: with the coscheduling plugin for 60 s, unless its site says otherwise.
SETTLES = 90

#: Conditions of the kubelet itself, of which True is bad; Ready is looked at by itself.
PRESSURES = frozenset({"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})

#: Taints that nodes with GPUs carry for good, so that nothing else lands there: named after the resource.
STANDING = ("nvidia.com/gpu", "amd.com/gpu")

#: A resource that is a GPU, or a part of one.
GPU = re.compile(r"(?:nvidia\.com/(?:gpu|mig-|.*\.shared)|amd\.com/gpu|gpu\.intel\.com/|habana\.ai/gaudi).*")

#: Labels by which an operator of others says that it is at work on the node: who, and the values that say so; an empty
#: tuple for any value at all. What it leaves behind when it is done is not among them.
MARKS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "dgxc.nvidia.com/nvsentinel-state": ("NVSentinel", ()),
    "nvidia.com/gpu-driver-upgrade-state": (
        "the GPU Operator's driver upgrade",
        (
            *("cordon-required", "wait-for-jobs-required", "pod-deletion-required", "drain-required"),
            *("node-maintenance-required", "post-maintenance-required", "pod-restart-required"),
            *("validation-required", "uncordon-required", "upgrade-failed"),
        ),
    ),
}

#: Annotations and labels in which whoever cordons a node says why (Slinky, NVSentinel, sites).
REASON = re.compile(r"(?:cordon|drain|maintenance|quarantine)[-._]?reason\Z")

#: What the pods of a gang carry, of which one that leaves ends all: who schedules it, and where its name stands.
GANGS: Mapping[str, str] = {
    "kueue.x-k8s.io/podset": "Kueue",
    "kueue.x-k8s.io/pod-group-name": "Kueue",
    "kueue.x-k8s.io/workload": "Kueue",
    "kueue.x-k8s.io/queue-name": "Kueue",
    "scheduling.k8s.io/group-name": "Volcano",
    "volcano.sh/job-name": "Volcano",
    "scheduling.x-k8s.io/pod-group": "the coscheduling plugin",
    "jobset.sigs.k8s.io/jobset-name": "JobSet",
    "leaderworkerset.sigs.k8s.io/name": "LeaderWorkerSet",
    "training.kubeflow.org/job-name": "the training operator",
}

#: The pods in which Slinky runs slurmd: kind and group of what owns them. Its operator drains the Slurm node of each
#: where the node of Kubernetes is cordoned, gives as the reason what stands in CORDON_REASON there, behind SLURM_WORD
#: and cut to SLURM_LENGTH, and tells the state of the Slurm node by conditions of the pod: SLURM_STATE and a word of
#: Slurm's, with Slurm's reason as the message. Under BUSY ones users' jobs run in it. A reason that Slurm has
#: already it keeps, its own and anybody's, for as long as the drain lasts.
#: source: slurm-operator 1.0 to 1.2, docs/usage/nodeset-operations.md, pkg/conditions/conditions.go,
#: internal/controller/nodeset: nodeset_sync.go (syncCordon), slurmcontrol.go (MakeNodeDrain, nodeState)
NODESET = ("NodeSet", "slinky.slurm.net/")
CORDON_REASON = "nodeset.slinky.slurm.net/node-cordon-reason"
SLURM_STATE = "SlurmNodeState"
SLURM_WORD, SLURM_LENGTH = "slurm-operator: ", 256
BUSY = ("Allocated", "Mixed", "Completing")

#: The kubelet makes such a pod of a file on the node, whatever the API says.
MIRROR = "kubernetes.io/config.mirror"

REMEDIES = Remedies(
    absent="let the node's kubelet register it (kubeadm join, or what the site has for that), then run again",
    silent="look at the kubelet on the node (journalctl -u kubelet), and at the pods of the GPU Operator there",
    stuck="look at the pods that are left (kubectl get pods -A --field-selector spec.nodeName=NODE), and at the kubelet"
    " on the node",
)

#: What the driver asks for: the group, the resource, the verbs. extensions/kubernetes/rbac.yaml
#: grants it.
RIGHTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("", "nodes", ("get", "list", "patch")),
    ("", "pods", ("get", "list")),
    ("", "pods/eviction", ("create",)),
    ("policy", "poddisruptionbudgets", ("list",)),
    ("resource.k8s.io", "resourceclaims", ("list",)),
)
