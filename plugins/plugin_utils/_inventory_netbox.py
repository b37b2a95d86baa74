# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices of a NetBox as inventory records. PRIVATE to the collection.

NetBox answers a filter that it does not know as if it were not there, with all its devices: what is no filter is
refused here. Its pages are asked for by their place, since what a page calls the next one may lead past a proxy, and
would be given the token. People typed what stands there, so it is checked like the cells of a list.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bounded import asked, bounded_session
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    FleetError,
    MissingLibrary,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import keep_secret
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import Peer, cause, said, short
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_cells import checked
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_fields import Fields, without_secrets
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_record import Record

_MISSING: str | None = None
try:
    import requests
except ImportError:
    _MISSING = traceback.format_exc()

#: The lookups that NetBox makes of a filter (``name__isw``), by its kind: of text, of a number, of a choice or of what
#: stands elsewhere, of one that it works out.
_TEXT = ("n", "ic", "nic", "isw", "nisw", "iew", "niew", "ie", "nie", "empty")
_NUMBER, _CHOICE, _ALONE = ("n", "gt", "gte", "lt", "lte"), ("n",), ()
#: What devices of each NetBox can be filtered by; and ``cf_`` before a custom field, whose kind nothing tells here.
FILTERS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("name", "serial"), _TEXT),
    "id": _NUMBER,
    **dict.fromkeys((
        "cluster_id", "device_type", "device_type_id", "location_id", "manufacturer", "manufacturer_id", "platform",
        "platform_id", "rack_id", "region", "region_id", "role", "role_id", "site", "site_group", "site_id", "status",
        "tag", "tenant", "tenant_group", "tenant_id",
    ), _CHOICE),
    **dict.fromkeys(("has_primary_ip", "parent_device_id"), _ALONE),
}  # fmt: skip
#: What a page may have, and how many devices' interfaces are asked for at once: their numbers stand in the address.
PAGE, BLOCK = 500, 100
#: Kinds of interfaces that are no card: what is on them is another one's MAC, or none.
_NO_CARDS = frozenset({"virtual", "bridge", "lag"})
_INFINIBAND = "infiniband"
#: Tokens of NetBox 4.5 and newer begin so, and are told otherwise.
_SECOND = "nbt_"
TIMEOUT = 120.0
_PEER = Peer(
    "NetBox",
    reach="check the source's url, the network, and that NetBox runs",
    trust="set ca_path of the source to the CA that vouches for it",
    login="check the source's token: it must be one of NetBox's, not expired, and may view devices and interfaces",
    key="token",
    setting="the source's url",
)


def read_netbox(options: Mapping[str, Any], *, where: str, fields: Fields) -> list[Record]:
    """All devices that the filters let through, in the order of their numbers.

    :raises FleetError: whatever keeps it from being complete.
    """
    query = filters(options.get("query"), where)
    api = NetboxApi(options, where)
    try:
        devices = api.listed("dcim/devices", [*query, ("exclude", "config_context")])
        _know_fields(devices, query, where)
        cards = api.interfaces([device["id"] for device in devices])
    finally:
        api.close()
    boot = str(options.get("boot_interface") or "")
    return [_filled(device, cards.get(device["id"], []), boot, where, fields) for device in devices]


def filters(query: Any, where: str) -> list[tuple[str, str]]:
    """:raises ConfigError: for what is no filter: NetBox would pass it over, and tell all devices."""
    given = query or {}
    if not isinstance(given, Mapping):
        raise ConfigError("query: a mapping is wanted", node=where, wanted=", ".join(FILTERS))
    found = []
    for name, value in given.items():
        if not _is_filter(str(name)):
            raise _no_filter(str(name), where)
        words = value if isinstance(value, (list, tuple)) else [value]
        if not words or any(isinstance(word, (Mapping, list, tuple)) or word in (None, "") for word in words):
            raise ConfigError(f"query, {name}: a word is wanted, or a list of them", node=where)
        found += [(str(name), str(word).lower() if isinstance(word, bool) else str(word)) for word in words]
    return found


def _is_filter(name: str) -> bool:
    base, behind, lookup = name.partition("__")
    lookups = _CHOICE if re.match(r"cf_[a-z0-9_]+\Z", base) else FILTERS.get(base)
    return lookups is not None and (lookup in lookups if behind else True)


def _no_filter(name: str, where: str) -> ConfigError:
    base = name.partition("__")[0]
    lookups = FILTERS.get(base, _CHOICE if base.startswith("cf_") else ())
    return ConfigError(
        f"a source of type netbox has no filter {name}",
        node=where,
        wanted=", ".join([base, *(f"{base}__{one}" for one in lookups)])
        if base in FILTERS or base.startswith("cf_")
        else f"{', '.join(FILTERS)}, or cf_ and the name of a custom field",
    )


def _know_fields(devices: Sequence[Mapping[str, Any]], query: Sequence[tuple[str, str]], where: str) -> None:
    """:raises ConfigError: for a custom field that devices do not have, or that is not to be filtered by: NetBox passes
    those over as well."""
    asked: dict[str, list[str]] = {}
    for name, value in query:
        asked.setdefault(name, []).append(value)
    for name, values in asked.items():
        own = name.partition("__")[0][3:] if name.startswith("cf_") else ""
        known = devices[0].get("custom_fields") if devices else None
        if own and isinstance(known, Mapping) and own not in known:
            raise ConfigError(
                f"query, {name}: devices of this NetBox have no custom field {own}", node=where, wanted=", ".join(known)
            )
        passed = [one.get("name") or one["id"] for one in devices if own and _is_passed_over(one, own, name, values)]
        if passed:
            raise ConfigError(
                f"query, {name}: NetBox has passed it over",
                node=where,
                wanted=f"{name} {' or '.join(values)}",
                seen=f"device {passed[0]}",
                do="let the custom field be filtered by, or take it out of query",
            )


def _is_passed_over(device: Mapping[str, Any], own: str, name: str, values: Sequence[str]) -> bool:
    """Is it not what was asked for? A filter by text may be loose: a part of it is enough."""
    told = (device.get("custom_fields") or {}).get(own)
    if not isinstance(told, (str, bool, type(None))) or "null" in values:
        return False
    text = ("" if told is None else str(told)).lower()
    if name.endswith("__n"):
        return bool(text) and any(text == value.lower() for value in values)
    return not any(value.lower() in text for value in values)


class NetboxApi:
    """GET alone."""

    def __init__(self, options: Mapping[str, Any], where: str) -> None:
        if _MISSING:
            raise MissingLibrary("requests", why="it speaks to NetBox", cause=_MISSING)
        for name in ("url", "token"):
            if not options.get(name):
                raise ConfigError(f"a source of type netbox needs {name}", node=where, do=f"set {name} in the source")
        token = str(options["token"])
        keep_secret(token)
        self.address = str(options["url"]).rstrip("/").removesuffix("/api")
        self._session = bounded_session(requests.Session())
        kind = "Bearer" if token.startswith(_SECOND) else "Token"
        self._session.headers.update({"Authorization": f"{kind} {token}", "Accept": "application/json"})
        self._session.verify = _PEER.verified_by(self.address, options.get("ca_path"), "ca_path")
        _PEER.demand_tls(self.address)

    def listed(self, path: str, query: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        """All pages.

        :raises BadAnswer: where they do not make one list: it changed meanwhile, or is none.
        """
        found: dict[int, dict[str, Any]] = {}
        total, read = -1, 0
        while read != total:
            place = [*query, ("ordering", "id"), ("limit", str(PAGE)), ("offset", str(read))]
            page = self._get(f"{path}/", place)
            told, rows = (page.get(key) for key in ("count", "results")) if isinstance(page, dict) else (None, None)
            right = isinstance(rows, list) and all(
                isinstance(row, dict) and isinstance(row.get("id"), int) for row in rows
            )
            if not isinstance(told, int) or not right or not isinstance(rows, list):
                raise _PEER.no_list(self.address, f"GET {path}/", page)
            read += len(rows)
            found.update({row["id"]: row for row in rows})
            if total not in (-1, told) or read > told or (read < told and not rows) or len(found) != read:
                raise BadAnswer(
                    f"GET {path}/: its pages make no list; it was changed while it was read",
                    address=self.address,
                    wanted=f"{total if total >= 0 else told} rows",
                    seen=f"{len(found)} of {told}",
                    do="run again",
                )
            total = told
        return list(found.values())

    def interfaces(self, devices: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
        """By device its interfaces."""
        found: dict[int, list[dict[str, Any]]] = {}
        for at in range(0, len(devices), BLOCK):
            query = [("device_id", str(number)) for number in devices[at : at + BLOCK]]
            for row in self.listed("dcim/interfaces", query):
                owner = row.get("device")
                found.setdefault(owner.get("id", 0) if isinstance(owner, Mapping) else 0, []).append(row)
        return found

    def _get(self, path: str, query: Sequence[tuple[str, str]]) -> Any:
        url = f"{self.address}/api/{path}"
        try:
            more: dict[str, Any] = {"params": list(query), "timeout": TIMEOUT, "allow_redirects": False}
            answer = asked(self._session, "GET", url, address=self.address, headers={}, **more)
        except requests.exceptions.RequestException as exc:
            raise _PEER.unreached(self.address, exc, cause(exc), timeout=TIMEOUT) from exc
        if answer.status_code != 200:
            raise self._judged(answer, path)
        try:
            return answer.json()
        except (ValueError, RecursionError) as exc:
            kind = answer.headers.get("Content-Type")
            raise _PEER.no_json(self.address, f"GET {path}", answer.status_code, "", kind=kind) from exc

    def _judged(self, answer: Any, path: str) -> FleetError:
        code = answer.status_code
        if code in (401, 403):  # 403 is NetBox's answer to a wrong token, and to one without the right
            return _PEER.login_refused(self.address, seen=f"HTTP {code}")
        if 300 <= code < 400:
            return BadAnswer(
                f"GET {path}: HTTP {code}, a redirect, which is not followed with a token",
                address=self.address,
                seen=short(answer.headers.get("Location", "")),
                do="correct the source's url: scheme, host and path",
            )
        if code == 400:
            return ConfigError("NetBox takes no such filter", address=self.address, seen=short(answer.text),
                               do="correct query of the source")  # fmt: skip
        return _PEER.refusal(self.address, "GET", path, code, said(code, ""))

    def close(self) -> None:
        self._session.close()


# -- one of them ---------------------------------------------------------------------------------------------------


def _filled(device: dict[str, Any], cards: list[dict[str, Any]], boot: str, where: str, fields: Fields) -> Record:
    place = f"{where}, device {device.get('name') or device['id']}"
    raw = without_secrets({**device, "interfaces": cards})
    return fields.fill(_record(device, cards, boot, place), fields.pick(raw, place))


def _record(device: Mapping[str, Any], cards: Sequence[Mapping[str, Any]], boot: str, place: str) -> Record:
    macs = {str(card.get("name")): _mac(card, place) for card in cards if _is_card(card)}
    macs = {name: address for name, address in macs.items() if address}
    own = {str(card.get("name")) for card in cards if card.get("mgmt_only")}
    hosts = {name: address for name, address in macs.items() if name not in own}
    if boot and cards and boot not in {str(card.get("name")) for card in cards}:
        raise ConfigError(f"it has no interface {boot}", node=place, do="correct boot_interface, or the device there")
    serial = checked("serial", str(device.get("serial") or ""), "serial", place)
    variables: dict[str, Any] = dict(
        gpufleet_serial=serial,
        gpufleet_boot_mac=hosts.get(boot) if boot else next(iter(hosts.values())) if len(hosts) == 1 else None,
        gpufleet_bmc_address=checked("bmc_ip", _address(device, "oob_ip"), "oob_ip", place),
        ansible_host=checked("primary_ip", _address(device, "primary_ip"), "primary_ip", place),
        netbox_id=device["id"],
        netbox_status=_part(device, "status", "value"),
        netbox_position=device.get("position"),
        netbox_asset_tag=device.get("asset_tag"),
        netbox_device_type=_part(device, "device_type", "model"),
        netbox_manufacturer=_part(device.get("device_type"), "manufacturer", "name"),
        netbox_role=_part(device, "role", "slug") or _part(device, "device_role", "slug"),
        netbox_tags=[str(tag.get("slug")) for tag in device.get("tags") or [] if isinstance(tag, Mapping)],
        netbox_bmc_mac=next((macs[name] for name in sorted(own & set(macs))), None),
        **{f"netbox_{name}": _part(device, name, "name") for name in ("rack", "location", "cluster", "platform")},
        **{f"netbox_{name}": _part(device, name, "slug") for name in ("site", "tenant")},
    )
    name = str(device.get("name") or "")
    return Record(where=place, name=name, serial=serial, macs=sorted(set(macs.values())), variables=variables)


def _part(of: Any, name: str, key: str) -> str | None:
    found = of.get(name) if isinstance(of, Mapping) else None
    told = found.get(key) if isinstance(found, Mapping) else None
    return str(told) if told not in (None, "") else None


def _address(device: Mapping[str, Any], name: str) -> str:
    """NetBox tells the length of the network with each address."""
    return (_part(device, name, "address") or "").partition("/")[0]


def _is_card(card: Mapping[str, Any]) -> bool:
    kind = _part(card, "type", "value") or ""
    return kind not in _NO_CARDS and not kind.startswith(_INFINIBAND)


def _mac(card: Mapping[str, Any], place: str) -> str:
    """Since 4.2 an interface has MACs of its own kind, of which one is the first."""
    told = _part(card, "primary_mac_address", "mac_address") or str(card.get("mac_address") or "")
    return str(checked("boot_mac", told, f"MAC of the interface {card.get('name')}", place))
