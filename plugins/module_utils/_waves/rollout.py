# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A roll-out goes on over many runs: what any of them has shown of an image counts. PRIVATE to the collection.

By the image, and by no name that a person gives: whoever takes a node for it, in whatever waves, has tried it out. A
node that was admitted on it has come through, whatever became of it weeks later. One that a killed run left half-way
has shown nothing. What failed counts until it was admitted, or until a person says that it was mended.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import folded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.ended import (
    BEGUN,
    FAILED,
    RESET,
    THROUGH,
    UNTOUCHED,
    WITHDRAWN,
    Ended,
)

UNFINISHED = "unfinished"
_WAVES = (
    "SELECT id, node_id, run_id, name, data FROM events WHERE node_id IN :nodes AND kind = 'wave'"
    f" AND name IN ('{BEGUN}', '{WITHDRAWN}', '{RESET}') ORDER BY id"
)
#: In one of these the ledger has a node in service, as it was before its wave.
_SERVES = ("admitted", "unserved")

Event = Mapping[str, Any]


def image_of(value: Any) -> str:
    """What an image is called in waves: its name and version; empty where it lacks one of them."""
    known = value if isinstance(value, Mapping) else {}
    parts = [str(known.get(key) or "").strip() for key in ("name", "version")]
    return " ".join(parts) if all(parts) else ""


def demand(images: Mapping[str, str]) -> None:
    """:raises ConfigError: where nobody could tell later what these hosts have shown."""
    nameless = [host for host, image in images.items() if not image]
    if nameless:
        raise ConfigError(
            "a roll-out is known by the image, and that of these hosts has no name or no version",
            node=folded(nameless),
            wanted="gpufleet_image with name and version",
            do="complete it in the inventory; nothing was begun",
        )


def remembered(ledger: Ledger, node_ids: Collection[str], images: Collection[str]) -> dict[str, Event]:
    """By id of a node, the newest wave that took it for one of these images, since a person last said of that image
    that what was found out was mended. All waves of these nodes are read."""
    found: dict[str, dict[str, Event]] = {}
    for row in ledger._many(_WAVES, "nodes", list(node_ids) or [""], {}):
        of_node, data = found.setdefault(str(row["node_id"]), {}), json.loads(row["data"])
        if row["name"] == RESET:
            for image in data.get("images") or ():
                of_node.pop(image, None)
        elif row["name"] == WITHDRAWN:
            for image, begun in list(of_node.items()):
                if begun["run_id"] == row["run_id"]:
                    del of_node[image]
        else:
            of_node[str(data.get("image") or "")] = {**row, "data": data}
    wanted = {node: [one for image, one in of.items() if image in images] for node, of in found.items()}
    return {node: max(begun, key=_number) for node, begun in wanted.items() if begun}


def with_earlier(
    own: Ended, begun: Mapping[str, Event], nodes: Mapping[str, Mapping[str, Any]], ledger: Ledger
) -> Ended:
    """What this run has shown, and what earlier ones have.

    :param begun: by host, the wave of an earlier run that took it for the image. :param nodes: where each stands.
    """
    ids = {host: str(nodes[host]["node_id"]) for host in begun}
    admitted = ledger.latest(list(ids.values()), "state", ("admitted",))
    failed = [
        ledger.latest(list(ids.values()), *kind) for kind in (("state", ("quarantined",)), ("note", ("stopped",)))
    ]
    how: dict[str, list[str]] = {THROUGH: [], FAILED: [], UNTOUCHED: [], UNFINISHED: []}
    for host, node in sorted(ids.items()):
        ended = max(_id(one, node) for one in failed)
        how[_came_out(begun[host], nodes[host], _id(admitted, node), ended)].append(host)
    newest = max((begun[host] for host in how[THROUGH]), key=_number, default=None)
    canaries = [host for host, one in sorted(begun.items()) if one["data"].get("canary")]
    return replace(
        own,
        through=(*own.through, *how[THROUGH]),
        failed=(*own.failed, *how[FAILED]),
        canaries=(*own.canaries, *canaries),
        unfinished=tuple(how[UNFINISHED]),
        size=int(newest["data"].get("size") or 0) if newest else 0,
    )


def _came_out(begun: Event, one: Mapping[str, Any], admitted: int, ended: int) -> str:
    """:param admitted, ended: the numbers of the events by which it came back, and by which it was told why not."""
    if admitted > _number(begun):
        return THROUGH
    if one["state"] in _SERVES:
        return UNTOUCHED
    return FAILED if ended > _number(begun) else UNFINISHED


def _number(event: Event) -> int:
    return int(event["id"])


def _id(events: Mapping[str, Event], node: str) -> int:
    return _number(events[node]) if node in events else 0
