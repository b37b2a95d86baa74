# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Entries that a log tells as links alone: the newest are read one by one. PRIVATE to the collection."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.log_entry import number_of, time_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.log_order import Newest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.log_pages import Pages
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import AuthFailed, FleetError, MissingLibrary
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short

#: So many are read one by one at most.
MOST_LINKED = 1000
#: After so many in a row that cannot be read no more are asked for.
_FAILURES = 3


class Linked:
    """Of two orders that a list may have it is not known which: the times of its two ends tell."""

    def __init__(self, pages: Pages, newest: Newest) -> None:
        self._pages = pages
        self._newest = newest
        self._read: dict[str, dict[str, Any]] = {}

    def read(self) -> None:
        found: list[dict[str, Any]] = []
        failures = 0
        for uri in self._from_the_newest():
            if failures == _FAILURES or len(found) >= self._newest.most or self._is_old(found):
                break
            problem = self._bound(uri, f"{len(found)} of {len(self._pages.links)} entries were read")
            if problem:
                self._pages.unread.append(problem)
                break
            doc = self._doc(uri)
            failures = 0 if doc else failures + 1
            found += [doc] if doc else []
        if failures == _FAILURES:
            self._pages.unread.append("and those after it: no more were asked for")
        self._newest.take(found)

    def _bound(self, uri: str, rest: str) -> str:
        if len(self._read) >= MOST_LINKED and uri not in self._read:
            return f"after {MOST_LINKED} requests, the most that are sent, {rest}"
        return self._pages.bound(rest)

    def _from_the_newest(self) -> list[str]:
        uris = self._pages.links
        numbers = [number_of({"@odata.id": uri}) for uri in uris]
        first, last = (time_of(self._doc(uris[place])) for place in (0, -1))
        if first is not None and last is not None and first != last:
            rises = first < last
        else:
            rises = not (numbers[0] is not None and numbers[-1] is not None and numbers[0] > numbers[-1])
        if None in numbers:
            return uris[::-1] if rises else uris
        # By number, which falls or rises with time as the two ends do.
        ends = (numbers[0] or 0) <= (numbers[-1] or 0)
        return sorted(uris, key=lambda uri: number_of({"@odata.id": uri}) or 0, reverse=ends == rises)

    def _is_old(self, found: list[dict[str, Any]]) -> bool:
        at = time_of(found[-1]) if found else None
        return self._newest.since is not None and at is not None and at < self._newest.since

    def _doc(self, uri: str) -> dict[str, Any]:
        if uri not in self._read:
            try:
                self._read[uri] = self._pages.document(uri)
            except (AuthFailed, MissingLibrary):
                raise
            except FleetError as exc:
                self._pages.unread.append(f"{short(uri, 200)}: {exc.what}")
                self._read[uri] = {}
        return self._read[uri]
