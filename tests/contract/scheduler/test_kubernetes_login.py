# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How Kubernetes is logged in to, and what its rules of access and its webhooks forbid."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import trustme
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    FleetError,
    Refused,
    Unreachable,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes import access
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.answer import Answer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.login import Login
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.names import OPTIONS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import known_as
from contract.scheduler.site_kubernetes import KubernetesSite, rules
from contract.scheduler.verbs import RUN, TOKEN, node, verdict, wait

NAME, OTHER = "gpu001", "gpu002"
ITSELF = "/api/v1/namespaces/kube-system"


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> KubernetesSite:
    return KubernetesSite(request, tmp_path)


def known(site: KubernetesSite, name: str = NAME) -> dict[str, Any]:
    """As the ledger has a hold of ours on the object that is there now."""
    return {"known_runs": [RUN], "known_token": TOKEN, "known_incarnation": site.raw(name)["metadata"]["uid"]}


def test_a_token_that_was_renewed_in_its_file_is_tried_once(site: KubernetesSite, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("ours-secret\n")
    site.reached = {"scheduler_url": site.proxy.url, "scheduler_token_path": str(file)}
    driver = site.open()
    assert driver.states([NAME])[NAME].in_service
    site.server.tokens = {"the-next-secret": "gpufleet"}
    with pytest.raises(AuthFailed):
        driver.states([NAME])
    site.faults.forget()
    file.write_text("the-next-secret")
    assert driver.states([NAME])[NAME].in_service
    refused = [one for one in site.faults.calls if one.what == f"GET /api/v1/nodes/{NAME}"]
    assert len(refused) == 2


def test_a_token_that_another_thread_has_renewed_already_is_tried(site: KubernetesSite, tmp_path: Path) -> None:
    """Eight at once, all refused before the first of them reads the file."""
    file, together = tmp_path / "token", threading.Barrier(8)
    file.write_text("ours-secret")
    site.reached = {"scheduler_url": site.server.url, "scheduler_token_path": str(file)}
    driver = site.open()
    site.server.tokens = {"the-next-secret": "gpufleet"}
    file.write_text("the-next-secret")

    def ask(_number: int) -> Any:
        together.wait(30)
        return driver.api.get(f"/api/v1/nodes/{NAME}")

    with ThreadPoolExecutor(max_workers=8) as pool:
        assert all(pool.map(ask, range(8)))


def test_a_token_is_held_against_the_one_that_was_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    login = Login(
        access.of_options(
            {**dict.fromkeys(OPTIONS, ""), "scheduler_url": "https://k8s", "scheduler_token_path": str(file)}
        )
    )
    assert login.renewed("first") == ""
    file.write_text("second")
    assert [login.renewed("first") for _thread in range(2)] == ["second", "second"] and login.renewed("second") == ""


def test_only_the_authorisers_own_words_are_of_access() -> None:
    whose = 'forbidden: User "gpufleet" cannot'
    for words in (f'pods "train-0" is {whose} create resource', f"pods is {whose} list resource", f"{whose} get path"):
        assert Answer(403, {"kind": "Status", "message": words}).of_access, words
    for words in ("pod train-0 cannot be evicted", f'admission webhook "w" denied the request: {whose} evict it'):
        assert not Answer(403, {"kind": "Status", "message": words}).of_access, words


def test_a_webhook_that_says_cannot_refuses_one_pod_and_ends_no_batch(site: KubernetesSite) -> None:
    node(site, NAME, "held")
    site.guard(NAME, "pod train-0 cannot be evicted", for_good=True)
    found = verdict(wait(site, NAME, timeout=0), NAME)
    assert not found["ok"] and "cannot be evicted" in found["reason"]


def test_what_the_rules_of_access_forbid_is_told_with_the_right_that_lacks(site: KubernetesSite) -> None:
    assert site.open().prerequisites() == []
    site.server.rules["gpufleet"] = [
        one for one in site.server.rules["gpufleet"] if one["resources"] != ["pods/eviction"]
    ]
    (lacking,) = site.open().prerequisites()
    assert "create pods/eviction" in lacking.wanted and "rbac.yaml" in lacking.do
    site.server.rules["gpufleet"][0]["verbs"] = ["get", "list"]
    with pytest.raises(AuthFailed, match='cannot patch resource "nodes"'):
        node(site, NAME, "held")


def test_the_shipped_role_grants_what_is_asked_for_and_no_more(site: KubernetesSite) -> None:
    """Everything that the driver ever sends, over a node with each kind of trouble, against the rules."""
    job, twice = site.start(NAME), site.start(NAME)
    for name in ("one", "two"):
        site.people.budget(twice, name, 0)
    site.open().prerequisites()
    site.open().known()
    node(site, NAME, "held")
    wait(site, NAME, OTHER, timeout=0)
    site.end(job)
    site.end(twice)
    node(site, NAME, "resumed", known_token=TOKEN)
    asked = {(verb, kind) for user, verb, kind in site.server.used if user == "gpufleet"}
    rules = site.server.rules["gpufleet"]
    granted = {(verb, kind) for rule in rules for verb in rule["verbs"] for kind in rule["resources"]}
    assert asked - granted == {("create", "selfsubjectaccessreviews")}, "which everybody may"
    assert granted - asked == set()


def test_a_webhook_that_forbids_a_hold_is_a_refusal(site: KubernetesSite) -> None:
    said = b'{"kind": "Status", "code": 422, "reason": "Invalid", "message": "denied the request: no holds on Fridays"}'
    site.proxy.fault = lambda asked: (422, {}, said) if asked.method == "PATCH" else None
    with pytest.raises(Refused, match="Fridays"):
        node(site, NAME, "held")


def test_r5_a_cluster_is_known_by_its_own_uid_else_by_its_authority_else_by_its_address(
    site: KubernetesSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a pod the address is the same in every cluster."""
    uid = site.server.cluster.of("namespaces")["", "kube-system"]["metadata"]["uid"]
    assert site.open().states([NAME])[NAME].place == Place(f"kubernetes {uid}", scheduler_at=known_as(site.proxy.url))
    site.server.rules["gpufleet"] = [one for one in rules() if one["resources"] != ["namespaces"]]
    assert site.open().states([NAME])[NAME].place == Place(scheduler_at=known_as(site.proxy.url))
    for name in ("one", "other"):
        trustme.CA().cert_pem.write_to_path(str(tmp_path / name))

    def place(name: str) -> Place:
        driver = site.driver({**site.connection, "scheduler_ca_path": str(tmp_path / name)})
        found: Place = driver.states([NAME])[NAME].place
        return found

    assert place("one") == place("one") and place("one").is_other(place("other"))
    digest, _blank, address = place("one").scheduler_at.partition(" ")
    assert digest.startswith("sha256:") and address == known_as(site.proxy.url), "one CA may stand before several"
    host, port = site.proxy.url.removeprefix("http://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr(access, "_own_address", lambda: site.proxy.url)
    assert place("one").scheduler_at == digest


def test_r5_whoever_keeps_the_uid_back_is_no_cluster_that_is_known_by_it(site: KubernetesSite) -> None:
    """Its address is the same, and by what the ledger knows of it the name would be filled in."""
    place = site.open().states([NAME])[NAME].place
    site.server.rules["gpufleet"] = [one for one in rules() if one["resources"] != ["namespaces"]]
    for state in ("present", "held", "resumed"):
        with pytest.raises(WrongMachine) as refused:
            node(site, NAME, state, known_scheduler_node=NAME, **place.data("known_"))
        assert "rbac.yaml" in refused.value.do and "moved_to" not in refused.value.do
    assert site.faults.writes == []


def test_r5_a_uid_that_could_not_be_asked_for_is_an_outage_and_no_address(site: KubernetesSite) -> None:
    said(site, 503, b"busy")
    with pytest.raises(Unreachable, match="GET /api/v1/namespaces/kube-system"):
        site.open().states([NAME])
    assert [one.path for one in site.proxy.asked].count(ITSELF) == 1


def said(site: KubernetesSite, code: int, body: bytes) -> None:
    """Instead of the namespace by whose uid a cluster is known."""
    answer = (code, {"Content-Type": "application/json"}, body)
    site.proxy.fault = lambda asked: answer if asked.path == ITSELF else None


def status(code: int, reason: str, message: str = "") -> bytes:
    return json.dumps({"kind": "Status", "code": code, "reason": reason, "message": message}).encode()


def namespace(uid: Any, kind: str = "Namespace") -> bytes:
    return json.dumps({"kind": kind, "metadata": {"name": "kube-system", "uid": uid}}).encode()


@pytest.mark.parametrize(
    ("code", "body", "error"),
    [
        (401, b"", AuthFailed),
        (403, b"<h1>Request blocked</h1>", AuthFailed),
        (403, b'{"message": "blocked"}', BadAnswer),
        (403, status(403, "Forbidden", "not today"), Refused),
        (404, status(404, "NotFound"), BadAnswer),
        (404, b"404 page not found", BadAnswer),
        (200, b'{"kind": "Namespace", "metadata": {"name": "kube-system"}}', BadAnswer),
        (200, namespace(7), BadAnswer),
        (200, namespace("x' -e x='$(reboot)"), BadAnswer),
        (200, namespace("2f0f1d3e-6a0e-4f6f-9a52-0a4f2c1b7d10\n"), BadAnswer),
        (200, namespace("2f0f1d3e-6a0e-4f6f-9a52-0a4f2c1b7d10", "Node"), BadAnswer),
    ],
)
def test_r5_only_the_rules_of_access_keep_a_uid_back(
    site: KubernetesSite, code: int, body: bytes, error: type[FleetError]
) -> None:
    """Else whatever stands before the API server makes a cluster one that is known by its address."""
    said(site, code, body)
    with pytest.raises(error):
        site.open().states([NAME])
    assert [one.path for one in site.proxy.asked].count(ITSELF) == 1
    said(site, 200, namespace("2f0f1d3e-6a0e-4f6f-9a52-0a4f2c1b7d10"))
    assert str(site.open().states([NAME])[NAME].place) == "kubernetes 2f0f1d3e-6a0e-4f6f-9a52-0a4f2c1b7d10"
