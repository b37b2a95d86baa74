# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What DCGM's health watches say: ``dcgmi health -c -j``, and which are set: ``-f -j``. PRIVATE to the collection.

``dcgmi`` ends with 0 whatever they say, says ``Healthy`` as long as it has no data, and names an incident of an
NVSwitch "Internal error" (NVIDIA/DCGM v4.6.0 Health.cpp). So the document counts, each word in it, and that the watches
were set long enough before.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional, Union

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut, short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.errors import look_up
from ansible_collections.gpufleet.baremetal.plugins.module_utils._once import once
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    INCONCLUSIVE,
    NODE,
    PASS,
    Check,
    Sheet,
    worst,
)

CELL = "health"
HEALTHY = "Healthy"
SOURCE = "NVIDIA/DCGM v4.6.0 dcgmi/Health.cpp"
#: PCIe, temperature and power are watched for a minute before they say anything (the help of ``dcgmi health``).
SECONDS = 60.0
WORDS: Mapping[str, str] = {"Healthy": PASS, "Warning": INCONCLUSIVE, "Failure": FAIL}
#: As it says so on the standard output, also with ``-j``.
_NOT_SET = re.compile(r"health watches not enabled", re.I)
#: What ``-s a`` sets in each version (dcgmi/CommandLineParser.cpp), by the names of ``-f``. A monitor may have set a
#: part of it: the others find nothing then.
SYSTEMS = ("PCIe", "NVLINK", "Memory", "InfoROM", "Thermal", "Power")
_ON = "On"
_OVERALL, _GROUP = "Overall Health", re.compile(r"[^a-z0-9]+")
_DEPTH = 20


class Incident(NamedTuple):
    """What one system of one entity has. word: DCGM's own. text: in its words."""

    entity: str
    system: str
    word: str
    text: str


class Seen(NamedTuple):
    """overall: DCGM's own word; empty where it says none. words: each one in the document. problem: why it is none."""

    overall: str = ""
    words: tuple[str, ...] = ()
    incidents: tuple[Incident, ...] = ()
    problem: str = ""


def is_set(done: Run) -> bool:
    """Are the watches set? Whatever else it says, that they are not is said in so many words."""
    return done.ended == "exit" and done.rc == 0 and not _NOT_SET.search(done.text)


def unset(done: Run) -> list[str]:
    """Which systems are not watched for sure, of what ``health -f -j`` says."""
    body = _body(done.text)
    if done.ended != "exit" or done.rc != 0 or isinstance(body, str):
        return ["which are set it does not say"]
    return [name for name in SYSTEMS if not isinstance(body.get(name), dict) or body[name].get("value") != _ON]


def _body(text: str) -> Union[dict[str, Any], str]:
    """Of the one document on the output; or why there is none. Before it may be words, and behind it nothing."""
    start = text.find("{")
    try:
        document = json.loads(text[max(start, 0) :], object_pairs_hook=once)
    except (ValueError, RecursionError):
        return "it is cut off or is no valid JSON" if start >= 0 else "it printed no document"
    body = document.get("body") if isinstance(document, dict) else None
    return body if isinstance(body, dict) else {}


def read(text: str) -> Seen:
    """What the watches found."""
    body = _body(text)
    if isinstance(body, str):
        return Seen(problem=body)
    if not isinstance(body.get(_OVERALL), dict):
        return Seen(problem="it does not say how healthy the machine is")
    overall = body[_OVERALL].get("value")
    return Seen(
        overall if isinstance(overall, str) else "",
        tuple(str(word) for word in _values(body, 0)),
        tuple(_incidents(body)),
    )


def _values(value: Any, depth: int) -> Iterator[Any]:
    """Each word that stands for how healthy something is, wherever; what is nested too deep says nothing good."""
    if depth > _DEPTH:
        yield "nested too deep"
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key == "value":
                yield inner
            else:
                yield from _values(inner, depth + 1)


def _children(value: Any) -> Mapping[str, Any]:
    found = value.get("children") if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _incidents(body: Mapping[str, Any]) -> Iterator[Incident]:
    for group, told in body.items():
        for number, entity in _children(told).items():
            for system, incident in _children(_children(entity).get("Errors")).items():
                texts = incident.get("overflow") if isinstance(incident, dict) else None
                text = "; ".join(map(str, texts)) if isinstance(texts, list) else ""
                word = incident.get("value") if isinstance(incident, dict) else None
                yield Incident(f"{short(group, 20)} {short(number, 10)}", short(system, 60), str(word), text)


def judge(sheet: Sheet, done: Run, watched: Optional[float], off: Sequence[str] = ()) -> None:
    """The cell ``health``. watched: for how many seconds the watches were set; None where they could not be set.

    off: the systems that were not watched all that time.
    """
    seen = read(done.text)
    words = (seen.overall, *seen.words)
    found = INCONCLUSIVE if seen.problem else worst(WORDS.get(word, INCONCLUSIVE) for word in words)
    for one in seen.incidents:
        _find(sheet, one)
    text, remedy = _doubt(done, seen, watched, off)
    if found == FAIL and not seen.incidents:
        sheet.find(CELL, NODE, "DCGM's health watches tell of a failure, and not of what", "field_diag")
    elif text and found != FAIL:
        found = INCONCLUSIVE
        sheet.find(CELL, NODE, f"DCGM's health watches: {text}", remedy)
    elif found == INCONCLUSIVE and not seen.incidents:
        sheet.find(CELL, NODE, f"DCGM's health watches say {short(seen.overall or 'nothing', 60)}", "retest")
    sheet.record(Check(CELL, NODE, found, short(seen.overall, 60) or None, HEALTHY, "", SOURCE))


def _find(sheet: Sheet, one: Incident) -> None:
    if WORDS.get(one.word) == PASS:
        return
    remedy = look_up(None, text=one.text).remedy if WORDS.get(one.word) == FAIL else "retest"
    name = _GROUP.sub("_", one.system.lower()).strip("_") or "unnamed"
    said = cut(one.text, 200) or f"says {one.word}"
    sheet.find(f"health:{name}", one.entity, f"{one.entity}: {one.system}: {said}", remedy)


def _doubt(done: Run, seen: Seen, watched: Optional[float], off: Sequence[str]) -> tuple[str, str]:
    """What keeps a pass from being one, and what helps."""
    if _NOT_SET.search(done.text) or watched is None:
        return "they are not set, and could not be", "remediate_config"
    if off:
        told = ", ".join(off)
        return (
            f"not all of them are set, and somebody else set the others: {told} (dcgmi health -s a)",
            "remediate_config",
        )
    if done.ended != "exit" or done.rc != 0:
        return f"dcgmi ended with {done.rc if done.ended == 'exit' else done.ended}", "retest"
    if seen.problem:
        return seen.problem, "retest"
    if watched < SECONDS:
        return f"they were set for {watched:.0f} s, and tell nothing before {SECONDS:.0f}", "retest"
    return "", "none"
