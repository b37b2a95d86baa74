# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The passport's in-toto statement: built from evidence, and judged against machine, time and policy.

PRIVATE to the collection. Format: docs/reference/passport.md. A node's identity is the statement's subject: one entry
each for chassis serial, system UUID and every GPU, whose digest is the SHA-256 of the value in its name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._image import differing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import looked_at
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.identity import (
    AS_ROOT,
    BECOME,
    differences,
    other_gpus,
    unheard,
    untold,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.node import seconds
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.policy import Setting, greatest_age, least
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.question import weaker
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import utc

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://gpufleet.dev/passport/v1"
_PREFIXES = {"serial": "chassis-serial", "system_uuid": "system-uuid", "gpu_uuids": "gpu-uuid"}
_LONGER = "let passports live longer (passport_lifetime) than is waited for a node (join_timeout)"
#: What a passport keeps of a verdict.
_OF_GATE = ("verdict", "checks", "findings", "tool", "argv", "profile", "asked", "started", "ended", "evidence_digest")
#: These judge by the image's signed manifest, and by no profile of the SKU.
BY_MANIFEST = ("image_verify",)
#: What every gate in a passport must have, to mean anything to somebody else.
_GATE_KEYS = ("gate", "verdict", "checks", "tool", "at", "evidence_digest")


def build(
    identity: Mapping[str, Any],
    gates: Sequence[Mapping[str, Any]],
    *,
    image: Mapping[str, Any],
    issuer: Mapping[str, Any],
    policy: Mapping[str, Any],
    issued: float,
    expires: float,
    extra: Mapping[str, Any],
) -> dict[str, Any]:
    """The statement. ``gates`` are verdict events of the ledger; ``extra`` is kept where it has content."""
    predicate: dict[str, Any] = {
        "schema": 1,
        "image": dict(image),
        "gates": [gate_of(event) for event in gates],
        "policy": dict(policy),
        "issuer": dict(issuer),
        "issued": utc(issued),
        "expires": utc(expires),
    }
    predicate.update({key: value for key, value in extra.items() if value not in (None, "", [], {})})
    return {
        "_type": STATEMENT_TYPE,
        "subject": subject_of(identity),
        "predicateType": PREDICATE_TYPE,
        "predicate": predicate,
    }


def deployment_of(predicate: Mapping[str, Any]) -> str:
    """The deployment that the passport is of; empty where it names none."""
    told = predicate.get("deployment")
    return str(told.get("id") or "") if isinstance(told, Mapping) else ""


def boot_of(predicate: Mapping[str, Any]) -> str:
    """The boot that the gates have seen; empty where it names none."""
    return str(predicate.get("boot_id") or "")


def subject_of(identity: Mapping[str, Any]) -> list[dict[str, Any]]:
    pairs = [(key, identity[key]) for key in ("serial", "system_uuid") if identity[key]]
    pairs += [("gpu_uuids", gpu) for gpu in identity["gpu_uuids"]]
    return [
        {"name": f"{_PREFIXES[key]}:{value}", "digest": {"sha256": hashlib.sha256(value.encode()).hexdigest()}}
        for key, value in pairs
    ]


def gate_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """A verdict event as the passport keeps it; ``at`` is when the node was looked at, by the ledger's clock."""
    data = event["data"]
    kept = {key: data[key] for key in _OF_GATE if data.get(key) not in (None, "", [], {}) or key == "checks"}
    return {"gate": event["name"], **kept, "event": event["id"], "at": utc(looked_at(event))}


def identity_of(statement: Mapping[str, Any]) -> dict[str, Any] | None:
    """Whom the statement is about; None where its subject cannot be read, or does not fit its own digests."""
    found: dict[str, Any] = {"serial": "", "system_uuid": "", "gpu_uuids": []}
    kinds = {prefix: key for key, prefix in _PREFIXES.items()}
    subject = statement.get("subject")
    for item in subject if isinstance(subject, list) else []:
        if not isinstance(item, Mapping):
            return None
        prefix, _colon, value = str(item.get("name") or "").partition(":")
        key = kinds.get(prefix)
        if not key or not value or item.get("digest") != {"sha256": hashlib.sha256(value.encode()).hexdigest()}:
            return None
        if key == "gpu_uuids":
            found[key].append(value)
        elif found[key]:
            return None
        else:
            found[key] = value
    found["gpu_uuids"].sort()
    return found if found["serial"] or found["system_uuid"] else None


def judge(
    statement: Mapping[str, Any],
    *,
    now: float,
    policy: Mapping[str, Any],
    machine: Mapping[str, Any] | None,
    image: Mapping[str, Any] | None,
    skew: float,
    valid_for: int = 0,
) -> list[str]:
    """Why this statement admits nothing; empty where it does.

    :param machine: this machine's identity; None where only the document is looked at.
    :param image: the image that is wanted; None for any.
    :param valid_for: seconds that it must still live.
    """
    if statement.get("_type") != STATEMENT_TYPE or statement.get("predicateType") != PREDICATE_TYPE:
        return [f"type: not a statement of type {PREDICATE_TYPE}"]
    predicate = statement.get("predicate")
    subject = identity_of(statement)
    if not isinstance(predicate, Mapping) or predicate.get("schema") != 1:
        return ["predicate: not schema 1"]
    if subject is None:
        return ["subject: not one machine, or not what its digests say"]
    reasons = strangers(subject, machine) if machine is not None else []
    if policy["require_gpus"] and not subject["gpu_uuids"]:
        reasons.append("subject: it names no GPU")
    times, told = _times(predicate)
    reasons += told
    if times:
        reasons += _in_time(times, now, policy, skew, valid_for)
        reasons += _gates(predicate, times[0], policy, skew)
    return reasons + _image(predicate.get("image"), image)


def strangers(subject: Mapping[str, Any], machine: Mapping[str, Any]) -> list[str]:
    """Why the subject is not this machine; how a machine was asked that told no name is the site's to set, and which
    GPUs it has is its own all the same."""
    told = differences(subject, machine)
    if not untold(machine):
        return told
    gpus = [] if unheard(machine) else other_gpus(subject, machine)
    return [Setting(f"{told[0]}, which {AS_ROOT}", BECOME), *gpus]


def _times(predicate: Mapping[str, Any]) -> tuple[tuple[float, float] | None, list[str]]:
    try:
        return (seconds(str(predicate["issued"])), seconds(str(predicate["expires"]))), []
    except (KeyError, ConfigError):
        return None, ["predicate: issued or expires cannot be read"]


def _in_time(
    times: tuple[float, float], now: float, policy: Mapping[str, Any], skew: float, valid_for: int
) -> list[str]:
    issued, expires = times
    reasons = []
    if now >= expires:
        reasons.append(f"expired: it was good until {utc(expires)}")
    elif expires - now < valid_for:
        told = f"expired: it is good until {utc(expires)}, and {valid_for} s more were asked for"
        # What is asked for longer than it lives at all, no passport of any node is good for.
        reasons.append(Setting(told, _LONGER) if valid_for >= expires - issued else told)
    if issued > now + skew:
        reasons.append(f"future: it was issued at {utc(issued)}, which is {issued - now:.0f} s from now")
    if expires - issued > policy["max_lifetime"]:
        told = f"policy: it lives {expires - issued:.0f} s, allowed are {policy['max_lifetime']} s"
        reasons.append(Setting(told, "set passport_lifetime to no more than the max_lifetime of the policy"))
    return reasons


def _gates(predicate: Mapping[str, Any], issued: float, policy: Mapping[str, Any], skew: float) -> list[str]:
    gates = predicate.get("gates")
    if not isinstance(gates, list) or not all(
        isinstance(gate, Mapping) and all(key in gate for key in _GATE_KEYS) for gate in gates
    ):
        return ["predicate: a gate is incomplete"]
    named = {str(gate["gate"]): gate for gate in gates}
    if len(named) != len(gates):
        return ["predicate: a gate comes twice"]
    reasons = [f"gate {name}: {gate['verdict']}" for name, gate in named.items() if gate["verdict"] == "fail"]
    for name in policy["required_gates"]:
        reasons += _required(name, named.get(name), issued, policy, skew)
    return reasons


def _required(
    name: str, gate: Mapping[str, Any] | None, issued: float, policy: Mapping[str, Any], skew: float
) -> list[str]:
    if gate is None:
        return [Setting(f"policy: the gate {name} is required, and the passport has none")]
    reasons = []
    if gate["verdict"] not in ("pass", "fail"):
        reasons.append(f"gate {name}: {gate['verdict']}")
    if not gate["checks"]:
        reasons.append(f"gate {name}: nothing was measured")
    try:
        age = issued - seconds(str(gate["at"]))
    except ConfigError:
        return [*reasons, f"gate {name}: its time cannot be read"]
    allowed = greatest_age(policy, name, gate.get("asked"))
    if age > allowed:
        reasons.append(Setting(f"policy: the gate {name} was {age:.0f} s old, allowed are {allowed:.0f} s"))
    if age < -skew:
        reasons.append(f"gate {name}: it was judged {-age:.0f} s after the passport was issued")
    short = weaker(gate.get("asked"), least(policy).get(name, {}))
    if short:
        reasons.append(_asked(gate.get("asked"), f"policy: the gate {name} answers too little: {short}"))
    wanted = policy.get("profile_digest")
    profile = gate.get("profile")
    digest = profile.get("digest") if isinstance(profile, Mapping) else None
    if wanted and name not in BY_MANIFEST and digest != wanted:
        reasons.append(_asked(digest, f"policy: the gate {name} was judged by another profile: {digest or 'none'}"))
    return reasons


def _asked(said: Any, reason: str) -> str:
    """A reason that lies with policy and question, where the gate says what it was asked."""
    return Setting(reason) if said else reason


def _image(found: Any, wanted: Mapping[str, Any] | None) -> list[str]:
    if not isinstance(found, Mapping) or not found.get("manifest_sha256") or not found.get("name"):
        return ["predicate: the image is not named"]
    return [f"image: the passport is for {key} {has}, wanted {given}" for key, has, given in differing(found, wanted)]
