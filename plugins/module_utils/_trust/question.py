# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verdict was asked, and which of two questions is the stronger one. PRIVATE to the collection.

A verdict answers a question: its level, its tests, the window that it looked at, the profile and the image that it was
held against. The controller writes it down as ``asked``. A failure stands until the same or a stronger question passes,
or a person lifts it; a weaker look proves nothing against it. What a log told of broken hardware a person alone lifts.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._image import bare_sha256
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import heavier, seconds_of, worst_remedy

Event = Mapping[str, Any]
Asked = Mapping[str, Any]

#: Windows that are no point in time: since the node was last imaged (and the records of crashes of earlier boots), and
#: this boot.
IMAGING, BOOT = "imaging", "boot"
_NO_IMAGING = " (where the ledger knows of no imaging, image the node, or let the policy ask for the window boot)"
#: The gates that judge what an image brings: to deploy one anew is a remedy, and what failed before it says no more.
_OF_THE_IMAGE = frozenset({"image_verify", "image_artifact"})
#: The gates that read what happened, of this boot only: a later pass of theirs says that it did not happen again. Where
#: no restart is remedy enough, that a restart made it silent proves nothing.
_OF_A_LOG = frozenset({"kernel_log_gate"})
_HEAVIEST_RESTART = "power_cycle"


def window_covers(new: Any, old: Any) -> bool:
    """Does one window hold all of the other? A point in time holds what began later.

    A boot is none: when it began is the node's word.
    """
    if new in (old, IMAGING):
        return True
    begins = [seconds_of(new), seconds_of(old)]
    return None not in begins and begins[0] <= begins[1]  # type: ignore[operator]


def _spelled_alike(image: Any) -> Any:
    if isinstance(image, Mapping) and "sha256" in image:
        return {**image, "sha256": bare_sha256(image["sha256"])}
    return image


#: Of a part of a question that is not here, only the same one is no weaker.
_COVERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "level": lambda new, old: (new or 0) >= (old or 0),
    "tests": lambda new, old: set(old or ()) <= set(new or ()),
    "window": window_covers,
    "image": lambda new, old: _spelled_alike(new) == _spelled_alike(old),
}
#: What stands beside the parts of a question: the profile has a rule of its own, and an age is none of the question.
_BESIDE = frozenset({"profile", "max_age"})


def asked_of(event: Event) -> Optional[Asked]:
    """What it was asked; None where the verdict does not say."""
    asked = event["data"].get("asked")
    return asked if isinstance(asked, Mapping) else None


def covers(new: Asked, old: Asked, *, in_force: str = "") -> bool:
    """Is the new question the same as the old one, or a stronger one?

    :param in_force: the digest of the SKU's profile: by it any failure may be answered, by another one only its own.
    """
    if new.get("profile") not in {old.get("profile"), in_force or old.get("profile")}:
        return False
    return all(_covered(key, new, old) for key in {*_COVERS, *new, *old} - _BESIDE)


def _covered(key: str, new: Asked, old: Asked) -> bool:
    try:
        return _COVERS.get(key, operator.eq)(new.get(key), old.get(key))
    except TypeError:  # what is not what such a question consists of is no stronger one
        return False


def _parts(asked: Asked) -> list[str]:
    """The parts that a question has, those first that are known."""
    return [key for key in (*_COVERS, *sorted(set(asked) - set(_COVERS) - _BESIDE, key=str)) if key in asked]


def weaker(asked: Any, least: Mapping[str, Any]) -> str:
    """In what a question falls short of the least one; empty where it does not."""
    if not isinstance(asked, Mapping):
        return "it does not say what was asked" if least else ""
    short = [key for key in _parts(least) if not _covered(key, asked, least)]
    told = ", ".join(f"{key} {words(asked.get(key))}, wanted {words(least[key])}" for key in short)
    return told + (_NO_IMAGING if "window" in short and asked.get("window") == BOOT else "")


def words(value: Any) -> str:
    """A part of a question, for a person."""
    if isinstance(value, Mapping):
        return " ".join(str(part) for part in value.values() if part) or "none"
    return " ".join(map(str, value)) or "none" if isinstance(value, (list, tuple)) else str(value or "none")


def described(asked: Any) -> str:
    """A question, for a person."""
    parts = [f"{key} {words(asked[key])}" for key in _parts(asked) if asked[key]] if isinstance(asked, Mapping) else []
    return ", ".join(parts) or "it does not say what was asked"


def standing(
    history: Sequence[Event], *, imaged: Optional[Event], in_force: str, least: Mapping[str, Mapping[str, Any]]
) -> list[Event]:
    """The failures that nothing has answered, oldest first.

    :param history: verdicts, and what a person has lifted, oldest first.
    :param imaged: the newest imaging, or None.
    :param least: the least question by gate; it answers failures that do not say what they were asked.
    """
    since = imaged["id"] if imaged else 0
    return [
        event
        for at, event in enumerate(history)
        if _failed(event, since) and not _settled(event, history[at + 1 :], in_force, least.get(event["name"], {}))
    ]


def _failed(event: Event, imaged: int) -> bool:
    failed = event.get("kind", "verdict") == "verdict" and event["data"].get("verdict") == "fail"
    return bool(failed and not (event["name"] in _OF_THE_IMAGE and event["id"] < imaged))


def _settled(failure: Event, later: Sequence[Event], in_force: str, least: Mapping[str, Any]) -> bool:
    of_it = [event for event in later if event["name"] == failure["name"]]
    if any(event.get("kind") == "lift" and _lifts(event, failure) for event in of_it):
        return True
    passes = [] if needs_hands(failure) else [event for event in of_it if event.get("kind") != "lift"]
    return any(answers(event, failure, in_force, least) for event in passes)


def needs_hands(failure: Event) -> bool:
    """Does it take hands at the machine, and a person who says so? A remedy that nobody knows does."""
    data = failure["data"]
    rows = data.get("findings")
    remedies = [row.get("remedy") for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    heaviest = worst_remedy([str(remedy) for remedy in [data.get("remedy"), *remedies]])
    return failure["name"] in _OF_A_LOG and heavier(heaviest, _HEAVIEST_RESTART)


def _lifts(lift: Event, failure: Event) -> bool:
    """A person answers for the failures that were shown to him, and for no other."""
    named = lift["data"].get("failures")
    return isinstance(named, (list, tuple)) and failure["id"] in named


def answers(event: Event, failure: Event, in_force: str, least: Mapping[str, Any]) -> bool:
    """Is this a pass of the same or a stronger question than the one that was not passed?"""
    new, old = asked_of(event), asked_of(failure)
    if event["data"].get("verdict") != "pass" or new is None:
        return False
    if old is None:
        return not weaker(new, least)
    return covers(new, old, in_force=in_force)
