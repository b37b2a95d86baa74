# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What pairs prove of each of their nodes. PRIVATE to the collection.

A pair that is slow has a bad node, or a bad path between two good ones, and does not say which. So a node passes that
reached what is wanted with somebody, unless a slow pair of it is with another one that did as well: then it is the
path, and of neither it is known. A node fails that was slow with everybody, where one of these is known to be good, and
is of its own leaf: from another one, the path between the leaves is as good a reason.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.pair.plan import Pair
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.together import Cell, Figure, Figures
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, INCONCLUSIVE, PASS

#: Of so many pairs a node must be, to be told from its partners.
_TOLD_APART = 2
_NODE, _PATH, _AGAIN = "field_diag", "fabric", "retest"


class Settled(NamedTuple):
    """What is known of one node in one cell."""

    verdict: str
    measured: Any = None
    why: str = ""
    remedy: str = "none"


def settle(host: str, cell: Cell, found: Mapping[Pair, Figures], places: Mapping[str, str]) -> Settled:
    """:param found: what each pair has shown, of each of its members.
    :param places: by host its leaf; those of which nobody knows it are of one.
    """
    own = {_partner(pair, host): _figure(found, pair, host, cell) for pair in found if host in pair}
    # Whoever reached what is wanted with anybody.
    good = {one for pair in found for one in pair if _figure(found, pair, one, cell).good is True}
    if not own:
        return Settled(INCONCLUSIVE, None, "it has no partner in this batch", _AGAIN)
    if host in good:
        return _of_a_good_one(own, good)
    near = {one for one in own if places.get(one, "") == places.get(host, "")}
    return _of_one_without(own, good, near)


def _partner(pair: Pair, host: str) -> str:
    return pair[1] if pair[0] == host else pair[0]


def _figure(found: Mapping[Pair, Figures], pair: Pair, host: str, cell: Cell) -> Figure:
    return found[pair].get((host, cell), Figure(why="it was not measured"))


def _of_a_good_one(own: Mapping[str, Figure], good: set[str]) -> Settled:
    """What was not good with a partner that is good neither with anybody else, is that one's."""
    doubtful = {partner: one for partner, one in own.items() if one.good is not True and partner in good}
    reached = [one.value for one in own.values() if one.good is True and one.value is not None]
    if not doubtful:
        return Settled(PASS, min(reached, default=None))
    slow = any(one.good is False for one in doubtful.values())
    told = f"with {_said(doubtful)}" + (", and both reach what is wanted with others: look at the path" if slow else "")
    return Settled(INCONCLUSIVE, None, told, _PATH if slow else _AGAIN)


def _of_one_without(own: Mapping[str, Figure], good: set[str], near: set[str]) -> Settled:
    slow = {partner: one for partner, one in own.items() if one.good is False}
    if len(slow) == len(own) >= _TOLD_APART and good & near:
        values = [one.value for one in slow.values() if one.value is not None]
        return Settled(FAIL, max(values, default=None), f"with {_said(slow)}", _NODE)
    why = f"with {_said(own)}" + (", and nobody can say whose fault it is" if slow else "")
    return Settled(INCONCLUSIVE, None, why, _PATH if slow else _AGAIN)


def together(host: str, cell: Cell, figures: Figures) -> Settled:
    """Of all nodes at once: what they do not reach says of none of them that it is the one."""
    one = figures.get((host, cell), Figure(why="it was not measured"))
    if one.good is True:
        return Settled(PASS, one.value)
    return Settled(INCONCLUSIVE, None, one.why, _PATH if one.good is False else _AGAIN)


def merged(figures: Sequence[Figure]) -> Figure:
    """Of several legs the worst: what was not measured once was not measured."""
    unknown = next((one for one in figures if one.good is None), None)
    if unknown is not None or not figures:
        return unknown or Figure(why="it was not measured")
    bad = [one for one in figures if one.good is False]
    values = [one.value for one in bad or figures if one.value is not None]
    return Figure(min(values, default=None), not bad, bad[0].why if bad else "")


def _said(figures: Mapping[str, Figure]) -> str:
    return "; ".join(f"{partner}: {one.why or 'good'}" for partner, one in sorted(figures.items()))
