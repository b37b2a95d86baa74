# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which provisioner has a node, which one it left, and for which: as plain data. PRIVATE to the collection.

A place is a provisioner as an inventory names it: the driver, and the settings that say which of its kind. A URL may be
spelled in two ways, so that what is said of the new place is compared by its driver and its machine, and what is said
of the old one as a whole. Where we have deployed or adopted a machine, it is known by its place from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional
from urllib.parse import urlsplit

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names

#: The kind of event; that the old one is proven to boot it no more; that the new one is proven to have it.
KIND = "provisioner"
EVENTS = (LEFT, MOVED) = ("left", "moved")
#: Of a note that keeps what the old one told, which it may forget with the release.
LEAVING = "leaving"
#: By a person's word, the place where the ledger has a node is called otherwise from now on. It is no move.
RENAMED = "renamed"
#: Where an order, an adoption and a maintenance have what they are about.
PLACE = "provisioner_place"
#: Beside the place where a node is: what its provisioner tells of the newest deployment of ours, or of the adoption.
TELLS = "tells"

#: Key of a place -> the option that says it.
_SETTINGS = {"provisioner": "provisioner", "url": "provisioner_url", "cloud": "provisioner_cloud"}
#: On which host of the inventory the commands are, beside their path on it. Whoever runs there himself names none, so
#: that two places are two for it where both name one.
HOST = "login_host"
_HOST_OPTION = "provisioner_login_host"

Place = Mapping[str, Any]


def place_of(options: Mapping[str, Any]) -> dict[str, str]:
    """What these options of a verb name, without a login that a URL may have."""
    told = {key: str(options.get(option) or "") for key, option in _SETTINGS.items()}
    host = str(options.get(_HOST_OPTION) or "")
    return {**_used({**told, "url": _without_login(told["url"])}), **({HOST: host} if host else {})}


def _used(place: Place) -> dict[str, Any]:
    """Less the URL that may stand beside a cloud, and be any other's: the driver reads it no more."""
    read = names.DRIVERS.get(str(place.get("provisioner")), ())
    return {**place, "url": ""} if place.get("cloud") and "provisioner_cloud" in read else dict(place)


def named(variable: Callable[[str], Any]) -> dict[str, str]:
    """What a host of the inventory names, by its variables."""
    return place_of({option: variable(f"gpufleet_{option}") for option in (*_SETTINGS.values(), _HOST_OPTION)})


def noted(options: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """What the ledger is told of the place, by a verb that has one."""
    return {PLACE: place_of(options)} if options.get("provisioner") else {}


def same(one: Place, other: Place) -> bool:
    one, other = _used(one), _used(other)  # what was noted before a URL beside a cloud was left out
    alike = all(str(one.get(key) or "").rstrip("/") == str(other.get(key) or "").rstrip("/") for key in _SETTINGS)
    return alike and not _of_two_hosts(one, other)


def _of_two_hosts(one: Place, other: Place) -> bool:
    hosts = {str(place.get(HOST) or "") for place in (one, other)}
    return len(hosts - {""}) > 1


def _may_be(own: Place, there: Place) -> bool:
    """Are these one service, however each is spelled? Two machines are not, nor two clouds. Of a machine and a
    cloud nobody knows."""
    if own.get("provisioner") != there.get("provisioner") or _of_two_hosts(own, there):
        return False
    own, there = _used(own), _used(there)
    ours, theirs = (str(one.get("url") or "") for one in (own, there))
    if ours and theirs:
        return _host(ours) == _host(theirs)
    clouds = [str(one.get("cloud") or "") for one in (own, there)]
    return clouds[0] == clouds[1] and (bool(clouds[0]) or not (ours or theirs))


def _host(url: str) -> str:
    try:
        return str(urlsplit(url if "://" in url else f"//{url}").hostname or url)
    except ValueError:
        return url


def _without_login(url: str) -> str:
    scheme, there, rest = url.rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{there}{host.rpartition('@')[2]}{slash}{path}"


def apart(known: Place, own: Place) -> bool:
    """Are these two places? Of one that nobody has noted, or that nobody names, there is nothing to compare."""
    return bool(known.get("provisioner") and own.get("provisioner")) and not _may_be(own, known)


def words(place: Place) -> str:
    """As a person is told of it."""
    place = _used(place)
    where = place.get("url") or place.get("cloud") or ""
    name = f" as {place['name']}" if place.get("name") else ""
    on = f" on {place[HOST]}" if place.get(HOST) else ""
    return f"{place.get('provisioner')}{f' at {where}' if where else ''}{on}{name}"


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
