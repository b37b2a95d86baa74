# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of waves over time: when each began and ended, with which nodes, and what stopped them. PRIVATE.

Told is what stands in the ledger. How a node came out of its wave is said by the first that happened to it since:
whoever brings it back, or breaks it, weeks later is no part of that.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import folded, in_order
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import utc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves import ended
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.begun import read

#: On its way still, or left on its way by a run that ended.
GOING, LEFT = "going", "left"
OUTCOMES = (ended.THROUGH, ended.FAILED, GOING, LEFT, ended.UNTOUCHED)
#: With one of these a node has come out of its wave.
_ENDS = {"admitted": ended.THROUGH, "quarantined": ended.FAILED}
#: Runs that are told, the newest, and as many of what people said.
MOST = 40
_COLUMNS = "SELECT id, node_id, run_id, at, kind, name, data FROM events WHERE node_id IN :nodes AND at >= :since"
_WAVES = f"{_COLUMNS} AND kind = 'wave' ORDER BY id"
_HALTS = f"{_COLUMNS} AND kind = 'wave' AND name = '{ended.HALTED}' ORDER BY id"
_SINCE = f"{_COLUMNS} AND (kind = 'state' OR kind = 'note' AND name = 'stopped') ORDER BY id"

Event = Mapping[str, Any]


@dataclass
class _Run:
    """What one run wrote of waves. By id of a node, but for what halted it."""

    planned: dict[str, Event] = field(default_factory=dict)
    begun: dict[str, Event] = field(default_factory=dict)
    withdrawn: dict[str, Event] = field(default_factory=dict)
    halted: list[Event] = field(default_factory=list)

    def events(self) -> list[Event]:
        return [*self.planned.values(), *self.begun.values(), *self.withdrawn.values(), *self.halted]


class OverTime:
    """Gathers, ledger by ledger."""

    def __init__(self, since: float, now: float) -> None:
        self._since, self._now = since, now
        self._hosts: dict[str, str] = {}
        self._busy: frozenset[str] = frozenset()
        self._waves: list[Event] = []
        #: By id of a node, its waves and what people said of it; and what else befell it.
        self._of_node: dict[str, list[Event]] = {}
        self._after: dict[str, list[Event]] = {}
        self._paused: list[str] = []

    def add(self, ledger: Ledger, nodes: Mapping[str, Mapping[str, Any]]) -> None:
        """:param nodes: those of this ledger, by host name, as ``report.status`` tells them."""
        ids = {host: str(one["node_id"]) for host, one in nodes.items() if one["node_id"]}
        self._hosts.update({node: host for host, node in ids.items()})
        self._busy |= {str(one["node_id"]) for one in nodes.values() if one["busy"]}
        pauses = ledger.latest(list(ids.values()), ended.KIND, (ended.PAUSED, ended.RESUMED))
        self._paused += ended.paused({host: ids.get(host, "") for host in nodes}, pauses)
        waves = read(ledger, _WAVES, list(ids.values()), since=self._since)
        own = {str(one["run_id"]) for one in waves}
        # What halts a run stands at one of its nodes, which may be none of these.
        far = read(ledger, _HALTS, ledger.everybody(), since=self._since) if own else []
        known = {one["id"] for one in waves}
        self._waves += [*waves, *(one for one in far if one["run_id"] in own and one["id"] not in known)]
        for event in waves:
            self._of_node.setdefault(str(event["node_id"]), []).append(event)
        taken = {str(one["node_id"]) for one in waves if one["name"] == ended.BEGUN}
        for event in read(ledger, _SINCE, taken, since=self._since) if taken else ():
            self._after.setdefault(str(event["node_id"]), []).append(event)

    def told(self) -> dict[str, Any]:
        """``runs``, ``marks`` and ``now``, as the module fleet_report documents them under ``waves``."""
        runs: dict[str, _Run] = {}
        for event in self._waves:
            _note(runs.setdefault(str(event["run_id"]), _Run()), event)
        went = {run: one for run, one in runs.items() if one.planned or one.begun or one.withdrawn}
        newest = sorted(went.items(), key=lambda item: max(map(_when, item[1].events())), reverse=True)[:MOST]
        found = [self._run(run, one) for run, one in newest]
        return {"runs": found, "marks": self._marks(runs, went), "now": self._now_told(found)}

    # -- one run -----------------------------------------------------------------------------------------------

    def _run(self, run: str, one: _Run) -> dict[str, Any]:
        waves = [self._wave(number, wave) for number, wave in enumerate(_together(one.begun), 1)]
        goes = any(wave["outcomes"].get(GOING) for wave in waves)
        times = [float(event["at"]) for event in one.events()] + [wave["last"] for wave in waves]
        begin, end = min(times), self._now if goes else max(times)
        for wave in waves:
            wave.update(_place(wave.pop("first"), wave.pop("last"), begin, end))
        # Who was taken, and given back, comes to its turn in a later run.
        left = [self._hosts[node] for node in one.planned if node not in one.begun and node in self._hosts]
        return {
            "run": run,
            "first": utc(begin),
            "last": "" if goes else utc(end),
            "images": sorted({str(event["data"].get("image") or "") for event in one.begun.values()} - {""}),
            "planned": {
                "waves": max((int(event["data"].get("of") or 0) for event in one.planned.values()), default=0),
                "nodes": len(one.planned),
            },
            "waves": waves,
            "withdrawn": self._reasons(one.withdrawn.values()),
            "not_begun": in_order(left),
            "halted": [{"at": utc(event["at"]), **_why(event)} for event in one.halted],
        }

    def _wave(self, number: int, begun: Sequence[Event]) -> dict[str, Any]:
        hosts = {self._hosts[str(event["node_id"])]: self._came_out(event) for event in begun}
        how = [one["outcome"] for one in hosts.values()]
        last = max([float(begun[0]["at"]), *(one.pop("seconds") for one in hosts.values())])
        goes = GOING in how
        return {
            "wave": number,
            "canary": any(event["data"].get("canary") for event in begun),
            "image": str(begun[0]["data"].get("image") or ""),
            "begun": utc(begun[0]["at"]),
            "ended": "" if goes or LEFT in how else utc(last),
            "nodes": len(hosts),
            "outcomes": {name: how.count(name) for name in OUTCOMES if name in how},
            "hosts": {host: hosts[host] for host in in_order(hosts)},
            "folded": folded(hosts),
            "first": float(begun[0]["at"]),
            "last": self._now if goes else last,
        }

    def _came_out(self, begun: Event) -> dict[str, Any]:
        """:param begun: the event by which the wave of this node began."""
        node, state, out = str(begun["node_id"]), "", bool(begun["data"].get("out"))
        after = [event for event in self._after.get(node, ()) if int(event["id"]) > int(begun["id"])]
        last = begun
        for event in self._until_the_next(begun, after):
            last, before = event, state
            if event["kind"] == "state":
                state = str(event["name"])
                if state in _ENDS:
                    return _outcome(_ENDS[state], event, state)
            elif event["run_id"] == begun["run_id"]:
                # What somebody else holds is as it was, where nothing had begun with it but the wave.
                failed = before or out or ended.stops(event)
                return _outcome(ended.FAILED if failed else ended.UNTOUCHED, event, before)
        if node in self._busy and (not after or last is after[-1]):
            return _outcome(GOING, last, state)
        return _outcome(LEFT if state else ended.UNTOUCHED, last, state)

    def _until_the_next(self, begun: Event, after: Iterable[Event]) -> Iterator[Event]:
        end = next(iter(self._later(begun, ended.BEGUN)), None)
        return itertools.takewhile(lambda event: end is None or _number(event) < _number(end), after)

    def _later(self, event: Event, *names: str) -> list[Event]:
        """What came of its node after an event."""
        own = self._of_node.get(str(event["node_id"]), ())
        return [one for one in own if one["name"] in names and _number(one) > _number(event)]

    def _reasons(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """Who was given back, by why."""
        found: dict[str, list[str]] = {}
        for event in events:
            found.setdefault(str(event["data"].get("reason") or ""), []).append(self._hosts[str(event["node_id"])])
        return [{"reason": why, "nodes": len(hosts), "hosts": in_order(hosts)} for why, hosts in found.items()]

    # -- between runs ------------------------------------------------------------------------------------------

    def _marks(self, runs: Mapping[str, _Run], went: Collection[str]) -> list[dict[str, Any]]:
        """What people said, and what let whole runs begin nothing; the newest first."""
        said: dict[tuple[Any, ...], list[Event]] = {}
        for event in self._waves:
            if event["name"] in (ended.PAUSED, ended.RESUMED, ended.RESET) and str(event["node_id"]) in self._hosts:
                said.setdefault((event["run_id"], event["at"], event["name"]), []).append(event)
        vain: dict[str, list[Event]] = {}
        for event in (halt for run, one in runs.items() if run not in went for halt in one.halted[-1:]):
            vain.setdefault(str(event["data"].get("reason") or ""), []).append(event)
        marks = [self._mark(events) for events in said.values()] + [_in_vain(events) for events in vain.values()]
        return sorted(marks, key=lambda one: one["at"], reverse=True)[:MOST]

    def _mark(self, events: Sequence[Event]) -> dict[str, Any]:
        data = events[0]["data"]
        hosts = [self._hosts[str(event["node_id"])] for event in events]
        return {
            "what": str(events[0]["name"]),
            "at": utc(events[0]["at"]),
            "until": self._ended(events),
            "by": str(data.get("by") or ""),
            "reason": str(data.get("reason") or ""),
            "images": [str(image) for image in data.get("images") or ()],
            "whole": bool(data.get("whole")),
            "nodes": len(hosts),
            "folded": folded(hosts),
            "runs": 0,
        }

    def _ended(self, pause: Sequence[Event]) -> str:
        """When the last of its nodes was resumed, or paused anew; empty where one still is, and for what has no end."""
        ends = [self._later(event, ended.PAUSED, ended.RESUMED)[:1] for event in pause]
        if pause[0]["name"] != ended.PAUSED or not all(ends):
            return ""
        return utc(max(float(end["at"]) for [end] in ends))

    def _now_told(self, told: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """What the figures of a report have of it."""
        waves = [wave for run in told for wave in run["waves"]]
        return {
            "waves": len(waves),
            "outcomes": {name: sum(wave["outcomes"].get(name, 0) for wave in waves) for name in OUTCOMES},
            "paused": in_order(self._paused),
            "images": _images(self._waves),
        }


def _images(waves: Iterable[Event]) -> dict[str, str]:
    """Of each image that waves were of, why its roll-out was broken off; empty where it goes on."""
    found: dict[str, str] = {}
    for event in sorted(waves, key=_when):
        data = event["data"]
        if event["name"] == ended.BEGUN and data.get("image"):
            found[str(data["image"])] = ""
        elif event["name"] == ended.HALTED and data.get("broken_off"):
            found.update({str(image): str(data.get("reason") or "") for image in data.get("images") or ()})
        elif event["name"] == ended.RESET:
            found.update({str(image): "" for image in data.get("images") or () if str(image) in found})
    return found


def _note(run: _Run, event: Event) -> None:
    node = str(event["node_id"])
    if event["name"] == ended.PLANNED:
        run.planned[node] = event
    elif event["name"] == ended.BEGUN:
        run.begun[node] = event
        run.withdrawn.pop(node, None)
    elif event["name"] == ended.WITHDRAWN:
        run.begun.pop(node, None)
        run.withdrawn[node] = event
    elif event["name"] == ended.HALTED:
        run.halted.append(event)


def _together(begun: Mapping[str, Event]) -> list[list[Event]]:
    """The waves of a run: what began in one was written at once."""
    found: dict[float, list[Event]] = {}
    for event in sorted(begun.values(), key=_when):
        found.setdefault(float(event["at"]), []).append(event)
    return list(found.values())


def _outcome(how: str, event: Event, state: str) -> dict[str, Any]:
    reason = str(event["data"].get("reason") or "") if how in (ended.FAILED, ended.UNTOUCHED) else ""
    return {"outcome": how, "at": utc(event["at"]), "state": state, "reason": reason, "seconds": float(event["at"])}


def _place(first: float, last: float, begin: float, end: float) -> dict[str, float]:
    """Its place on a line of 100."""
    span = max(1.0, end - begin)
    return {"left": round((first - begin) / span * 100, 2), "width": round((last - first) / span * 100, 2)}


def _why(event: Event) -> dict[str, Any]:
    data = event["data"]
    return {"reason": str(data.get("reason") or ""), "broken_off": bool(data.get("broken_off"))}


def _in_vain(halts: Sequence[Event]) -> dict[str, Any]:
    """Runs that began nothing, for one reason; those of several ledgers come ledger by ledger."""
    halts = sorted(halts, key=_when)
    return {
        "what": ended.HALTED,
        "at": utc(halts[0]["at"]),
        "until": utc(halts[-1]["at"]),
        "by": "",
        "reason": str(halts[0]["data"].get("reason") or ""),
        "images": [],
        "whole": False,
        "nodes": max(int(event["data"].get("nodes") or 0) for event in halts),
        "folded": "",
        "runs": len(halts),
    }


def _number(event: Event) -> int:
    return int(event["id"])


def _when(event: Event) -> tuple[float, int]:
    """Of several ledgers each has numbers of its own."""
    return float(event["at"]), _number(event)
