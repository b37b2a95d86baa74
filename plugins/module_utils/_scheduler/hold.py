# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose hold is it? PRIVATE to the collection.

By its token (:mod:`.._token`), and by what our own ledger knows of the run in it. A scheduler that overwrites the
reason with a finding of its own takes the token away; then the ledger's record that we took the hold stands for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import NotOurs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import has_form, run_of, runs_of

FREE, OURS, SCHEDULER, FOREIGN = "free", "ours", "scheduler", "foreign"


@dataclass(frozen=True)
class Claim:
    """What our ledger knows of this node: the token of a hold taken and not released, and all runs of ours on it."""

    token: str = ""
    runs: frozenset[str] = frozenset()

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Claim:
        token = str(params.get("known_token") or "")
        return cls(token, runs_of(params.get("known_runs"), [str(params.get("run_id") or ""), run_of(token)]))

    def owner(self, view: NodeView) -> str:
        """``free`` (nobody's), ``ours``, ``scheduler`` (its own mark, no person's), or ``foreign``."""
        if not view.held:
            return FREE
        run = run_of(view.reason)
        if run:
            return OURS if run in self.runs else FOREIGN
        if has_form(view.reason):
            return FOREIGN
        if view.by_scheduler:
            return OURS if self.token else SCHEDULER
        return FOREIGN


def not_ours(view: NodeView, *, wanted: str) -> NotOurs:
    other_site = has_form(view.reason)
    return NotOurs(
        "held by another controller of this kind" if other_site else "held by somebody else",
        node=view.name,
        wanted=wanted,
        seen=f"{view.native}, reason {view.reason!r}" + (f" set by {view.set_by}" if view.set_by else ""),
        do=(
            "if that was this site's own controller, use the ledger that it used (gpufleet_ledger_url)"
            if other_site
            else "ask whoever set it; when they have resumed the node, run again"
        ),
        details={"reason": view.reason, "set_by": view.set_by, "native": view.native},
    )
