# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On which verdicts a passport rests, and which stand against it. PRIVATE to the collection.

The newest verdict does not decide: of each gate that the policy requires, the newest pass counts that answers at least
the policy's question by the profile in force, and no failure may stand that was not answered by the same question or a
stronger one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import TrustError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._image import differing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import Moment, looked_at
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import deployed, dsse, question
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.identity import normal_identity
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.last_look import Rebooted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.policy import (
    OF_DAYS,
    Setting,
    greatest_age,
    least,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.statement import BY_MANIFEST

Event = Mapping[str, Any]
_IMAGE_GATE = "image_verify"
#: Looks at no boot, so they belong to each.
_OF_NO_BOOT = ("image_artifact",)
#: The cell in which a gate of days names a GPU.
_UUID = "uuid"


@dataclass(frozen=True)
class Grounds:
    """verdicts: one of each gate, in the order of the ledger. reasons: why they carry no passport. aged: nothing is
    wrong with these but their age, which ends no passport that was issued in time."""

    verdicts: list[Event]
    reasons: list[str]
    aged: list[str]

    def of(self, gate: str) -> Event | None:
        return next((event for event in self.verdicts if event["name"] == gate), None)


def grounds(evidence: Mapping[str, Any], policy: Mapping[str, Any]) -> Grounds:
    """What the evidence of a node carries by a policy; all that stands against it is told, not only the first."""
    since = evidence["imaged"]["id"] if evidence["imaged"] else 0
    chosen: list[Event] = []
    reasons: list[str] = []
    aged: list[str] = []
    for name in policy["required_gates"]:
        rows = [event for event in _verdicts(evidence["history"], name) if event["id"] > since]
        event, told = _required(name, rows, policy)
        chosen += [event] if event else []
        reasons += told
        aged += _old(name, event, evidence["now"], policy) if event and not told else []
    others = [event for event in evidence["verdicts"] if event["name"] not in policy["required_gates"]]
    others = [event for event in others if event["data"].get("verdict") != "fail"]
    image = next((event for event in chosen + others if event["name"] == _IMAGE_GATE), None)
    earlier = _of_another_boot(chosen + others, evidence["history"], image)
    # What nobody asks for, and was not seen in this boot, is left out.
    chosen += [event for event in others if event not in earlier]
    reasons += [_boots(event, image) for event in earlier if image and event in chosen]
    reasons += [_stands(event) for event in standing(evidence, policy)]
    return Grounds(sorted(chosen, key=lambda event: int(event["id"])), reasons, aged)


def _of_another_boot(chosen: Sequence[Event], history: Sequence[Event], image: Event | None) -> list[Event]:
    """Verdicts whose look may have been at a boot before the one that the passport names: image_verify alone tells
    boots, and it has not told this one before that look began."""
    boot = _boot(image) if image else ""
    if not boot:
        return []  # told with the machine's identity
    seen = min(event["id"] for event in [*_verdicts(history, _IMAGE_GATE), image] if event and _boot(event) == boot)
    named = (_IMAGE_GATE, *_OF_NO_BOOT)
    earlier = [event for event in chosen if event["name"] not in named and Moment.of(event["data"]).event < seen]
    return [event for event in earlier if not _of_these_gpus(event, image)]


def _of_these_gpus(event: Event, image: Event | None) -> bool:
    """What goes on for days goes on over boots, and is of the GPUs that it names."""
    gpus = normal_identity(image["data"].get("identity"))["gpu_uuids"] if image else []
    cells = [check for check in event["data"].get("checks") or [] if check.get("id") == _UUID]
    return event["name"] in OF_DAYS and bool(gpus) and sorted(str(cell["measured"]) for cell in cells) == sorted(gpus)


def _boot(event: Event) -> str:
    return str(normal_identity(event["data"].get("identity"))["boot_id"])


def _boots(event: Event, image: Event) -> str:
    look = f"the look of {event['name']} (event {event['id']})"
    return Rebooted(f"boot: {look} began before {_IMAGE_GATE} saw the boot {_boot(image)}")


def standing(evidence: Mapping[str, Any], policy: Mapping[str, Any]) -> list[Event]:
    """The failures of this node that nothing has answered."""
    return question.standing(
        evidence["history"],
        imaged=evidence["imaged"],
        in_force=str(policy.get("profile_digest") or ""),
        least=least(policy),
    )


def deployment(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """The deployment that the node was imaged by, and which look has seen there that it was; empty where none has."""
    imaged, deploy_id = evidence["imaged"], evidence.get("deploy_id")
    if not imaged or not deploy_id:
        return {}
    looks = [event for event in _verdicts(evidence["history"], "image_verify") if event["id"] > imaged["id"]]
    for event in reversed(looks):
        for check in event["data"].get("checks") or []:
            if deployed.proves(check, deploy_id):
                return {"id": deploy_id, "proof": deployed.proof_in(check), "event": event["id"]}
    return {}


def unproven(evidence: Mapping[str, Any]) -> list[str]:
    """Whether it was the node that its deployment missed nobody knows: it is not admitted, and not called faulty."""
    imaged = evidence["imaged"]
    if not imaged or deployment(evidence):
        return []
    if not evidence.get("deploy_id"):
        told = f"nothing tells by which one the node was imaged (event {imaged['id']}); image it by the role deploy"
    else:
        told = f"no look has proven that {evidence['deploy_id']} reached the node (image_verify with deploy_id)"
    return [Setting(f"deployment: {told}")]


def of_another_image(evidence: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> list[str]:
    """In what the image of the node's passport is another one than is declared now: the node runs what it was given,
    and is given a newer one by an imaging alone."""
    try:
        told = json.loads(dsse.payload_of((evidence["stored"] or {}).get("envelope")))
        image = told["predicate"]["image"]
    except (TrustError, ValueError, KeyError, TypeError):
        image = None
    if not isinstance(image, Mapping):
        return []  # there is none, or nothing can be read in it: a new one stands in its place
    return [Setting(f"image: its {key} is {has}, declared is {given}") for key, has, given in differing(image, wanted)]


def lifted(evidence: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What persons have lifted, for the passport that rests on it."""
    return [
        {"gate": event["name"], "event": event["id"], **{key: event["data"].get(key) for key in ("by", "reason")}}
        for event in evidence["history"]
        if event.get("kind") == "lift"
    ]


def _verdicts(history: Sequence[Event], name: str) -> list[Event]:
    return [event for event in history if event["name"] == name and event.get("kind", "verdict") == "verdict"]


def _required(name: str, rows: Sequence[Event], policy: Mapping[str, Any]) -> tuple[Event | None, list[str]]:
    """The verdict of a required gate that counts, and what is wrong with it."""
    if not rows:
        return None, [Setting(f"gate {name}: no verdict since the node was imaged")]  # nobody ran it: no node's fault
    fit = [event for event in rows if event["data"].get("verdict") == "pass" and not _short(name, event, policy)]
    if not fit:
        return rows[-1], [_unfit(name, rows[-1], policy)]
    event = fit[-1]
    left = _open(rows, event, policy)
    reasons = [f"gate {name}: {later['data'].get('verdict')} (event {later['id']})" for later in left]
    if not looked_at(event):
        reasons.append(f"gate {name}: nobody has said when the node was looked at")
    return event, reasons


def _unfit(name: str, event: Event, policy: Mapping[str, Any]) -> str:
    """Why this verdict does not count. One that passed what it was asked says nothing against its node."""
    word = event["data"].get("verdict")
    if word != "pass":
        return f"gate {name}: {word}"
    told = f"gate {name}: pass, which proves too little: {_short(name, event, policy)}"
    says = question.asked_of(event) is not None and (name in BY_MANIFEST or _profile(event))
    return Setting(told) if says else told


def _old(name: str, event: Event, now: float, policy: Mapping[str, Any]) -> list[str]:
    """An age is that of the look: of a diagnosis that nobody came for, hours may lie between that and its verdict."""
    allowed, looked = greatest_age(policy, name, question.asked_of(event)), looked_at(event)
    if now - looked > allowed:
        return [Setting(f"gate {name}: its pass is {now - looked:.0f} s old, allowed are {allowed:.0f} s")]
    return []


def _short(name: str, event: Event, policy: Mapping[str, Any]) -> str:
    """In what a pass falls short of what the policy asks of its gate."""
    short = question.weaker(question.asked_of(event), least(policy).get(name, {}))
    short = f"{short} (gates.{name} of the policy)" if short else ""
    wanted = policy.get("profile_digest")
    if wanted and name not in BY_MANIFEST and _profile(event) != wanted:
        short = f"{short}, " if short else ""
        short += f"judged by another profile: {_profile(event) or 'none'}"
    return short


def _profile(event: Event) -> str:
    """The digest of the profile that it was judged by; empty where it names none."""
    return str((event["data"].get("profile") or {}).get("digest") or "")


def _open(rows: Sequence[Event], event: Event, policy: Mapping[str, Any]) -> list[Event]:
    """What was left open after the pass that counts. A failure is told among those that stand."""
    later = [row for row in rows if row["id"] > event["id"]]
    digest = str(policy.get("profile_digest") or "")
    asked = least(policy).get(event["name"], {})
    return [
        row
        for at, row in enumerate(later)
        if row["data"].get("verdict") not in ("pass", "fail")
        and not any(question.answers(other, row, digest, asked) for other in later[at + 1 :])
    ]


def _stands(event: Event) -> str:
    asked = question.described(question.asked_of(event))
    ends = "the same or a stronger question passes, or a person lifts it"
    if question.needs_hands(event):
        ends = f"a person lifts it, its remedy applied ({event['data'].get('remedy')}): any restart quiets a log"
    return f"gate {event['name']}: fail (event {event['id']}; {asked}), which stands until {ends}"
