# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes: what the contract suite needs, over :mod:`kube_server`, with the rights of the shipped role alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.driver import Kubernetes
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import run_of
from contract.faults import HTTP_WAYS, HttpFaults
from contract.proxy import Proxy
from contract.scheduler.schedulers import EvictingSite
from kube_server.people import HOLD, REASON, People
from kube_server.server import KubeServer

RBAC = Path(__file__).parents[3] / "extensions" / "kubernetes" / "rbac.yaml"
TOKENS = {"ours-secret": "gpufleet", "admins-secret": "admin"}


def rules() -> list[dict[str, Any]]:
    """Of the role that is shipped."""
    found = [one for one in yaml.safe_load(RBAC.read_text(encoding="utf-8"))["items"] if one["kind"] == "ClusterRole"]
    return [rule for one in found for rule in one["rules"]]


class KubernetesSite(EvictingSite):
    driver = Kubernetes
    wrong_names = ("gpu001,gpu002", "", "*", "gpu001/status", "GPU001", "gpu001 ", "-a", "..", "gpu001?watch=1")
    _WAYS = {
        **HTTP_WAYS,
        "busy": (429, {"Content-Type": "application/json", "Retry-After": "1"}, b'{"kind": "Status", "code": 429}'),
        "another program's 404": (404, {"Content-Type": "text/plain"}, b"404 page not found"),
        "a list without a kind": (200, {"Content-Type": "application/json"}, b'{"items": []}'),
    }

    def __init__(self, request: pytest.FixtureRequest, folder: Path) -> None:
        self.server = KubeServer(TOKENS, {"gpufleet": rules()})
        request.addfinalizer(self.server.close)
        self.people = People(self.server.cluster)
        for name in self.names:
            self.people.node(name)
        self.proxy = Proxy(self.server.url)
        request.addfinalizer(self.proxy.close)
        self.faults = HttpFaults(self.proxy, self._WAYS)
        self.reached = {"scheduler_url": self.proxy.url, "scheduler_token": "ours-secret"}

    def raw(self, name: str) -> dict[str, Any]:
        return self.server.cluster.of("nodes")["", name]

    def hold(self, name: str, text: str) -> None:
        if text.startswith("gpufleet:"):
            run = re.sub(r"\A[^A-Za-z0-9]+|[^A-Za-z0-9]+\Z", "", run_of(text))
            self.people.hold(name, text, run, by="another")
        else:
            self.people.cordon(name, text)

    def lift(self, name: str) -> None:
        self.people.free(name)

    def texts(self, name: str) -> list[str]:
        node = self.raw(name)
        told = node["metadata"].get("annotations") or {}
        taints = node["spec"].get("taints") or []
        found = [told[HOLD]] if HOLD in told and HOLD in [one["key"] for one in taints] else []
        cordoned = node["spec"].get("unschedulable") and (REASON in told or not found)
        found += [told.get(REASON, "")] if cordoned else []
        others = (HOLD, "node.kubernetes.io/unschedulable")
        return found + [f"{one['key']}:{one['effect']}" for one in taints if one["key"] not in others]

    def take_down(self, name: str) -> None:
        self.people.condition(name, "MemoryPressure", "True")

    def lose(self, name: str) -> None:
        self.silence(name)

    def change(self, name: str) -> None:
        self.people.heartbeat(name)

    def start(self, name: str) -> str:
        return self.people.pod(name)

    def end(self, job: str) -> None:
        self.people.ends(job)

    def silence(self, name: str) -> None:
        self.people.condition(name, "Ready", "Unknown")

    def wake(self, name: str) -> None:
        self.people.boot(name, "boot-2")

    def damage(self, name: str) -> None:
        self.people.gpus(name, 7)

    def repair(self, name: str) -> None:
        self.people.gpus(name, 8)

    def guard(self, name: str, reason: str, *, for_good: bool = False) -> str:
        job = self.people.pod(name)
        self.server.webhook[job.partition("/")[2]] = (403 if for_good else 429, reason)
        return job

    def leaving(self, job: str) -> bool:
        space, _slash, name = job.partition("/")
        return "deletionTimestamp" in self.server.cluster.of("pods")[space, name]["metadata"]
