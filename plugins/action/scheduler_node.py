# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, NotOurs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.evidence import EVIDENCE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.node import NAMED, scheduler_node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.specs import NODE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.identity import normal_identity
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.last_look import looked_again
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _own_name as own_name
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._admission import (
    lacks,
    looked_ago,
    looked_boot,
    renewable,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._certificate import FORCED
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._holds import holds, known_as
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._node_identity import read_identity


class ActionModule(VerbAction):
    """Holds or resumes a node, knowing from the ledger which holds are ours."""

    NAME = "scheduler_node"
    SPEC = NODE
    LEAVES = True
    TELLS = {"evidence": EVIDENCE, "hold": ("taken", "released"), "named": (NAMED,)}
    verb = staticmethod(scheduler_node)

    def writes(self, params: Mapping[str, Any]) -> bool:
        return params["state"] != "present"

    def told(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """That there is a reason lets the module give back a node that lacks its proof; what it is stays at home."""
        forced = ("force_reason", "known_renamed") if params.get("force_reason") else ()
        return {name: FORCED for name in forced if params.get(name)}

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        if params["state"] == "resumed" and not self._task.check_mode:
            # First: what the ledger says of the node is to be true until the write.
            self._line.hold([self._host])
        if params.get("seen_event") is not None and params["state"] != "present":
            self._as_it_was_seen(int(params["seen_event"]))
        known = holds(self.ledger(), {self._host: self.node_id()})[self._host]
        if params["state"] == "resumed" and self.node_id():
            if not (self._task.check_mode or self._task.delegate_to or params.get("force_reason")):
                self._look_again()
            known = self.known_now({**params, **known})
        known["known_here"] = known["known_here"] or bool(params.get("force_reason"))
        known["known_as"] = known_as(self.host_var, self._host)
        known["known_renamed"] = self._renamed(params, known["known_scheduler_node"])
        known["looked_boot"] = looked_boot(self.ledger(), self.node_id())
        return {**params, **known, "run_id": self.run_id, "name": params.get("name") or self._host}

    def _renamed(self, params: Mapping[str, Any], was: str) -> str:
        """What shows that the machine, which the ledger has as another node of the scheduler, is this one now.

        :raises WrongMachine: where another machine than the node answers.
        """
        name = str(params.get("scheduler_node") or params.get("name") or self._host)
        if was in ("", name) or params.get("scheduler") == names.NONE:
            return ""
        if params.get("force_reason"):
            return str(params["force_reason"])
        own = "" if self._task.delegate_to else self._own_name(name)
        return f"the machine calls itself {cut(own, 100)}" if own else ""

    def _own_name(self, name: str) -> str:
        """Where it is that one; empty where the machine has another, is silent, or cannot be told to be the node."""
        try:
            answer = self._low_level_execute_command(own_name.QUESTION)
            own = own_name.told(answer)
            if own_name.same(own, name):
                inventory = {key: self.host_var(f"gpufleet_{key}") for key in ("serial", "system_uuid")}
                own_name.demand(self.ledger(), self.node_id(), self._host, self.run_id, inventory, answer)
                return own
        except (AnsibleError, ConfigError):
            pass
        return ""

    def known_now(self, params: dict[str, Any]) -> dict[str, Any]:
        """With what the ledger says of giving it work."""
        if params["state"] != "resumed" or not self.node_id():
            return params
        ago = None if params.get("force_reason") else looked_ago(self.ledger(), self.node_id())
        lacking = lacks(self.ledger(), self.node_id(), looked=not self._task.check_mode)
        return {**params, "lacks": lacking, "looked_ago": ago}

    def _look_again(self) -> None:
        """A host that waited for its turn behind slow ones is not refused for that.

        :raises FleetError: where the node is no longer what this run has seen.
        """
        look = renewable(self.ledger(), self.node_id(), self.run_id)
        if look is not None:
            began = self.ledger().moment().as_data()  # a boot from here on it may not have seen
            with self._line.renewing(self.ledger().another):  # its nvidia-smi may hang for as long as a lease lasts
                machine = normal_identity(read_identity(self._low_level_execute_command, look["asked"]))
            event = looked_again(look, machine, Context(node=self._host))
            event.data.update(began)
            self.ledger().append(self.run_id, [(self.node_id(), event)])

    def _as_it_was_seen(self, event: int) -> None:
        """A look at the fleet is old when its turn comes: what another run has brought about since is not to be undone.

        :raises NotOurs: before anything is written; read under our lease, so that it is still true at the write.
        """
        if not self._task.check_mode:
            self._line.hold([self._host])
        node_id = self.node_id()
        newest = self.ledger().latest([node_id], "state").get(node_id) if node_id else None
        if newest is None or newest["id"] == event:
            return
        raise NotOurs(
            "another run has worked on this node since this one looked at it",
            node=self._host,
            wanted=f"its state of event {event}",
            seen=f"{newest['name']} since event {newest['id']}, of {newest['run_id']}",
            do="run again: the new run reads the node's state afresh",
        )
