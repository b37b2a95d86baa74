# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The health watches of DCGM, as ``dcgmi health --check --json`` prints them. PRIVATE to the collection.

The message is an object: ``node``, as the sender calls itself, and ``health``, the document. dcgmi exits 0 whatever it
found, so that the document alone counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.said import (
    LOOK,
    RECYCLE,
    Said,
    cause_of,
    mapping,
    reason_of,
    unfit,
    word,
)

NAME = "dcgm"
#: DCGM's words for its three results, nvcmvalue_health_overall in dcgmi's Health.cpp.
_BY_RESULT: Mapping[str, str] = {"healthy": "", "warning": LOOK, "failure": RECYCLE}


def read(document: Any) -> list[Said]:
    """:raises BadAnswer: where it is no such document; where no watch is set, dcgmi prints a sentence instead."""
    message = mapping(document, "the message")
    body = mapping(mapping(message.get("health"), "health").get("body"), "body")
    overall = word(mapping(body.get("Overall Health"), "Overall Health").get("value"))
    if overall.lower() not in _BY_RESULT:
        raise unfit("Overall Health", "Healthy, Warning or Failure", overall)
    if not _BY_RESULT[overall.lower()]:
        return []
    found = sorted(set(_systems(body)))
    texts = [text for _system, text in found if text]
    return [
        Said(
            node=word(message.get("node")),
            cause=cause_of("health", *dict.fromkeys(system for system, _text in found)),
            do=_BY_RESULT[overall.lower()],
            source=NAME,
            reason=reason_of("; ".join(texts), f"DCGM's health watches tell {overall}"),
        )
    ]


def _systems(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each system that has an incident, with what DCGM says of it, over all GPUs."""
    for kind, entities in body.items():
        if kind == "Overall Health":
            continue
        for entity in _children(entities).values():
            errors = _children(entity).get("Errors", {})
            for system, told in _children(errors).items():
                lines = told.get("overflow") if isinstance(told, dict) else None
                words = [line for line in (lines if isinstance(lines, list) else ()) if isinstance(line, str)]
                yield str(system), " ".join(words)


def _children(node: Any) -> Mapping[str, Any]:
    found = node.get("children") if isinstance(node, dict) else None
    return found if isinstance(found, dict) else {}
