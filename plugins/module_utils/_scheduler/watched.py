# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One host of a batch whose scheduler is watched. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import of_each_host, value_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView, Refusal
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.hold import Claim
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.judge import Judgement
from ansible_collections.gpufleet.baremetal.plugins.module_utils._watched import refused


def _connection(node: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Driver and options of one host: its own where it names them, be they empty, else those of the task.

    The task's secrets were given for the task's scheduler: a host of another one is not let in with them.
    """
    known = of_each_host(names.OPTION, names.OPTIONS)
    asked = {name: value_of(params, name, names.OPTIONS) for name in known}
    own = {name: value_of(node, name, names.OPTIONS) if name in node else asked[name] for name in known}
    secrets = {name: params.get(name) or "" for name in names.OPTIONS if name not in known and own == asked}
    return {**own, **secrets}


class Watched:
    """One host of the batch."""

    def __init__(self, node: Mapping[str, Any], params: Mapping[str, Any]) -> None:
        self.host = str(node["host"])
        self.name = str(node.get("scheduler_node") or self.host)
        self.connection = _connection(node, params)
        self.claim = Claim.of({**node, "over_keep": params.get("over_keep")})
        self.refused, kind = refused(node)
        self.view: NodeView | None = None
        self.judgement = Judgement(False, False, self.refused, kind=kind)
        self.refusals: Sequence[Refusal] = ()
        self.settled_after = 0.0
        self.settled_before = False
        #: In how many looks in a row it was another scheduler that told of it.
        self.elsewhere = 0
        #: Has its scheduler been away in this wait?
        self.was_away = False
        self.stuck_since: float | None = None
        self.stuck_told = False
        self.stuck_remedy = ""
        #: Was our hold put on anew, in a record that its claim knows since?
        self.again = False

    def hold_again(self, incarnation: str) -> None:
        """Of that record it is from now on: who lifts it there has lifted it."""
        self.again, self.claim = True, replace(self.claim, incarnation=incarnation)

    def refuse(self, reason: str, kind: str) -> None:
        """No verdict but that, and no evidence."""
        self.refused = reason
        self.doubt(reason, kind)

    def doubt(self, reason: str, kind: str) -> None:
        """No verdict yet, and no evidence: what was seen is not this host's."""
        self.view, self.judgement = None, Judgement(False, False, reason, kind=kind)
