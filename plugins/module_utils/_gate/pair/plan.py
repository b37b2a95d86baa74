# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is measured with whom. PRIVATE to the collection.

A ring over the nodes of one leaf: each is in two pairs, so that a bad node is told from its partners. What is left over
of leaves with too few nodes makes a ring of its own, and what is too few for that joins the largest.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Pair = tuple[str, str]
#: With fewer there is one pair, and nobody can say whose fault it is.
_RING = 3


def pairs(places: Mapping[str, str]) -> list[list[Pair]]:
    """The pairs in rounds: in each of them a node is once at most.

    :param places: by host the leaf where it is; empty where nobody knows.
    """
    return _rounds([ring for ring in _rings(places) if len(ring) > 1])


def _rings(places: Mapping[str, str]) -> list[list[str]]:
    leaves: dict[str, list[str]] = {}
    for host in sorted(places):
        leaves.setdefault(places[host], []).append(host)
    whole = [hosts for _leaf, hosts in sorted(leaves.items()) if len(hosts) >= _RING]
    left = [host for _leaf, hosts in sorted(leaves.items()) if len(hosts) < _RING for host in hosts]
    if len(left) >= _RING or not whole:
        return [*whole, left]
    largest = max(whole, key=len)
    return [[*ring, *left] if ring is largest else ring for ring in whole]


def _rounds(rings: Sequence[Sequence[str]]) -> list[list[Pair]]:
    rounds: list[list[Pair]] = [[], [], []]
    for ring in rings:
        for at, pair in enumerate(_edges(ring)):
            # The last pair of an odd ring has its first node again, and the one before it its other one.
            odd_end = at and at == len(ring) - 1 and len(ring) % 2
            rounds[2 if odd_end else at % 2].append(pair)
    return [one for one in rounds if one]


def _edges(ring: Sequence[str]) -> list[Pair]:
    if len(ring) < _RING:
        return [(ring[0], ring[1])]
    return [(host, ring[(at + 1) % len(ring)]) for at, host in enumerate(ring)]
