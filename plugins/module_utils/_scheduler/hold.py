# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose hold is it? PRIVATE to the collection.

A token reads ``gpufleet:<run>:<why>`` and stands at the beginning of what the scheduler keeps as the reason;
schedulers append to it. The form alone proves nothing: another site's controller writes the same form. A hold is
ours when the run in it is one that our own ledger knows for this node. A scheduler that overwrites the reason with
a finding of its own takes the token away; then the ledger's record that we took the hold stands for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import NotOurs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView

PREFIX = "gpufleet:"
_TOKEN = re.compile(r"gpufleet:(?P<run>[^:\s]+):(?P<why>.*)", re.S)
_WHY_LENGTH = 500

FREE, OURS, SCHEDULER, FOREIGN = "free", "ours", "scheduler", "foreign"


def clean_run(run: str) -> str:
    """A run's id as it stands in a token: without blanks and colons, which end it there."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", run)


def make_token(run: str, why: str) -> str:
    """One line of plain text; a reason is shown on terminals and parsed by scripts."""
    words = re.sub(r"[\x00-\x1f\x7f]+", " ", why).replace('"', "'").strip()
    return f"{PREFIX}{clean_run(run)}:{words[:_WHY_LENGTH].rstrip()}"


def run_of(reason: str) -> str:
    """The run in a token; empty where there is none."""
    found = _TOKEN.match(reason)
    return found["run"] if found else ""


def says(reason: str, why: str) -> bool:
    """Does the token's own text say this? Schedulers append to it, so its beginning counts."""
    found = _TOKEN.match(reason)
    return found is not None and found["why"].startswith(make_token("x", why)[len("gpufleet:x:") :])


@dataclass(frozen=True)
class Claim:
    """What our ledger knows of this node: the token of a hold taken and not released, and all runs of ours on it."""

    token: str = ""
    runs: frozenset[str] = frozenset()

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Claim:
        token = str(params.get("known_token") or "")
        runs: Iterable[str] = [*(params.get("known_runs") or []), str(params.get("run_id") or ""), run_of(token)]
        return cls(token, frozenset(clean_run(run) for run in runs if run))

    def owner(self, view: NodeView) -> str:
        """``free`` (nobody's), ``ours``, ``scheduler`` (its own mark, no person's), or ``foreign``."""
        if not view.held:
            return FREE
        run = run_of(view.reason)
        if run:
            return OURS if run in self.runs else FOREIGN
        if view.reason.startswith(PREFIX):
            return FOREIGN
        if view.by_scheduler:
            return OURS if self.token else SCHEDULER
        return FOREIGN


def not_ours(view: NodeView, *, wanted: str) -> NotOurs:
    other_site = view.reason.startswith(PREFIX)
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
