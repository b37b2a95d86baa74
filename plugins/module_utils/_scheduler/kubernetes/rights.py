# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks the API server whether we may do what a drain needs, before one begins. Nothing is written. PRIVATE."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.api import Api, demand_taken
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.fields import mapping
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.tables import RIGHTS

_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def lacking(api: Api) -> list[FleetError]:
    denied = [f"{verb} {resource}" for group, resource, verb in _needed() if not _allowed(api, group, resource, verb)]
    if not denied:
        return []
    return [
        Refused(
            "Kubernetes does not let us hold and drain nodes",
            address=api.address,
            wanted=f"the rights to {', '.join(denied)}",
            seen="denied",
            do="grant them: extensions/kubernetes/rbac.yaml has all that the collection asks for",
        )
    ]


def _needed() -> Iterator[tuple[str, str, str]]:
    for group, resource, verbs in RIGHTS:
        for verb in verbs:
            yield group, resource, verb


def _allowed(api: Api, group: str, resource: str, verb: str) -> bool:
    name, _slash, part = resource.partition("/")
    asked = {"group": group, "resource": name, "subresource": part, "verb": verb}
    spec = {"resourceAttributes": {key: value for key, value in asked.items() if value}}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    answer = api.post(_REVIEW, body)
    demand_taken(answer, api.address, f"POST {_REVIEW}")
    return mapping(answer.content, "status").get("allowed") is True
