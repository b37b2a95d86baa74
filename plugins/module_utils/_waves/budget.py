# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many nodes may be out of service at once: of the fleet, and of each domain of it. PRIVATE to the collection.

A domain is all hosts for which one host variable says the same: a rack, a power feed, a leaf, a pool, a tenant. Whoever
put a node out of service, it counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError

#: The one key of the budgets that is no host variable.
FLEET = "fleet"
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?%\Z")
_NUMBER = re.compile(r"[0-9]+\Z")
_WANTED = "a number of nodes (2), a percentage (10%), or both, of which the lesser counts ({nodes: 2, percent: 10})"


@dataclass(frozen=True)
class Limit:
    """So many, or so many of a hundred; the lesser where both are said."""

    nodes: int | None = None
    percent: float | None = None

    def of(self, total: int, least: int = 0) -> int:
        """:param least: what a percentage comes to at least, unless it is none."""
        shares = [] if self.nodes is None else [self.nodes]
        if self.percent is not None:
            # A hundredth of a float's error must not cost a node: 7 % of 100 are 7.
            share = int(total * self.percent / 100 + 1e-9)
            shares.append(max(share, least if self.percent else 0))
        return min(shares)

    def __str__(self) -> str:
        told = [] if self.nodes is None else [str(self.nodes)]
        return " or ".join([*told, *([] if self.percent is None else [f"{self.percent:g}%"])])


@dataclass(frozen=True)
class Member:
    """A node that belongs to the fleet's service.

    domains: pairs of a budget's key and what the host has there. runs: of each job on it, for how many seconds; None
    where nobody tells.
    """

    host: str
    out: bool = False
    domains: tuple[tuple[str, str], ...] = ()
    runs: tuple[float | None, ...] = ()


@dataclass
class Room:
    """What is left of a budget in one domain."""

    key: str
    value: str
    total: int
    out: int
    may: int

    @property
    def left(self) -> int:
        return max(0, self.may - self.out)

    @property
    def name(self) -> str:
        return f"{self.key} {self.value}".strip()

    def as_data(self) -> dict[str, Any]:
        shown = {"budget": self.key, "value": self.value, "nodes": self.total, "out": self.out}
        return {**shown, "may": self.may, "room": self.left}


Rooms = Mapping[tuple[str, str], Room]


def limits(budgets: Mapping[str, Any]) -> dict[str, Limit]:
    """:raises ConfigError: for a limit that is none. A budget without a number would be no budget."""
    return {str(key): limit(value, f"the budget of {key}") for key, value in budgets.items()}


def limit(value: Any, what: str) -> Limit:
    found = _of_mapping(value) if isinstance(value, Mapping) else _of_text(value)
    if found is None:
        raise ConfigError(f"{what} is no limit", wanted=_WANTED, seen=repr(value), do="correct it")
    return found


def _of_text(value: Any) -> Limit | None:
    text = "" if isinstance(value, bool) else str(value).strip()
    percent = _PERCENT.match(text)
    if percent and float(percent[1]) <= 100:
        return Limit(percent=float(percent[1]))
    return Limit(nodes=int(text)) if _NUMBER.match(text) else None


def _of_mapping(value: Mapping[str, Any]) -> Limit | None:
    if not value or not set(value) <= {"nodes", "percent"}:
        return None
    nodes = _of_text(value.get("nodes", 0))
    percent = _of_text(f"{str(value.get('percent', 0)).rstrip('% ')}%")
    if nodes is None or nodes.nodes is None or percent is None:
        return None
    return Limit(nodes.nodes if "nodes" in value else None, percent.percent if "percent" in value else None)


def domains(host: str, values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Where a host is: its value of each budget's key, or each of its values; a host without one is in no such domain.

    :raises ConfigError: where it is neither a word nor a list of words.
    """
    found = [(FLEET, "")] if FLEET in values else []
    for key, value in values.items():
        if key == FLEET or value in (None, ""):
            continue
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, (Mapping, list, tuple)):
                raise ConfigError(
                    f"{key} has a budget, and names no domain",
                    node=host,
                    wanted="a word, or a list of words",
                    seen=repr(value),
                    do="name a variable that says where the host is",
                )
            found.append((key, str(one)))
    return tuple(dict.fromkeys(found))


def rooms(
    fleet: Iterable[Member], budgets: Mapping[str, Limit], others: Iterable[Member] = ()
) -> dict[tuple[str, str], Room]:
    """:param others: nodes that the inventory does not have: they count in the domains that they share with its own.
    :raises ConfigError: for a budget of a variable that no node has: mistyped, it would hold nobody back.
    """
    members: dict[tuple[str, str], list[Member]] = {}
    for node in fleet:
        for domain in node.domains:
            members.setdefault(domain, []).append(node)
    known = {key for key, _value in members}
    for node in others:
        for domain in {*node.domains} & members.keys():
            members[domain].append(node)
    nowhere = sorted(set(budgets) - known - {FLEET})
    if nowhere and members:
        raise ConfigError(
            f"no node of the fleet has {', '.join(nowhere)}",
            wanted="budgets of host variables that nodes have, or of fleet",
            do="correct the name, or leave that budget out",
        )
    return {domain: _room(domain, nodes, budgets[domain[0]]) for domain, nodes in sorted(members.items())}


def _room(domain: tuple[str, str], nodes: Sequence[Member], may: Limit) -> Room:
    total = len(nodes)
    return Room(*domain, total, sum(node.out for node in nodes), may.of(total, least=1))
