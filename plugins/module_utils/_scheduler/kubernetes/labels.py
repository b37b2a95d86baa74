# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The topology of a cluster as labels of its nodes, one a level, by which Kueue and others place pods. PRIVATE.

All of them are ours: no other key is read or written. Topograph's (``fabric.topograph.run/``) and the GPU operator's
(``nvidia.com/gpu.clique``) stay theirs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Changed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import folded, in_order
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes import api as apis
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.fields import mapping
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.topology import (
    BLOCK,
    TREE,
    Keeper,
    Topology,
)

_NODES = "/api/v1/nodes"
#: Of a leaf, of the NVLink domain, and of the switches above the leaf: ``gpufleet.io/switch-1`` right above it.
LEAF, DOMAIN, SWITCH = "gpufleet.io/leaf", "gpufleet.io/nvlink-domain", "gpufleet.io/switch-"
_OURS = re.compile(r"gpufleet\.io/(?:leaf|nvlink-domain|switch-[0-9]{1,2})\Z")
#: What a label's value may be. Source: Kubernetes, Labels and Selectors.
_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z")
_AT_ONCE = 8

#: By node, its labels.
Labels = dict[str, dict[str, str]]


class NodeLabels(Keeper):
    def __init__(self, api: apis.Api, records: Callable[[], Mapping[str, Any]]) -> None:
        self._api, self.where = api, api.address
        self._known = records

    def obstacles(self, wanted: Sequence[Topology], *, told: bool) -> Iterator[str]:
        names = {name for one in wanted for name in (*one.units, *one.switches)}
        yield from (f"{name} is no value of a label" for name in in_order(names) if not _VALUE.match(name))
        kinds = [one.kind for one in wanted]
        yield from (f"there are several of the kind {kind}" for kind in (TREE, BLOCK) if kinds.count(kind) > 1)

    def needed(self, wanted: Sequence[Topology]) -> Mapping[str, Collection[str]]:
        """A node without labels goes on getting the pods that ask for none."""
        return {}

    def known(self) -> Collection[str]:
        return self._known().keys()

    # -- as lines of text --------------------------------------------------------------------------------------

    def stands(self) -> str | None:
        return _lines({name: labels for name, (_uid, labels) in self._now().items()})

    def is_ours(self, text: str) -> bool:
        return True

    def text(self, wanted: Sequence[Topology]) -> str:
        found: Labels = {}
        for one in wanted:
            above = _above(one)
            for unit, nodes in one.units.items():
                own = {LEAF: unit} if one.kind == TREE else {DOMAIN: unit}
                own.update({f"{SWITCH}{level}": name for level, name in enumerate(above.get(unit, ()), 1)})
                for node in nodes:
                    found.setdefault(node, {}).update(own)
        return _lines(found)

    # -- on the nodes ------------------------------------------------------------------------------------------

    def _now(self) -> dict[str, tuple[str, dict[str, str]]]:
        """By node, its uid and those of its labels that are ours."""
        return dict(self._api.listed(_NODES, _read))

    def request(self, *, write: bool) -> str:
        return f"PATCH {self.where}{_NODES}/...: labels {LEAF}, {DOMAIN} and {SWITCH}1 and so on"

    def bereft(self, wanted: Sequence[Topology]) -> Collection[str]:
        due = _labels(self.text(wanted))
        return [name for name, (_uid, labels) in self._now().items() if labels and name not in due]

    def put(self, text: str | None, *, over: str | None) -> None:
        """Each node's are its own: those that somebody has changed since are left as they are, and then not proven."""
        wanted, before, due = _labels(text or ""), _labels(over or ""), []
        for name, (uid, labels) in self._now().items():
            own = wanted.get(name, {})
            change = {**dict.fromkeys(set(labels) - set(own)), **own}
            if labels != own and labels == before.get(name, {}):
                due.append((name, uid, change))
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            list(pool.map(lambda one: self._patch(*one), due))

    def _patch(self, name: str, uid: str, labels: Mapping[str, Any]) -> None:
        """By its uid, so that an object that was made anew meanwhile is not taken for it; what else changes in it does
        not matter to labels."""
        path = f"{_NODES}/{name}"
        answer = self._api.patch(path, {"metadata": {"uid": uid, "labels": labels}})
        if answer.code in (404, 409):
            raise Changed(
                "the node was made anew, or taken away, between the look at it and the write",
                node=name,
                address=self.where,
                seen=answer.words,
                do="run again: what is written already stays",
            )
        apis.demand_taken(answer, self.where, f"PATCH {path}")

    def keep(self, former: str | None, texts: Sequence[str | None]) -> None:
        """Labels end no scheduler, and each node's were its own before."""

    def drop(self) -> None:
        """Nothing was kept."""

    def tell(self) -> None:
        """Whoever goes by labels watches them."""

    def amiss(self, wanted: Sequence[Topology]) -> list[str]:
        now = {name: labels for name, (_uid, labels) in self._now().items()}
        due = _labels(self.text(wanted))
        differ = [name for name in {*now, *due} if now.get(name, {}) != due.get(name, {})]
        return [f"the labels of {folded(differ)} are others"] if differ else []


def _read(raw: dict[str, Any]) -> tuple[str, tuple[str, dict[str, str]]]:
    about = mapping(raw, "metadata")
    labels = {key: str(value) for key, value in mapping(about, "labels").items() if _OURS.match(key)}
    return str(about.get("name") or ""), (str(about.get("uid") or ""), labels)


def _above(one: Topology) -> dict[str, list[str]]:
    """By leaf, the switches above it, the nearest first; checked before to end."""
    parent = {child: name for name, below in one.switches.items() for child in below}
    found = {}
    for leaf in one.units:
        chain, at = list[str](), parent.get(leaf)
        while at and at not in chain:
            chain.append(at)
            at = parent.get(at)
        found[leaf] = chain
    return found


def _lines(labels: Mapping[str, Mapping[str, str]]) -> str:
    rows = [f"{node} {key}={labels[node][key]}\n" for node in in_order(labels) for key in sorted(labels[node])]
    return "".join(rows)


def _labels(text: str) -> Labels:
    found: Labels = {}
    for line in text.splitlines():
        node, _blank, rest = line.partition(" ")
        key, _equals, value = rest.partition("=")
        found.setdefault(node, {})[key] = value
    return found
