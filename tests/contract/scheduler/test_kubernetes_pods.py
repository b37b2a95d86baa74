# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods of Kubernetes are work, which of them are asked to leave, and why one does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError
from contract.proxy import Asked
from contract.scheduler.site_kubernetes import KubernetesSite
from contract.scheduler.test_kubernetes import NAME, view
from contract.scheduler.verbs import Line, evidence, node, verdict, wait
from kube_server.people import SPACE


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> KubernetesSite:
    return KubernetesSite(request, tmp_path)


def drained(site: KubernetesSite, **options: Any) -> dict[str, Any]:
    return verdict(wait(site, NAME, **options), NAME)


def test_pods_that_come_back_at_once_are_no_work_and_those_with_gpus_stay(site: KubernetesSite) -> None:
    site.people.pod(NAME, owner="DaemonSet", gpus=0)
    mirror = {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}
    site.people.pod(NAME, owner="Node", gpus=0, more=mirror)
    site.people.pod(NAME, more={"status": {"phase": "Succeeded"}})
    assert view(site).state == "idle" and view(site).work == ()
    agent = site.people.pod(NAME, owner="DaemonSet", gpus=1)
    other = site.people.pod(NAME)
    node(site, NAME, "held")
    found = drained(site, timeout=60, line=Line())
    assert not found["ok"] and found["kind"] == "not_ours" and f"{agent}@" in found["reason"]
    assert "a pod of a DaemonSet with GPUs" in found["reason"]
    assert not site.leaving(other), "nobody is disturbed for a drain that cannot come to its end"


@pytest.mark.parametrize("kind", ["bare", "local_data"])
def test_pods_with_which_something_is_lost_are_asked_where_the_site_says_so(site: KubernetesSite, kind: str) -> None:
    disk = {
        "spec": {"volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "shm", "emptyDir": {"medium": "Memory"}}]}
    }
    job = site.people.pod(NAME, owner="" if kind == "bare" else "Job", more={} if kind == "bare" else disk)
    node(site, NAME, "held")
    found = drained(site, line=Line(), timeout=60)
    assert not found["ok"] and f"({kind}, which gpufleet_scheduler_evict does not say)" in found["reason"]
    assert not site.leaving(job) and "shm" not in found["reason"]
    site.reached = {**site.reached, "scheduler_evict": [kind]}
    assert drained(site, line=Line(at_poll={3: lambda: site.end(job)}))["ok"]


def test_a_policy_that_nobody_knows_is_told(site: KubernetesSite) -> None:
    site.reached = {**site.reached, "scheduler_evict": ["everything"]}
    with pytest.raises(ConfigError, match="scheduler_evict knows no everything"):
        site.open()


def test_a_gang_is_waited_for_unless_the_site_says_otherwise(site: KubernetesSite) -> None:
    job = site.people.pod(NAME, owner="Job", more={"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "team-a"}}})
    node(site, NAME, "held")
    found = drained(site, timeout=0.5)
    assert not found["ok"] and "team-a of Kueue" in found["reason"] and not site.leaving(job)
    site.reached = {**site.reached, "scheduler_evict": "gang"}
    drained(site, timeout=0.5)
    assert site.leaving(job)


def test_a_budget_that_allows_nobody_to_leave_is_told_by_name_and_waited_for(site: KubernetesSite) -> None:
    job = site.people.pod(NAME)
    site.people.budget(job, "keep-serving")
    node(site, NAME, "held")
    found = drained(site, timeout=0.5)
    assert not found["ok"] and job in found["reason"]
    assert "The disruption budget keep-serving needs 1 healthy pods and has 1 currently" in found["reason"]
    del site.server.cluster.of("poddisruptionbudgets")[SPACE, "keep-serving"]
    assert drained(site, line=Line(at_poll={3: lambda: site.end(job)}))["ok"]


def test_a_budget_that_was_not_looked_at_yet_is_waited_for(site: KubernetesSite) -> None:
    site.server.cluster.budgets_reckoned = False
    job = site.people.pod(NAME)
    site.people.budget(job, "new", 0)
    node(site, NAME, "held")
    line = Line(at_poll={2: site.server.cluster.reckon, 4: lambda: site.end(job)})
    assert drained(site, line=line)["ok"]


def test_two_budgets_on_one_pod_are_told_by_name_and_end_the_wait(site: KubernetesSite) -> None:
    job = site.people.pod(NAME)
    for name in ("first", "second"):
        site.people.budget(job, name)
    site.people.budget(site.people.pod("gpu002"), "of-another")
    node(site, NAME, "held")
    line = Line()
    found = drained(site, line=line, timeout=60)
    assert not found["ok"] and line.polls == 1 and "(first, second)" in found["reason"]


def test_a_pod_is_asked_by_its_uid_and_given_its_own_time(site: KubernetesSite) -> None:
    job = site.people.pod(NAME, owner="StatefulSet")
    uid = site.server.cluster.of("pods")[tuple(job.split("/"))]["metadata"]["uid"]
    node(site, NAME, "held")
    held = view(site)

    def namesake(asked: Asked) -> None:
        """It ends, and another one comes under its name, right before it is asked."""
        if asked.path.endswith("/eviction"):
            site.end(job)
            site.people.pod("gpu002", more={"metadata": {"name": job.partition("/")[2]}})

    site.proxy.fault = namesake
    assert site.open().evict(held) == []
    body = json.loads(site.faults.writes[-1].body)
    assert body["deleteOptions"] == {"preconditions": {"uid": uid}} and not site.leaving(job)
    assert view(site).state == "drained"


def test_a_pod_that_has_ended_and_is_kept_is_told_with_what_keeps_it(site: KubernetesSite) -> None:
    job = site.people.pod(NAME, more={"metadata": {"finalizers": ["example.com/stay"]}})
    node(site, NAME, "held")
    wait(site, NAME, timeout=0.3)
    site.server.cluster.of("pods")[tuple(job.split("/"))]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = drained(site, timeout=0.3)
    assert not found["ok"] and "kept by example.com/stay" in found["reason"]


def claimed(site: KubernetesSite, uid: str, name: str = "gone") -> None:
    devices = {"results": [{"request": "gpu", "driver": "gpu.nvidia.com", "pool": NAME, "device": "gpu-0"}]}
    status = {"allocation": {"devices": devices}, "reservedFor": [{"resource": "pods", "name": name, "uid": uid}]}
    site.server.cluster.create("resourceclaims", {"metadata": {"name": "c1", "namespace": SPACE}, "status": status})


def test_devices_that_are_claimed_for_a_pod_which_is_gone_are_work(site: KubernetesSite) -> None:
    claimed(site, "uid-of-nobody")
    node(site, NAME, "held")
    found = drained(site, timeout=0.3)
    assert not found["ok"] and f"claim {SPACE}/c1 (reserved for gone, which is not there" in found["reason"]
    assert evidence(node(site, NAME, "present")) == "not_drained" and view(site, "gpu002").state == "idle"


def test_devices_of_a_pod_that_is_there_are_told_once(site: KubernetesSite) -> None:
    job = site.people.pod(NAME, gpus=0, more={"spec": {"resourceClaims": [{"name": "gpu"}]}})
    claimed(site, site.server.cluster.of("pods")[tuple(job.split("/"))]["metadata"]["uid"])
    assert [one.id.partition("@")[0] for one in view(site).work] == [job]


def test_claims_are_read_in_the_version_that_is_served(site: KubernetesSite) -> None:
    claimed(site, "uid-of-nobody")
    site.server.served["resourceclaims"] = "resource.k8s.io/v1beta1"
    assert len(view(site).work) == 1
    site.server.served["resourceclaims"] = "resource.k8s.io/v1alpha2"
    with pytest.raises(BadAnswer, match="of a version that cannot be read"):
        view(site)
    del site.server.served["resourceclaims"]
    assert view(site).work == ()


def test_of_many_nodes_all_pods_are_one_list(site: KubernetesSite, monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes import driver

    monkeypatch.setattr(driver, "_MANY", 2)
    jobs = [site.people.pod(name) for name in site.names]
    site.people.pod("of-no-interest")
    views = site.open().states(site.names)
    assert [one.jobs[0].partition("@")[0] for one in views.values()] == jobs
    assert len([one for one in site.faults.calls if one.what.startswith("GET /api/v1/pods")]) == 1
