# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller lets a module on another machine write, and until when. PRIVATE to the collection.

The module has no ledger, and may outlive its controller. So it writes to the nodes that it was given leave for, and to
them for a few seconds, by a clock of the machine that it runs on; for what else it finds to do it has to come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import PermitDue
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import boot_id, uptime
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Lifeline

Given = Optional[Mapping[str, Any]]


def clock() -> dict[str, Any]:
    """This machine's: nobody sets it, and it tells one boot from another."""
    return {"boot": boot_id(), "uptime": uptime()}


class Leave(Lifeline):
    """The lifeline of one slice.

    :param given: ``writes`` and ``destroys``: the hosts that may be written to, and those that may be hit; ``boot`` and
        ``until``: in which boot of this machine, and up to which of its uptime. None: nobody stands behind this call.
    """

    def __init__(self, given: Given) -> None:
        self._given = given
        self._due: dict[str, bool] = {}
        self._late: float | None = None
        #: The uptime at which this call, in all its parts, has first written.
        self._since: float | None = None

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> str | None:
        """:raises PermitDue: where the controller is to be asked first."""
        for host in nodes if self._given is not None else ():
            if not self._has(host, destructive):
                self._due[host] = self._due.get(host, False) or destructive
                raise PermitDue(f"leave of the controller is due, before: {what}", node=host)
        self._writes()
        return None

    def due(self) -> Mapping[str, bool]:
        return dict(self._due)

    def late(self) -> float | None:
        return self._late if self._since is None else None

    def _writes(self) -> None:
        self._since = clock()["uptime"] if self._since is None else self._since

    def _has(self, host: str, destructive: bool) -> bool:
        hosts = (self._given or {}).get("destroys" if destructive else "writes") or ()
        return host in hosts and self._lasts()

    def _lasts(self) -> bool:
        given, now = self._given or {}, clock()
        ends = given.get("until") if given.get("boot") == now["boot"] else None
        if ends is None or now["uptime"] < float(ends):
            return ends is not None
        self._late = now["uptime"]
        return False


class LeaveOfOne(Leave):
    """The lifeline of one part of a verb on one node. It may write what cannot hit running work; the rest needs leave
    that has not ended.

    :param given: ``boot`` and ``until`` as above; ``given``: since when the leave counts, by the same clock; ``since``:
        when an earlier part has first written. None: nobody stands behind this call.
    """

    def __init__(self, given: Given) -> None:
        super().__init__(given)
        #: When each write was first sent, by its words; the one that leave was due for, and could it hit work?
        self._sent: dict[str, float] = {}
        self._last, self._hits = "", False

    @property
    def begun(self) -> str:
        """What an earlier part has ordered."""
        return str((self._given or {}).get("begun") or "")

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> str | None:
        """:raises PermitDue: where the controller is to be asked first."""
        if self._given is not None and not self._may(destructive):
            self._last, self._hits = what, destructive
            raise PermitDue(f"leave of the controller is due, before: {what}")
        self._sent.setdefault(what, clock()["uptime"] - self.tried(what))
        self._writes()
        return None

    def _may(self, destructive: bool) -> bool:
        return not destructive or self._lasts()

    def waited(self) -> float:
        return self._ago((self._given or {}).get("since"))

    def tried(self, what: str) -> float:
        before = (self._given or {}).get("tried") or {}
        return self._ago(before.get("at")) if before.get("what") == what else 0.0

    def aged(self, ago: Optional[float]) -> Optional[float]:
        """How long ago it is here what was so long ago when the leave was given: the way here takes time as well."""
        return None if ago is None else ago + self._ago((self._given or {}).get("given"))

    def _ago(self, since: Any) -> float:
        """Seconds since an uptime of this boot."""
        now = clock()
        here = since is not None and (self._given or {}).get("boot") == now["boot"]
        return max(0.0, now["uptime"] - float(since)) if here else 0.0

    def told(self, asked: Sequence[str], begun: str = "") -> dict[str, Any]:
        """What the next part has to know, where this one comes back for leave."""
        if self._given is None:
            return {}
        before = self._given.get("since")
        since = self._since if before is None else before
        again = {"what": self._last, "at": self._sent[self._last]} if self._last in self._sent else None
        own = {"hits": self._hits, "tried": again, "begun": begun}
        return {"leave": {"clock": clock(), "late": self.late(), "since": since, **own}, "asked": list(asked)}


class LeaveOfAll(LeaveOfOne):
    """The same where a write that cannot hit running work would undo what others have written since.

    :param given: ``destroys`` beside it: may running work be hit?
    """

    def _may(self, destructive: bool) -> bool:
        return (not destructive or bool((self._given or {}).get("destroys"))) and self._lasts()
