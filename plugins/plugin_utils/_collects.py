# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's own verdict out of what was measured or waited for of its whole batch. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, NotOurs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import Moment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import answer, inconclusive
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction

_BESIDE = ("event", "seconds", "reason", "weakened")


class Collects(VerbAction):
    """Base of actions that hand on, for each host, what a task for the batch has written into the ledger."""

    def _concluded(self, params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        """Does this verdict fail the host?"""
        raise NotImplementedError

    def collected(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """This host's verdict as that task wrote it into the ledger; nothing is asked of the node, nothing recorded."""
        known = ((self.host_var(str(params["collect"])) or {}).get("verdicts") or {}).get(self._host)
        if not known:
            verdict = inconclusive(self.NAME, "what was registered says nothing of this node", id="no_job")
        elif not known["verdict"]:  # the node belongs to another run, or what befell the wait says nothing of it
            raise _unjudged(known, self._host)
        elif self._task.check_mode:
            verdict = inconclusive(self.NAME, "not run in check mode", id="check_mode")
        else:
            verdict = self._recorded(known)
        beside = {key: known[key] for key in _BESIDE if key in known} if known else {}
        result = answer(verdict, **beside).as_dict(Context(check_mode=bool(self._task.check_mode)))
        return self._concluded(params, {**result, "events": []})

    def _recorded(self, known: Mapping[str, Any]) -> dict[str, Any]:
        node = self.node_id()
        event = self.ledger().latest([node], "verdict", [self.NAME]).get(node)
        if event is None or event["data"].get("evidence_digest") != known["evidence_digest"]:
            return inconclusive(
                self.NAME, "the verdict that was waited for is not the newest in the ledger", id="no_job"
            )
        return {key: value for key, value in event["data"].items() if key not in (*Moment().as_data(), "job")}


def _unjudged(known: Mapping[str, Any], host: str) -> FleetError:
    exc = FleetError(str(known["reason"]), node=host)
    exc.kind = str(known.get("kind") or NotOurs.kind)
    return exc
