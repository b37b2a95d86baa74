# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many requests the holds of many nodes are, and what becomes of the rest where one of them is refused."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    Changed,
    Refused,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import WORK
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes import driver as kubernetes
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm import rest as slurm
from contract.proxy import Asked
from contract.scheduler.schedulers import SlurmRestSite
from contract.scheduler.site_kubernetes import KubernetesSite
from contract.scheduler.verbs import TOKEN, Line, node, wait
from contract.scheduler.verbs import verdict as told
from suite import services


@pytest.fixture
@services.real
def rest(request: pytest.FixtureRequest, tmp_path: Path) -> SlurmRestSite:
    return SlurmRestSite(request, tmp_path)


@pytest.fixture
def kube(request: pytest.FixtureRequest, tmp_path: Path) -> KubernetesSite:
    return KubernetesSite(request, tmp_path)


def due(site: Any, driver: Any) -> list[Any]:
    views = driver.states(site.names)
    site.faults.forget()
    return [(views[name], TOKEN, WORK) for name in site.names]


def asked(site: Any) -> list[str]:
    return [call.what for call in site.faults.calls]


# -- slurmrestd ----------------------------------------------------------------------------------------------------


def test_slurmrestd_holds_and_resumes_any_number_by_three_requests(rest: SlurmRestSite) -> None:
    driver = rest.open()
    assert driver.hold_each(due(rest, driver)) == {}
    table = ["GET /slurm/v0.0.44/nodes/", "GET /slurm/v0.0.44/reservations/"]
    assert asked(rest) == [*table, "POST /slurm/v0.0.44/nodes/"]
    body = json.loads(rest.faults.writes[0].body)
    assert body == {"name": list(rest.names), "state": ["DRAIN"], "reason": TOKEN}
    assert [rest.texts(name) for name in rest.names] == [[TOKEN]] * 3
    views = driver.states(rest.names)
    rest.faults.forget()
    assert driver.resume_each(list(views.values())) == {}
    assert asked(rest) == [*table, "POST /slurm/v0.0.44/nodes/"] and not any(map(rest.texts, rest.names))


def test_a_write_holds_so_many_names_and_no_more(rest: SlurmRestSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "AT_ONCE", 2)
    driver = rest.open()
    assert driver.hold_each(due(rest, driver)) == {} and all(map(rest.texts, rest.names))
    assert [one.partition("v0.0.44/")[2] for one in asked(rest) if "POST" in one] == ["nodes/", f"node/{rest.names[2]}"]


def test_a_version_that_changes_one_node_at_a_time_is_asked_so(rest: SlurmRestSite) -> None:
    rest.rest.writes_many = False
    driver = rest.open()
    assert driver.hold_each(due(rest, driver)) == {}
    assert [one.partition("v0.0.44/")[2] for one in asked(rest) if "POST" in one] == [
        f"node/{one}" for one in rest.names
    ]


def test_h1_a_write_that_is_refused_and_half_done_is_read_back_and_each_node_is_judged(rest: SlurmRestSite) -> None:
    """As measured: 422, and those that Slurm knows are drained. The second one is renamed in between."""
    driver = rest.open()
    views = due(rest, driver)
    first, gone, last = rest.names
    rest.rest.renamed = {gone: "gpu999"}
    failed = driver.hold_each(views)
    assert set(failed) == {gone} and isinstance(failed[gone], Refused), failed
    assert rest.texts(first) == [TOKEN] == rest.texts(last) and rest.texts(gone) == []
    assert [one.partition("v0.0.44/")[2] for one in asked(rest) if "POST" in one] == ["nodes/", f"node/{gone}"]


@pytest.mark.parametrize(
    ("bend", "kind"),
    [
        (lambda content: {**content, "warnings": [{"description": 'Ignoring unknown field "state"'}]}, BadAnswer),
        (lambda content: {**content, "errors": [{"error_number": 2010, "error": "Invalid user id"}]}, AuthFailed),
    ],
)
def test_what_concerns_all_is_not_tried_with_each(
    rest: SlurmRestSite, bend: Callable[[Any], Any], kind: type[Exception]
) -> None:
    """And what was done all the same is no failure."""
    driver = rest.open()
    views = due(rest, driver)
    rest.rest.forgets = True
    rest.rest.bent["nodes"] = lambda content: content if "nodes" in content else bend(content)
    failed = driver.hold_each(views)
    assert set(failed) == set(rest.names) and all(isinstance(one, kind) for one in failed.values()), failed
    assert len(rest.faults.writes) == 1
    rest.rest.forgets = False
    assert driver.hold_each(due(rest, driver)) == {} and all(map(rest.texts, rest.names))


# -- Kubernetes ----------------------------------------------------------------------------------------------------


class AtOnce:
    """How many requests of a kind are under way at a time; the first few wait for each other."""

    def __init__(self, method: str, wanted: int) -> None:
        self.most, self._now, self._method = 0, 0, method
        self._lock, self._meet = threading.Lock(), threading.Barrier(wanted)
        self._first = itertools.count()
        self._wanted = wanted

    def __call__(self, request: Asked) -> Optional[Any]:
        if request.method == self._method:
            with self._lock:
                self._now += 1
                self.most = max(self.most, self._now)
            if next(self._first) < self._wanted:
                self._meet.wait(20)
            with self._lock:
                self._now -= 1
        return None


@pytest.fixture
def many(kube: KubernetesSite) -> KubernetesSite:
    kube.names = tuple(f"gpu{number:03d}" for number in range(1, 31))
    for name in kube.names[3:]:
        kube.people.node(name)
    return kube


def test_kubernetes_holds_and_resumes_eight_at_once_after_one_list(many: KubernetesSite) -> None:
    driver = many.open()
    views = due(many, driver)
    many.proxy.fault = seen = AtOnce("PATCH", 8)
    assert driver.hold_each(views) == {} and seen.most == 8
    assert [one.what.partition("?")[0] for one in many.faults.reads] == ["GET /api/v1/nodes"]
    assert len(many.faults.writes) == len(many.names) and all(map(many.texts, many.names))
    held = driver.states(many.names)
    many.proxy.fault = seen = AtOnce("PATCH", 8)
    assert driver.resume_each(list(held.values())) == {} and seen.most == 8 and not any(map(many.texts, many.names))


def test_of_many_one_that_changed_and_one_that_nobody_answers_for_are_their_own_trouble(many: KubernetesSite) -> None:
    driver = many.open()
    views = due(many, driver)
    changed, silent, late = many.names[4], many.names[7], many.names[9]
    many.people.heartbeat(changed)

    def fault(request: Asked) -> Optional[Any]:
        if request.method == "PATCH" and request.path.endswith(late):
            many.people.heartbeat(late)
        return (503, {}, b"") if request.method == "PATCH" and request.path.endswith(silent) else None

    many.proxy.fault = fault
    failed = driver.hold_each(views)
    kinds = {name: type(one) for name, one in failed.items()}
    assert kinds == {changed: Changed, silent: Unreachable, late: Changed}, failed
    assert [name for name in many.names if not many.texts(name)] == [changed, silent, late]


def test_what_one_list_of_many_cannot_tell_is_no_verdict_on_those_of_another(
    many: KubernetesSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were held, and are told so."""
    monkeypatch.setattr(kubernetes, "_NAMES", 10)
    driver = many.open()
    views = due(many, driver)
    many.proxy.fault = lambda asked: (503, {}, b"") if many.names[15] in asked.query else None
    failed = driver.hold_each(views)
    assert list(failed) == list(many.names[10:20]) and all(isinstance(one, Unreachable) for one in failed.values())
    assert len(set(map(id, failed.values()))) == 10, "what is added to one is said of no other"
    assert [name for name in many.names if not many.texts(name)] == list(failed)


def test_pods_of_many_nodes_are_asked_to_leave_eight_at_once(many: KubernetesSite) -> None:
    jobs = [many.people.pod(name) for name in many.names]
    for name in many.names:
        node(many, name, "held")
    last = many.names[-1]
    many.server.webhook[jobs[-1].partition("/")[2]] = (403, "for good")
    seen = AtOnce("POST", 8)

    def leave() -> None:
        assert seen.most == 8 and [many.leaving(job) for job in jobs] == [True] * 29 + [False]
        for job in jobs[:-1]:
            many.end(job)

    many.proxy.fault = seen
    result = wait(many, *many.names, line=Line(at_poll={2: leave}), timeout=60)
    assert [name for name in many.names if not told(result, name)["ok"]] == [last]
    assert "for good" in told(result, last)["reason"]


def test_a_pod_of_a_node_that_is_not_ours_any_more_is_not_asked(many: KubernetesSite) -> None:
    """Its lease is lost after it was judged, and before its turn came."""
    first, second = many.names[:2]
    jobs = {name: many.people.pod(name) for name in (first, second)}
    driver = many.open()
    for name in jobs:
        node(many, name, "held")
    views = driver.states(list(jobs))

    def still(name: str) -> None:
        if name == second:
            raise Changed("the lease is gone", node=name)

    found = driver.evict_each(list(views.values()), still)
    assert found[first] == [] and isinstance(found[second], Changed)
    assert many.leaving(jobs[first]) and not many.leaving(jobs[second])
    assert kubernetes._AT_ONCE == 8
