# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs did over time, and how long their stages took, out of the ledger's states. PRIVATE to the collection."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import utc

#: Runs that are told, the newest; what came before them in the window is counted.
RUNS = 40
#: States in which a run works on a node, or waits for it; a node stands in the others until somebody comes.
STAGES = ("draining", "wiping", "imaging", "validating")
#: The part of the nodes that came through within the longer of the two times that are told.
_MOST = 0.9

Turn = Mapping[str, Any]


def runs(turns: Iterable[Turn], hosts: Mapping[str, str], now: float) -> list[dict[str, Any]]:
    """Each run of the window, the newest first: ``run``, ``first``, ``last`` (UTC), ``nodes``, ``states`` (how many of
    its nodes it left in which state), and ``left`` and ``width``, its place on a line of 100.

    :param turns: rows of ``Ledger.states``, oldest first.
    :param hosts: by id of a node, what it is called; a turn of another node is none.
    """
    found: dict[str, dict[str, Any]] = {}
    for turn in turns:
        if turn["node_id"] not in hosts:
            continue
        one = found.setdefault(turn["run_id"], {"from": turn["at"], "to": turn["at"], "stands": {}})
        one["from"], one["to"] = min(one["from"], turn["at"]), max(one["to"], turn["at"])
        one["stands"][turn["node_id"]] = turn["name"]
    newest = sorted(found.items(), key=lambda item: -item[1]["from"])[:RUNS]
    begin = min((one["from"] for _run, one in newest), default=now)
    span = max(1.0, max([now, *(one["to"] for _run, one in newest)]) - begin)
    return [_run(run, one, begin, span) for run, one in newest]


def _run(run: str, one: Mapping[str, Any], begin: float, span: float) -> dict[str, Any]:
    stands = list(one["stands"].values())
    return {
        "run": run,
        "first": utc(one["from"]),
        "last": utc(one["to"]),
        "nodes": len(stands),
        "states": {state: stands.count(state) for state in sorted(set(stands))},
        "left": round((one["from"] - begin) / span * 100, 2),
        "width": round((one["to"] - one["from"]) / span * 100, 2),
    }


def stages(turns: Iterable[Turn], hosts: Mapping[str, str]) -> list[dict[str, Any]]:
    """How long nodes were in each stage before they came into the next state: ``stage``, ``count``, ``median``,
    ``most`` (90 % took no longer), ``slowest`` (seconds), and ``host``, whose the slowest was.
    What goes on is not counted."""
    spent: dict[str, list[tuple[float, str]]] = {}
    for node_id, its in itertools.groupby(sorted(turns, key=_node), _node):
        for stage, seconds in _spent(list(its)) if node_id in hosts else ():
            spent.setdefault(stage, []).append((seconds, hosts[node_id]))
    return [_stage(stage, spent[stage]) for stage in STAGES if stage in spent]


def _node(turn: Turn) -> str:
    return str(turn["node_id"])


def _spent(turns: Sequence[Turn]) -> Iterator[tuple[str, float]]:
    """A stage that was begun anew (a run was killed, the next went on) is one."""
    begun: float | None = None
    for turn, after in zip(turns, turns[1:]):
        begun = turn["at"] if begun is None else begun
        if after["name"] != turn["name"]:
            yield turn["name"], max(0.0, after["at"] - begun)
            begun = None


def _stage(stage: str, spent: Sequence[tuple[float, str]]) -> dict[str, Any]:
    times = sorted(seconds for seconds, _host in spent)
    slowest, host = max(spent)
    return {
        "stage": stage,
        "count": len(times),
        "median": statistics.median(times),
        "most": times[ceil(len(times) * _MOST) - 1],
        "slowest": slowest,
        "host": host,
    }
