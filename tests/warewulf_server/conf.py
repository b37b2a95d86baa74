# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``nodes.conf``: what stands in it, how profiles and nodes are merged, and how a write is lost.

After ``internal/pkg/node/{datastructure,mergo}.go`` and ``internal/pkg/warewulfd/api/node.go`` of Warewulf 4.7.0.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

Record = dict[str, Any]

#: Field -> the fields below it, where it has any of its own. What is not here is read, and dropped.
_ANY = {"*": {}}
_TAGS: Any = {"*": {}}
_DEVICE: Any = {
    **dict.fromkeys(
        (
            "type",
            "onbot",
            "device",
            "hwaddr",
            "ipaddr",
            "netmask",
            "gateway",
            "ipaddr6",
            "prefixlen6",
            "gateway6",
            "mtu",
        ),
        {},
    ),
    "tags": _TAGS,
}
_IPMI: Any = {
    **dict.fromkeys(
        (
            "username",
            "password",
            "ipaddr",
            "gateway",
            "netmask",
            "port",
            "interface",
            "escapechar",
            "write",
            "template",
        ),
        {},
    ),
    "tags": _TAGS,
}
PROFILE_FIELDS: Any = {
    **dict.fromkeys(
        (
            *(
                "profiles",
                "comment",
                "cluster name",
                "image name",
                "ipxe template",
                "runtime overlay",
                "system overlay",
            ),
            *("init", "root", "primary network"),
        ),
        {},
    ),
    "kernel": {"version": {}, "args": {}},
    "ipmi": _IPMI,
    "network devices": {"*": _DEVICE},
    "tags": _TAGS,
    "disks": _ANY,
    "filesystems": _ANY,
    "resources": _ANY,
}
NODE_FIELDS: Any = {**PROFILE_FIELDS, "discoverable": {}, "asset key": {}}
_CLEANED = ("profiles", "system overlay", "runtime overlay")


def read(value: Any, fields: Any) -> Any:
    """What is left of a body: unknown fields are dropped without a word, and what is empty is not there."""
    if not isinstance(value, dict) or not fields:
        return value
    if fields is _TAGS:  # a map of texts, of which an empty one is one as well
        return {key: one or "" for key, one in value.items()}
    kept = {key: read(one, fields.get(key, fields.get("*", {}))) for key, one in value.items() if _known(key, fields)}
    return {key: one for key, one in kept.items() if one not in ("", None, [], {})}


def _known(key: str, fields: Any) -> bool:
    return key in fields or "*" in fields


def merged(into: Any, value: Any, *, append: bool) -> Any:
    """mergo with override: no empty field overrides, and no merge takes a key out of a map. What a map of texts has
    overrides, also where it is empty."""
    if isinstance(value, dict):
        base = into if isinstance(into, dict) else {}
        more = {key: merged(base.get(key), one, append=append) for key, one in value.items() if key != "tags"}
        return {**base, **more, **({"tags": {**base.get("tags", {}), **value["tags"]}} if "tags" in value else {})}
    if append and isinstance(value, list) and isinstance(into, list):
        return [*into, *value]
    return into if value in ("", None, []) else value


def cleaned(names: list[str]) -> list[str]:
    """Without what another entry negates."""
    negated = {one[1:] for one in names if one.startswith("~")}
    return [one for one in names if one not in negated and not one.startswith("~")]


class NodesConf:
    """The file. It is read, changed and written whole, and nobody locks it."""

    def __init__(self, thinks: float = 0.0, tears: float = 0.0) -> None:
        self._text = json.dumps({"nodeprofiles": {}, "nodes": {}})
        self._thinks = thinks
        self._tears = tears
        self._at_once = threading.Lock()  # for those who stand behind the server, and not for its clients

    def load(self) -> dict[str, dict[str, Record]]:
        found: dict[str, dict[str, Record]] = json.loads(self._text or "{}")
        return {"nodeprofiles": {}, "nodes": {}, **found}

    def save(self, content: Any) -> None:
        if self._thinks:
            time.sleep(self._thinks)
        if self._tears:
            self._text = ""  # the file is opened and cut, and filled then
            time.sleep(self._tears)
        self._text = json.dumps(content)

    def change(self, name: str, change: Callable[[Record], object], kind: str = "nodes") -> None:
        """As a person does it, who types commands while nobody else writes."""
        with self._at_once:
            content = self.load()
            change(content[kind].setdefault(name, {}))
            self._text = json.dumps(content)

    def remove(self, name: str) -> None:
        with self._at_once:
            content = self.load()
            del content["nodes"][name]
            self._text = json.dumps(content)


def with_profiles(content: dict[str, dict[str, Record]], name: str) -> Record:
    """A node with what its profiles say, as ``MergeNode`` does it."""
    own, profiles = content["nodes"][name], content["nodeprofiles"]
    found: Record = {}
    for one in cleaned(list(_expanded(own.get("profiles") or [], profiles, set()))):
        found = merged(found, profiles.get(one, {}), append=True)
    found = merged(found, own, append=True)
    for key in ("profiles", "comment"):
        found.pop(key, None)
        found.update({key: own[key]} if own.get(key) else {})
    for key in _CLEANED:
        found.update({key: cleaned(found[key])} if key in found else {})
    if "args" in found.get("kernel", {}):
        found["kernel"]["args"] = cleaned(found["kernel"]["args"])
    if found.get("network devices") and not found.get("primary network"):
        found["primary network"] = sorted(found["network devices"])[0]
    return read(found, NODE_FIELDS)  # type: ignore[no-any-return]


def _expanded(names: list[str], profiles: dict[str, Record], visited: set[str]) -> Iterator[str]:
    for name in names:
        if name.startswith("~"):
            yield name
        elif name not in visited:
            visited.add(name)
            yield from _expanded(profiles.get(name, {}).get("profiles") or [], profiles, visited)
            yield name
