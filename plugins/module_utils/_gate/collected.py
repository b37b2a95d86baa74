# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks a verdict that was read from a node's file as if a stranger had written it. PRIVATE to the collection."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Callable

from ansible_collections.gpufleet.baremetal.plugins.module_utils._shape import (
    CHECK,
    FINDING,
    any_text,
    is_remedy,
    is_text,
    is_word,
    list_of,
    mapping_of,
    too_large,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    NODE,
    PASS,
    SCHEMA,
    seconds_of,
    worst,
    worst_remedy,
)

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")
#: Times are of whole seconds.
_TICK = 2.0
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")


#: No soak takes a month.
_LONGEST_SECONDS = 2678400.0


def _seconds(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _LONGEST_SECONDS


def _time(value: Any) -> bool:
    return isinstance(value, str) and bool(_TIME.match(value)) and seconds_of(value) is not None


#: The keys of a verdict, all of them and no other, with what their values look like.
_SHAPE: Mapping[str, Callable[[Any], bool]] = {
    "schema": lambda value: value == SCHEMA,
    "gate": is_text,
    "verdict": is_word,
    "checks": list_of(CHECK),
    "findings": list_of(FINDING),
    "remedy": is_remedy,
    "tool": mapping_of({"name": is_text, "version": any_text}),
    "argv": list_of(any_text),
    "started": _time,
    "ended": _time,
    "duration": _seconds,
    "evidence_digest": lambda value: isinstance(value, str) and bool(_DIGEST.match(value)),
    "profile": mapping_of({"sku": any_text, "digest": any_text}),
}

#: Of the finding that says that the times of a verdict cannot be right.
CLOCK = "clock"
_BACKWARDS = "it ended before it began"

#: What a verdict consists of.
KEYS = tuple(_SHAPE)


def problem_of(verdict: Any, *, gate: str, profile: Mapping[str, Any]) -> str:
    """What keeps this from being a verdict of this gate by this profile; empty where nothing does."""
    if not isinstance(verdict, dict):
        return "no verdict in it"
    if set(verdict) != set(_SHAPE):
        return f"keys missing or unknown: {', '.join(sorted(set(verdict) ^ set(_SHAPE)))}"
    bad = [key for key, fits in _SHAPE.items() if not fits(verdict[key])]
    if bad:
        return f"not as it must be: {', '.join(bad)}"
    if too_large(verdict):
        return "it is larger than any verdict"
    if verdict["gate"] != gate:
        return f"it is of {verdict['gate']}"
    if verdict["profile"]["digest"] != profile.get("digest"):
        return f"judged by another profile than the one that was sent: {verdict['profile']['digest'] or 'none'}"
    if verdict["verdict"] == PASS and _backwards(verdict):
        return _BACKWARDS
    return _contradiction(verdict)


def _backwards(verdict: Mapping[str, Any]) -> bool:
    return str(verdict["ended"]) < str(verdict["started"])


def dated(verdict: Mapping[str, Any], doubt: str = "") -> dict[str, Any]:
    """A verdict that was checked, with what speaks against its times beside it. They take a pass away and nothing else:
    a node whose clock was set is as broken as it was measured.

    :param doubt: as ``misdated`` tells it.
    """
    doubt = doubt or (_BACKWARDS if _backwards(verdict) else "")
    if not doubt:
        return dict(verdict)
    finding = {"id": CLOCK, "entity": NODE, "text": f"look at the node's clock: {doubt}", "remedy": "retest"}
    return {**verdict, "findings": [*verdict["findings"], finding]}


def _contradiction(verdict: Mapping[str, Any]) -> str:
    """A verdict may be worse than its cells, by a finding; never better."""
    cells = worst(check["verdict"] for check in verdict["checks"])
    remedy = worst_remedy(finding["remedy"] for finding in verdict["findings"])
    if worst([cells, verdict["verdict"]]) != verdict["verdict"]:
        return f"it says {verdict['verdict']} over cells that say {cells}"
    if verdict["verdict"] == PASS and (remedy != "none" or verdict["remedy"] != "none"):
        return f"it says pass and asks for {worst_remedy([remedy, verdict['remedy']])}"
    return ""


def misdated(verdict: Mapping[str, Any], *, started: str, now: str, limit: float, oldest: float) -> str:
    """What is wrong with the times of a job's verdict; all of them are of the node's own clock.

    :param started: when the job was started. now: when its file was read.
    :param limit: the longest that it may have taken. oldest: the greatest age of its end.
    """
    begin, end = seconds_of(verdict["started"]), seconds_of(verdict["ended"])
    first, last = seconds_of(started), seconds_of(now)
    if begin is None or end is None or first is None or last is None:
        return "its times, or those of its job, are none"
    if begin < first or end > last + _TICK or end - begin > limit:
        return f"it is of {verdict['started']} to {verdict['ended']}, and its job of {started} to {now}"
    if last - end > oldest:
        return f"it ended {(last - end) / 60:.0f} minutes ago, which says little of the node now"
    return ""
