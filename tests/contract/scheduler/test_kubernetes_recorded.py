# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server of these tests against what kube-apiserver 1.36.2 answered, request by request.

What was asked of the real one is asked of ours in the same order, by the same users, and each refusal has to be the
same: code, reason, words, causes. Left out is what ours has not: server-side apply, tables, and the kinds that only
roles are made of.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.holds import Standing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.record import Record, Wanted
from contract.scheduler.site_kubernetes import rules
from kube_server.server import KubeServer, _asked
from recorded import demanded

#: Of the recorded calls, those that ours cannot be asked.
_LEFT_OUT = ("apply-patch", "rbac.authorization", "/leases", "/version")


def told(name: str) -> list[dict[str, Any]]:
    file = demanded("schedulers", "k8s_*.jsonl") / f"k8s_1.36.2_{name}.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def calls(name: str) -> Iterator[dict[str, Any]]:
    for one in told(name):
        words = f"{one['path']} {one['content_type']} {one['response'].get('kind')}"
        if not any(left in words for left in (*_LEFT_OUT, "Table")):
            yield one


@pytest.fixture
def server(request: pytest.FixtureRequest) -> KubeServer:
    made = KubeServer({}, {"gpufleet": rules()})
    request.addfinalizer(made.close)
    return made


def plain(status: Any) -> Any:
    """What may differ: uids, versions and moments, and words that a later character of theirs only lengthens."""
    text = json.dumps({key: status.get(key) for key in ("kind", "message", "reason", "details", "code", "status")})
    return json.loads(re.sub(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID", text))


def test_evictions_budgets_and_rights_are_answered_as_by_the_real_one(server: KubeServer) -> None:
    node = next(one for one in told("t1") if one["method"] == "POST" and one["path"].startswith("/api/v1/nodes"))
    server.cluster.create("nodes", node["request"])
    server.cluster.budgets_reckoned = False  # no controller was there: its part was written by hand
    compared = 0
    for one in calls("t2"):
        body = json.dumps(one["request"]).encode() if one["request"] is not None else b""
        headers = {"Content-Type": one["content_type"] or ""}
        if one["user"] == "unknown":
            continue
        answer = server.answer(_asked(one["method"], one["path"], headers, body, one["user"]))
        where = (one["method"], one["path"], one["response"], answer.content)
        assert answer.code == one["status"], where
        assert answer.headers.get("Retry-After") == one["headers"].get("Retry-After"), where
        if one["response"].get("kind") == "Status":
            compared += 1
            assert plain(answer.content) == plain(one["response"]), where
        elif "items" in one["response"]:
            names = [[item["metadata"]["name"] for item in had["items"]] for had in (one["response"], answer.content)]
            assert names[0] == names[1], where
    assert compared > 20


def test_refused_patches_are_answered_as_by_the_real_one(server: KubeServer) -> None:
    """Each over the object that the real one had by then."""
    refused = [one for one in calls("t1") if one["method"] == "PATCH" and one["status"] >= 400]
    refused = [one for one in refused if "fieldValidation" not in one["path"]]
    for one in refused:
        _as_it_was(server, one)
        headers, body = {"Content-Type": one["content_type"]}, json.dumps(one["request"]).encode()
        answer = server.answer(_asked("PATCH", one["path"], headers, body, "admin"))
        seen, wanted = plain(answer.content), plain(one["response"])
        assert answer.code == one["status"] and seen["reason"] == wanted["reason"], (seen, wanted)
        fields = [{cause["field"] for cause in (had["details"] or {}).get("causes", [])} for had in (seen, wanted)]
        assert fields[0] == fields[1], (seen, wanted)
        assert fields[1] or seen == wanted
    assert len(refused) > 5


def _as_it_was(server: KubeServer, one: dict[str, Any]) -> None:
    """The node of this call, as it was told last."""
    name = urlsplit(one["path"]).path.split("/")[4]
    before = [had["response"] for had in told("t1")[: told("t1").index(one)] if had["response"].get("kind") == "Node"]
    mine = [had for had in before if had["metadata"]["name"] == name]
    if mine:
        server.cluster.of("nodes")["", name] = mine[-1]


def view(response: Any) -> NodeView:
    return Record(response, Standing(), Wanted()).view([])


def test_what_the_real_one_told_of_nodes_is_read() -> None:
    """Its own objects, with the book of who wrote what as it kept it."""
    nodes = [one["response"] for name in ("t1", "t1b") for one in told(name) if one["response"].get("kind") == "Node"]
    views = [view(one) for one in nodes if one["metadata"]["name"].startswith("gpu")]
    assert len(views) > 20 and all(one.version and one.incarnation for one in views)
    cordons = {hold.author for one in views for hold in one.holds if hold.form == "cordon"}
    assert "kubectl-cordon" in cordons
    atomic = [one for one in told("t1b") if one["status"] == 200 and "gpufleet:run:why" in json.dumps(one["request"])]
    (held,) = [view(one["response"]) for one in atomic]
    assert [(hold.author, hold.form) for hold in held.holds][0][0] == "gpufleet"
    fresh = next(view(one["response"]) for one in told("t1b") if "f:gpufleet" not in json.dumps(one["response"]))
    assert fresh.version


def test_a_hold_of_the_real_one_is_ours_with_its_cordon() -> None:
    one = next(one for one in told("t1b") if "gpufleet:run:why" in json.dumps(one["request"]))
    raw = one["response"]
    raw["spec"]["taints"][0]["value"] = "run"  # of another run than the annotation in that call
    (hold,) = view(raw).holds
    assert (hold.text, hold.author, hold.kind) == ("gpufleet:run:why", "gpufleet", "work") and hold.since


def test_the_rights_that_were_tried_cover_those_of_the_shipped_role() -> None:
    (tried,) = [one["request"]["rules"] for one in told("t2") if one["path"].endswith("/clusterroles")]
    had = {(verb, kind) for rule in tried for verb in rule["verbs"] for kind in rule["resources"]}
    ours = [rule for rule in rules() if "resourceNames" not in rule]
    assert {(verb, kind) for rule in ours for verb in rule["verbs"] for kind in rule["resources"]} <= had
    (more,) = [rule for rule in rules() if rule not in ours]  # which is one that a site may leave out
    assert (more["resources"], more["resourceNames"], more["verbs"]) == (["namespaces"], ["kube-system"], ["get"])
