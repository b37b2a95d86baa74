# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``ledger_event`` on the controller, which alone has the ledger."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.event import (
    LIFT,
    RULES,
    SPEC,
    FailureStands,
    is_state,
    ledger_event,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifecycle import ADOPTED, waives
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.newest_hold import newest_holds, newest_look
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.permit import FIRST_LOOK
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.strangers import as_adopted, since_retired
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import policy as policies
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.grounds import standing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._for_all import ForAll
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._history import enters_service, evidence
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._machine import proven
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._person import launcher, logged_in

#: What the inventory says of where a node belongs, which an adoption is held against.
_SITE = (
    *("scheduler", "provisioner", "provisioner_url", "provisioner_cloud", "provisioner_login_host"),
    *("provisioner_id", "boot_mac"),
)


class ActionModule(ForAll):
    NAME = "ledger_event"
    SPEC = SPEC
    RULES = RULES
    #: Its name is the event's.
    OF_ONE = ForAll.OF_ONE - {"name"}
    verb = staticmethod(ledger_event)

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        if params.get("known"):
            raise ConfigError("known is not for a task to set", do="leave it out: it is read from the ledger")
        known: dict[str, Any] = {}
        if params.get("kind") == LIFT:
            params["lifted_by"] = params.get("lifted_by") or self._person()
            node_id = self.node_id(create=False)
            known["failures"] = self._failures(node_id, str(params.get("name") or "")) if node_id else []
        if is_state(params):
            check_mode = bool(self._task.check_mode)
            if not check_mode:
                # Two runs that move one node would each be right by what they read: the lease comes first.
                self._line.hold([self._host])
            node_id = self.node_id(create=not check_mode)
            if node_id:
                adopts = params.get("adoption") is not None or bool((params.get("data") or {}).get(ADOPTED))
                if adopts and not check_mode:
                    self._looked_anew()
                known = self._known(node_id)
                known.update(self._of_adoption(node_id) if adopts else {})
                if "admitted" in (params.get("state"), params.get("name")):
                    known["standing"] = self._failures(node_id)
        if params.get("adoption") is not None:
            known["site"] = {name: str(self.host_var(f"gpufleet_{name}") or "") for name in _SITE}
        return {**params, "known": known}

    def _looked_anew(self) -> None:
        """The look at the scheduler came before all of the batch was looked at over SSH: it may be an hour old."""
        failed = self._prove_anew([self._host], FIRST_LOOK)
        if self._host in failed:
            raise failed[self._host]

    def _of_adoption(self, node_id: str) -> dict[str, Any]:
        """One that was adopted, and that no run has imaged since, is no more ours to image than it was then."""
        ledger = self.ledger()
        admitted = node_id in since_retired(ledger, [node_id], "admitted")
        return {
            "proven": proven(ledger, node_id, self.run_id),
            "admitted_before": admitted and node_id not in as_adopted(ledger, [node_id]),
        }

    def _person(self) -> str:
        """Who runs this: the user of the automation controller, or the one who is logged in here."""
        return launcher(self._vars.get) or logged_in()

    def _failures(self, node_id: str, gate: str = "") -> list[Mapping[str, Any]]:
        """The failures that stand against this node, by the policy and the profile that its newest passport rests on.

        What a person lifts is every failure that any policy may still see.
        """
        found = evidence(self.ledger(), node_id)
        policy = policies.of_nobody(gate) if gate else policies.of_passport(found["stored"])
        return [event for event in standing(found, policy) if gate in ("", event["name"])]

    def _known(self, node_id: str) -> dict[str, Any]:
        ledger = self.ledger()
        known: dict[str, Any] = {"state": ledger.latest([node_id], "state").get(node_id)}
        known["hold"], known["evidence"] = newest_holds(ledger, [node_id]).get(node_id), newest_look(ledger, node_id)
        for kind in ("imaging", "quarantined"):
            known[kind] = ledger.latest([node_id], "state", [kind]).get(node_id)
        known["passport"] = ledger.passport(node_id)
        known["now"] = ledger.now()
        return known

    def _goes_elsewhere(self) -> bool:
        return False  # the ledger is here

    def finish(self, params: Any, result: dict[str, Any]) -> dict[str, Any]:
        if result.get("kind") == "attempt" and not self._task.check_mode:
            reason = str(result["events"][0]["data"]["reason"])
            self.ledger().record_attempt(self.run_id, self.node_id(), result["name"], reason)
        return result

    def _append(self, events: list[Event]) -> list[int]:
        """A look takes no lease: a failure may come in after this task has read which ones stand. What the node is
        admitted over is out of sight from then on, so it is asked once more where no other can come between."""
        judged = [event for event in events if enters_service(event.as_dict()) and not waives(event.data)]
        if not judged or self._task.check_mode:
            return super()._append(events)
        node_id, ledger = self.node_id(), self.ledger()
        with ledger.transaction() as conn:
            ledger.alone_with(conn, node_id)
            self._none_stands(node_id)
            return ledger.append_in(conn, self.run_id, [(node_id, event) for event in events], secrets=self._secrets)

    def _none_stands(self, node_id: str) -> None:
        """:raises FailureStands: where a failure does."""
        failures = [f"{event['name']} (event {event['id']})" for event in self._failures(node_id)]
        if failures:
            raise FailureStands(
                "a failure was recorded while the node was being admitted",
                node=self._host,
                wanted="that no failure stands",
                seen=f"{', '.join(failures)} failed",
                do="pass the same question or a stronger one, or lift it (ledger_event), and admit the node then",
            )

    def _record(self, result: dict[str, Any]) -> None:
        super()._record(result)
        if not result.get("events") or result.get("failed"):
            return
        written = result["events"][0].get("id")
        if written is None:  # check mode: nothing was written
            result.update(event_id=0, at=time.time())
            return
        row = self.ledger().history(self.node_id(), since=written - 1)[0]
        result.update(event_id=row["id"], at=row["at"])
