# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb ``node_passport``: issue a node's passport, verify one, or write it to a file. PRIVATE to the collection.

What the ledger knows is handed over by the action as ``params["evidence"]``:

- ``node``: ``{"id", "name"}``; ``run``, ``controller``: who issues.
- ``verdicts``: the newest verdict event of each gate since the node was last imaged.
- ``history``: all verdicts that may stand against the node, and what persons have lifted, oldest first.
- ``now``: the time by the clock that dated these events.
- ``profile_problem``: why the profile in force is not known; empty where it is.
- ``imaged``, ``quarantined``: the newest such event, or None.
- ``deploy_id``: the deployment that the node was imaged by; empty where nothing tells.
- ``stored``: the newest passport of the node, or None.
- ``last_event``: the id of the newest event that was looked at.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _private as private
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError, TrustError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._image import differing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._once import once
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import policy as policies
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.grounds import (
    Grounds,
    deployment,
    grounds,
    lifted,
    standing,
    unproven,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.identity import (
    BECOME,
    UNTOLD,
    differences,
    disagreements,
    gpus_unknown,
    normal_identity,
    untold,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.last_look import last_look, refusal, since_gates
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.statement import (
    boot_of,
    build,
    deployment_of,
    judge,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import canonical

_IMAGE_GATE = "image_verify"
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
#: Where the ledger says nothing to the contrary: nothing was imaged, quarantined or found since.
_NO_EVIDENCE: Mapping[str, Any] = {**dict.fromkeys(("imaged", "quarantined", "stored")), "verdicts": [], "history": [],
                                   "deploy_id": ""}  # fmt: skip


def node_passport(params: Mapping[str, Any], ctx: Context) -> Result:
    """Issue, verify or export, as ``state`` says."""
    return _STATES[params["state"]](params, ctx)


def digest_of(envelope: Mapping[str, Any]) -> str:
    """What a passport is known by: the digest of its signed bytes."""
    return "sha256:" + hashlib.sha256(dsse.payload_of(envelope)).hexdigest()


def _summary(envelope: Mapping[str, Any], statement: Mapping[str, Any], key: str) -> dict[str, Any]:
    predicate = statement.get("predicate") or {}
    return {
        "subject": [str(item.get("name")) for item in statement.get("subject") or []],
        "issued": predicate.get("issued"),
        "expires": predicate.get("expires"),
        "digest": digest_of(envelope),
        "key": key,
        "gates": {str(gate.get("gate")): gate.get("verdict") for gate in predicate.get("gates") or []},
        "image": {key: (predicate.get("image") or {}).get(key) for key in ("name", "version", "sha256")},
        "boot_id": boot_of(predicate),
    }


# -- verify ----------------------------------------------------------------------------------------------------------


def _verify(params: Mapping[str, Any], ctx: Context) -> Result:
    require({"public_keys": params.get("public_keys") or None}, "public_keys", node=ctx.node)
    evidence = {**_NO_EVIDENCE, **(params.get("evidence") or {})}
    known = dsse.public_keys(params["public_keys"])
    envelope = _read(params["path"]) if params.get("path") else (evidence["stored"] or {}).get("envelope")
    machine = normal_identity(params["identity"]) if params.get("identity") else None
    summary: dict[str, Any] = {}
    if envelope is None:
        reasons = ["missing: the ledger has no passport of this node"]
    else:
        summary, reasons = _examined(envelope, known, machine, params, evidence)
        reasons += since_gates(summary, machine, params) if summary else []
    data: dict[str, Any] = {"passport": summary, "valid": not reasons, "reasons": [*map(str, reasons)]}
    # A document may be looked at without a machine, and without a profile; then that was not looked at.
    data.update(machine_checked=machine is not None, profile_checked=bool(params["policy"].get("profile_digest")))
    if reasons and params["fail"]:
        wanted = "a valid passport of this machine, not weaker than the policy"
        do = "validate the node again (playbook revalidate), which issues a new one"
        raise refusal("the passport is refused", reasons, ctx, wanted, do)
    events = [] if reasons or not params["same_boot"] else [last_look(summary, machine, params)]
    return Result(changed=False, data=data, events=events)


def _examined(
    envelope: Any,
    known: Mapping[str, Any],
    machine: Mapping[str, Any] | None,
    params: Mapping[str, Any],
    evidence: Mapping[str, Any],
) -> tuple[dict[str, Any], list[str]]:
    """Summary of the passport, and why it admits nothing."""
    try:
        statement, key = dsse.verify(envelope, known)
    except TrustError as exc:
        told = f"{exc.details['finding']}: {exc.what}"
        if exc.details["finding"] != dsse.UNKNOWN_KEY:
            return {}, [told]
        # Which keys are known the site says: one that was replaced makes no node faulty.
        return {}, [policies.Setting(told, "keep its public key beside a new one until its passports are renewed")]
    reasons = _judged(statement, machine, params, evidence, valid_for=params["valid_for"])
    if not reasons or all(not item.startswith(("type:", "predicate:", "subject: not")) for item in reasons):
        return _summary(envelope, statement, key), reasons + _since(statement, evidence, params["policy"])
    return {"digest": digest_of(envelope), "key": key}, reasons


def _now(evidence: Mapping[str, Any]) -> float:
    """By the ledger's clock where there is one: by it everything else was dated."""
    return float(evidence.get("now") or time.time())


def _judged(
    statement: Mapping[str, Any],
    machine: Mapping[str, Any] | None,
    params: Mapping[str, Any],
    evidence: Mapping[str, Any],
    *,
    valid_for: int = 0,
) -> list[str]:
    """Why the statement admits nothing, by this task's policy; before it is signed as after."""
    problem = evidence.get("profile_problem")
    return [policies.Setting(f"policy: {problem}")] * bool(problem) + judge(
        statement,
        now=_now(evidence),
        policy=params["policy"],
        machine=machine,
        image=params.get("image"),
        skew=params["max_clock_skew"],
        valid_for=valid_for,
    )


def _since(statement: Mapping[str, Any], evidence: Mapping[str, Any], policy: Mapping[str, Any]) -> list[str]:
    """What the ledger tells of the node after this passport was issued."""
    last = statement["predicate"].get("last_event") or 0
    if not isinstance(last, int):
        return ["predicate: last_event cannot be read"]
    reasons = []
    for what in ("imaged", "quarantined"):
        event = evidence.get(what)
        if event and event["id"] > last:
            reasons.append(f"outdated: the node was {what} after its passport was issued (event {event['id']})")
    named, deploy_id = deployment_of(statement["predicate"]), evidence.get("deploy_id") or ""
    if evidence.get("imaged") and named != deploy_id:
        reasons.append(f"deployment: it is of {named or 'none'}, the ledger has {deploy_id or 'none'}")
    for event in standing(evidence, policy):
        when = "after" if event["id"] > last else "before"
        reasons.append(f"outdated: {event['name']} failed {when} the passport was issued (event {event['id']})")
    return reasons


def _read(path: str) -> Any:
    try:
        return json.loads(Path(path).expanduser().read_text(encoding="utf-8"), object_pairs_hook=once)
    except OSError as exc:
        raise ConfigError(f"the passport cannot be read: {exc.strerror}", seen=path) from exc
    except ValueError as exc:
        raise BadAnswer("the passport is not JSON, or a key stands twice in it", seen=path) from exc


# -- export ----------------------------------------------------------------------------------------------------------


def _export(params: Mapping[str, Any], ctx: Context) -> Result:
    """A copy of the ledger's newest passport in a file; one that nobody known has signed is not handed on."""
    require({**params, "public_keys": params.get("public_keys") or None}, "path", "public_keys", node=ctx.node)
    evidence = params.get("evidence") or _NO_EVIDENCE
    if not evidence["stored"]:
        raise TrustError(
            "the ledger has no passport of this node",
            node=ctx.node,
            wanted="a passport to export",
            do="validate the node (playbook passports with passports_renew, or day0_bringup), which issues one",
            details={"finding": "missing"},
        )
    envelope, known = evidence["stored"]["envelope"], dsse.public_keys(params["public_keys"])
    dsse.verify(envelope, known)
    path = place_of(str(params["path"]), str(evidence["node"]["name"]))
    # Whether it would admit the node now is told, and hinders nothing: also what has expired is to be looked at.
    summary, reasons = _examined(envelope, known, None, params, evidence)
    written = _write(path, envelope, ctx)
    data = {"passport": summary, "valid": not reasons, "reasons": [*map(str, reasons)], "path": path}
    before = {} if written else {"digest": digest_of(envelope)}
    return Result(before=before, after={"digest": digest_of(envelope)}, changed=written, data=data)


def place_of(path: str, name: str) -> str:
    """The file itself, or one with the node's name in a folder."""
    target = Path(path).expanduser()
    if not (path.endswith("/") or target.is_dir()):
        return str(target)
    if not _FILE_NAME.fullmatch(name):
        raise ConfigError("the host's name is no name of a file", seen=name, do="name the file itself in path")
    return str(target / f"{name}.passport.json")


# -- issue -----------------------------------------------------------------------------------------------------------


def _issue(params: Mapping[str, Any], ctx: Context) -> Result:
    require(params, "key_path", node=ctx.node)
    evidence = params.get("evidence")
    if not evidence:
        raise ConfigError(
            "a passport rests on the ledger, which only the controller has",
            node=ctx.node,
            do="call node_passport as a task of the node's play, without delegation",
        )
    policies.fit(params["policy"], params["lifetime"], evidence.get("profile_problem") or "", node=ctx.node)
    if params.get("path"):
        private.check_place(str(Path(params["path"]).expanduser()), "the passport")
    key = dsse.private_key(params["key_path"], params.get("key_passphrase") or "")
    dsse.check_known(key, params.get("public_keys") or (), params["key_path"])
    machine = normal_identity(params.get("identity"))
    before = _state(evidence["stored"])
    ground = grounds(evidence, params["policy"])
    reasons = _objections(params, machine, ground) + unproven(evidence)
    kept = None if reasons else _still_good(params, key, machine, evidence, ground)
    if kept is not None:
        return _answer(params, ctx, kept, key, before, new=False)
    reasons += ground.aged
    statement = {} if reasons else _statement(params, machine, evidence, ground)
    # What is signed is what a later look lets pass, by the same rules.
    reasons = reasons or _judged(statement, machine, params, evidence)
    if reasons and not params["fail"]:
        told = {"passport": {}, "valid": False, "reasons": [*map(str, reasons)]}
        return Result(before=before, after=before, changed=False, data=told)
    if reasons:
        wanted = f"a pass of {', '.join(params['policy']['required_gates'])} since the node was imaged"
        raise refusal("no passport is issued", reasons, ctx, wanted, "run what is named, then issue again")
    if not ctx.may_write("issue a passport"):
        after = {"issued": statement["predicate"]["issued"], "expires": statement["predicate"]["expires"]}
        data = {"passport": {**after, "subject": [item["name"] for item in statement["subject"]]}}
        return Result(before=before, after=after, changed=True, data={**data, "valid": True, "reasons": []})
    return _answer(params, ctx, dsse.sign(statement, key), key, before, new=True)


def _state(stored: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"digest": stored["digest"]} if stored else {}


def _answer(
    params: Mapping[str, Any], ctx: Context, envelope: Mapping[str, Any], key: Any, before: dict[str, Any], *, new: bool
) -> Result:
    statement, name = dsse.verify(envelope, {dsse.keyid(key.public_key()): key.public_key()})
    summary = _summary(envelope, statement, name)
    data = {"passport": summary, "valid": True, "reasons": [], "envelope": dict(envelope)}
    events = [Event("passport", "issued", summary)] if new else []
    written = bool(params.get("path")) and _write(str(params["path"]), envelope, ctx)
    return Result(before=before, after={"digest": summary["digest"]}, changed=new or written, data=data, events=events)


def _write(path: str, envelope: Mapping[str, Any], ctx: Context) -> bool:
    """Keep a copy in a file; False where it lies there already."""
    target = Path(path).expanduser()
    text = json.dumps(envelope, sort_keys=True) + "\n"
    if target.is_file() and target.read_text(encoding="utf-8", errors="replace") == text:
        return False
    if ctx.may_write(f"write {target}"):
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            private.write(str(target), text)
        except OSError as exc:
            what = f"the passport cannot be written: {exc.strerror}"
            raise ConfigError(what, node=ctx.node, seen=str(target)) from exc
    return True


def _statement(
    params: Mapping[str, Any], machine: Mapping[str, Any], evidence: Mapping[str, Any], ground: Grounds
) -> dict[str, Any]:
    now = _now(evidence)
    return build(
        machine,
        ground.verdicts,
        image=(ground.of(_IMAGE_GATE) or {})["data"]["image"],
        issuer={"run": evidence["run"], "controller": evidence["controller"]},
        policy={key: value for key, value in params["policy"].items() if value is not None},
        issued=now,
        expires=now + params["lifetime"],
        extra={
            "node": evidence["node"],
            "last_event": evidence["last_event"],
            "lifted": lifted(evidence),
            "deployment": deployment(evidence),
            "boot_id": (ground.of(_IMAGE_GATE) or {})["data"]["identity"]["boot_id"],
            "firmware": params.get("firmware"),
            "attestation": params.get("attestation"),
        },
    )


def _still_good(
    params: Mapping[str, Any], key: Any, machine: Mapping[str, Any], evidence: Mapping[str, Any], ground: Grounds
) -> Mapping[str, Any] | None:
    """The stored passport, where nothing stands against a new one but the age of its gates, and that would say nothing
    else."""
    stored = evidence["stored"]
    if not stored:
        return None
    known = {dsse.keyid(key.public_key()): key.public_key()}
    envelope: Mapping[str, Any] = stored["envelope"]
    _passport, reasons = _examined(envelope, known, machine, params, evidence)
    if reasons:
        return None
    predicate = dsse.verify(envelope, known)[0]["predicate"]
    seen = {gate.get("event") for gate in predicate["gates"]}
    for name in ("firmware", "attestation"):
        if canonical(predicate.get(name) or None) != canonical(params.get(name) or None):
            return None
    return envelope if {event["id"] for event in ground.verdicts} <= seen else None


def _objections(params: Mapping[str, Any], machine: Mapping[str, Any], ground: Grounds) -> list[str]:
    """Everything that stands against a passport, not only the first."""
    seen = ground.of(_IMAGE_GATE)
    return _machine(params, machine, seen) + ground.reasons + _image(params.get("image"), seen)


def _machine(params: Mapping[str, Any], machine: Mapping[str, Any], seen: Mapping[str, Any] | None) -> list[str]:
    """The node must be known to be one machine, the one that its BMC says, with the GPUs that it has."""
    reasons: list[str] = []
    if params["policy"]["require_gpus"] and (unknown := gpus_unknown(machine)):
        reasons.append(f"identity: which GPUs the node has is unknown: {unknown}")
    if untold(machine):
        return [policies.Setting(f"identity: {UNTOLD}", BECOME), *reasons]
    if params.get("bmc_identity"):
        reasons += disagreements(normal_identity(params["bmc_identity"]), machine)
    else:
        reasons.append("identity: nothing proves that BMC and node are one machine (give bmc_identity, from bmc_info)")
    return reasons + _seen_by_image_verify(machine, seen)


def _checks(event: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [check for check in event["data"].get("checks") or [] if isinstance(check, Mapping)]


def _seen_by_image_verify(machine: Mapping[str, Any], event: Mapping[str, Any] | None) -> list[str]:
    """The machine whose image was verified must be this one, and its clock must have been looked at."""
    if event is None:
        return []  # told as a missing gate
    reasons = [f"identity: {text}" for text in differences(machine, normal_identity(event["data"].get("identity")))]
    clocks = [check.get("verdict") for check in _checks(event) if check.get("id") == "clock"]
    if clocks != ["pass"]:
        reasons.append(f"clock: the node's clock was not compared with the controller's ({_IMAGE_GATE})")
    if not normal_identity(event["data"].get("identity"))["boot_id"]:
        reasons.append(f"boot: the node did not tell which boot was looked at ({_IMAGE_GATE})")
    return reasons


def _image(wanted: Mapping[str, Any] | None, event: Mapping[str, Any] | None) -> list[str]:
    found = (event or {}).get("data", {}).get("image") or {}
    if event is None:  # also where the policy asks for no such verdict: the passport names the image
        return [policies.Setting(f"image: no verdict of {_IMAGE_GATE} says what runs")]
    if not found.get("manifest_sha256"):
        return ["image: its verdict does not name the signed manifest"]
    return [f"image: {key} {has} runs, wanted {given}" for key, has, given in differing(found, wanted)]


_STATES: Mapping[str, Callable[[Mapping[str, Any], Context], Result]] = {
    "issued": _issue,
    "verified": _verify,
    "exported": _export,
}
