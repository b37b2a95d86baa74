# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom a swap concerns: which node the host was before it, and which other host has a say in that. PRIVATE to the
collection.

What a person says of one host decides nothing about another one of the same inventory, which may be in service.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.aliases import IDENTITY, REPLACED, two_hosts
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.known_as import (
    Asked,
    Plan,
    listed,
    pairs_of,
    state_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.spelling import (
    JOINING,
    Pair,
    compared,
    of_kind,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

#: States in which nothing was imaged or judged yet that another part would make untrue.
UNTOUCHED = frozenset({"discovered", "enrolled", "retired"})
_CORRECT = (
    "correct what was typed (gpufleet_serial and gpufleet_boot_mac of this host, identity_was, identity_value), or"
    " if that is right, the row of the other host, which has the part or the machine no more"
)


# -- who the host is ---------------------------------------------------------------------------------------------------


def here(ledger: Ledger, asked: Asked, *, without: Pair | None = None) -> str:
    """The node of this host as the ledger has it; empty for nobody.

    What the inventory says now may be of the machine that came; then it is whom the host claimed to be before. But a
    machine that the ledger has from other work than this host's is the host now: a rack was renumbered.

    :raises ConfigError: where that was several.
    """
    if asked.text("was"):
        return meant(ledger, asked)
    found, claimed = _by_alias(ledger, asked, without), _by_claim(ledger, asked)
    if asked.node_id:
        return asked.node_id if ledger.name(asked.node_id) else ""
    proper = next((node for node in _by_proper_name(ledger, asked, without) if node not in claimed), "")
    if proper:
        return proper
    return _one(ledger, asked, sorted(found & set(claimed)) or claimed or sorted(found))


def before_the_swap(ledger: Ledger, asked: Asked) -> str:
    """The same, of a host that has other aliases since: any verb that ran in between has begun a node for them.

    :raises ConfigError: where there is no such node, or nobody knows which of several it was.
    """
    node = here(ledger, asked) if asked.text("was") or asked.node_id else _older(ledger, asked)
    if node and not ledger.retired(node):
        return node
    raise ConfigError(
        "the ledger has no living node of this host",
        node=asked.host,
        wanted="the node that the machine was before the swap",
        do="name its old serial, MAC or id in was (-e identity_was=); of a machine that the ledger has never seen"
        " nothing was replaced: run day0_bringup",
    )


def _older(ledger: Ledger, asked: Asked) -> str:
    found, claimed = _by_alias(ledger, asked), _by_claim(ledger, asked)
    older = [node for node in claimed if not _taken_for(ledger, asked.host, node) or _swapped(ledger, node)]
    older = older or [node for node in claimed if node not in found]
    both = sorted(found & set(older))
    # A node that is all that the inventory says now may have begun after the swap, and was taken into service since.
    news = [node for node in both if _swapped(ledger, node) or {ledger.owner(*pair) for pair in asked.says} != {node}]
    return _one(ledger, asked, news or older or sorted(found))


def _by_alias(ledger: Ledger, asked: Asked, without: Pair | None = None) -> set[str]:
    """The living nodes that have what the inventory says."""
    owners = {ledger.owner(*pair) for pair in asked.says if pair != without}
    return {owner for owner in owners if owner and not ledger.retired(owner)}


def _by_proper_name(ledger: Ledger, asked: Asked, without: Pair | None = None) -> list[str]:
    """The living node that is known by the first of these that the inventory says: serial, system UUID, boot MAC."""
    said = [pair for kind in JOINING for pair in asked.says if pair[0] == kind and pair != without]
    owners = [ledger.owner(*pair) for pair in said if pair[0] == said[0][0]]
    return [owner for owner in owners if owner and not ledger.retired(owner)]


def _by_claim(ledger: Ledger, asked: Asked) -> list[str]:
    claimed = [node for node in ledger.claimed_by(asked.host) if names_host(ledger, node, asked.host)]
    return [node for node in claimed if not _is_now(ledger, asked, node)]


def _is_now(ledger: Ledger, asked: Asked, node: str) -> str:
    """Which other host of the inventory this machine is now, as a whole; empty for none.

    One that says its serial and another boot MAC may have got a part of it alone.
    """
    rows = [(row["kind"], row["value"]) for row in ledger.aliases(node) if row["kind"] in JOINING]
    first = next((kind for kind in JOINING if of_kind(rows, kind)), "")
    for pair in rows if first else ():
        host = asked.others.get(compared(pair), "") if pair[0] == first else ""
        ports = [value for (kind, value), other in asked.others.items() if host and other == host and kind == "mac"]
        known = of_kind(rows, "mac")
        if host and (not ports or not known or set(ports) & set(known)):
            return host
    return ""


def _one(ledger: Ledger, asked: Asked, own: Sequence[str]) -> str:
    if len(own) > 1:
        raise ConfigError(
            "this host was several nodes of the ledger",
            node=asked.host,
            seen=", ".join(f"node {one} ({listed(pairs_of(ledger, one))})" for one in own),
            do="name the serial, the MAC or the id of the one that is meant in was (-e identity_was=)",
        )
    return own[0] if own else ""


def names_host(ledger: Ledger, node: str, host: str) -> bool:
    """Has it more of this host than a claim on another one's node?"""
    rows = [row for row in ledger.aliases(node) if row["kind"] in JOINING]
    serials = [row for row in rows if row["kind"] == "serial"]
    return any(row["host"] == host for row in serials or rows)


def meant(ledger: Ledger, asked: Asked) -> str:
    """The node that a person names."""
    text = asked.text("was")
    owners = (ledger.owner(kind, text) for kind in (*JOINING, "gpu"))
    found = text if ledger.name(text) else next(filter(None, owners), "")
    if not found:
        raise ConfigError(f"the ledger knows no node by {text!r}", node=asked.host, do="correct was (identity_was)")
    return found


def _taken_for(ledger: Ledger, host: str, node: str) -> bool:
    """Is it what this host was taken for since a swap, before anybody said that there was one? Nothing came of it."""
    return {row["host"] for row in ledger.aliases(node)} == {host} and state_of(ledger, node) in UNTOUCHED


def _swapped(ledger: Ledger, node: str) -> bool:
    """Did it go on, or begin, with a swap that was said?"""
    return bool(ledger.history(node, kinds=(IDENTITY,), names=(REPLACED,)))


# -- who else has a say ------------------------------------------------------------------------------------------------


def refuse_shared(
    ledger: Ledger, asked: Asked, pairs: Sequence[Pair], nodes: Collection[str] = (), *, leaves: str = ""
) -> None:
    """
    :param pairs: what is to be this host's, or nobody's.
    :param nodes: those that are to go on, or end, as this host's; what it has claimed of them itself is its own.
    :param leaves: of them the one that leaves the fleet, which it has not done where another host has its serial now.
    :raises ConfigError: where another host of the inventory says now that it is any of these.
    """
    for node in filter(None, nodes):
        host = _is_now(ledger, asked, node)
        if host:
            name = f"node {node} ({listed(pairs_of(ledger, node))})"
            raise two_hosts(asked.host, f"{host} says that it is {name} now", _CORRECT)
    told = [(node, row) for node in nodes if node for row in ledger.aliases(node) if row["kind"] in JOINING]
    foreign = [
        (row["kind"], row["value"])
        for node, row in told
        if row["host"] != asked.host or (node == leaves and row["kind"] == "serial")
    ]
    for kind, value in (*pairs, *foreign):
        other = asked.others.get(compared((kind, value)))
        if other:
            owner = ledger.owner(kind, value)
            whose = f", which is node {owner} ({ledger.name(owner)})" if owner else ""
            raise two_hosts(asked.host, f"{other} says {kind} {value} now{whose}", _CORRECT)


def concerned(ledger: Ledger, asked: Asked, plan: Plan) -> list[str]:
    """The other hosts whose nodes the plan changes, by what they have claimed or say now."""
    living = [node for node in plan.nodes if not ledger.retired(node)]
    rows = [row for node in living for row in ledger.aliases(node)]
    hosts = {str(row["host"]) for row in rows}
    hosts |= {asked.others.get(compared((row["kind"], row["value"])), "") for row in rows}
    return sorted(hosts - {"", asked.host})


def also(ledger: Ledger, asked: Asked, node: str) -> list[str]:
    """Which other living nodes the host was, in words."""
    others = [one for one in _by_claim(ledger, asked) if one != node]
    return [
        f"the host was node {one} as well ({listed(pairs_of(ledger, one))}), which is {state_of(ledger, one)}"
        for one in others
    ]


def demand_free(ledger: Ledger, asked: Asked, *ours: str) -> list[str]:
    """The nodes that this host was taken for since the swap: what they have is its own.

    :raises ConfigError: where another living node has what the inventory names here.
    """
    taken: list[str] = []
    for kind, value in asked.says:
        owner = ledger.owner(kind, value)
        if not owner or owner in (*ours, *taken) or ledger.retired(owner):
            continue
        if not _taken_for(ledger, asked.host, owner):
            raise _anothers(ledger, asked, (kind, value), owner)
        taken.append(owner)
    return taken


def _anothers(ledger: Ledger, asked: Asked, pair: Pair, owner: str) -> ConfigError:
    return ConfigError(
        f"the {pair[0]} {pair[1]} belongs to another node",
        node=asked.host,
        seen=f"node {owner} ({ledger.name(owner)})",
        do="correct the inventory; if the part came from that machine, say state moved; if the whole machine did,"
        " retire that node first (ledger_event with state retired)",
    )


def donor(ledger: Ledger, asked: Asked, node: str) -> str:
    """Whose the part was. No inventory names a GPU: it was where it was last said, or measured, to be."""
    kind, _value = asked.pair
    rows = [row for row in ledger._aliases([asked.pair]) if row["kind"] == kind]
    told = [(float(row["seen"]), str(row["node_id"])) for row in rows]
    elsewhere = [one for one in asked.measured if one[1] != node]
    return max((*told, *elsewhere), default=(0.0, ""))[1]
