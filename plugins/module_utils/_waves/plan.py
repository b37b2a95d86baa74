# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who goes when: waves within budgets, from what is out of service now. PRIVATE to the collection.

Waves follow each other, so that each may use what the budgets have left. What came back meanwhile, or went, is read
anew before each of them. A node that is out of service already takes nothing from a budget: it counts whether it is in
the wave or not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import in_order
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.budget import Member, Room, Rooms


@dataclass(frozen=True)
class Plan:
    """waves: the hosts of each, in their order. left: by host, why it is in none."""

    waves: tuple[tuple[str, ...], ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)

    @property
    def order(self) -> list[str]:
        return [host for wave in self.waves for host in wave]


def planned(due: Iterable[Member], rooms: Rooms, canary: int, growth: float, unfinished: Collection[str] = ()) -> Plan:
    """:param canary: how many nodes the first wave has. :param growth: how many times as many the next one has.
    :param unfinished: as of :func:`in_turn`.
    """
    waiting, waves, size = in_turn(due, unfinished), [], float(canary)
    while waiting:
        wave = fitting(waiting, rooms, ceil(size))
        if not wave:
            break
        waves.append(wave)
        taken = set(wave)
        waiting = [node for node in waiting if node.host not in taken]
        size *= growth
    return Plan(tuple(waves), {node.host: full(node, rooms) for node in waiting})


def in_turn(due: Iterable[Member], unfinished: Collection[str] = ()) -> list[Member]:
    """Who is idle first: nobody waits for it. Then who is out of service, and last whose jobs run longest, whose end
    would lose most. Of equal ones, as people count.

    :param unfinished: who was taken by a run that was killed, and goes before all others.
    """
    by_host = {node.host: node for node in due}
    place = {host: at for at, host in enumerate(in_order(by_host))}
    first = frozenset(unfinished)
    return sorted(by_host.values(), key=lambda node: (node.host not in first, *_turn(node), place[node.host]))


def _turn(node: Member) -> tuple[int, float]:
    if node.out:
        return 1, 0.0
    if not node.runs:
        return 0, 0.0
    # Who does not tell may be the longest.
    longest = max(float("inf") if one is None else one for one in node.runs)
    return 2, longest


def fitting(waiting: Sequence[Member], rooms: Rooms, size: int) -> tuple[str, ...]:
    """The first so many of them that may be out of service together."""
    left = {domain: room.left for domain, room in rooms.items()}
    wave: list[str] = []
    for node in waiting:
        if len(wave) == size:
            break
        takes = () if node.out else node.domains
        if all(left[domain] > 0 for domain in takes):
            wave.append(node.host)
            left.update({domain: left[domain] - 1 for domain in takes})
    return tuple(wave)


def full(node: Member, rooms: Rooms) -> str:
    """Which of its domains keep a node from any wave; empty where none does, and where it is out of service already."""
    none = [] if node.out else [rooms[domain] for domain in node.domains if rooms[domain].left < 1]
    return "; ".join(map(_without_room, none))


def _without_room(room: Room) -> str:
    return f"no room in {room.name}: {room.out} of {room.total} are out of service, and {room.may} may be"


def of_hosts(fleet: Iterable[Member], hosts: Collection[str]) -> list[Member]:
    wanted = set(hosts)
    return [node for node in fleet if node.host in wanted]
