# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ledger is told of a verb that failed. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, NotAdopted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._stranger import ADOPT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event


def events_of(verb: str, asked: Sequence[str], exc: FleetError) -> list[Event]:
    """The outcome of what was asked before, and of whose node it is, which the ledger alone could not tell."""
    told = [Event("outcome", verb, outcome(asked, str(exc), exc.as_result()["error"]))] if asked else []
    return [*told, *notes_of(exc.kind, str(exc))]


def outcome(asked: Sequence[str], message: str, error: Mapping[str, Any]) -> dict[str, Any]:
    """begun, ordered: what the verb's peer had taken by then, or may have."""
    taken = {key: error[key] for key in ("begun", "ordered") if error.get(key)}
    return {"asked": list(asked), "error": message, "kind": error.get("kind", "error"), **taken}


def notes_of(kind: str, message: str) -> list[Event]:
    """For the report, with the playbook that goes on from here."""
    return [Event("note", "stopped", {"reason": message, "playbook": ADOPT})] if kind == NotAdopted.kind else []
