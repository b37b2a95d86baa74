# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a trigger of Slurm tells, by the sender in extensions/eda/senders. PRIVATE to the collection.

The message is an object: ``event``, which trigger it was, and ``nodes``, their names, a range already taken apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.said import (
    LOOK,
    RECYCLE,
    Said,
    listing,
    mapping,
    unfit,
    word,
)

NAME = "slurm"
#: By the option of strigger: what Slurm saw. A node that was drained may be anybody's, and one that came back of its
#: own accord had a reason to be away: both are looked at, and nothing is written.
_BY_EVENT: Mapping[str, tuple[str, str]] = {
    "down": (RECYCLE, "slurmctld took it down"),
    "fail": (RECYCLE, "it is failing, by its scheduler"),
    "drained": (LOOK, "it was drained"),
    "up": (LOOK, "it came back"),
}


def read(document: Any) -> list[Said]:
    """:raises BadAnswer: where it is no such message."""
    message = mapping(document, "the message")
    event = word(message.get("event")).lower()
    if event not in _BY_EVENT:
        raise unfit("event", ", ".join(_BY_EVENT), event)
    do, reason = _BY_EVENT[event]
    return [Said(word(name), event, do, NAME, reason) for name in listing(message.get("nodes"), "nodes")]
