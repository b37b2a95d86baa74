# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a fleet stands in the words of Prometheus, for the textfile folder of a node exporter. PRIVATE.

Source of the format: https://prometheus.io/docs/instrumenting/exposition_formats/, the text-based one.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifecycle import STATES
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.served import UNKNOWN, UNSERVED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.summary import counts

#: Each with its help; the names are an interface, on which people's alerts rest.
_HELP = {
    "gpufleet_report_timestamp_seconds": "When this was written.",
    "gpufleet_nodes": "Nodes in each lifecycle state, by ledger and scheduler together.",
    "gpufleet_node_state": "1 for the state in which the node is.",
    "gpufleet_node_stopped": "1 where the newest run went no further with the node.",
    "gpufleet_node_recycles": "Recycles that ended in quarantine since the node was last in service.",
    "gpufleet_passport_expires_timestamp_seconds": "When the newest passport of the node ends.",
    "gpufleet_passport_due": "1 where the node is in service and its passport is to be renewed.",
    "gpufleet_waves": "Waves that were begun within the days of this report.",
    "gpufleet_wave_nodes": "Nodes of those waves by how they came out.",
    "gpufleet_nodes_paused": "Nodes with which no wave begins, since a person paused them.",
    "gpufleet_rollout_broken_off": "1 where no wave of the image begins until a person says that it was mended.",
}
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def text(nodes: Mapping[str, Mapping[str, Any]], at: float, waves: Mapping[str, Any] | None = None) -> str:
    """
    :param nodes: by host name, as ``report.status`` tells them.
    :param waves: as the module fleet_report returns it.
    """
    lines: dict[str, list[str]] = {name: [] for name in _HELP}
    for name, labels, value in (*_samples(nodes, at), *_of_waves(waves)):
        shown = ",".join(f'{key}="{said.translate(_ESCAPED)}"' for key, said in labels.items())
        lines[name].append(f"{name}{{{shown}}} {value:.15g}" if shown else f"{name} {value:.15g}")
    told = [
        line
        for name, its in lines.items()
        if its
        for line in (f"# HELP {name} {_HELP[name]}", f"# TYPE {name} gauge", *its)
    ]
    return "\n".join(told) + "\n"


def _samples(nodes: Mapping[str, Mapping[str, Any]], at: float) -> Iterator[tuple[str, dict[str, str], float]]:
    yield "gpufleet_report_timestamp_seconds", {}, at
    found = counts(nodes)
    for state in sorted({*STATES, UNKNOWN, UNSERVED, *found}):  # one that nobody is in any more is 0, and does not go
        yield "gpufleet_nodes", {"state": state}, found.get(state, 0)
    for host, one in sorted(nodes.items()):
        yield "gpufleet_node_state", {"node": host, "state": str(one["state"])}, 1
        yield "gpufleet_node_stopped", {"node": host}, bool(one["stopped"])
        yield "gpufleet_node_recycles", {"node": host}, one["attempts"]
        yield "gpufleet_passport_due", {"node": host}, bool(one["passport_due"])
        if one["passport_expires"]:
            yield "gpufleet_passport_expires_timestamp_seconds", {"node": host}, _seconds(one["passport_expires"])


def _of_waves(told: Mapping[str, Any] | None) -> Iterator[tuple[str, dict[str, str], float]]:
    if told is None:
        return
    yield "gpufleet_waves", {}, told["waves"]
    for outcome, nodes in sorted(told["outcomes"].items()):
        yield "gpufleet_wave_nodes", {"outcome": outcome}, nodes
    yield "gpufleet_nodes_paused", {}, len(told["paused"])
    for image, why in sorted(told["images"].items()):
        yield "gpufleet_rollout_broken_off", {"image": image}, bool(why)


def _seconds(told: str) -> float:
    return float(calendar.timegm(time.strptime(told, "%Y-%m-%dT%H:%M:%SZ")))
