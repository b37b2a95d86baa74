# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes through its API server. PRIVATE to the collection.

Nodes of a batch are one list by their host names' label; what that label does not show is asked for by name, and only
the API server's own word makes a node absent. Pods can be asked for of one node alone, so a batch asks for each of its
own, eight at once, and for those of all nodes where it is a large one. Written node by node, for there is no other
way, by a merge patch that compares uid and version: what somebody changed since is never overwritten.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Optional, Union

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    Changed,
    ConfigError,
    FleetError,
    Refused,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names as words
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import (
    NodeView,
    Refusal,
    Scheduler,
    Still,
    Work,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.each import each, failed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes import access, api, rights
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.evict import evict_one
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.fields import mapping, rows, word
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.holds import (
    Standing,
    spelled,
    taint_of,
    without_ours,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.labels import NodeLabels
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.pods import (
    Claim,
    Pod,
    Policy,
    by_node,
    claim,
    left_over,
    pod,
    runs_slurmd,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.record import (
    Record,
    light,
    wanted_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.tables import (
    HOLD,
    LABEL,
    REMEDIES,
    SETTLES,
    STANDING,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.topology import Keeper
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import known_as, short

_NODES, _PODS = "/api/v1/nodes", "/api/v1/pods"
_ITSELF = "/api/v1/namespaces/kube-system"
_CLAIMS_GROUP = "resource.k8s.io"
_CLAIMS = {version: f"/apis/{_CLAIMS_GROUP}/{version}/resourceclaims" for version in ("v1", "v1beta2", "v1beta1")}
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: Names of one question (its address is 6 kB long then), nodes above which all pods are asked for, and requests at
#: once.
_NAMES, _MANY, _AT_ONCE = 400, 400, 8
_NOT_OVER = "status.phase!=Succeeded,status.phase!=Failed"


class Kubernetes(Scheduler):
    NAME = "kubernetes"
    COMPARES = True
    EVICTS = True
    WORK_BY_NODE = True
    SETTLES = SETTLES
    REMEDIES = REMEDIES
    NAMELESS = "grant get of the namespace kube-system (rbac.yaml), by whose uid a cluster is known for good"

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__(params)
        self.standing = Standing(tuple(self._list("scheduler_taints")) or STANDING)
        self.policy = self._policy()
        wanted = wanted_of(self._list("scheduler_ready"))
        if wanted is None:
            raise ConfigError("scheduler_ready is a list of NAME=VALUE", do="correct gpufleet_scheduler_ready")
        self.wanted = wanted
        self.api = api.Api(access.of_options(self.options))
        self.address = self.api.address
        self._claims: Optional[str] = None

    def _list(self, option: str) -> list[str]:
        told = self.options[option] or []
        return told.replace(",", " ").split() if isinstance(told, str) else [str(one) for one in told]

    def _policy(self) -> Policy:
        said = self._list("scheduler_evict")
        unknown = [one for one in said if one not in words.EVICT]
        if unknown:
            raise ConfigError(
                f"scheduler_evict knows no {unknown[0]}",
                wanted=f"a list of {', '.join(words.EVICT)}",
                do="correct gpufleet_scheduler_evict",
            )
        return Policy(**dict.fromkeys(said, True))

    def check(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise ConfigError(
                "this is not the name of one node of Kubernetes",
                node=name,
                wanted="small letters, digits, dashes and dots, as kubectl get nodes shows it",
                do="correct gpufleet_scheduler_node",
            )

    # -- reading -----------------------------------------------------------------------------------------------

    def states(self, names: Sequence[str]) -> dict[str, NodeView]:
        asked = list(dict.fromkeys(names))
        for name in asked:
            self.check(name)
        records = self._records(asked)
        # The pods are asked for after the nodes. A binding asks for neither cordon nor taint: one that was seen held is
        # still given the pods that the scheduler had chosen it for before, so a hold has to have stood for a while.
        now = self.api.date
        pods: dict[str, list[Pod]] = {name: [] for name in records}
        for one in self._pods(records):
            pods[one.node].append(one)
        claims = by_node(self._claimed()) if records else {}
        views: dict[str, NodeView] = {}
        spoilt: dict[str, BadAnswer] = {}
        for name, record in records.items():
            try:
                work = [*(one.work for one in pods[name]), *left_over(claims.get(name, ()), pods[name])]
                views[name] = record.view(work, record.unsettled(now, self.SETTLES))
            except BadAnswer as exc:
                spoilt[name] = exc
        if spoilt and not views:
            raise next(iter(spoilt.values())).located(address=self.address)
        views.update({name: NodeView(name, state="unknown", unread=str(exc)) for name, exc in spoilt.items()})
        place = self._place()
        return {name: replace(views.get(name) or NodeView(name), place=place) for name in asked}

    def _place(self) -> Place:
        """A cluster has no name; the uid of a namespace that each has is what others know it by as well. To whom that
        is not shown, its address and its authority tell it from others. In a pod the address is the same everywhere;
        and what stands before several clusters has one authority for all."""
        try:
            name = f"{self.NAME} {self._uid()}"
        except api.Forbidden:
            name = ""
        return Place(name, scheduler_at=self._known_at())

    def _uid(self) -> str:
        """It goes into the ledger, and into commands that a person copies into a shell.

        :raises FleetError: for whatever is neither a uid nor the API server's own word that we may not have it.
        """
        raw = self.api.get(_ITSELF) or {}
        uid = mapping(raw, "metadata").get("uid")
        if raw.get("kind") == "Namespace" and isinstance(uid, str) and _UID.fullmatch(uid):
            return uid
        raise BadAnswer(
            f"GET {_ITSELF}: no uid, by which a cluster is known",
            address=self.address,
            wanted="the namespace that each cluster has, and a UUID",
            seen=short(raw, 200) if raw else "HTTP 404",
            do=f"correct {api.PEER.setting}, if another program than Kubernetes answers there",
        )

    def _known_at(self) -> str:
        by = (self.api.authority, "" if access.in_pod(self.address) and self.api.authority else known_as(self.address))
        return " ".join(filter(None, by))

    def known(self) -> dict[str, tuple[str, ...]]:
        return dict(self.api.listed(_NODES, lambda raw: (self._record(raw).name, self._record(raw).also())))

    def topology(self, form: str, path: str) -> Keeper:
        if form != "labels":
            raise Unsupported(
                f"Kubernetes has no {form} for its topology", address=self.address, do="give format labels"
            )
        return NodeLabels(self.api, self.known)

    def _record(self, raw: Mapping[str, Any]) -> Record:
        return Record(light(raw), self.standing, self.wanted)

    def _records(self, names: Sequence[str]) -> dict[str, Record]:
        found: dict[str, Record] = {}
        labels = [name for name in names if len(name) <= LABEL]
        if len(labels) > 1:
            for first in range(0, len(labels), _NAMES):
                found.update(self._of_hosts(labels[first : first + _NAMES]))
        # One alone, those whose label is another one's name, or none, and those that are too long for a label: a
        # selector with one of those is refused whole.
        rest = [name for name in names if name not in found]
        found.update({record.name: record for record in self._at_once(self._one, rest) if record is not None})
        return {name: found[name] for name in names if name in found}

    def _of_hosts(self, names: Sequence[str]) -> dict[str, Record]:
        wanted, selector = set(names), f"kubernetes.io/hostname in ({','.join(names)})"

        def read(raw: dict[str, Any]) -> Optional[Record]:
            record = self._record(raw)
            return record if record.name in wanted else None

        return {one.name: one for one in self.api.listed(_NODES, read, labelSelector=selector)}

    def _one(self, name: str) -> Optional[Record]:
        raw = self.api.get(f"{_NODES}/{name}")
        if raw is None:
            return None
        record = self._record(raw)
        if raw.get("kind") != "Node" or record.name != name:
            raise BadAnswer("another object than the node", node=name, address=self.address, seen=record.name)
        return record

    def _pods(self, records: Mapping[str, Record]) -> list[Pod]:
        if len(records) > _MANY:
            return self.api.listed(_PODS, lambda raw: self._pod(raw, records), fieldSelector=_NOT_OVER)
        return [one for many in self._at_once(partial(self._pods_of, records), list(records)) for one in many]

    def _pods_of(self, records: Mapping[str, Record], name: str) -> list[Pod]:
        its, selector = {name: records[name]}, f"spec.nodeName={name},{_NOT_OVER}"
        return self.api.listed(_PODS, lambda raw: self._pod(raw, its), fieldSelector=selector)

    def _pod(self, raw: Mapping[str, Any], records: Mapping[str, Record]) -> Optional[Pod]:
        record = records.get(word(raw, "spec", "nodeName"))
        return pod(raw, self.policy, record.marks.drains_as) if record is not None else None

    def _claimed(self) -> list[Claim]:
        """Which version is served lasts as long as this object, which serves one task."""
        if self._claims is None:
            try:
                return self.api.listed(_CLAIMS["v1"], claim)
            except api.NotServed:
                self._claims = self._where_claims_are()
        return self.api.listed(self._claims, claim) if self._claims else []

    def _where_claims_are(self) -> str:
        """Empty where the API server has none, which its own list of groups says.

        :raises BadAnswer: where it has them in a version that nobody here can read.
        """
        groups = rows(self.api.get("/apis"), "groups")
        told = next((one for one in groups if one.get("name") == _CLAIMS_GROUP), None)
        if told is None and groups:
            return ""
        served = [str(one.get("version")) for one in rows(told, "versions")]
        version = next((one for one in ("v1beta2", "v1beta1") if one in served), "")
        if not version:
            raise BadAnswer(
                "claims for devices of a version that cannot be read",
                address=self.address,
                wanted=f"{_CLAIMS_GROUP} {', '.join(_CLAIMS)}",
                seen=", ".join(served) or "none",
            )
        return _CLAIMS[version]

    def _at_once(self, ask: Callable[[str], Any], names: Sequence[str]) -> list[Any]:
        if len(names) < 2:
            return [ask(name) for name in names]
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            return list(pool.map(ask, names))

    def prerequisites(self) -> Sequence[FleetError]:
        return rights.lacking(self.api)

    # -- writing -----------------------------------------------------------------------------------------------

    def hold_request(self, view: NodeView, token: str, kind: str) -> str:
        told = ", which Slinky is told the reason of" if runs_slurmd(view.work) else ""
        mark = f"taint {spelled(taint_of(token))}, annotation {HOLD}: {token}, and a cordon{told}"
        return f"PATCH {self.address}{_NODES}/{view.name}: {mark}"

    def hold(self, view: NodeView, token: str, kind: str) -> None:
        self._hold(view, self._one(view.name), token)

    def _hold(self, view: NodeView, found: Optional[Record], token: str) -> None:
        record = self._unchanged(view, found)
        taints = [*without_ours(record.taints), taint_of(token)]
        marks = {HOLD: token, **record.marks.for_slinky(token, runs_slurmd(view.work))}
        self._patch(view, marks, {"taints": taints, "unschedulable": True})

    def resume_request(self, view: NodeView) -> str:
        return f"PATCH {self.address}{_NODES}/{view.name}: without our taint and annotation, and without our cordon"

    def resume(self, view: NodeView) -> None:
        self._resume(view, self._one(view.name))

    def _resume(self, view: NodeView, found: Optional[Record]) -> None:
        record = self._unchanged(view, found)
        spec: dict[str, Any] = {"taints": without_ours(record.taints) or None}
        if record.marks.cordon_is_its:
            spec["unschedulable"] = None
        self._patch(view, {HOLD: None, **record.marks.for_slinky("", runs_slurmd(view.work))}, spec)

    def hold_each(
        self, due: Sequence[tuple[NodeView, str, str]], still: Still = lambda name: None
    ) -> dict[str, FleetError]:
        tokens = {view.name: token for view, token, _kind in due}
        views = [view for view, _token, _kind in due]
        return self._write_each(views, still, lambda view, found: self._hold(view, found, tokens[view.name]))

    def resume_each(self, views: Sequence[NodeView], still: Still = lambda name: None) -> dict[str, FleetError]:
        return self._write_each(views, still, self._resume)

    def _write_each(
        self, views: Sequence[NodeView], still: Still, write: Callable[[NodeView, Optional[Record]], None]
    ) -> dict[str, FleetError]:
        """Each is a patch of its own, which compares; what it compares with is one list for many of them."""
        problems: dict[str, FleetError] = {}
        for first in range(0, len(views), _NAMES):
            some = views[first : first + _NAMES]
            try:
                records = self._records([view.name for view in some])
            except FleetError as exc:  # nothing was sent to these; to those before them it was
                problems.update({view.name: copy(exc) for view in some})
                continue
            calls = {view.name: partial(write, view, records.get(view.name)) for view in some}
            problems.update(failed(each(calls, still, _AT_ONCE)))
        return problems

    def _unchanged(self, view: NodeView, record: Optional[Record]) -> Record:
        """The list of taints is written as a whole: so it is read for that, and only what was judged is written to."""
        if record is None or record.version != view.version:
            raise self._changed(view, record.version if record else "no such node")
        return record

    def _patch(self, view: NodeView, annotations: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
        uid, _blank, version = view.version.partition(" ")
        path = f"{_NODES}/{view.name}"
        about = {"uid": uid, "resourceVersion": version, "annotations": annotations}
        answer = self.api.patch(path, {"metadata": about, "spec": spec})
        other = any(one.get("field") == "metadata.uid" for one in answer.causes)
        if answer.code in (404, 409) or other:
            raise self._changed(view, answer.words)
        api.demand_taken(answer, self.address, f"PATCH {path}")

    def _changed(self, view: NodeView, seen: str) -> Changed:
        return Changed(
            "the node has changed between the look at it and the write, or was made anew",
            node=view.name,
            address=self.address,
            wanted=view.version,
            seen=seen,
            do="run again: the node is judged anew",
        )

    def evict_request(self, view: NodeView) -> str:
        due = _due(view.work)
        pods = ",".join(work.id for work in due)
        return f"POST {self.address}/api/v1/namespaces/{{{pods}}}/eviction" if due else ""

    def evict(self, view: NodeView) -> Sequence[Refusal]:
        found = self.evict_each([view])[view.name]
        if isinstance(found, FleetError):
            raise found
        return found

    def evict_each(
        self, views: Sequence[NodeView], still: Still = lambda name: None
    ) -> dict[str, Union[Sequence[Refusal], FleetError]]:
        """Where the taint of our hold is gone, others would take the places of those that leave."""
        told: dict[str, Union[Sequence[Refusal], FleetError]] = {
            view.name: Refused("pods are made to leave a held node alone", node=view.name, seen=view.native)
            for view in views
            if view.state != "draining"
        }
        due = {work.id: (view.name, work) for view in views if view.name not in told for work in _due(view.work)}
        calls = {ident: partial(evict_one, self.api, work) for ident, (_name, work) in due.items()}
        answers = each(calls, lambda ident: still(due[ident][0]), _AT_ONCE)
        for view in (view for view in views if view.name not in told):
            its = [answers[work.id] for work in _due(view.work)]
            trouble = next((one for one in its if isinstance(one, FleetError)), None)
            told[view.name] = trouble or [one for one in its if isinstance(one, Refusal)]
        return told


def _due(work: Iterable[Work]) -> list[Work]:
    """Those that may be asked, and were not yet."""
    return [one for one in work if not one.waits_for and not one.stays]
