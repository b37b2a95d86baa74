# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks a pod to leave, and reads why it may not. PRIVATE to the collection.

Measured with 1.36: 201 is "asked", also of a pod that is ending already, and no more than that. 429 has a cause where a
budget says no, and none where the API server is busy, or a webhook of the site's refuses. Two budgets on one pod are
500, and stay it until a person acts. A pod is named by its uid, since one of a StatefulSet comes back under its name;
and no grace period is sent: 0 would take the object away while the containers go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Refusal, Work
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.answer import Answer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.api import Api, demand_taken
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.fields import (
    mapping,
    rows,
    shown,
    word,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import GATEWAY

#: It is gone, or another one has its name.
_GONE = (404, 409)


def evict_one(api: Api, work: Work) -> Optional[Refusal]:
    """None where it leaves, or has left. :raises FleetError: where nobody could be asked."""
    place, _at, uid = work.id.partition("@")
    space, _slash, name = place.partition("/")
    path = f"/api/v1/namespaces/{space}/pods/{name}/eviction"
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": space},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    answer = api.post(path, body)
    if answer.code in _GONE:
        return None
    if answer.code == 429:
        return Refusal(work.id, _why_not_yet(answer))
    if answer.code == 403:  # by a budget that cannot be reckoned with; what access forbids was raised
        return Refusal(work.id, answer.words, for_good=True)
    if answer.code == 500 and "PodDisruptionBudget" in answer.words:
        return Refusal(work.id, f"{answer.words}{_budgets(api, space, name)}", for_good=True)
    if answer.code in GATEWAY or answer.code >= 500:
        return Refusal(work.id, answer.words)
    demand_taken(answer, api.address, f"POST {path}")
    return None


def _why_not_yet(answer: Answer) -> str:
    told = [str(one.get("message")) for one in answer.causes if one.get("message")]
    return shown(told) if told else answer.words


def _budgets(api: Api, space: str, name: str) -> str:
    """Those that claim the pod, by name: the refusal does not say."""
    try:
        pod = api.get(f"/api/v1/namespaces/{space}/pods/{name}") or {}
        labels = mapping(pod, "metadata", "labels")
        path = f"/apis/policy/v1/namespaces/{space}/poddisruptionbudgets"
        found = api.listed(path, lambda one: word(one, "metadata", "name") if _selects(one, labels) else None)
    except FleetError:
        return ""
    return f" ({shown(found)})" if found else ""


def _selects(budget: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    selector = mapping(budget, "spec", "selector")
    same = all(labels.get(key) == value for key, value in mapping(selector, "matchLabels").items())
    return same and all(_meets(rule, labels) for rule in rows(selector, "matchExpressions"))


def _meets(rule: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    key, values = str(rule.get("key")), rule.get("values") or []
    meets = {
        "In": lambda: labels.get(key) in values,
        "NotIn": lambda: labels.get(key) not in values,
        "Exists": lambda: key in labels,
        "DoesNotExist": lambda: key not in labels,
    }.get(str(rule.get("operator")), lambda: False)
    return bool(meets())
