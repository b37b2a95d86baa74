# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rows of several sources are the same machine. PRIVATE to the collection.

By serial, then by system UUID, then by MAC; a row of a list that is joined also by the address of the BMC. Never by a
name. Whatever is not one clear match is an error that names both rows: a fleet in which two machines were taken for one
is wiped by mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.one_bmc import bmc_place
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _inventory_cells as cells
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_columns import COLUMNS, MACS, UNIQUE
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_record import Record

#: Names of variables that group variables may fill as well.
_OF_ROLES = ("gpufleet_", "ansible_")


@dataclass
class Machine:
    """The rows that are one machine, in the order of their sources."""

    records: list[Record] = field(default_factory=list)

    @property
    def where(self) -> str:
        return " and ".join(record.where for record in self.records)

    @property
    def name(self) -> str:
        return next((record.name for record in self.records if record.name), "")

    @property
    def dpu(self) -> bool:
        """Also where a list has it: whoever else tells of it cannot know."""
        return any(record.dpu for record in self.records)

    @property
    def groups(self) -> list[str]:
        """What its sources name for it besides what the file's expressions do."""
        return list(dict.fromkeys(record.group for record in self.records if record.group))

    def variables(self) -> dict[str, Any]:
        """The first source that knows a variable decides it.

        A variable of the roles that nobody knows stays undefined, so that group variables can fill it. What a source
        merely shows of itself (the owner in Ironic) is there for filters and expressions, also when it is empty.
        """
        merged: dict[str, Any] = {}
        for record in self.records:
            for key, value in record.variables.items():
                if value not in (None, "") and merged.get(key) in (None, ""):
                    merged[key] = value
                elif not key.startswith(_OF_ROLES):
                    merged.setdefault(key, value)
        return merged


class _Join:
    def __init__(self) -> None:
        self.machines: list[Machine] = []
        self._owner: dict[tuple[str, str], tuple[Machine, Record]] = {}

    def add_source(self, records: Sequence[Record], *, join_only: bool) -> list[Record]:
        """Returns the rows that were left out."""
        self._no_twins(records)
        fresh: list[tuple[Machine | None, Record]] = [(self._match(record), record) for record in records]
        if join_only:
            fresh = [(machine or self._behind_its_bmc(record, records), record) for machine, record in fresh]
        seen: dict[int, Record] = {}
        left_out = []
        for machine, record in fresh:
            if machine is None:
                if join_only:
                    left_out.append(record)
                    continue
                machine = Machine()
                self.machines.append(machine)
            elif id(machine) in seen:
                raise _error(
                    "two rows of one source are the same machine",
                    seen[id(machine)],
                    record,
                    via=machine.records[0].where,
                )
            seen[id(machine)] = record
            self._attach(machine, record)
        return left_out

    def _no_twins(self, records: Sequence[Record]) -> None:
        first: dict[tuple[str, str], Record] = {}
        for record in records:
            for key in record.identities():
                other = first.setdefault(key, record)
                if other is not record:
                    raise _error(f"two rows have the {key[0]} {key[1]}", other, record)

    def _match(self, record: Record) -> Machine | None:
        found: dict[int, tuple[Machine, tuple[str, str], Record]] = {}
        for key in record.identities():
            if key in self._owner:
                machine, row = self._owner[key]
                found.setdefault(id(machine), (machine, key, row))
        if len(found) > 1:
            (_one, key, row), (_two, other_key, other_row) = list(found.values())[:2]
            raise ConfigError(
                "one row belongs to two machines",
                seen=f"{record.where} has the {key[0]} {key[1]} of {row.where}"
                f" and the {other_key[0]} {other_key[1]} of {other_row.where}",
                do="correct the serials and MACs in the sources; was a card or a board moved?",
            )
        if not found:
            return None
        machine, key, row = next(iter(found.values()))
        self._agree(machine, record, key)
        return machine

    def _behind_its_bmc(self, record: Record, beside: Sequence[Record]) -> Machine | None:
        """The machine whose BMC has this row's address: where a provisioner was told nothing else by whoever enrolled
        it. Several systems may share a BMC, and their rows are told apart by nothing then.

        :raises ConfigError: where they name other cards: one of the two addresses is another machine's.
        """
        address = _bmc(record)
        if not address or sum(_bmc(other) == address for other in beside) > 1:
            return None
        found = [machine for machine in self.machines if any(_bmc(row) == address for row in machine.records)]
        if len(found) != 1 or _systems([record, *found[0].records]) > 1:
            return None
        self._agree(found[0], record, ("BMC address", address))
        cards = {one for row in found[0].records for one in row.macs}
        if cards and record.macs and not cards & set(record.macs):
            raise _error(f"the same BMC address {address}, and no MAC in common", found[0].records[0], record)
        return found[0]

    def _agree(self, machine: Machine, record: Record, by: tuple[str, str]) -> None:
        """What matches by a weaker key must not differ in a stronger one."""
        for row in machine.records:
            pairs = (
                ("serial", row.serial.upper(), record.serial.upper()),
                ("system UUID", row.system_uuid, record.system_uuid),
            )
            for kind, one, other in pairs:
                if one and other and one != other:
                    raise _error(
                        f"the same {by[0]} {by[1]}, and two different values of {kind} ({one} and {other})", row, record
                    )

    def _attach(self, machine: Machine, record: Record) -> None:
        machine.records.append(record)
        for key in record.identities():
            self._owner.setdefault(key, (machine, record))


def _bmc(record: Record) -> str:
    """Its address as a list writes it, which has no scheme, path or usual port; empty where none is told."""
    text = str(record.variables.get("gpufleet_bmc_address") or "")
    return bmc_place(text) or text


def _systems(records: Sequence[Record]) -> int:
    """How many systems of one BMC they name."""
    return len({str(record.variables.get("gpufleet_bmc_system_id") or "") for record in records} - {""})


def _error(what: str, one: Record, other: Record, *, via: str = "") -> ConfigError:
    return ConfigError(
        what,
        seen=f"{one.where} and {other.where}" + (f", both matching {via}" if via else ""),
        do="correct one of them; machines are joined by serial, system UUID and MAC",
    )


def join(sources: Sequence[tuple[Sequence[Record], bool]]) -> tuple[list[Machine], list[Record]]:
    """Machines, and the rows that were left out; a source is its rows and whether it may add machines of its own.

    :raises ConfigError: naming both rows of a conflict.
    """
    joined = _Join()
    left_out: list[Record] = []
    for records, join_only in sources:
        left_out += joined.add_source(records, join_only=join_only)
    _unique(joined.machines)
    return joined.machines, left_out


def without_a_row(machines: Sequence[Machine], sources: Sequence[tuple[Sequence[Record], bool]]) -> list[Machine]:
    """Those that no row of any list speaks of which is there to add what the others do not know."""
    adds = {id(record) for records, join_only in sources if join_only for record in records}
    return [one for one in machines if adds and not any(id(record) in adds for record in one.records)]


def known_by(machine: Machine) -> str:
    """By what a row could have been found to be of this machine."""
    pairs = [f"{kind} {value}" for record in machine.records for kind, value in record.identities()]
    pairs += [f"BMC address {_bmc(record)}" for record in machine.records if _bmc(record)]
    return ", ".join(dict.fromkeys(pairs)) or "it has neither serial nor UUID, MAC or BMC address"


def _unique(machines: Sequence[Machine]) -> None:
    """What may stand in one row of a list only belongs to one machine only, whoever filled it."""
    first: dict[tuple[str, str], tuple[Machine, str]] = {}
    for machine in machines:
        for key, variable, value in _told_apart(machine.variables()):
            other, its_own = first.setdefault(key, (machine, variable))
            if other is not machine:
                raise ConfigError(
                    f"two machines have the {variable} {value}" + (f" ({its_own})" if its_own != variable else ""),
                    seen=f"{other.where}; {machine.where}",
                    do="correct one of them: it belongs to one machine only",
                )


def _told_apart(variables: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], str, Any]]:
    for column in UNIQUE:
        variable = COLUMNS[column][0]
        value = variables.get(variable)
        if not variable or value in (None, ""):
            continue
        text = cells.same(column, str(value))
        if column == "bmc_ip":  # several systems may have one BMC, and each then has its name there
            text += f" {variables.get('gpufleet_bmc_system_id') or ''}"
        if column == "scheduler_node":  # two clusters may each have a node of this name
            places = ("conf", "context", "url")
            text += "".join(f" {variables.get(f'gpufleet_scheduler_{name}') or ''}" for name in places)
        yield ("mac" if column in MACS else column, text), variable, value
