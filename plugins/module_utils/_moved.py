# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which provisioner a node left, and for which: what the ledger keeps of it, as plain data. PRIVATE to the collection.

A place is a provisioner as an inventory names it: the driver, and the settings that say which of its kind. A URL may be
spelled in two ways, so that what is said of the new place is compared by its driver and its machine, and what is said
of the old one as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional
from urllib.parse import urlsplit

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError

#: The kind of event; that the old one is proven to boot it no more; that the new one is proven to have it.
KIND = "provisioner"
EVENTS = (LEFT, MOVED) = ("left", "moved")
#: Of a note that keeps what the old one told, which it may forget with the release.
LEAVING = "leaving"

#: Key of a place -> the option that says it.
_SETTINGS = {"provisioner": "provisioner", "url": "provisioner_url", "cloud": "provisioner_cloud"}

Place = Mapping[str, Any]


def place_of(options: Mapping[str, Any]) -> dict[str, str]:
    """What these options of a verb name."""
    return {key: str(options.get(option) or "") for key, option in _SETTINGS.items()}


def same(one: Place, other: Place) -> bool:
    return all(str(one.get(key) or "").rstrip("/") == str(other.get(key) or "").rstrip("/") for key in _SETTINGS)


def _may_be(own: Place, there: Place) -> bool:
    """Are these one service, however each is spelled? Two machines are not, nor two clouds. Of a machine and a
    cloud nobody knows."""
    if own.get("provisioner") != there.get("provisioner"):
        return False
    ours, theirs = (str(one.get("url") or "") for one in (own, there))
    if ours and theirs:
        return _host(ours) == _host(theirs)
    clouds = [str(one.get("cloud") or "") for one in (own, there)]
    return clouds[0] == clouds[1] and (bool(clouds[0]) or not (ours or theirs))


def _host(url: str) -> str:
    return str(urlsplit(url if "://" in url else f"//{url}").hostname or url)


def words(place: Place) -> str:
    """As a person is told of it."""
    where = place.get("url") or place.get("cloud") or ""
    name = f" as {place['name']}" if place.get("name") else ""
    return f"{place.get('provisioner')}{f' at {where}' if where else ''}{name}"


def ends(event: Mapping[str, Any]) -> tuple[Place, Place]:
    """From where and to where."""
    data = event.get("data") or {}
    return data.get("from") or {}, data.get("to") or {}


def elsewhere(event: Optional[Mapping[str, Any]], own: Place) -> Optional[ConfigError]:
    """Why nothing may be asked of this place for the node any more; None where it may.

    :param event: the node's newest event of this kind, with its name and data. own: what the inventory names now.
    """
    if not event or not own.get("provisioner"):
        return None
    left, there = ends(event)
    if _may_be(own, there) and not same(own, left):
        return None
    if event.get("name") == LEFT:
        return ConfigError(
            f"this node has left {words(left)} for {words(there)}, and the move did not come to its end",
            wanted=words(there),
            seen=words(own),
            do="run the playbook gpufleet.baremetal.migrate_provisioner again for it, with the same migrate_to",
        )
    lines = (event.get("data") or {}).get("inventory") or [f"gpufleet_provisioner: {there.get('provisioner')}"]
    return ConfigError(
        f"this node was moved to {words(there)}, and the inventory does not name that",
        wanted=words(there),
        seen=words(own),
        do=f"change the inventory: {'; '.join(map(str, lines))}",
    )
