# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rule makes of a value that a driver's tool tells of a GPU. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.document import (
    Gpu,
    absent,
    bare,
    number,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, INCONCLUSIVE, PASS, worst

SINCE = "since the driver was loaded"
#: Words of the driver for a value that it could not read just now; the next look may be able to.
TRANSIENT = frozenset({"err!", "unknown error"})


@dataclass(frozen=True)
class Reading:
    """What a rule makes of a GPU. text: what is wrong, for a person; empty where nothing is. note: it is told, and asks
    for nothing. passing: it may be otherwise at the next look. trace: a failure that is gone by then stays a doubt."""

    verdict: str
    measured: Any = None
    text: str = ""
    remedy: str = "none"
    note: bool = False
    passing: bool = False
    trace: bool = False


def unread(name: str, words: Sequence[str]) -> Reading:
    """A value that says nothing."""
    said = short(", ".join(words), 60)
    word = bare(words[0]).lower() if words else ""
    if word in ("gpu is lost", "gpu requires reset"):
        remedy = "power_cycle" if word == "gpu is lost" else "reset_gpu"
        return Reading(FAIL, said, f"{said} ({name})", remedy)
    if not words or all(absent(one) for one in words):
        return Reading(INCONCLUSIVE, said or None, f"nvidia-smi does not tell {name}", "remediate_config")
    return Reading(INCONCLUSIVE, said, f"{name} reads {said}", "retest", passing=word in TRANSIENT)


def word_of(
    gpu: Gpu,
    field: str,
    name: str,
    good: Sequence[str],
    bad: Mapping[str, tuple[str, str, str]],
) -> Reading:
    """A value that is one of few words. bad: by the word the verdict, the text and the remedy."""
    words = gpu.said(field)
    word = bare(words[0]).lower() if len(words) == 1 else ""
    if word in good:
        return Reading(PASS, bare(words[0]))
    if word in bad:
        verdict, text, remedy = bad[word]
        return Reading(verdict, bare(words[0]), text, remedy)
    return unread(name, words)


def slowed(gpu: Gpu, hard: Mapping[str, str], soft: Mapping[str, str], idle: str) -> Reading:
    """Why its clocks are low, by the field what that means. soft: what is no doubt once it is over. idle: none does."""
    readings = []
    for field, text in {**hard, **soft}.items():
        one = word_of(gpu, field, "why its clocks are low", (idle,), {"active": (FAIL, text, "field_diag")})
        slow = one.verdict == FAIL
        readings.append(replace(one, passing=one.passing or slow, trace=slow and field in hard))
    return all_of(readings)


def flag(gpu: Gpu, field: str, name: str, text: str, remedy: str) -> Reading:
    """A value that must be no. --query-remapped-rows of some drivers says 0 and 1."""
    wrong = (FAIL, text, remedy)
    return word_of(gpu, field, name, ("no", "0"), {"yes": wrong, "1": wrong})


def all_of(readings: Sequence[Reading]) -> Reading:
    """One cell of several values: the first that is as bad as the worst, with everything that was measured."""
    verdict = worst(one.verdict for one in readings)
    first = next(one for one in readings if one.verdict == verdict)
    if verdict != PASS:
        return first
    noted = next((one for one in readings if one.note), first)
    measured = ", ".join(str(one.measured) for one in readings)
    return replace(noted, measured=measured if len(readings) > 1 else first.measured)


def told(gpu: Gpu, *fields: str) -> bool:
    """Does the document tell any of these, in whatever words?"""
    return any(not all(absent(word) for word in gpu.said(field)) for field in fields if gpu.said(field))


def errors(gpu: Gpu, field: str, name: str, limit: float, remedy: str, unit: str = "") -> Reading:
    """A count. name: of what."""
    words = gpu.said(field)
    count = number(words, unit)
    if count is None:
        return unread(f"the number of {name}", words)
    if count > limit:
        return Reading(FAIL, int(count), f"{count:.0f} {name}", remedy)
    return Reading(PASS, int(count))
