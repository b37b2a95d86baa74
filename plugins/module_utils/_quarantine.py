# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What quarantines a node: the one list of whose failure each kind of error is. PRIVATE to the collection.

Failures are of four kinds, and only a verdict about the node quarantines it. A setting is the site's, a service comes
back, and what somebody else holds is left alone: whatever node they were met on, it stays as it is. Playbooks and roles
ask this list by the Jinja test ``gpufleet.baremetal.quarantines``; a kind of error that is new gets its line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SOMEBODY_ELSES = "somebody else"
#: By whose failure it is, the kinds that errors and verdicts tell; of a verdict an empty kind is the node's own.
_KINDS: Mapping[str, tuple[str, ...]] = {
    "node": ("", "deadline", "failure_stands", "not_proven", "trust"),
    "site": (
        *("artifact", "auth", "certificate", "config", "missing_library"),
        *("profile_missing", "unsupported", "wrong_machine"),
    ),
    "service": ("bad_answer", "changed", "error", "lost_answer", "refused", "unproven", "unreachable"),
    SOMEBODY_ELSES: (
        *("evidence_missing", "fenced", "lease_held", "lease_lost"),
        *("not_adopted", "not_ours", "permit_due"),
    ),
}
WHOSE: Mapping[str, str] = {kind: whose for whose, kinds in _KINDS.items() for kind in kinds}

#: With one of these a result, or what a watcher says of one host, is a verdict: a gate's, a role's, or the wait's.
_JUDGED = ("verdict", "assertion", "ok")


def quarantines(told: Mapping[str, Any]) -> bool:
    """Is this failure a verdict about the node? A kind that nobody knows is none.

    :param told: a task's result that failed, or what a watcher says of one host that did not get there.
    """
    if any(word in told for word in _JUDGED):
        return WHOSE.get(str(told.get("kind") or "")) == "node"
    error = told.get("error")
    kind = error.get("kind") if isinstance(error, Mapping) else None
    return bool(kind) and WHOSE.get(str(kind)) == "node"
