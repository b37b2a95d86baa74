# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods of a node are work, and whether they may be made to leave. PRIVATE to the collection.

* A pod of a DaemonSet, or one that the kubelet makes of a file on the node, would be back at once: it is no work,
  unless it has GPUs. Then nothing here makes it leave, and it is told.
* A pod that ends counts until its object is gone.
* Nobody asks a pod to leave that nothing starts again, or that has data on the node's own disk, unless the site says
  so; and where one such pod is on the node, nobody else's is disturbed for a drain that cannot come to its end.
* Of a gang (Kueue, Volcano, JobSet) one pod that leaves ends all: it is waited for, unless the site says otherwise.
* In a pod of Slinky users' jobs of Slurm run, of which Kubernetes knows nothing: it is waited for until its Slurm node
  is drained for the hold that stands. What was said of another drain may be long over.
* A claim for devices of the node that is reserved for a pod which is not there any more is work as well: nobody told
  its driver to let go of them.
"""

from __future__ import annotations

import time
from calendar import timegm
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Work
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.fields import (
    mapping,
    part,
    rows,
    shown,
    word,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.tables import (
    BUSY,
    GANGS,
    GPU,
    MIRROR,
    NODESET,
    SLURM_LENGTH,
    SLURM_STATE,
    SLURM_WORD,
)

_OVER = ("Succeeded", "Failed")
#: Volumes whose data is on the node's own disk, or in its memory.
_IN_MEMORY = "Memory"
_SAID = "which gpufleet_scheduler_evict does not say"


@dataclass(frozen=True)
class Policy:
    """May a pod be made to leave that nothing starts again, one with data on the node, one of a gang?"""

    bare: bool = False
    local_data: bool = False
    gang: bool = False


class Slurmd(Work):
    """A node of Slurm, which Slinky keeps in a pod."""


class Pod(NamedTuple):
    """What is kept of a pod."""

    node: str
    work: Work


class Claim(NamedTuple):
    """A claim for devices: where they are, and for which pods they are reserved (by uid, what each is called)."""

    id: str
    nodes: frozenset[str]
    pods: Mapping[str, str]


def pod(raw: Mapping[str, Any], policy: Policy, drains_as: Callable[[], Sequence[str]]) -> Pod | None:
    """None for what is no work.

    drains_as: the reasons in Slurm of a drain for the hold of its node, the hold's own first; none where there is none.

    :raises BadAnswer: for one of another shape.
    """
    node, phase = word(raw, "spec", "nodeName"), word(raw, "status", "phase")
    if not node or phase in _OVER:
        return None
    ident = f"{word(raw, 'metadata', 'namespace')}/{word(raw, 'metadata', 'name')}@{word(raw, 'metadata', 'uid')}"
    back = _comes_back(raw)
    if back:
        found = Work(ident, stays=f"{back} with GPUs: keep it away from the node") if _has_gpus(raw) else None
    elif _is_slurmd(raw):
        found = Slurmd(ident, _ending(raw) or _undrained(raw, drains_as()), _stays(raw, policy))
    else:
        found = Work(ident, _ending(raw) or _gang(raw, policy), _stays(raw, policy))
    return None if found is None else Pod(node, found)


def _comes_back(raw: Mapping[str, Any]) -> str:
    if MIRROR in mapping(raw, "metadata", "annotations"):
        return "a static pod"
    return "a pod of a DaemonSet" if _controller(raw) == "DaemonSet" else ""


def _controller(raw: Mapping[str, Any]) -> str:
    """The kind of what starts it again elsewhere; empty where nothing does."""
    return str(_owner(raw).get("kind") or "")


def _owner(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    owners = rows(raw, "metadata", "ownerReferences")
    return next((one for one in owners if one.get("controller") is True), {})


def _is_slurmd(raw: Mapping[str, Any]) -> bool:
    kind, group = NODESET
    owner = _owner(raw)
    return owner.get("kind") == kind and str(owner.get("apiVersion")).startswith(group)


def runs_slurmd(work: Iterable[Work]) -> bool:
    return any(isinstance(one, Slurmd) for one in work)


def _undrained(raw: Mapping[str, Any], drains_as: Sequence[str]) -> str:
    """As slurm-operator says it of the Slurm node: what it does not say is not so. Nobody can see when it said it, and
    it may be away since; but of a drain for this hold's token it cannot have said anything before there was one."""
    told = [one for one in rows(raw, "status", "conditions") if one.get("status") == "True"]
    states = {str(one.get("type"))[len(SLURM_STATE) :] for one in told if _of_slurm(one)}
    if "Drain" not in states or "Undrain" in states:
        return "a slurmd of Slinky, whose Slurm node is not drained yet: its operator drains it by the node's cordon"
    busy = [one for one in BUSY if one in states]
    if busy:
        return f"a slurmd of Slinky, whose Slurm node still has jobs of users ({', '.join(busy)})"
    reasons = [str(one.get("message") or "") for one in told if one.get("type") == f"{SLURM_STATE}Drain"]
    return next((_of_others(one, drains_as) for one in reasons if not _is_for(one, drains_as)), "")


def _of_slurm(condition: Mapping[str, Any]) -> bool:
    return str(condition.get("type")).startswith(SLURM_STATE)


def _is_for(reason: str, drains_as: Sequence[str]) -> bool:
    """slurmctld may have appended to it, behind a blank."""
    given = [f"{SLURM_WORD}{one[:SLURM_LENGTH].strip()}" for one in drains_as]
    return any(f"{reason} ".startswith(f"{one} ") for one in given)


def _of_others(reason: str, drains_as: Sequence[str]) -> str:
    said = f"a slurmd of Slinky, whose Slurm node another than this hold drained ({short(reason, 200) or 'none'}),"
    if not drains_as:
        return f"{said} which may be over: no hold of ours with its cordon stands on the node"
    return (
        f"{said} which may be over: whoever looks after that drain makes it this hold's in Slurm (scontrol update"
        f' NodeName=... State=DRAIN Reason="{SLURM_WORD}{drains_as[0]}"), and the operator has to be at work'
    )


def _has_gpus(raw: Mapping[str, Any]) -> bool:
    containers = [*rows(raw, "spec", "containers"), *rows(raw, "spec", "initContainers")]
    asked = [name for one in containers for kind in ("limits", "requests") for name in mapping(one, "resources", kind)]
    return bool(rows(raw, "spec", "resourceClaims")) or any(GPU.fullmatch(name) for name in asked)


def _ending(raw: Mapping[str, Any]) -> str:
    ends = word(raw, "metadata", "deletionTimestamp")
    if not ends:
        return ""
    kept = part(raw, "metadata", "finalizers") or []
    if kept and _is_past(ends):
        return f"it has ended, and is kept by {shown([short(one, 100) for one in kept])}"
    return "it is ending"


def _is_past(moment: str) -> bool:
    with suppress(ValueError):
        return timegm(time.strptime(moment, "%Y-%m-%dT%H:%M:%SZ")) < time.time()
    return False


def _gang(raw: Mapping[str, Any], policy: Policy) -> str:
    if policy.gang:
        return ""
    named = {**mapping(raw, "metadata", "annotations"), **mapping(raw, "metadata", "labels")}
    for key, who in GANGS.items():
        if named.get(key):
            return f"of {short(named[key], 100)} of {who}, all of which would end with it; it is waited for"
    return ""


def _stays(raw: Mapping[str, Any], policy: Policy) -> str:
    if word(raw, "metadata", "deletionTimestamp"):
        return ""
    if not _controller(raw) and not policy.bare:
        return f"nothing would start it again (bare, {_SAID})"
    data = _on_the_node(raw)
    return f"its data is lost with it: {shown(data)} (local_data, {_SAID})" if data and not policy.local_data else ""


def _on_the_node(raw: Mapping[str, Any]) -> list[str]:
    """What is in memory is gone with its processes anyway, and hostPath stays on the disk."""
    volumes = [(one, one.get("emptyDir")) for one in rows(raw, "spec", "volumes")]
    return [
        f"emptyDir {short(one.get('name'), 100)}"
        for one, data in volumes
        if isinstance(data, dict) and data.get("medium") != _IN_MEMORY
    ]


def claim(raw: Mapping[str, Any]) -> Claim | None:
    """None for one that nobody has."""
    pods = {str(one.get("uid")): str(one.get("name")) for one in rows(raw, "status", "reservedFor")}
    given = mapping(raw, "status", "allocation")
    nodes = {str(one.get("pool")) for one in rows(given, "devices", "results")}
    for term in rows(given, "nodeSelector", "nodeSelectorTerms"):
        for field in rows(term, "matchFields"):
            nodes.update(map(str, field.get("values") or ()))
    ident = f"{word(raw, 'metadata', 'namespace')}/{word(raw, 'metadata', 'name')}"
    return Claim(f"claim {ident}", frozenset(nodes), pods) if pods and nodes else None


def by_node(claims: Iterable[Claim]) -> dict[str, list[Claim]]:
    found: dict[str, list[Claim]] = {}
    for one in claims:
        for node in one.nodes:
            found.setdefault(node, []).append(one)
    return found


def left_over(claims: Iterable[Claim], pods: Sequence[Pod]) -> list[Work]:
    """Of the claims for devices of a node, those for pods that are not there."""
    there = {one.work.id.rpartition("@")[2] for one in pods}
    return [
        Work(one.id, f"reserved for {shown(sorted(one.pods.values()))}, which is not there: its driver holds devices")
        for one in claims
        if not set(one.pods) & there
    ]
