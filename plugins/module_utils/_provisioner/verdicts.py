# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a watcher says of each host, and of all of them in one line. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.cells import BOOT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import ABSENT, NodeState


def summary(goal: str, verdicts: Mapping[str, Mapping[str, Any]], underway: Mapping[str, int]) -> str:
    """For instance ``12/40 deployed, 25 deploying, 3 not``."""
    passed = sum(1 for one in verdicts.values() if one["ok"])
    parts = [f"{passed}/{len(verdicts) + sum(underway.values())} {goal}"]
    parts += [f"{count} {native}" for native, count in sorted(underway.items()) if native]
    to_boot = sum(1 for one in verdicts.values() if one["step"] == BOOT)
    failed = len(verdicts) - passed - to_boot
    return ", ".join([*parts, *(f"{count} {what}" for count, what in ((to_boot, "to boot"), (failed, "not")) if count)])


def verdict(
    ok: bool, seconds: float, node: NodeState | None, reason: str, step: str = "", kind: str = "", boots: bool = True
) -> dict[str, Any]:
    """:param boots: does the provisioner boot the machine itself, so that nobody else has to?"""
    return {
        "ok": ok,
        "state": node.state if node else ABSENT,
        "provision_state": node.native if node else "",
        "provisioner_id": node.id if node else "",
        "seconds": round(seconds, 1),
        "reason": reason,
        "step": step,
        "boots": boots,
        "kind": kind,
    }


def failure(name: str, node: NodeState, words: str) -> tuple[str, str]:
    """Why a step failed, and whose failure that is."""
    if node.excuse:
        return f"{name} {node.excuse}, which says nothing of the node: {words}; run again", Unreachable.kind
    return words, ""
