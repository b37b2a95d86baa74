# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan for people: what is out of service, what may be, and who goes when. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import folded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.causes import by_cause
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.summary import wrapped
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.budget import FLEET, Room

#: As many budgets, the tightest; as many waves from each end. The result has them all.
_ROOMS, _WAVES = 8, 6
#: Characters of what nodes have in common.
_CAUSE = 300
_HEAD = ("nodes", "out", "may", "room")


def table(title: str, told: Mapping[str, Any], rooms: Iterable[Room], width: int) -> list[str]:
    """:param told: the result of ``fleet_plan``."""
    lines = wrapped("", f"{title}: {headline(told)}", width)
    lines += [line for image in told["images"] for line in wrapped("  image  ", image, width)]
    lines += _budgets(sorted(rooms, key=lambda room: (room.key != FLEET, room.left, room.name)), width)
    lines += _waves(told["waves"], width)
    if told.get("out_elsewhere"):
        head = f"  out elsewhere {len(told['out_elsewhere']):>4}  "
        lines += wrapped(head, ", ".join(told["out_elsewhere"][:_WAVES]), width)
    for why, hosts in _by_why(told["left"]).items():
        lines += _listed(f"  left out {len(hosts):>5}  ", hosts, f": {why}", width)
    return lines


def headline(told: Mapping[str, Any]) -> str:
    nodes = sum(map(len, told["waves"]))
    head = f"{nodes} nodes in {len(told['waves'])} waves, {len(told['left'])} left out"
    return f"{head}; no wave begins: {told['halted']}" if told["halted"] else head


def artifact(halted: str, broken_off: bool) -> dict[str, Any]:
    """Why no wave may begin, for the jobs that follow and people who are told of this one, as ``set_stats`` does."""
    told = {"halted": cut(halted, _CAUSE), "broken_off": broken_off}
    return {"data": {"gpufleet_waves": told}, "per_host": False, "aggregate": False}


def shared(nodes: Mapping[str, Mapping[str, Any]]) -> str:
    """What most of these nodes have in common, as the status groups them; empty for none.

    :param nodes: by host, where it stands, as ``report.status`` tells it.
    """
    groups = by_cause(nodes)
    most = max(groups, key=lambda group: int(group["count"]), default=None)
    if most is None:
        return ""
    cause = cut(f"{most['state']}: {most['cause']}" if most["cause"] else str(most["state"]), _CAUSE)
    return f"{most['count']} of {len(nodes)} are {cause}"


def _budgets(rooms: Sequence[Room], width: int) -> list[str]:
    shown = rooms[:_ROOMS]
    widest = min(max((len(room.name) for room in shown), default=0), max(6, width - 36))
    lines = [f"  {'budget':<{widest}}" + "".join(f"{word:>8}" for word in _HEAD)] if shown else []
    for room in shown:
        numbers = (room.total, room.out, room.may, room.left)
        lines.append(f"  {room.name[:widest]:<{widest}}" + "".join(f"{number:>8}" for number in numbers))
    more = rooms[_ROOMS:]
    return [*lines, *([f"  and {len(more)} more that have room"] if more and more[0].left else _also_full(more))]


def _also_full(more: Sequence[Room]) -> list[str]:
    return [f"  and {len(more)} more, some of them full"] if more else []


def _waves(waves: Sequence[Sequence[str]], width: int) -> list[str]:
    lines = []
    for number, wave in enumerate(waves, 1):
        if _WAVES < number <= len(waves) - _WAVES:
            if number == _WAVES + 1:
                lines.append(f"  and {len(waves) - 2 * _WAVES} more waves")
            continue
        lines += _listed(f"  wave {number:>3}  {len(wave):>5}  ", wave, "", width)
    return lines


def _listed(head: str, hosts: Sequence[str], words: str, width: int) -> list[str]:
    """A list that is longer than a line is broken, also where it could be copied as a whole before."""
    names = folded(hosts)
    return wrapped(head, (names if len(head) + len(names) <= width else names.replace(",", ", ")) + words, width)


def _by_why(left: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for host, why in left.items():
        found.setdefault(why, []).append(host)
    return found


def pause(event: Mapping[str, Any], when: str) -> str:
    """Who paused it, since when, and why."""
    data = event["data"]
    return f"paused by {data.get('by') or 'somebody'} since {when}: {data.get('reason') or 'no reason was told'}"
