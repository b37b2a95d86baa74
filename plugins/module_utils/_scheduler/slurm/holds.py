# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps new jobs away from a node of Slurm, and who put it there. PRIVATE to the collection.

Slurm keeps one Reason a node, whatever put it there: a drain, DOWN and FAIL share it. It is the scheduler's own only
where the whole text is one that slurmctld writes, and SlurmUser wrote it; a flag beside it (INVALID_REG, for one)
says nothing about who drained the node. Reservations for maintenance stand in a list of their own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Block, Hold
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.hostlist import expand
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.tables import (
    OWN_REASONS,
    REGISTRATION_REFUSED,
    SILENT,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import has_form, kind_of

_ONE = "|".join(f"(?:{row})" for row in OWN_REASONS)
#: slurmctld joins what it finds at one registration by commas, and appends later findings behind a colon.
_OWN_REASON = re.compile(f"(?:{_ONE})(?:(?:, | : )(?:{_ONE}))*")
_FIELD = re.compile(r"(?:^|\s)(ReservationName|Nodes|Flags|Users|State|StartTime)=(\S*)")
_NO_RESERVATIONS = "No reservations in the system"


_APPENDED = re.compile(f"(?: : (?:{_ONE})(?:, (?:{_ONE}))*)+\\Z")


def own_end(text: str) -> str:
    """What slurmctld appended to a text of somebody else's; empty where it did not."""
    found = None if is_own_text(text) else _APPENDED.search(text)
    return found[0] if found else ""


def is_own_text(text: str) -> bool:
    """All of it, from the first character to the last, is what slurmctld writes by itself."""
    return _OWN_REASON.fullmatch(text) is not None


@dataclass(frozen=True)
class Reservation:
    """One that keeps everybody away, and has begun: with MAINT, or one in which a job of a run's tries the node."""

    name: str
    users: str
    since: str
    trial: bool = False

    def hold(self) -> Hold:
        if self.trial:
            return Hold(
                self.name, since=self.since, kind=kind_of(self.name), form="reservation for a trial", trial=True
            )
        return Hold(self.name, author=self.users, since=self.since, form="maintenance reservation")


def parse_reservations(text: str) -> Mapping[str, list[Reservation]]:
    """Those that keep everybody away and have begun, by node, from ``scontrol -o show reservation``."""
    found: dict[str, list[Reservation]] = {}
    for fields in _told(text):
        trial = has_form(fields["ReservationName"])
        if fields["State"] != "ACTIVE" or not (trial or "MAINT" in fields["Flags"].split(",")):
            continue
        one = Reservation(fields["ReservationName"], fields.get("Users", ""), fields.get("StartTime", ""), trial)
        for node in _nodes(fields):
            found.setdefault(node, []).append(one)
    return found


def reserved(text: str, node: str) -> list[str]:
    """The names of all that have this node, for whatever, begun or not, from the same."""
    return [fields["ReservationName"] for fields in _told(text) if node in _nodes(fields)]


def _told(text: str) -> Iterator[Mapping[str, str]]:
    for line in text.splitlines():
        if not line.strip() or line.strip() == _NO_RESERVATIONS:
            continue
        # The first one counts: a comment stands at the end, and may read like a field.
        fields = dict(reversed(_FIELD.findall(line)))
        if not line.startswith("ReservationName=") or not {"Nodes", "Flags", "State"} <= set(fields):
            raise BadAnswer("a line of scontrol show reservation that cannot be read", seen=cut(line, 200))
        yield fields


def _nodes(fields: Mapping[str, str]) -> list[str]:
    return expand("" if fields["Nodes"] == "(null)" else fields["Nodes"])


@dataclass(frozen=True)
class Marks:
    """What of a node's record its holds are read from."""

    base: str
    flags: frozenset[str]
    reason: str
    set_by: str
    since: str

    def by_scheduler(self, slurm_user: Collection[str]) -> bool:
        return is_own_text(self.reason) and self.set_by in slurm_user

    def holds(self, slurm_user: Collection[str], reservations: Sequence[Reservation]) -> tuple[Hold, ...]:
        """:param slurm_user: name and number of the user that slurmctld writes as."""
        found = [self._own_reason(form, slurm_user) for form in self._forms()]
        if "INVALID_REG" in self.flags:
            text = self.reason if is_own_text(self.reason) else REGISTRATION_REFUSED
            found.append(Hold(text, form="registration refused", by_scheduler=True))
        found += [one.hold() for one in reservations]
        if "MAINTENANCE" in self.flags and all(one.trial for one in reservations):
            found.append(Hold("", form="maintenance reservation that is hidden from this user or over"))
        return tuple(found)

    def _forms(self) -> list[str]:
        """FAIL is a person's word for a node that will fail; slurmctld sets it only for them."""
        shown = {"drain": "DRAIN" in self.flags, "down": self.base == "DOWN", "fail": "FAIL" in self.flags}
        forms = [form for form, is_set in shown.items() if is_set]
        # A drained node that fell down is one hold, with one Reason.
        return [form for form in forms if form != "down" or "drain" not in forms]

    def _own_reason(self, form: str, slurm_user: Collection[str]) -> Hold:
        if form == "fail":
            return Hold(f"FAIL: {self.reason}", author=self.set_by, since=self.since, form=form)
        own, end = self.by_scheduler(slurm_user), own_end(self.reason)
        return Hold(
            self.reason,
            author="" if end and self.set_by in slurm_user else self.set_by,
            since=self.since,
            appended=end,
            kind=kind_of(self.reason),
            form=form,
            by_scheduler=own,
            overwrites=own,
            silence=own and self.reason == SILENT,
        )

    def finding(self) -> str:
        """22.05 leaves the reason of a drained node as it is and says so by the flag alone; 26.05 overwrites it."""
        if is_own_text(self.reason):
            return self.reason
        return REGISTRATION_REFUSED if "INVALID_REG" in self.flags else ""

    def blocks(self) -> tuple[Block, ...]:
        if "INVALID_REG" not in self.flags:
            return ()
        return (
            Block(
                "the scheduler refused the node's registration: its hardware is not what the configuration says",
                seen=self.finding(),
                do="treat it as a failed gate: repair the node or correct slurm.conf; the hold stays",
            ),
        )
