# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages of one log, within bounds. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import answers, select
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.log_order import Newest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.machine import Machine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    FleetError,
    MissingLibrary,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short

#: Of one log: requests for pages, bytes, and entries. A page of iDRAC has 50 entries, one of OpenBMC 1000; entries of
#: recorded logs have a kilobyte.
MOST_PAGES = 60
MOST_BYTES = 32 * 1024 * 1024
MOST_ENTRIES = 20000
#: So many are asked for at once where a BMC lets us say how many.
PAGE = 200
#: Intel's and DMTF's mockups tell the second.
_NEXT = ("Members@odata.nextLink", "@odata.nextLink")
_DO = "read it over IPMI (gpufleet_bmc_protocol: ipmi), where the BMC speaks that"


class Pages:
    """``unread``: what is missing, and why. ``links``: entries that are told as links alone.

    :ivar total: how many entries there are, as the BMC says; None where it does not, or has shown more than that.
    """

    def __init__(self, machine: Machine, entries: str, newest: Newest) -> None:
        self._machine = machine
        self._entries = entries
        self._newest = newest
        self._bytes = 0
        self._asked: set[str] = set()
        self._known: set[str] = set()
        #: How many came, known or not, and how many were passed over on the way to the end.
        self._place = self._skipped = 0
        features = select.section(machine.root, "ProtocolFeaturesSupported")
        #: Only where the BMC says so: others answer with an error, or with the whole log.
        self._by_number = features.get("TopSkipQuery") is True
        self.total: int | None = None
        self.links: list[str] = []
        self.unread: list[str] = []

    def read(self) -> None:
        """:raises FleetError: where not even the first page could be read."""
        page = f"{self._entries}?$top={PAGE}" if self._by_number else self._entries
        while page:
            doc = self._page(page)
            page = self._following(doc, self._take(doc)) if doc is not None else ""
        if self.total is not None and self._seen > self.total:
            self.total = None
        elif not self.unread and not self._newest.enough and self._missing():
            self.unread.append(f"{self._entries}: {self._seen} of {self.total} entries came, and no link to more")

    def document(self, uri: str) -> dict[str, Any]:
        """One resource, counted. It is not kept: a log is large, and asked for once."""
        answer = self._machine.link.get(uri)
        self._bytes += len(answer.content)
        return answers.document(answer, f"{self._machine.address}{uri}")

    def bound(self, what: str) -> str:
        """Which bound was met, in words; empty where none was."""
        if self._bytes > MOST_BYTES:
            return f"after {self._bytes} bytes, the most that are read, {what}"
        return f"the time of this task was over, {what}" if self._machine.late else ""

    # -- one page ------------------------------------------------------------------------------------------------------

    def _page(self, page: str) -> dict[str, Any] | None:
        first = not self._asked
        self._asked.add(page)
        try:
            doc = self.document(page)
            if not isinstance(doc.get("Members"), list):
                where = f"{self._machine.address}{page}"
                raise BadAnswer("the BMC tells a log without entries", address=where, wanted="Members", do=_DO)
            return doc
        except (AuthFailed, MissingLibrary):
            raise
        except FleetError as exc:
            if first:
                raise
            self.unread.append(f"{short(page, 200)}: {exc.what}; {self._rest()}")
            return None

    def _take(self, doc: Mapping[str, Any]) -> int:
        """How many of its entries were not known."""
        members, count = list(doc["Members"]), doc.get("Members@odata.count")
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0 and self.total is None:
            self.total = count
        self._place += len(members)
        items = [item for item in members[:MOST_ENTRIES] if isinstance(item, dict)]
        fresh = [item for item in items if self._is_new(item)]
        if len(items) < len(members):
            self.unread.append(f"{self._entries}: {len(members) - len(items)} of {len(members)} entries cannot be read")
        self.links += [select.link(item) for item in fresh if set(item) == {"@odata.id"}]
        self._newest.take([item for item in fresh if set(item) != {"@odata.id"}])
        return len(fresh)

    def _is_new(self, item: Mapping[str, Any]) -> bool:
        """Pages may overlap, where an event comes while they are read."""
        key = select.link(item) or str(item.get("Id") or len(self._known))
        known = key in self._known
        self._known.add(key)
        return not known

    # -- the next one --------------------------------------------------------------------------------------------------

    def _following(self, doc: Mapping[str, Any], fresh: int) -> str:
        """The page to be read next; none where no more are wanted, or a bound was met, which is told then."""
        page = self._next(doc)
        if not page or self._newest.enough:
            return ""
        where = page.removeprefix(self._machine.address).partition("?")[0]
        if not select.within(where, self._entries):
            return self._ended(f"the BMC leads on to {short(page, 200)}, which is no part of it")
        if page in self._asked or not fresh:
            return self._ended("the BMC's pages lead in a circle")
        if len(self._asked) >= MOST_PAGES or self._seen >= MOST_ENTRIES:
            return self._ended(f"after {len(self._asked)} pages, the most that are read, {self._rest()}")
        problem = self.bound(self._rest())
        return self._ended(problem) if problem else page

    def _next(self, doc: Mapping[str, Any]) -> str:
        if self._by_number and self.total is not None:
            return self._next_by_number()
        return next((page for page in (doc.get(name) for name in _NEXT) if isinstance(page, str) and page), "")

    def _next_by_number(self) -> str:
        """Of a log that begins with the oldest, its end."""
        total = self.total or 0
        if len(self._asked) == 1 and self._newest.rising:
            self._skipped = max(0, total - self._newest.most - self._place)
        place = self._place + self._skipped
        return f"{self._entries}?$skip={place}&$top={PAGE}" if place < total else ""

    def _missing(self) -> bool:
        return self._seen + self._skipped < (self.total or 0)

    @property
    def _seen(self) -> int:
        return self._newest.seen + len(self.links)

    def _rest(self) -> str:
        """What is missing where it ends here."""
        total = "an unknown number" if self.total is None else str(self.total)
        what = "older ones are" if self._newest.falling else "the newest may be"
        return f"{what} missing: {self._seen} of {total} entries were seen"

    def _ended(self, why: str) -> str:
        self.unread.append(f"{self._entries}: {why}")
        return ""
