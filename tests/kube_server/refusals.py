# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API server's own words, as kube-apiserver 1.36.2 was seen to say them."""

from __future__ import annotations

from typing import Any, NamedTuple

_GROUPS = {"resourceclaims": "resource.k8s.io", "poddisruptionbudgets": "policy"}


class Answer(NamedTuple):
    code: int
    content: dict[str, Any]
    headers: dict[str, str] = {}


def status(code: int, message: str, reason: str = "", details: Any = None) -> Answer:
    told = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    more = {"reason": reason, "details": details}
    return Answer(
        code, {**told, **{key: value for key, value in more.items() if value is not None and value != ""}, "code": code}
    )


SUCCESS = Answer(201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})


def unauthorized() -> Answer:
    return status(401, "Unauthorized", "Unauthorized")


def forbidden(user: str, verb: str, kind: str, space: str, name: str) -> Answer:
    """kind: with its part, as ``pods/eviction``."""
    plain = kind.partition("/")[0]
    group = _GROUPS.get(plain, "")
    where = f'in the namespace "{space}"' if space else "at the cluster scope"
    of = f"{plain}.{group}" if group else plain
    whose = f'{of} "{name}" is' if name else f"{of} is"
    words = f'{whose} forbidden: User "{user}" cannot {verb} resource "{kind}" in API group "{group}" {where}'
    details = {**({"name": name} if name else {}), **({"group": group} if group else {}), "kind": plain}
    return status(403, words, "Forbidden", details)


def not_found(kind: str, name: str) -> Answer:
    return status(404, f'{kind} "{name}" not found', "NotFound", {"name": name, "kind": kind})


def no_path() -> Answer:
    return status(404, "the server could not find the requested resource", "NotFound", {})


def modified(kind: str, name: str) -> Answer:
    words = "the object has been modified; please apply your changes to the latest version and try again"
    said = f'Operation cannot be fulfilled on {kind} "{name}": {words}'
    return status(409, said, "Conflict", {"name": name, "kind": kind})


def invalid(kind: str, name: str, field: str, why: str, cause: str = "FieldValueInvalid") -> Answer:
    causes = [{"reason": cause, "message": why, "field": field}]
    details = {"name": name, "kind": kind, "causes": causes}
    return status(422, f'{kind} "{name}" is invalid: {field}: {why}', "Invalid", details)


def unfit() -> Answer:
    return status(422, "the server rejected our request due to an error in our request", "Invalid", {})


def expired(token: str) -> Answer:
    words = (
        "The provided continue parameter is too old to display a consistent list result. You can start a new list"
        " without the continue parameter, or use the continue token in this response to retrieve the remainder of the"
        " results. Continuing with the provided token results in an inconsistent list - objects that were created,"
        " modified, or deleted between the time the first chunk was returned and now may show up in the list."
    )
    answer = status(410, words, "Expired")
    answer.content["metadata"] = {"continue": token}
    return answer


def bad_request(words: str) -> Answer:
    return status(400, words, "BadRequest")


def unfit_selector(key: str, number: int, value: str) -> Answer:
    why = "must be no more than 63 bytes" if len(value) > 63 else "a valid label must be an empty string or consist of"
    return bad_request(f'unable to parse requirement: values[{number}][{key}]: Invalid value: "{value}": {why}')


_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."


def budget(name: str, why: str) -> Answer:
    causes = [{"reason": "DisruptionBudget", "message": f"The disruption budget {name} {why}"}]
    return status(429, _VIOLATES, "TooManyRequests", {"causes": causes})


def budget_unseen(name: str) -> Answer:
    answer = budget(name, "is still being processed by the server.")
    answer.content["details"]["retryAfterSeconds"] = 10
    return answer._replace(headers={"Retry-After": "10"})


def two_budgets() -> Answer:
    words = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    return status(500, words)


def other_uid(name: str, asked: str, there: str) -> Answer:
    why = f"the UID in the precondition ({asked}) does not match the UID in record ({there})."
    words = (
        f'Operation cannot be fulfilled on Pod "{name}": {why} The object might have been deleted and then recreated'
    )
    return status(409, words, "Conflict", {"name": name, "kind": "Pod"})


def by_webhook(code: int, why: str) -> Answer:
    """A site's own, which is asked before each eviction."""
    reason = {403: "Forbidden", 429: "TooManyRequests"}.get(code, "InternalError")
    return status(code, f'admission webhook "guard.example.com" denied the request: {why}', reason)
