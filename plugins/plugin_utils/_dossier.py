# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that a report tells of a fleet, as plain data: read from one ledger or several. PRIVATE to the collection."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import timeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.measured import series
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import utc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.story import story
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.dsse import payload_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.over_time import OverTime

#: Verdicts of a node whose numbers are told; a story has as many events.
_VERDICTS, _EVENTS = 24, 40
#: Who needs nobody is told in detail last.
_AT_REST = ("admitted", "retired", "discovered")


class Dossier:
    """Gathers, ledger by ledger; what one of them has not is simply not told.

    since: seconds since the epoch, from when on runs are told. details: of so many nodes all is told, those first with
    which something is to be done.
    """

    def __init__(self, since: float, now: float, details: int) -> None:
        self.since, self.now, self.details = since, now, details
        self._turns: list[dict[str, Any]] = []
        self._hosts: dict[str, str] = {}
        self.pages: dict[str, dict[str, Any]] = {}
        self._waves = OverTime(since, now)

    def add(self, ledger: Ledger, nodes: Mapping[str, Mapping[str, Any]]) -> None:
        """:param nodes: those of this ledger, by host name, as ``report.status`` tells them."""
        hosts = {str(one["node_id"]): host for host, one in nodes.items() if one["node_id"]}
        self._hosts.update(hosts)
        self._turns += ledger.states(list(hosts), self.since)
        self._waves.add(ledger, nodes)
        for host in first(nodes)[: max(0, self.details - len(self.pages))]:
            if nodes[host]["node_id"]:
                self.pages[host] = page(ledger, str(nodes[host]["node_id"]))

    def told(self) -> dict[str, Any]:
        """``waves``, ``runs``, ``stages`` and ``pages``, as the module fleet_report documents them."""
        return {
            "waves": self._waves.told(),
            "runs": timeline.runs(self._turns, self._hosts, self.now),
            "stages": timeline.stages(self._turns, self._hosts),
            "pages": self.pages,
        }


def first(nodes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """In the order in which they are told in detail."""
    return sorted(nodes, key=lambda host: (nodes[host]["state"] in _AT_REST and not nodes[host]["stopped"], host))


def page(ledger: Ledger, node_id: str) -> dict[str, Any]:
    """One node: its ``story``, its ``passport`` and what was ``measured``."""
    return {
        "story": story(ledger, node_id, last=_EVENTS, all_kinds=False),
        "passport": _passport(ledger.passport(node_id)),
        "measured": series(ledger.history(node_id, kinds=("verdict",), last=_VERDICTS)),
    }


def _passport(stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the newest one says; its signature is for others to verify. Empty where there is none that can be read."""
    if stored is None:
        return {}
    told = {"issued": utc(stored["issued"]), "expires": utc(stored["expires"]), "digest": str(stored["digest"])}
    try:
        statement = json.loads(payload_of(stored["envelope"]))
        predicate = statement["predicate"]
        return {
            **told,
            "subject": [str(item["name"]) for item in statement["subject"]],
            "image": {key: str(predicate["image"].get(key) or "") for key in ("name", "version", "sha256")},
            "gates": [{"gate": str(gate["gate"]), "verdict": str(gate["verdict"])} for gate in predicate["gates"]],
        }
    except (FleetError, ValueError, LookupError, TypeError, AttributeError):
        return {**told, "subject": [], "image": {}, "gates": []}


def expiring(nodes: Mapping[str, Mapping[str, Any]], most: int = 20) -> list[dict[str, str]]:
    """The nodes in service whose passports end next: ``host``, ``expires``, ``next``."""
    served = [(one["passport_expires"], host) for host, one in nodes.items() if one["state"] == "admitted"]
    return [
        {"host": host, "expires": ends or "none", "next": str(nodes[host]["next"])}
        for ends, host in sorted(served)[:most]
    ]


def places(values: Sequence[Mapping[str, Any]], width: float = 120.0, height: float = 24.0) -> str:
    """The points of a line through these values, as SVG takes them; a single one is a line of its own."""
    numbers = [float(one["value"]) for one in values]
    low, high = min(numbers), max(numbers)
    step = width / max(1, len(numbers) - 1)
    drawn = numbers if len(numbers) > 1 else numbers * 2
    step = width if len(numbers) == 1 else step
    scale = (height - 4) / (high - low) if high > low else 0.0
    return " ".join(f"{at * step:.1f},{height - 2 - (value - low) * scale:.1f}" for at, value in enumerate(drawn))
