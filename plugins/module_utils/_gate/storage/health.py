# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what an NVMe drive tells of its health. PRIVATE to the collection.

The counters are believed, and no word that a tool makes of them: smartctl called drives ``passed`` whose spare was used
up. Nothing is filled in: a drive that does not answer tells no zero.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.whole import document, number

WARNING, SPARE, THRESHOLD, WORN, ERRORS = (
    *("critical_warning", "available_spare", "available_spare_threshold"),
    *("percentage_used", "media_errors"),
)


class Told(NamedTuple):
    """How tools spell a counter, and the highest that it can be."""

    names: tuple[str, ...]
    highest: int


#: Spellings of nvme-cli 1.x and 2.x (nvme-print-json.c) and of those that spell names out, as smartctl does; ranges of
#: the log page 02h in the NVM Express Base Specification 2.0, figure 207.
FIELDS: Mapping[str, Told] = {
    WARNING: Told(("critical_warning",), 255),
    SPARE: Told(("avail_spare", "available_spare"), 100),
    THRESHOLD: Told(("spare_thresh", "available_spare_threshold"), 100),
    WORN: Told(("percent_used", "percentage_used"), 255),
    ERRORS: Told(("media_errors",), 2**128 - 1),
}
#: smartctl has them one level deeper.
_INNER = "nvme_smart_health_information_log"


@dataclass
class Health:
    """values: by counter, without those that nobody tells."""

    values: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read(text: str) -> Health:
    try:
        found = document(text)
    except ValueError as exc:
        return Health(problems=[short(exc, 100)])
    inner = found.get(_INNER, found)
    told = inner if isinstance(inner, Mapping) else {}
    health = Health()
    for counter, row in FIELDS.items():
        values = [_value(told[name]) for name in row.names if name in told]
        if len(values) == 1 and values[0] is not None and values[0] <= row.highest:
            health.values[counter] = values[0]
        else:
            health.problems.append(f"it tells no {counter.replace('_', ' ')}" + (" that fits" if values else ""))
    return health


def _value(told: Any) -> Optional[int]:
    """nvme-cli 2.x tells the warning with its bits beside it, and numbers of 128 bits as text."""
    if isinstance(told, Mapping):
        told = told.get("value")
    if isinstance(told, str) and told.isascii() and told.isdigit() and len(told) < 40:
        return int(told)
    found = number(told)
    return int(found) if found is not None and found == int(found) else None
