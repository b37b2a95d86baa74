# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the API server changes an object: merge patches, JSON patches, and the book of who wrote which field.

After RFC 7386, RFC 6902 and what kube-apiserver 1.36.2 was seen to answer.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Object = dict[str, Any]
Path = tuple[str, ...]

#: Maps each key of which has a writer of its own; any other value below these has one as a whole.
_BY_KEY = {
    (),
    ("metadata",),
    ("metadata", "annotations"),
    ("metadata", "labels"),
    ("spec",),
    ("status",),
}
#: What nobody is in the book for.
_NOBODYS = {
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "name",
    "namespace",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
}


class Unfit(Exception):
    """A JSON patch whose test or path does not hold."""


def merged(thing: Any, patch: Any) -> Any:
    """RFC 7386: null takes away, a list is replaced as a whole."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    found = dict(thing) if isinstance(thing, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found


def strategic(thing: Any, patch: Any) -> Any:
    """The same, but that conditions are told apart by their type. Taints are replaced as a whole here as well."""
    found = merged(thing, patch)
    asked = ((patch or {}).get("status") or {}).get("conditions")
    if asked is not None:
        before = ((thing or {}).get("status") or {}).get("conditions") or []
        by_type = {one["type"]: one for one in before}
        by_type.update({one["type"]: {**by_type.get(one["type"], {}), **one} for one in asked})
        found["status"]["conditions"] = list(by_type.values())
    return found


def json_patched(thing: Object, steps: Sequence[Mapping[str, Any]]) -> Object:
    found = copy.deepcopy(thing)
    for step in steps:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
        _step(_at(found, way), last, step)
    return found


def _at(thing: Any, way: Sequence[str]) -> Any:
    for part in way:
        try:
            thing = thing[int(part)] if isinstance(thing, list) else thing[part]
        except (KeyError, IndexError, ValueError, TypeError):
            raise Unfit from None
    return thing


def _step(place: Any, last: str, step: Mapping[str, Any]) -> None:
    if isinstance(place, list):
        _step_in_list(place, last, step)
    elif not isinstance(place, dict):
        raise Unfit
    elif step["op"] == "test":
        if place.get(last) != step["value"]:
            raise Unfit
    elif step["op"] == "remove":
        if last not in place:
            raise Unfit
        del place[last]
    else:
        place[last] = copy.deepcopy(step["value"])


def _step_in_list(place: list[Any], last: str, step: Mapping[str, Any]) -> None:
    if step["op"] == "add" and last == "-":
        place.append(copy.deepcopy(step["value"]))
        return
    if not last.isdigit() or int(last) >= len(place):
        raise Unfit
    if step["op"] == "remove":
        del place[int(last)]
    elif step["op"] == "test" and place[int(last)] != step["value"]:
        raise Unfit


# -- the book ------------------------------------------------------------------------------------------------------


def leaves(thing: Mapping[str, Any], way: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Each field that has a writer, and its value."""
    for key, value in thing.items():
        if way in ((), ("metadata",)) and key in (_NOBODYS | {"kind", "apiVersion"}):
            continue
        here = (*way, key)
        if here in _BY_KEY and isinstance(value, dict):
            yield from leaves(value, here)
        else:
            yield here, value


def written(before: Object, after: Object, manager: str, now: str, subresource: str) -> list[Object]:
    """The book after one write: who changed a field has it alone, and what is gone is nobody's."""
    old, new = dict(leaves(before)), dict(leaves(after))
    changed = {path for path, value in new.items() if path not in old or old[path] != value}
    gone = set(old) - set(new)
    entries = []
    for entry in before.get("metadata", {}).get("managedFields") or []:
        left = _paths(entry["fieldsV1"]) - changed - gone
        if left:
            entries.append({**entry, "fieldsV1": _fields(left)})
    if changed:
        mine = [one for one in entries if (one["manager"], one["operation"]) == (manager, "Update")]
        mine = [one for one in mine if one.get("subresource", "") == subresource]
        kept = _paths(mine[0]["fieldsV1"]) if mine else set()
        entries = [one for one in entries if one not in mine]
        entries.append(_entry(manager, now, kept | changed, subresource))
    return entries


def _entry(manager: str, now: str, paths: set[Path], subresource: str) -> Object:
    more = {"subresource": subresource} if subresource else {}
    about = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": now, "fieldsType": "FieldsV1"}
    return {**about, "fieldsV1": _fields(paths), **more}


def _fields(paths: set[Path]) -> Object:
    found: Object = {}
    for path in sorted(paths):
        place = found
        for part in path:
            place = place.setdefault(f"f:{part}", {})
    return found


def _paths(fields: Mapping[str, Any], way: Path = ()) -> set[Path]:
    found: set[Path] = set()
    for key, below in fields.items():
        here = (*way, key[2:])
        found |= _paths(below, here) if below else {here}
    return found
