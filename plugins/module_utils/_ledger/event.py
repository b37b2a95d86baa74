# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb ``ledger_event``: what a playbook may write into the ledger itself. PRIVATE to the collection.

Notes, measures, attempts at a remedy, and the lifecycle state. Everything that permits something (evidence,
maintenance, holds, verdicts, passports) is written by the verb that saw it, and by nobody else: who could write
"drained" by hand could power off a node under a running job. The one exception is a failed verdict, which a person may
lift: who, why and which one stand in the event, and in each passport that rests on it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FLEET, FOR_ALL, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, EvidenceMissing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.adoption import adopted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifecycle import (
    BEGINNINGS,
    STATES,
    objection,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import redact
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import REMEDIES

#: What can be tried on a node: a remedy, or a new image, which no finding names as its remedy.
ATTEMPTS = (*REMEDIES, "reimage")

#: A person takes a gate's failures off a node, which no weaker look can do.
LIFT = "lift"

SPEC = spec(
    FLEET,
    FOR_ALL,
    kind={"type": "str", "choices": ["note", "measure", "attempt", "state", LIFT]},
    name={"type": "str"},
    state={"type": "str", "choices": list(STATES)},
    reason={"type": "str"},
    remedy={"type": "str", "choices": list(ATTEMPTS)},
    data={"type": "dict"},
    adoption={
        "type": "dict",
        "options": {
            **{key: {"type": "dict"} for key in ("scheduler", "provisioner", "machine", "name")},
            "passport": {"type": "dict", "no_log": False},
            "looks": {"type": "list", "elements": "dict"},
            "other_name": {"type": "bool", "default": False},
        },
    },
    lifted_by={"type": "str"},
    known={"type": "dict"},
)
RULES = {"mutually_exclusive": [("state", "name")]}

#: Set by this verb alone, whatever a task gives in ``data``.
_OWN = ("reason", "remedy", "from", "forced", "evidence", "by", "failures", "deploy_id")
#: Bytes of a deployment's id: nobody guesses it, and none of another ledger's is the same.
_DEPLOY_ID_BYTES = 16


class FailureStands(EvidenceMissing):
    """A failure stands against the node, and nothing else: a verdict about it."""

    kind = "failure_stands"


def is_state(params: Mapping[str, Any]) -> bool:
    return bool(params.get("state")) or params.get("kind") == "state"


def ledger_event(params: Mapping[str, Any], ctx: Context) -> Result:
    """The event to append. ``params["known"]`` is what the ledger knows of the node, filled by the action."""
    if params.get("known") is None:
        raise ConfigError(
            "only the controller has the ledger",
            node=ctx.node,
            do="call ledger_event as an ordinary task of the play; its action writes on the controller",
        )
    return _state(params, ctx) if is_state(params) else _plain(params, ctx)


def _plain(params: Mapping[str, Any], ctx: Context) -> Result:
    kind = params.get("kind") or "note"
    if kind == LIFT:
        return _lift(params, ctx)
    name = params.get("name") or (params.get("remedy") if kind == "attempt" else "")
    data = _data(params)
    if not name:
        raise ConfigError(f"a {kind} needs a name", node=ctx.node, do="give name")
    if kind == "attempt" and (name not in ATTEMPTS or not data.get("reason")):
        raise ConfigError(
            "an attempt names its remedy and the finding that asked for it",
            node=ctx.node,
            wanted=f"name or remedy: one of {', '.join(ATTEMPTS)}; reason: the finding",
            seen=f"{name}; reason: {data.get('reason') or 'none'}",
        )
    return Result(changed=True, data={"kind": kind, "name": name}, events=[Event(kind, name, data)])


def _lift(params: Mapping[str, Any], ctx: Context) -> Result:
    """On record: which failures, by whom, and why."""
    wanting = [name for name in ("name", "reason", "lifted_by") if not str(params.get(name) or "").strip()]
    if wanting:
        raise ConfigError(
            "a failure is lifted by a person, for a reason",
            node=ctx.node,
            wanted="name: the gate; reason: why the failure says nothing of the node; lifted_by: who answers for that",
            seen=f"nothing in {', '.join(wanting)}",
        )
    gate = str(params["name"])
    failures = [event["id"] for event in params["known"].get("failures") or []]
    if not failures:
        data = {"kind": LIFT, "name": gate, "lifted": []}
        return Result(changed=False, data=data)
    more = _data({"data": params.get("data")})
    said: dict[str, Any] = redact({**more, "by": params["lifted_by"], "reason": params["reason"], "failures": failures})
    return Result(changed=True, data={"kind": LIFT, "name": gate, "lifted": failures}, events=[Event(LIFT, gate, said)])


def _data(params: Mapping[str, Any]) -> dict[str, Any]:
    data = {key: value for key, value in (params.get("data") or {}).items() if key not in _OWN}
    data.update({key: params[key] for key in ("reason", "remedy") if params.get(key)})
    # The ledger masks secrets by itself; the result of the task is masked here.
    masked: dict[str, Any] = redact(data)
    return masked


def _state(params: Mapping[str, Any], ctx: Context) -> Result:
    target = params.get("state") or params.get("name") or ""
    if params.get("kind") not in (None, "state"):
        raise ConfigError(f"kind is {params['kind']}, and a state is given", node=ctx.node, do="leave kind out")
    if target not in STATES:
        raise ConfigError(f"there is no state {target!r}", node=ctx.node, wanted=", ".join(STATES))
    known = params["known"]
    last = known.get("state")
    current = last["name"] if last else "discovered"
    data = _data(params)
    if params.get("adoption") is not None:
        data, known = _adoption(params, target, data, ctx.node), {**known, "judged": True}
    answer: dict[str, Any] = {"kind": "state", "name": target, "state": target}
    if last and current == target and target not in BEGINNINGS and _same(last["data"], data):
        answer.update(event_id=last["id"], at=last["at"])
        return Result({"state": current}, {"state": target}, False, answer)
    problem, wanted = objection(current, target, known, data, float(known.get("now") or time.time()))
    if problem and ctx.check_mode:
        # Whatever would have given that evidence was only predicted before this task as well.
        answer["needs"] = wanted
    elif problem and not params.get("force_reason"):
        raise _refusal(current, target, known, data)(
            problem,
            node=ctx.node,
            wanted=wanted,
            seen=f"{current}" + (f" since event {last['id']}" if last else ", never seen"),
            do="do what is wanted first, or give force_reason, which is recorded",
        )
    data["from"] = current
    if target == "imaging":
        # Known to the ledger before anybody is asked to deploy: a run that is killed goes on with the same one.
        data["deploy_id"] = answer["deploy_id"] = secrets.token_hex(_DEPLOY_ID_BYTES)
    if problem and params.get("force_reason"):
        data["forced"] = params["force_reason"]
    event = Event("state", target, data)
    return Result({"state": current}, {"state": target}, True, answer, [event])


def _adoption(params: Mapping[str, Any], target: str, data: dict[str, Any], node: str) -> dict[str, Any]:
    """What is recorded of an adoption, which is judged here: in check mode too, before its gates are run."""
    if target != "admitted":
        raise ConfigError("adoption is a way into admitted", node=node, seen=target, do="leave adoption out")
    told: dict[str, Any] = redact(adopted(params["adoption"], params["known"].get("site") or {}, node))
    return {**told, **data}


def _refusal(current: str, target: str, known: Mapping[str, Any], data: Mapping[str, Any]) -> type[EvidenceMissing]:
    """Of which kind it is that the node may not: is a failure all that stands against it?"""
    problem, _wanted = objection(
        current, target, {**known, "standing": ()}, data, float(known.get("now") or time.time())
    )
    return EvidenceMissing if problem else FailureStands


def _same(recorded: Mapping[str, Any], data: Mapping[str, Any]) -> bool:
    return {key: value for key, value in recorded.items() if key not in ("from", "forced")} == dict(data)
