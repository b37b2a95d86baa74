# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API over HTTP: who asks, whether he may, and what is answered."""

from __future__ import annotations

import base64
import copy
import json
import re
import threading
import time
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Optional
from urllib.parse import parse_qsl, urlsplit

from kube_server import discovery, refusals
from kube_server.cluster import Cluster, is_ready, now
from kube_server.patches import Object, Unfit, json_patched, merged, strategic
from kube_server.refusals import Answer

#: Plural -> (kind, group and version, in a namespace).
KINDS = {
    "namespaces": ("Namespace", "v1", False),
    "nodes": ("Node", "v1", False),
    "pods": ("Pod", "v1", True),
    "poddisruptionbudgets": ("PodDisruptionBudget", "policy/v1", True),
    "resourceclaims": ("ResourceClaim", "resource.k8s.io/v1", True),
    "selfsubjectaccessreviews": ("SelfSubjectAccessReview", "authorization.k8s.io/v1", False),
}
_PATCHES = {"application/merge-patch+json": merged, "application/strategic-merge-patch+json": strategic}
_VERBS = {"GET": "get", "POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}
_LABEL = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?")
#: What a Node may have below spec; anything else is unknown.
_SPEC = {"unschedulable", "taints", "podCIDR", "podCIDRs", "providerID", "configSource", "externalID"}


class Asked(NamedTuple):
    method: str
    group: str
    kind: str
    space: str
    name: str
    part: str
    query: Mapping[str, str]
    body: Any
    content_type: str
    user: str

    @property
    def verb(self) -> str:
        verb = _VERBS[self.method]
        return "list" if verb == "get" and not self.name else verb

    @property
    def of(self) -> str:
        return f"{self.kind}/{self.part}" if self.part else self.kind

    @property
    def manager(self) -> str:
        return self.query.get("fieldManager") or self.user


class KubeServer:
    """rules: by user, RBAC rules as a ClusterRole has them; a user without an entry may do everything."""

    def __init__(
        self, tokens: Mapping[str, str], rules: Optional[Mapping[str, Sequence[Mapping[str, Any]]]] = None
    ) -> None:
        self.cluster = Cluster()
        self.cluster.create("namespaces", {"metadata": {"name": "kube-system"}})
        #: Seconds by which the date of its answers is on from its book: whatever was written has stood that long.
        self.passed = 3600.0
        self.tokens, self.rules = dict(tokens), dict(rules or {})
        #: The kinds that are served at all, with their group and version.
        self.served = {kind: group for kind, (_name, group, _spaced) in KINDS.items()}
        #: What was asked by whom: (user, verb, kind with its part).
        self.used: set[tuple[str, str, str]] = set()
        #: Only so many objects stand in a page, whatever limit says.
        self.page = 10_000
        #: By the name of a pod, what a webhook of the site answers to its eviction.
        self.webhook: dict[str, tuple[int, str]] = {}
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        threading.Thread(target=lambda: self._http.serve_forever(poll_interval=0.05), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    # -- one request -------------------------------------------------------------------------------------------

    def groups(self) -> Answer:
        """Its own list of the groups that it serves."""
        named = sorted({tuple(group.split("/")) for group in self.served.values() if "/" in group})
        told = [{"name": name, "versions": [{"groupVersion": f"{name}/{v}", "version": v}]} for name, v in named]
        return Answer(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": told})

    def answer(self, asked: Optional[Asked]) -> Answer:
        if asked is None or self.served.get(asked.kind) != asked.group:
            return refusals.no_path()
        self.used.add((asked.user, asked.verb, asked.of))
        if not self._may(asked, asked.verb):
            return refusals.forbidden(asked.user, asked.verb, asked.of, asked.space, asked.name)
        with self.cluster.lock:
            return self._allowed(asked)

    def _may(self, asked: Asked, verb: str) -> bool:
        """A rule of certain names is one of these objects alone, and of no list."""
        if asked.user not in self.rules or asked.kind == "selfsubjectaccessreviews":
            return True
        group = KINDS[asked.kind][1].rpartition("/")[0]
        return any(
            group in rule["apiGroups"]
            and asked.of in rule["resources"]
            and verb in rule["verbs"]
            and asked.name in rule.get("resourceNames", [asked.name])
            for rule in self.rules[asked.user]
        )

    def _allowed(self, asked: Asked) -> Answer:
        if asked.kind == "selfsubjectaccessreviews":
            return self._review(asked)
        if asked.verb == "list":
            return self._list(asked)
        if asked.verb == "create" and asked.part != "eviction":
            made = self.cluster.create(asked.kind, self._defaulted(asked), asked.manager)
            return Answer(201, self._whole(asked.kind, made))
        found = self.cluster.of(asked.kind).get((asked.space, asked.name))
        if found is None:
            return refusals.not_found(asked.kind, asked.name)
        if asked.part == "eviction":
            return self._evict(asked, found)
        if asked.verb == "patch":
            return self._patch(asked, found)
        if asked.verb == "delete":
            self.cluster.delete(asked.kind, asked.space, asked.name)
            return Answer(200, {**refusals.SUCCESS.content, "code": 200})
        return Answer(200, self._whole(asked.kind, found))

    def _whole(self, kind: str, found: Object) -> Object:
        name, group, _spaced = KINDS[kind]
        return {
            "kind": name,
            "apiVersion": group,
            **{k: v for k, v in found.items() if k not in ("kind", "apiVersion")},
        }

    def _defaulted(self, asked: Asked) -> Object:
        made: Object = copy.deepcopy(asked.body)
        if KINDS[asked.kind][2]:
            made["metadata"].setdefault("namespace", asked.space)
            made["metadata"].setdefault("generation", 1)
        if asked.kind == "pods":
            made.setdefault("status", {"phase": "Pending"})
        return made

    def _review(self, asked: Asked) -> Answer:
        of = asked.body["spec"]["resourceAttributes"]
        kind, part, name = of["resource"], of.get("subresource", ""), of.get("name", "")
        allowed = self._may(asked._replace(method="", kind=kind, part=part, name=name), of["verb"])
        told = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}}
        return Answer(201, {**told, "spec": asked.body["spec"], "status": {"allowed": allowed}})

    # -- lists -------------------------------------------------------------------------------------------------

    def _list(self, asked: Asked) -> Answer:
        fields, labels = asked.query.get("fieldSelector", ""), asked.query.get("labelSelector", "")
        if " in " in fields:
            return refusals.bad_request(f"invalid selector: '{fields}'; can't understand '{fields.split(',')[-1]}'")
        refused = _unfit_selector(labels)
        if refused:
            return refused
        items = [one for key, one in sorted(self.cluster.of(asked.kind).items()) if asked.space in ("", key[0])]
        items = [one for one in items if _by_fields(one, fields) and _by_labels(one, labels)]
        first, version = 0, self.cluster.version
        token = asked.query.get("continue", "")
        if token:
            try:
                version, first = json.loads(base64.b64decode(token))
            except ValueError:
                return refusals.bad_request("continue key is not valid: invalid character")
            if version < self.cluster.compacted:
                return refusals.expired(token)
        last = first + min(int(asked.query.get("limit") or 0) or len(items), self.page)
        about: Object = {"resourceVersion": str(version)}
        if last < len(items):
            about["continue"] = base64.b64encode(json.dumps([version, last]).encode()).decode()
            if not (fields or labels):
                about["remainingItemCount"] = len(items) - last
        name, group, _spaced = KINDS[asked.kind]
        shown = [{k: v for k, v in one.items() if k not in ("kind", "apiVersion")} for one in items[first:last]]
        return Answer(200, {"kind": f"{name}List", "apiVersion": group, "metadata": about, "items": shown})

    # -- patches -----------------------------------------------------------------------------------------------

    def _patch(self, asked: Asked, found: Object) -> Answer:
        if asked.content_type == "application/json-patch+json":
            try:
                after = json_patched(found, asked.body)
            except Unfit:
                return refusals.unfit()
        elif asked.content_type in _PATCHES:
            unknown = self._unknown(asked)
            if unknown:
                return unknown
            after = _PATCHES[asked.content_type](found, asked.body)
        else:
            return refusals.status(415, "the body of the request was in an unknown format", "UnsupportedMediaType")
        refused = self._conflict(asked, found, after) or self._unfit_taints(asked, after)
        if refused:
            return refused
        if asked.part == "status":
            after = {**copy.deepcopy(found), "status": after.get("status", {})}
        else:
            after["status"] = copy.deepcopy(found.get("status", {}))
        if "dryRun" in asked.query:
            return Answer(200, self._whole(asked.kind, after))
        manager = asked.manager
        made = self.cluster.change(asked.kind, asked.space, asked.name, lambda _was: after, manager, asked.part)
        return Answer(200, self._whole(asked.kind, made))

    def _unknown(self, asked: Asked) -> Optional[Answer]:
        strict = asked.query.get("fieldValidation") == "Strict"
        wrong = set(asked.body.get("spec") or {}) - _SPEC if asked.kind == "nodes" else set()
        if not (strict and wrong):
            return None
        return refusals.status(
            422, f' "" is invalid: patch: strict decoding error: unknown field "spec.{wrong.pop()}"', "Invalid"
        )

    def _conflict(self, asked: Asked, found: Object, after: Object) -> Optional[Answer]:
        was, is_now = found["metadata"], after.get("metadata") or {}
        kind = KINDS[asked.kind][0]
        if is_now.get("resourceVersion") not in (None, "", was["resourceVersion"]):
            return refusals.modified(asked.kind, asked.name)
        if is_now.get("uid") != was["uid"]:
            why = f'Invalid value: "{is_now.get("uid")}": field is immutable'
            return refusals.invalid(kind, asked.name, "metadata.uid", why)
        return None

    def _unfit_taints(self, asked: Asked, after: Object) -> Optional[Answer]:
        seen = set()
        for number, taint in enumerate((after.get("spec") or {}).get("taints") or [] if asked.kind == "nodes" else []):
            value, place = taint.get("value", ""), f"metadata.taints[{number}]"
            if not _LABEL.fullmatch(value):
                why = f'Invalid value: "{value}": a valid label must be an empty string or consist of alphanumerics'
                return refusals.invalid("Node", asked.name, f"{place}.value", why)
            if len(value) > 63:
                why = f'Invalid value: "{value}": must be no more than 63 bytes'
                return refusals.invalid("Node", asked.name, f"{place}.value", why)
            if (taint["key"], taint["effect"]) in seen:
                why = "Duplicate value: taints must be unique by key and effect pair"
                return refusals.invalid("Node", asked.name, place, why, "FieldValueDuplicate")
            seen.add((taint["key"], taint["effect"]))
        return None

    # -- evictions ---------------------------------------------------------------------------------------------

    def _evict(self, asked: Asked, pod: Object) -> Answer:
        options = asked.body.get("deleteOptions") or {}
        wanted = (options.get("preconditions") or {}).get("uid")
        if wanted and wanted != pod["metadata"]["uid"]:
            return refusals.other_uid(asked.name, wanted, pod["metadata"]["uid"])
        if asked.name in self.webhook:
            return refusals.by_webhook(*self.webhook[asked.name])
        if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp"):
            refused = self._by_budget(pod)
            if refused:
                return refused
        if "dryRun" not in asked.query:
            self._ends(asked, pod, options.get("gracePeriodSeconds"))
        return refusals.SUCCESS

    def _by_budget(self, pod: Object) -> Optional[Answer]:
        budgets = [one for one in self.cluster.of("poddisruptionbudgets").values() if self.cluster.claims(one, pod)]
        if len(budgets) > 1:
            return refusals.two_budgets()
        if not budgets:
            return None
        (budget,) = budgets
        name, told = budget["metadata"]["name"], budget.get("status") or {}
        healthy, due = told.get("currentHealthy", 0), told.get("desiredHealthy", 0)
        always = budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
        if not is_ready(pod) and (always or healthy >= due > 0):
            return None
        if told.get("observedGeneration", 0) < budget["metadata"].get("generation", 1):
            return refusals.budget_unseen(name)
        if told.get("disruptionsAllowed", 0) < 1:
            return refusals.budget(name, f"needs {due} healthy pods and has {healthy} currently")
        told["disruptionsAllowed"] -= 1
        return None

    def _ends(self, asked: Asked, pod: Object, grace: Optional[int]) -> None:
        """What its kubelet would do at the end is left to whoever plays the kubelet."""
        over = pod["status"].get("phase") in ("Succeeded", "Failed")
        kept = pod["metadata"].get("finalizers")
        if (over or grace == 0) and not kept:
            self.cluster.delete("pods", asked.space, asked.name)
            return
        seconds = 0 if kept else pod["spec"].get("terminationGracePeriodSeconds", 30)

        def how(draft: Object) -> None:
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
            draft["metadata"].setdefault("deletionTimestamp", at)
            draft["metadata"].setdefault("deletionGracePeriodSeconds", seconds)
            why = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
            told = draft["status"].setdefault("conditions", [])
            if why["type"] not in [one["type"] for one in told]:
                told.append({**why, "lastTransitionTime": now()})

        self.cluster.change("pods", asked.space, asked.name, how, "kube-apiserver")


def _by_fields(one: Object, selector: str) -> bool:
    for term in filter(None, selector.split(",")):
        key, sign, value = re.split(r"(!=|==?)", term, maxsplit=1)
        found: Any = one
        for part in key.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        told = {None: "", True: "true", False: "false"}.get(found, found) if not isinstance(found, str) else found
        if (str(told) == value) == (sign == "!="):
            return False
    return True


def _by_labels(one: Object, selector: str) -> bool:
    labels = one["metadata"].get("labels") or {}
    for key, values in re.findall(r"([^\s,]+) in \(([^)]*)\)", selector):
        if labels.get(key) not in values.split(","):
            return False
    return True


def _unfit_selector(selector: str) -> Optional[Answer]:
    for key, values in re.findall(r"([^\s,]+) in \(([^)]*)\)", selector):
        for number, value in enumerate(values.split(",")):
            if len(value) > 63 or not _LABEL.fullmatch(value):
                return refusals.unfit_selector(key, number, value)
    return None


def _asked(method: str, address: str, headers: Mapping[str, str], body: bytes, user: str) -> Optional[Asked]:
    parts = urlsplit(address)
    path = parts.path.strip("/").split("/")
    if path[:2] == ["api", "v1"]:
        group, rest = "v1", path[2:]
    elif path[0] == "apis" and len(path) > 3:
        group, rest = "/".join(path[1:3]), path[3:]
    else:
        return None
    space = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        space, rest = rest[1], rest[2:]
    kind, name, part = [*rest, "", ""][:3]
    if kind not in KINDS:
        return None
    kind_of_body = headers.get("Content-Type", "").partition(";")[0]
    content = json.loads(body) if body else None
    return Asked(method, group, kind, space, name, part, dict(parse_qsl(parts.query)), content, kind_of_body, user)


def _handler(server: KubeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            user = server.tokens.get(self.headers.get("Authorization", "").partition("Bearer ")[2])
            if user is None:
                answer = refusals.unauthorized()
            elif urlsplit(self.path).path == "/apis":
                answer = server.groups()
            elif (found := discovery.told(self.path, KINDS, server.served)) is not None:
                answer = Answer(200, found)
            else:
                answer = server.answer(_asked(self.command, self.path, self.headers, body, user))
            text = json.dumps(answer.content).encode()
            self.send_response(answer.code)
            for key, value in {"Content-Type": "application/json", **answer.headers}.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _any

        def date_time_string(self, timestamp: Optional[float] = None) -> str:
            return super().date_time_string(time.time() + server.passed)

        def log_message(self, format: str, *args: Any) -> None:
            """What was asked stands in ``used``."""

    return Handler
