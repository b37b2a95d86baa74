# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _moved as moves
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.permit import (
    HALF,
    HELD,
    LIFTED,
    MAINTENANCE,
    NO_RECORD,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import seen_at
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.node import node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import rehearse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.specs import NODE_SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import QUARANTINE, kind_of
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._approved import approved
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._deployments import deployments
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._for_all import ForAll
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._leaves import forced
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._person import launcher, logged_in
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._renamed import renamed
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._within import taken_along

# Here, in the main process, before its workers fork.
rehearse()


class ActionModule(ForAll):
    """Asks the provisioner from the controller; the run's id becomes part of a hold's token."""

    NAME = "provisioner_node"
    SPEC = NODE_SPEC
    TOUCHES = True
    LEAVES = True
    TELLS = {MAINTENANCE: (HELD, LIFTED), moves.KIND: moves.EVENTS}
    verb = staticmethod(node)

    def destructive(self, params: Mapping[str, Any]) -> bool:
        return params["state"] in ("ready", "deployed", "released", "powered_off", "restarted", *names.WORKS)

    def along(self, hosts: Sequence[str]) -> dict[str, str]:
        return taken_along(self, self._params["provisioner"], self._params["driver"])

    def told(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """That there is a reason lets the module write to a record that nothing says is the machine's."""
        return forced(params)

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        params["name"] = params.get("name") or self._host
        params["run_id"] = params.get("run_id") or self.run_id
        node_id = self.node_id(create=not self._task.check_mode)
        params.update(deployments(self.ledger(), {self._host: node_id})[self._host])
        params["known_deployed"] = bool(params.get("force_reason")) or params["known_deployed"]
        params["image_verified"] = self._verified(params, node_id)
        self._of_moves(params, node_id)
        self._of_quarantine(params, node_id)
        return params

    def finish(self, params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        """One that has moved here is known here by that."""
        told = renamed(params, params["known_at"]) if params["state"] != moves.MOVED else []
        return {**result, "events": [*(result.get("events") or []), *told]}

    def _of_quarantine(self, params: dict[str, Any], node_id: str) -> None:
        """Who says so; and whether our ledger has a mark that stands: else nobody is asked to lift one."""
        if params["state"] == "quarantined":
            here = f"{logged_in() or os.getuid()}@{socket.gethostname()}"
            params["author"] = params.get("author") or launcher(self.host_var) or here
        # Who asks for this one node knows why, as whoever says which mark it has.
        if params["state"] == "readmitted" and self.OF_ALL and params.get("known_mark") is None:
            params["known_mark"] = self._mark_of(node_id) if node_id else ""

    def _mark_of(self, node_id: str) -> str | None:
        """None where one may stand of which the ledger has no more than that it was to be written, or was not found.
        That none stands is told by a look, too, which has seen nothing of what was written since it began."""
        lifted = self.ledger().latest([node_id], MAINTENANCE, (LIFTED,)).get(node_id)
        known = None if lifted and not {HALF, NO_RECORD}.isdisjoint(lifted["data"]) else ""
        since, kinds, of = (seen_at(lifted).event if lifted else 0), ("intent", MAINTENANCE), (self.NAME, HELD)
        for event in self.ledger().history(node_id, since=since, kinds=kinds, names=of):
            token = str(event["data"].get("hold_token") or "")
            if event["name"] == HELD:
                known = token if kind_of(token) == QUARANTINE else known
            elif (event["data"].get("options") or {}).get("state") == "quarantined":
                known = known or None
        return known

    def _of_moves(self, params: dict[str, Any], node_id: str) -> None:
        """Where the ledger has the node, and what the old provisioner told before it was released there."""
        events = self.ledger().latest([node_id], moves.KIND, moves.EVENTS) if node_id else {}
        event = events.get(node_id)
        params["known_move"] = {key: event[key] for key in ("id", "name", "run_id", "data")} if event else None
        if params["state"] != moves.MOVED or not node_id:
            return
        variables = {name: self.host_var(f"gpufleet_{name}") for name in (names.OPTION, *names.OPTIONS)}
        params["known_place"] = moves.place_of(variables)
        since = event["id"] if event and event["name"] == moves.MOVED else 0
        notes = self.ledger().history(node_id, since=since, kinds=("note",), names=(moves.LEAVING,))
        told = [params["carry"], *(note["data"].get("tells") or {} for note in notes)]
        params["carry"] = {key: value for one in told for key, value in one.items() if value}

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        """All hosts of this run wait together for a provisioner that is away."""
        return super()._in_worker({**params, "run_cache": self._run_as.process})

    def _verified(self, params: Mapping[str, Any], node_id: str) -> bool | None:
        """Check mode records no verdicts, and a given reason is in the ledger with the intent: neither is judged."""
        if self._task.check_mode or params.get("force_reason") or not params.get("image"):
            return None
        return approved(self.ledger(), self.run_id, {self._host: node_id}, {self._host: params["image"]})[self._host]
