# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The logs of a Redfish BMC, in the manners of several makers: where they lie, how they are paged, in what order."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Optional
from urllib.parse import parse_qs, urlsplit

from .sessions import error

SYSTEM, MANAGER = "/redfish/v1/Systems/1", "/redfish/v1/Managers/1"
#: When the first event of a log happened that :func:`events` makes; a minute lies between two.
BEGAN = 1780000000


def iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def events(number: int, **more: Any) -> list[dict[str, Any]]:
    """So many, the oldest first, with ids from 1 on."""
    return [
        {
            "Id": str(one), "Name": f"Entry {one}", "EntryType": "SEL", "Severity": "OK", "EntryCode": "Assert",
            "Created": iso(BEGAN + 60 * one), "Message": f"Event {one}", "MessageId": "6fa1ffff",
            "SensorType": "Memory", "SensorNumber": 12, **more,
        }
        for one in range(1, number + 1)
    ]  # fmt: skip


class OneLog:
    """A log. ``page``: so many entries at once, none for all; ``order``: rising, falling, or by the letters of its ids.

    ``top_skip``: whether it obeys ``$top`` and ``$skip``. ``linked``: whether its entries are links. ``next_as``: how
    it leads on. ``counts``: what it says how many there are, the truth where None.
    """

    def __init__(self, uri: str, entries: Sequence[dict[str, Any]] = (), **more: Any) -> None:
        self.uri = uri
        self.entries = [{"@odata.id": f"{uri}/Entries/{one['Id']}", **one} for one in entries]
        self.page: int = more.pop("page", 0)
        self.order: str = more.pop("order", "rising")
        self.top_skip: bool = more.pop("top_skip", False)
        self.linked: bool = more.pop("linked", False)
        self.next_as: str = more.pop("next_as", "Members@odata.nextLink")
        self.counts: Optional[int] = more.pop("counts", None)
        self.has_entries: bool = more.pop("has_entries", True)
        self.fields = more

    def service(self) -> dict[str, Any]:
        doc = {"@odata.id": self.uri, "Id": self.uri.rpartition("/")[2], "DateTime": iso(time.time()), **self.fields}
        return {**doc, "Entries": {"@odata.id": f"{self.uri}/Entries"}} if self.has_entries else doc

    def listed(self) -> list[dict[str, Any]]:
        if self.order == "letters":
            return sorted(self.entries, key=lambda one: str(one["Id"]))
        return self.entries[::-1] if self.order == "falling" else self.entries

    def collection(self, query: str) -> dict[str, Any]:
        asked = {key: int(values[0]) for key, values in parse_qs(query).items() if self.top_skip or key == "$skip"}
        entries = self.listed()
        begin = asked.get("$skip", 0)
        size = min(asked.get("$top", len(entries)), self.page or len(entries))
        part = entries[begin : begin + size]
        uri = f"{self.uri}/Entries"
        doc: dict[str, Any] = {
            "@odata.id": uri,
            "Members@odata.count": len(entries) if self.counts is None else self.counts,
            "Members": [{"@odata.id": one["@odata.id"]} for one in part] if self.linked else part,
        }
        if begin + size < len(entries) and self.page:
            doc[self.next_as] = f"{uri}?$skip={begin + size}"
        return doc


class Logs:
    """All logs of a BMC whose machine is ``/redfish/v1/Systems/1``, or another one."""

    def __init__(self, *logs: OneLog, system: str = SYSTEM, manager: str = MANAGER, **manager_fields: Any) -> None:
        self.logs = list(logs)
        self.system, self.manager = system, manager
        #: Fields of the service root and of the manager; whether the system names its manager.
        self.root: dict[str, Any] = {}
        self.manager_fields = manager_fields
        self.names_manager = True

    def in_root(self) -> dict[str, Any]:
        return {"Managers": {"@odata.id": "/redfish/v1/Managers"}, **self.root}

    def in_system(self) -> dict[str, Any]:
        found: dict[str, Any] = {"Links": {"ManagedBy": [{"@odata.id": self.manager}]}} if self.names_manager else {}
        if self._below(self.system):
            found["LogServices"] = {"@odata.id": f"{self.system}/LogServices"}
        return found

    def get(self, path: str) -> dict[str, Any]:
        parts = urlsplit(path)
        uri = parts.path.rstrip("/")
        if uri == "/redfish/v1/Managers":
            return {"Members": [{"@odata.id": self.manager}]}
        if uri == self.manager:
            logs = {"LogServices": {"@odata.id": f"{uri}/LogServices"}} if self._below(uri) else {}
            return {"@odata.id": uri, "Id": "1", **logs, **self.manager_fields}
        owner = uri.removesuffix("/LogServices")
        if owner != uri:
            return {"Members": [{"@odata.id": one.uri} for one in self._below(owner)]}
        for one in self.logs:
            if uri == one.uri:
                return one.service()
            if uri == f"{one.uri}/Entries":
                return one.collection(parts.query)
            for entry in one.entries:
                if uri == entry["@odata.id"]:
                    return entry
        raise error(404, "Base.1.8.ResourceMissingAtURI")

    def _below(self, owner: str) -> list[OneLog]:
        return [one for one in self.logs if one.uri.startswith(f"{owner}/")]
