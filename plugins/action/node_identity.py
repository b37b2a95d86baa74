# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``node_identity`` on the controller, which alone has the ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import identity, known_as, lease, whose
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.known_as import Asked, Plan
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.spelling import Pair, compared, spelled
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._heard import heard
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._measured import where_measured
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._variables import claims, what_says


class ActionModule(VerbAction):
    NAME = "node_identity"
    SPEC = identity.SPEC
    RULES = identity.RULES
    verb = staticmethod(identity.node_identity)

    def _goes_elsewhere(self) -> bool:
        return False  # the ledger is here

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        heard(self)
        asked = Asked(self._host, spelled(claims(self.host_var)), params, str(params.get("node_id") or ""))
        if params["state"] != identity.PRESENT:
            self.refuse_tenants(self._host)
            # All of them are read before anything is locked: that takes a while in a large inventory.
            asked = replace(asked, others=self._others(), measured=self._measured(asked))
        dry = bool(self._task.check_mode) or params["state"] == identity.PRESENT
        plan, before, after = self._foreseen(asked) if dry else self._written(asked)
        ledger = self.ledger()
        result = {
            "changed": bool(plan.events or plan.drops),
            "before": before,
            "after": after,
            "node_id": plan.node,
            "name": ledger.name(plan.node) if plan.node else "",
            "aliases": known_as.shown(ledger, plan.node),
            "inventory": dict(asked.says),
            "bmc": [f"{kind} {value}" for kind, value in dict.fromkeys(asked.told)],
            "differences": [
                *known_as.differences(ledger, asked, plan.node),
                *whose.also(ledger, asked, plan.node),
            ],
            "retired_node": plan.data.get("retired_node", ""),
            "from_node": plan.data.get("from_node", ""),
            "events": [],
        }
        if self._task.diff:
            result["diff"] = {"before": before, "after": after}
        return result

    def _others(self) -> dict[Pair, str]:
        """Which other host of the inventory says a pair now."""
        hosts = [host for host in self._vars.get("hostvars") or () if host != self._host]
        says = what_says(self.host_var, hosts)
        return {compared(pair): host for host in hosts for pair in spelled(says(host) or ())}

    def _measured(self, asked: Asked) -> list[tuple[float, str]]:
        """Where a GPU that moved was found: all passports are read for it."""
        kind, value = asked.pair
        gpu_moved = asked.params["state"] == identity.MOVED and kind == "gpu"
        return where_measured(self.ledger(), value) if gpu_moved else []

    def _plan(self, asked: Asked) -> Plan:
        """:raises NotOurs: where a node is a tenant's whom this run does not name."""
        plan = identity.plan(self.ledger(), asked)
        for host in whose.concerned(self.ledger(), asked, plan):
            self.refuse_tenants(host)
        return plan

    def _foreseen(self, asked: Asked) -> tuple[Plan, dict[str, Any], dict[str, Any]]:
        plan = self._plan(asked)
        before = known_as.lines(self.ledger(), plan.nodes or [node for node in [plan.node] if node])
        return plan, before, known_as.foretold(self.ledger(), plan, before)

    def _written(self, asked: Asked) -> tuple[Plan, dict[str, Any], dict[str, Any]]:
        """Leases, aliases and events together: nobody else reads or works on either node in between."""
        self._line.parent_lives()
        ledger = self.ledger()
        with ledger.transaction() as conn:
            ledger.alone_with_aliases(conn)
            plan = self._plan(asked)
            nodes = plan.nodes or [node for node in [plan.node] if node]
            before = known_as.lines(ledger, nodes)
            for node in plan.puts:
                ledger._remember(conn, node, self._host, [], "inventory")
            for node in plan.nodes:
                lease.take_in(conn, ledger, node, self._run_as, node=ledger.name(node))
            told = plan.data.get("told") or {"host": self._host}
            ledger.drop(conn, self.run_id, plan.drops, str(plan.data.get("event") or "retired"), told)
            for node, pairs in plan.puts.items():
                ledger._remember(conn, node, self._host, pairs, "inventory")
            ledger.append_in(conn, self.run_id, plan.events, secrets=self._secrets)
        if asked.machine.get("agrees") and plan.node:
            ledger.confirm(plan.node, asked.told, "bmc")
        return plan, before, known_as.lines(ledger, nodes)
