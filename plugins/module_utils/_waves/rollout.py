# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A roll-out goes on over many runs: what any of them has shown of an image counts. PRIVATE to the collection.

By the image, and by no name that a person gives: whoever takes a node for it, in whatever waves, has tried it out. A
node that was admitted on it has come through, whatever became of it weeks later. One that a killed run left half-way
has shown nothing. What failed counts until it was admitted on that image, or until a person says that it was mended:
neither a later wave that was killed or given back, nor the image of before, nor who adopts the node, or admits it for a
reason of their own, takes it back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import folded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._image import rollout_digest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifecycle import ADOPTED, waives
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.begun import Mended, read, took
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.ended import (
    BEGUN,
    FAILED,
    THROUGH,
    UNTOUCHED,
    WITHDRAWN,
    Ended,
    stops,
)

UNFINISHED = "unfinished"
_PAST = (
    "SELECT id, node_id, run_id, at, kind, name, data FROM events WHERE node_id IN :nodes AND id >= :first"
    f" AND (kind = 'wave' AND name IN ('{BEGUN}', '{WITHDRAWN}') OR kind = 'state' OR kind = 'note' AND"
    " name = 'stopped') ORDER BY id"
)
_LATE = (
    "SELECT id, node_id, run_id, data FROM events WHERE node_id IN :nodes AND kind = 'wave'"
    f" AND name = '{BEGUN}' AND (at >= :since OR run_id = :run)"
)
_NAMES = "SELECT node_id, name FROM nodes WHERE node_id IN :nodes"
#: In one of these the ledger has a node in service, as it was before its wave.
_SERVES = ("admitted", "unserved")
#: In one of these what was deployed last is on its way into service.
_ARRIVES = ("imaging", "validating")
#: With one of these it is gone.
_BARE = ("wiping", "retired")

Event = Mapping[str, Any]
#: By id of a node, what people call it, and what became of it.
Gone = Mapping[str, "tuple[str, Past]"]


def image_of(value: Any, digest: Any = "") -> str:
    """What an image is called in waves: its name, its version and the beginning of its declaration's digest; empty
    where it lacks one of the first two. A blank in one of them is no border between them.

    :param digest: as the ledger has it of what was deployed, which does not have the whole declaration.
    """
    known = value if isinstance(value, Mapping) else {}
    parts = [quote(str(known.get(key) or "").strip(), safe="-._~:+/@") for key in ("name", "version")]
    return " ".join((*parts, str(digest or rollout_digest(known))[:12])) if all(parts) else ""


def demand(images: Mapping[str, str]) -> None:
    """:raises ConfigError: where nobody could tell later what these hosts have shown, and of which image."""
    nameless = [host for host, image in images.items() if not image]
    if nameless:
        raise ConfigError(
            "a roll-out is known by the image, and that of these hosts has no name or no version",
            node=folded(nameless),
            wanted="gpufleet_image with name and version",
            do="complete it in the inventory; nothing was begun",
        )
    hosts: dict[str, list[str]] = {}
    for host, image in images.items():
        hosts.setdefault(image, []).append(host)
    if len(hosts) > 1:
        raise ConfigError(
            "a roll-out is of one image, and what one has shown says nothing of another",
            wanted="hosts that are to run one image",
            seen="; ".join(f"{image} ({folded(some)})" for image, some in sorted(hosts.items())),
            do="limit the run to the hosts of one image, and run it for each; nothing was begun",
        )


@dataclass
class Past:
    """What became of a node in the waves that took it for an image, since a person last said that what was found out
    was mended.

    Without an image it is told of all waves alike: whatever they were for, in service again is through.

    mended: the number of that word; 0 for none. waves: those that were not given back, nor came out before it; oldest
    first. at, findings: of the last that it has shown, when that was, and why it failed.
    """

    mended: int = 0
    waves: list[Event] = field(default_factory=list)
    through: bool = False
    failed: bool = False
    at: float = 0.0
    findings: tuple[str, ...] = ()
    _state: str = ""
    _runs: str = ""

    def see(self, event: Event, image: str) -> None:
        """The next of its events."""
        if event["kind"] == "wave":
            self._wave(event, image)
        elif event["kind"] == "state":
            self._stand(event, image)
        elif self._is_of_a_wave(event) and (self._state not in _SERVES or stops(event)):
            self._shows(event, FAILED)

    def _is_of_a_wave(self, event: Event) -> bool:
        """What stopped others, later, says nothing of the image."""
        return event["run_id"] in {wave["run_id"] for wave in self.waves}

    def _wave(self, event: Event, image: str) -> None:
        if event["name"] == BEGUN:
            self.waves += [event] if image in ("", event["data"].get("image")) else []
            # Of what each wave brings, none says anything of the next one.
            self.through = self.through and bool(image)
        else:
            own = [wave for wave in self.waves if wave["run_id"] == event["run_id"]]
            self.waves = [wave for wave in self.waves if wave not in own[-1:]]

    def _stand(self, event: Event, image: str) -> None:
        before, self._state = self._state, event["name"]
        data = event["data"]
        if self._state == "imaging":
            self._runs = image_of({**data, "name": data.get("image")}, data.get("rollout_digest"))
        elif self._state in _BARE or data.get(ADOPTED):
            # Whoever adopts a node has seen that it works, and not what was deployed there, nor by whom.
            self._runs = ""
        elif self._state == "admitted" and image in ("", self._runs) and not waives(data):
            self._shows(event, THROUGH)
        elif self._state == "quarantined":
            arrives = bool(image) and before in _ARRIVES and self._runs == image
            # A run that was killed before it took the node has tried nothing, whatever befalls that one later.
            if arrives or self._is_of_a_wave(event):
                self._shows(event, FAILED)

    def _shows(self, event: Event, how: str) -> None:
        if int(event["id"]) < self.mended:
            # What is on its way still is no part of what was mended: nobody knows yet how it comes out.
            self.waves = []
        elif self.waves and not self.through:
            self.through, self.failed = how == THROUGH, how == FAILED
            self.at = float(event.get("at") or 0.0)
            self.findings = tuple(map(str, event["data"].get("findings") or ())) if self.failed else ()

    def came_out(self, state: str = "") -> str:
        """:param state: where it stands now; without it, where it stood last by its events."""
        state = state or self._state
        if self.through or self.failed:
            return THROUGH if self.through else FAILED
        return UNTOUCHED if state in _SERVES else UNFINISHED


def remembered(ledger: Ledger, node_ids: Collection[str], image: str, said: Mended) -> dict[str, Past]:
    """By id of a node that a wave took for the image, what became of it. All states of these nodes are read."""
    return _pasts(ledger, node_ids, image, said, first=0)


def of_late(ledger: Ledger, node_ids: Collection[str], said: Mended, *, run: str, since: float) -> dict[str, Past]:
    """The same of nodes that waves took since then, or that this run took, whatever for."""
    waves = read(ledger, _LATE, node_ids, run=run, since=since)
    if not waves:
        return {}
    taken = {str(wave["node_id"]) for wave in waves}
    return _pasts(ledger, taken, "", said, first=min(map(_number, waves)))


def _pasts(ledger: Ledger, node_ids: Collection[str], image: str, said: Mended, first: int) -> dict[str, Past]:
    found: dict[str, Past] = {}
    for event in read(ledger, _PAST, node_ids, first=first):
        node = str(event["node_id"])
        if node not in found:
            found[node] = Past(said.last(node, image))
        found[node].see(event, image)
    return {node: past for node, past in found.items() if past.waves}


def gone(ledger: Ledger, node_ids: Collection[str], image: str, said: Mended) -> Gone:
    """The same of nodes that the inventory has no more, with their names: a canary that failed, and whose row was taken
    out, has failed.

    :param node_ids: those that the inventory has.
    """
    others = sorted(set(ledger.everybody()) - set(node_ids))
    tried = {str(event["node_id"]) for event in took(ledger, others, image)}
    if not tried:
        return {}
    names = {str(row["node_id"]): str(row["name"]) for row in ledger._many(_NAMES, "nodes", list(tried), {})}
    pasts = remembered(ledger, tried, image, said)
    return {node: (f"{names[node]} (not in the inventory)", past) for node, past in pasts.items()}


def with_own(own: Ended, pasts: Mapping[str, Past]) -> Ended:
    """What this run has begun, as far as it shows something of the image: what was brought back without it, by
    whomever, has not come through.

    :param pasts: by host of this run's waves, what became of it.
    """
    came = {host: pasts[host].came_out() if host in pasts else UNTOUCHED for host in own.through}
    through = tuple(host for host, how in came.items() if how == THROUGH)
    failed = (*own.failed, *(host for host, how in came.items() if how == FAILED))
    return replace(own, through=through, failed=failed)


def with_plain(own: Ended, pasts: Mapping[str, Past], nodes: Mapping[str, Mapping[str, Any]]) -> Ended:
    """What this run has shown, and what earlier ones have of whatever they brought: who came back then counts among
    those that have ended, and lets nobody go without a canary.

    :param pasts: by host that an earlier run took, and this one did not.
    """
    how = {host: past.came_out(str(nodes[host]["state"])) for host, past in sorted(pasts.items())}
    failed = [host for host, came in how.items() if came == FAILED]
    return replace(
        own,
        failed=(*own.failed, *failed),
        canaries=(*own.canaries, *(host for host in failed if _any_canary(pasts[host].waves[-1:]))),
        back=tuple(host for host, came in how.items() if came == THROUGH),
    )


def with_earlier(own: Ended, pasts: Mapping[str, Past], nodes: Mapping[str, Mapping[str, Any]], away: Gone) -> Ended:
    """What this run has shown, and what earlier ones have.

    :param pasts: by host that an earlier run took for the image. :param nodes: where each stands. :param away: as
        :func:`gone` tells it; what of those was left half-way, nobody goes on with.
    """
    how: dict[str, list[str]] = {THROUGH: [], FAILED: [], UNTOUCHED: [], UNFINISHED: []}
    came: list[Past] = []
    for host, past in sorted(pasts.items()):
        out = past.came_out(str(nodes[host]["state"]))
        how[out].append(host)
        came += [past] if out == THROUGH else []
    canaries = [host for host, past in sorted(pasts.items()) if _any_canary(past.waves)]
    for name, past in sorted(away.values(), key=lambda one: one[0]):
        {THROUGH: how[THROUGH], FAILED: how[FAILED]}.get(past.came_out(), []).append(name)
        came += [past] if past.came_out() == THROUGH else []
        canaries += [name] if _any_canary(past.waves) else []
    newest = max((past.waves[-1] for past in came), key=_number, default=None)
    return replace(
        own,
        through=(*own.through, *how[THROUGH]),
        failed=(*own.failed, *how[FAILED]),
        canaries=(*own.canaries, *canaries),
        unfinished=tuple(how[UNFINISHED]),
        size=int(newest["data"].get("size") or 0) if newest else 0,
    )


def _any_canary(waves: Iterable[Event]) -> bool:
    return any(wave["data"].get("canary") for wave in waves)


def _number(event: Event) -> int:
    return int(event["id"])
