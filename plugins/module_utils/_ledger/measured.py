# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gates measured of a node over time, out of its verdicts in the ledger. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import utc

Cell = tuple[str, str, str]


def series(verdicts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each number that a gate measured: ``gate``, ``check``, ``entity``, ``unit``, ``wanted``, ``verdict`` (the
    newest), ``values`` (``at``, ``value``), oldest first. What is no number has no course over time, and is left out.

    :param verdicts: events of that kind of one node, oldest first.
    """
    found: dict[Cell, dict[str, Any]] = {}
    for event in verdicts:
        for check in _checks(event["data"]):
            value = number(check.get("measured"))
            if value is None:
                continue
            cell = (str(event["name"]), str(check.get("id")), str(check.get("entity")))
            one = found.setdefault(cell, {"gate": cell[0], "check": cell[1], "entity": cell[2], "values": []})
            one.update(unit=str(check.get("unit") or ""), wanted=check.get("wanted"), verdict=check.get("verdict"))
            one["values"].append({"at": utc(event["at"]), "value": value})
    return [found[cell] for cell in sorted(found)]


def _checks(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The ledger has what a release of then wrote."""
    told = data.get("checks")
    return [check for check in told if isinstance(check, Mapping)] if isinstance(told, list) else []


def number(told: Any) -> float | None:
    """A finite number, also one that a tool spelled as a text; None of anything else, a truth value included."""
    if isinstance(told, bool) or not isinstance(told, (int, float, str)):
        return None
    try:
        value = float(told)
    except (ValueError, OverflowError):
        return None
    return value if abs(value) < float("inf") else None
