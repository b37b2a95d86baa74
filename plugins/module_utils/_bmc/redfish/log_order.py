# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The newest entries of a log in whatever order it comes. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.log_entry import number_of, time_of

Doc = Mapping[str, Any]
_NEVER = float("-inf")


class _Kept(NamedTuple):
    """An entry: its time, or that of its neighbour in the list where it has none; its number; its place."""

    at: float
    number: int
    place: int
    told: float | None
    doc: Doc


class Newest:
    """Takes entries as they come, and keeps the newest. Two entries are in order by time, else by number."""

    def __init__(self, most: int, since: float | None) -> None:
        self.most = most
        self.since = since
        self.seen = 0
        self._kept: list[_Kept] = []
        self._last: _Kept | None = None
        self._rises = self._falls = False

    @property
    def falling(self) -> bool:
        """Did all so far come from newer to older? Of entries that nothing tells apart nobody knows."""
        return self._falls and not self._rises

    @property
    def rising(self) -> bool:
        return self._rises and not self._falls

    @property
    def enough(self) -> bool:
        """Would whatever follows be older than what is wanted?"""
        last = self._last.told if self._last else None
        before = self.since is not None and last is not None and last < self.since
        return self.falling and (len(self._kept) >= self.most or before)

    def take(self, docs: Sequence[Doc]) -> None:
        for one in self._placed(docs):
            if self._last is not None:
                order = _later(self._last, one)
                self._falls, self._rises = self._falls or order > 0, self._rises or order < 0
            self._last = one
            self.seen += 1
            if self.since is None or one.told is None or one.told >= self.since:
                self._kept.append(one)
        self._kept = self._sorted()[: self.most]

    def docs(self) -> list[Doc]:
        """Newest first."""
        return [one.doc for one in self._sorted()]

    def _placed(self, docs: Iterable[Doc]) -> list[_Kept]:
        """A machine whose clock was not set yet writes no time: such an entry stands where its neighbours do."""
        times = [time_of(doc) for doc in docs]
        begin = self._last.at if self._last else next((at for at in times if at is not None), _NEVER)
        found = []
        for place, (doc, told) in enumerate(zip(docs, times), self.seen):
            begin = told if told is not None else begin
            number = number_of(doc)
            found.append(_Kept(begin, -1 if number is None else number, place, told, doc))
        return found

    def _sorted(self) -> list[_Kept]:
        toward = -1 if self.falling else 1
        return sorted(self._kept, key=lambda one: (one.at, one.number, toward * one.place), reverse=True)


def _later(one: _Kept, other: _Kept) -> int:
    """Above 0 where the first of them is the newer one, below where it is the older one."""
    if one.told is not None and other.told is not None and one.told != other.told:
        return 1 if one.told > other.told else -1
    return (one.number > other.number) - (one.number < other.number) if min(one.number, other.number) >= 0 else 0
