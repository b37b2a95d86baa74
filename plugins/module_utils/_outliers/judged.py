# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges the figures of nodes by those of their peers, and by their own past. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from typing import Any, NamedTuple, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import OUTLIERS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import Moment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._outliers.figures import Cell, Figure, Measured
from ansible_collections.gpufleet.baremetal.plugins.module_utils._outliers.rule import (
    BEGINNING,
    LOW,
    MARGIN,
    NEWEST,
    PEERS,
    SPREADS,
    TO_DEVIATION,
    Drift,
    Limit,
    drift_of,
    limit_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    NODE,
    PASS,
    Check,
    Sheet,
    Tool,
    as_verdict,
    json_digest,
    now_utc,
)

NAME = OUTLIERS
_PAST = f"own rule: the middle one of the newest {NEWEST} against the first {BEGINNING} of the same part"


class Judged(NamedTuple):
    """A verdict, what it was asked, and the look of its oldest figure: it is no newer than that."""

    verdict: dict[str, Any]
    asked: dict[str, Any]
    moment: Moment


class Fleet:
    """All nodes that were measured, by id.

    :param peers: so many others must have a figure before one is judged by them.
    """

    def __init__(self, nodes: Mapping[str, Measured], peers: int = PEERS) -> None:
        self._nodes, self._peers = nodes, peers
        self._limits: dict[tuple[str, ...], Optional[Limit]] = {}
        self._drifts: dict[tuple[str, ...], dict[str, Drift]] = {}

    @cached_property
    def _groups(self) -> dict[tuple[str, ...], dict[str, Figure]]:
        """By kind, the newest figure of each node that has such a one."""
        found: dict[tuple[str, ...], dict[str, Figure]] = {}
        for node_id, node in self._nodes.items():
            for figures in node.figures.values():
                newest = figures[-1]
                if newest.value is not None and newest.sku and newest.driver:
                    found.setdefault(newest.kind, {})[node_id] = newest
        return found

    @cached_property
    def _having(self) -> dict[str, dict[Cell, set[str]]]:
        """By SKU and cell, who was measured there as it is now."""
        found: dict[str, dict[Cell, set[str]]] = {}
        for node_id, node in self._nodes.items():
            for cell, figures in node.figures.items():
                if not _gone(node, figures[-1]):
                    found.setdefault(figures[-1].sku, {}).setdefault(cell, set()).add(node_id)
        return found

    def judged(self, node_id: str) -> Judged:
        """What its figures prove; of a node without any, that nothing does."""
        node = self._nodes.get(node_id) or Measured()
        every = [figures[-1] for _cell, figures in sorted(node.figures.items())]
        gone = {figure.cell: why for figure in every if (why := _gone(node, figure))}
        sheet, newest = Sheet(), [figure for figure in every if figure.cell not in gone]
        for figure in newest:
            self._judge(sheet, node_id, node, figure)
        skus = sorted({figure.sku for figure in every if figure.sku})
        for sku in skus:
            self._missed(sheet, node_id, {figure.cell for figure in newest}, gone, sku)
        if not newest:
            why = next(iter(gone.values()), "no gate has told a speed of this node")
            sheet.unsettled("figures", NODE, why)
        profiles = {figure.profile for figure in newest}
        verdict = as_verdict(
            NAME,
            sheet,
            tool=Tool(NAME),
            started=now_utc(),
            evidence=json_digest([[figure.event, *figure.cell, figure.value] for figure in newest]),
            profile={"sku": " ".join(skus), "digest": profiles.pop() if len(profiles) == 1 else ""},
        )
        asked = {"tests": sorted({row.id for row in sheet.rows()} - {"figures"})}
        return Judged(verdict, asked, min((figure.moment for figure in newest), default=Moment()))

    # -- among its peers ---------------------------------------------------------------------------------------

    def _judge(self, sheet: Sheet, node_id: str, node: Measured, figure: Figure) -> None:
        cell = figure.cell
        sheet.require(cell.id, cell.entity, wanted="as its peers", unit=figure.unit)
        why = _unfit(figure) or self._too_few(node_id, figure)
        limit = None if why else self._limit(figure)
        if limit is None or figure.value is None:
            told = why or f"the median of all that have {cell.id} is not above zero"
            sheet.unsettled(cell.id, cell.entity, told)
            return
        beyond = limit.beyond(figure.value, figure.bad)
        if beyond:
            again = _before(node, figure, limit)
            sheet.find(cell.id, cell.entity, _beyond(figure, limit, again), "field_diag" if again else "retest")
        told_by = f"{_median(limit, figure)}; {SPREADS:g} * {TO_DEVIATION:g} * MAD, and {MARGIN:.0%}"
        verdict = FAIL if beyond else PASS
        wanted = _rounded(limit.at)
        sheet.record(Check(cell.id, cell.entity, verdict, figure.value, wanted, figure.unit, told_by))
        self._past(sheet, node_id, figure)

    def _limit(self, figure: Figure) -> Optional[Limit]:
        if figure.kind not in self._limits:
            values = [one.value for one in self._groups[figure.kind].values() if one.value is not None]
            self._limits[figure.kind] = limit_of(values, figure.bad)
        return self._limits[figure.kind]

    def _too_few(self, node_id: str, figure: Figure) -> str:
        """Why its peers tell nothing: each of them has one figure of the kind, and it is none of its own."""
        alike = self._groups.get(figure.kind, {}).keys() - {node_id}
        if len(alike) >= self._peers:
            return ""
        others = self._having.get(figure.sku, {}).get(figure.cell, set()) - alike - {node_id}
        more = f"; {len(others)} more were measured with another driver, tool or unit" if others else ""
        return f"{len(alike)} peers have {figure.cell.id} ({_alike(figure)}), wanted {self._peers}{more}"

    def _missed(self, sheet: Sheet, node_id: str, has: Set[Cell], gone: Mapping[Cell, str], sku: str) -> None:
        """What its peers were measured by, and it was not, as they are now. What nobody runs any more is not missed.

        :param gone: by cell, why what was measured of it says nothing any more.
        """
        for cell, having in sorted(self._having.get(sku, {}).items()):
            others = having - {node_id}
            if cell not in has and len(others) >= self._peers:
                sheet.require(cell.id, cell.entity, wanted="as its peers")
                text = f"{cell.id} of {cell.entity} was not measured here, and of {len(others)} peers it was"
                sheet.unsettled(cell.id, cell.entity, gone.get(cell, text))

    # -- by its own past ---------------------------------------------------------------------------------------

    def _past(self, sheet: Sheet, node_id: str, figure: Figure) -> None:
        """A part with too short a past is not judged by it, and no cell says that it was."""
        drifts = self._drifts_of(figure)
        own = drifts.get(node_id)
        if own is None:
            return
        others = [drift.drifted for one, drift in drifts.items() if one != node_id]
        id, entity, limit = f"{figure.cell.id}.drift", figure.cell.entity, own.limit
        sheet.require(id, entity, wanted=_rounded(limit.at), unit=figure.unit, source=_PAST)
        if own.drifted and len(others) >= self._peers and sum(others) * 2 > len(others):
            text = f"{figure.cell.id} has drifted {limit.off(own.now):+.1%}, and so it has at {sum(others)} of"
            sheet.unsettled(
                id, entity, f"{text} {len(others)} peers: something was changed for all", "remediate_config"
            )
            return
        if own.drifted:
            text = f"{entity}: {own.now:.4g} {figure.unit} of late in {figure.cell.id}"
            sheet.find(id, entity, f"{text}, {limit.off(own.now):+.1%} from its own {limit.middle:.4g}", "retest")
        verdict = FAIL if own.drifted else PASS
        sheet.record(Check(id, entity, verdict, _rounded(own.now), _rounded(limit.at), figure.unit, _PAST))

    def _drifts_of(self, figure: Figure) -> dict[str, Drift]:
        """Of all that have such a figure, and a past long enough."""
        if figure.kind not in self._drifts:
            found: dict[str, Drift] = {}
            for node_id, newest in self._groups.get(figure.kind, {}).items():
                drift = drift_of(_same_part(self._nodes[node_id].figures[newest.cell], newest), newest.bad)
                if drift is not None:
                    found[node_id] = drift
            self._drifts[figure.kind] = found
        return self._drifts[figure.kind]


def _gone(node: Measured, figure: Figure) -> str:
    """Why this figure is of another system, or another part, than the node has now; empty where it is not."""
    now = node.part_now(figure)
    if figure.moment.event < node.since:
        return f"{figure.cell.id} was measured before the node was imaged, or hardware of it was replaced"
    if figure.driver and node.driver != figure.driver:
        return f"{figure.cell.id} was measured with the driver {figure.driver}, and {node.driver} runs now"
    if figure.part and now and now != figure.part:
        return f"{figure.cell.id} was measured before the part was swapped"
    return ""


def _unfit(figure: Figure) -> str:
    """Why nobody can tell what this figure is to be compared with; empty where one can."""
    if figure.value is None:
        return f"{figure.cell.id} was no number in the newest look"
    if not figure.sku:
        return f"of which SKU {figure.cell.id} was measured is not known"
    if not figure.driver:
        return f"with which driver {figure.cell.id} was measured is not known: run gpu_state_gate before it"
    return ""


def _same_part(figures: Sequence[Figure], newest: Figure) -> list[float]:
    """What this part has reached in this place, the oldest first; nothing where nobody has told which part it is."""
    alike = [one for one in figures if one.kind == newest.kind and newest.part and one.part == newest.part]
    return [one.value for one in alike if one.value is not None]


def _before(node: Measured, figure: Figure, limit: Limit) -> bool:
    """Was the same part as far off in the look before this one?"""
    earlier = _same_part(node.figures[figure.cell], figure)[:-1]
    return bool(earlier) and limit.beyond(earlier[-1], figure.bad)


def _beyond(figure: Figure, limit: Limit, again: bool) -> str:
    value = figure.value or 0.0
    told = f"{figure.cell.entity}: {value:.4g} {figure.unit} in {figure.cell.id}, {limit.off(value):+.1%} from the"
    side = "at least" if figure.bad == LOW else "at most"
    more = ", as in the look before" if again else ""
    return f"{told} {_median(limit, figure)}, wanted {side} {limit.at:.4g}{more}"


def _median(limit: Limit, figure: Figure) -> str:
    return f"median {limit.middle:.4g} of {limit.made_of} nodes ({_alike(figure)})"


def _alike(figure: Figure) -> str:
    return ", ".join(filter(None, (figure.sku, f"driver {figure.driver}", figure.tool)))


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
