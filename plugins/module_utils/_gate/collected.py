# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks a verdict that was read from a node's file as if a stranger had written it. PRIVATE to the collection."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Callable

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.verdict import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    REMEDIES,
    SCHEMA,
    worst,
    worst_remedy,
)

_WORDS = (PASS, FAIL, INCONCLUSIVE)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _any_text(value: Any) -> bool:
    return isinstance(value, str)


def _time(value: Any) -> bool:
    return isinstance(value, str) and bool(_TIME.match(value))


def _word(value: Any) -> bool:
    return value in _WORDS


def _remedy(value: Any) -> bool:
    return value in REMEDIES


def _anything(value: Any) -> bool:
    return True


def _mapping_of(shape: Mapping[str, Callable[[Any], bool]]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, dict) and set(value) == set(shape) and all(fits(value[key]) for key, fits in shape.items())
    )


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(fits(item) for item in value)


_CHECK = _mapping_of(
    {
        "id": _text,
        "entity": _text,
        "measured": _anything,
        "wanted": _anything,
        "unit": _any_text,
        "source": _any_text,
        "verdict": _word,
    }
)
_FINDING = _mapping_of({"id": _text, "entity": _text, "text": _text, "remedy": _remedy})
#: The keys of a verdict, all of them and no other, with what their values look like.
_SHAPE: Mapping[str, Callable[[Any], bool]] = {
    "schema": lambda value: value == SCHEMA,
    "gate": _text,
    "verdict": _word,
    "checks": _list_of(_CHECK),
    "findings": _list_of(_FINDING),
    "remedy": _remedy,
    "tool": _mapping_of({"name": _text, "version": _any_text}),
    "argv": _list_of(_any_text),
    "started": _time,
    "ended": _time,
    "evidence_digest": lambda value: isinstance(value, str) and bool(_DIGEST.match(value)),
    "profile": _mapping_of({"sku": _any_text, "digest": _any_text}),
}

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
    if verdict["gate"] != gate:
        return f"it is of {verdict['gate']}"
    if verdict["profile"]["digest"] != profile.get("digest"):
        return f"judged by another profile than the one that was sent: {verdict['profile']['digest'] or 'none'}"
    if verdict["ended"] < verdict["started"]:
        return "it ended before it began"
    return _contradiction(verdict)


def _contradiction(verdict: Mapping[str, Any]) -> str:
    """A verdict may be worse than its cells, by a finding; never better."""
    cells = worst(check["verdict"] for check in verdict["checks"])
    remedy = worst_remedy(finding["remedy"] for finding in verdict["findings"])
    if worst([cells, verdict["verdict"]]) != verdict["verdict"]:
        return f"it says {verdict['verdict']} over cells that say {cells}"
    if verdict["verdict"] == PASS and (remedy != "none" or verdict["remedy"] != "none"):
        return f"it says pass and asks for {worst_remedy([remedy, verdict['remedy']])}"
    return ""
