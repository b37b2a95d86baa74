# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads an object of Kubernetes that may be of any shape: the node's kubelet, and anybody's operator, write into it.

And who wrote what: the API server keeps the fields of each writer. PRIVATE to the collection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short


class Writer(NamedTuple):
    """Free text of whoever wrote: evidence, and no proof. since: when that writer last wrote anything."""

    name: str = ""
    since: str = ""


def part(thing: Any, *path: str) -> Any:
    """What stands there; None where nothing does.

    :raises BadAnswer: where something on the way is no mapping.
    """
    for name in path:
        if thing is None:
            return None
        if not isinstance(thing, dict):
            raise BadAnswer(f"{name} stands in what is no mapping", seen=short(thing, 100))
        thing = thing.get(name)
    return thing


def mapping(thing: Any, *path: str) -> Mapping[str, Any]:
    found = part(thing, *path)
    if found is not None and not isinstance(found, dict):
        raise BadAnswer(f"{path[-1]} is no mapping", seen=short(found, 100))
    return found or {}


def rows(thing: Any, *path: str) -> list[dict[str, Any]]:
    """A list of mappings."""
    found = part(thing, *path)
    if found is not None and not (isinstance(found, list) and all(isinstance(one, dict) for one in found)):
        raise BadAnswer(f"{path[-1]} is no list of mappings", seen=short(found, 100))
    return found or []


def word(thing: Any, *path: str) -> str:
    found = part(thing, *path)
    if found is not None and not isinstance(found, str):
        raise BadAnswer(f"{path[-1]} is no text", seen=short(found, 100))
    return found or ""


def writers(node: Mapping[str, Any], *path: str) -> list[Writer]:
    """Who holds this field in the API server's book, the newest last."""
    found = []
    for entry in rows(node, "metadata", "managedFields"):
        place: Any = entry.get("fieldsV1")
        for name in path:
            place = place.get(f"f:{name}") if isinstance(place, dict) else None
        if place is not None:
            found.append(Writer(str(entry.get("manager") or ""), str(entry.get("time") or "")))
    return sorted(found, key=lambda one: one.since)


def writer(node: Mapping[str, Any], *path: str) -> Writer:
    return next(reversed(writers(node, *path)), Writer())


def amount(text: Any) -> int:
    """Of a resource that is counted.

    :raises BadAnswer: for what is no count.
    """
    try:
        return int(str(text))
    except ValueError:
        raise BadAnswer("an amount of GPUs that is no number", seen=short(text, 50)) from None


def shown(words: Sequence[str], most: int = 5) -> str:
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")
