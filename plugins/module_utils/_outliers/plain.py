# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of entities that no ledger has, judged by the rule of the gate of that name. PRIVATE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.measured import number
from ansible_collections.gpufleet.baremetal.plugins.module_utils._outliers.rule import PEERS, Limit, limit_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, INCONCLUSIVE, PASS


def compared(figures: Mapping[str, Any], bad: str, peers: int = PEERS) -> dict[str, dict[str, Any]]:
    """By entity its verdict. figures: by entity a number, or several, of which the newest and last one counts."""
    values = {str(entity): _newest(told) for entity, told in figures.items()}
    known = [value for value in values.values() if value is not None]
    limit = limit_of(known, bad) if known else None
    return {entity: _judged(value, len(known) - 1, limit, bad, peers) for entity, value in values.items()}


def _newest(told: Any) -> Optional[float]:
    return number(told[-1] if isinstance(told, (list, tuple)) and told else told)


def _judged(value: Optional[float], others: int, limit: Optional[Limit], bad: str, peers: int) -> dict[str, Any]:
    why = "no number" if value is None else ""
    why = why or (f"{others} peers, wanted {peers}" if others < peers else "")
    why = why or ("" if limit else "the median is not above zero")
    found: dict[str, Any] = {"verdict": INCONCLUSIVE, "measured": value, "median": None, "limit": None, "off": None}
    if why or limit is None or value is None:
        return {**found, "reason": why}
    beyond = limit.beyond(value, bad)
    off = limit.off(value)
    reason = f"{off:+.1%} from the median {limit.middle:.4g}, limit {limit.at:.4g}" if beyond else ""
    told = {"median": limit.middle, "limit": limit.at, "off": off, "reason": reason}
    return {**found, **told, "verdict": FAIL if beyond else PASS}
