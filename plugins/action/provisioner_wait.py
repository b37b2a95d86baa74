# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar

from ansible.module_utils.common.validation import check_type_dict
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _moved as moves
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names, said
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import wanted as wants
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.specs import WAIT_SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.watch import watch
from ansible_collections.gpufleet.baremetal.plugins.module_utils._watched import refusal
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._approved import approved
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._deployments import NOTHING, deployments
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._leaves import forced
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._renamed import renamed
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._slices import SlicedAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._steps_there import Steps
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._within import within

_OF_NODE = ("provisioner_id", "image", "boot_mac", "serial", "bmc_address", "bmc_system_id")


class ActionModule(SlicedAction):
    """Watches all hosts of the batch by one list request a poll."""

    NAME = "provisioner_wait"
    SPEC = WAIT_SPEC
    TOUCHES = True
    CARRIES = Steps
    PORT: ClassVar[ModuleType | None] = names
    UNTOLD = {
        "state": "unknown",
        "provision_state": "",
        "provisioner_id": "",
        "seconds": 0.0,
        "step": "",
        "boots": True,
    }
    #: What a site says to its provisioner's driver is of each host as well: one call watches them all.
    HOST_VARS = {**{name: f"gpufleet_{name}" for name in _OF_NODE}, "driver": "enroll_driver"}
    FROM_AFTER = ("deploy_id", "booted_at")
    verb = staticmethod(watch)

    def along(self, hosts: Sequence[str]) -> dict[str, str]:
        of, known = str(self._params["provisioner"]), self._vars.get("hostvars") or {}
        own = {str(node.get("host")): node.get("driver") for node in self._params.get("nodes") or ()}
        of_all, name = self._params.get("driver"), self.HOST_VARS["driver"]
        said = [own.get(host) or of_all or self.host_var(name, host) for host in hosts]
        there = {host for driver in said if (host := within(driver, of, known))}
        return {host: self.node_id(host, create=False) for host in there}

    def told(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """That there is a reason lets the module write to a record that nothing says is the machine's."""
        return forced(params)

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        params = super().prepare(params)
        params["run_id"] = params.get("run_id") or self.run_id
        # Check mode records no verdicts, and a given reason is in the ledger with the intent: neither is judged.
        judged = [] if self._task.check_mode or params.get("force_reason") else params["nodes"]
        images = {str(node.get("host")): node.get("image") for node in judged}
        # Without a declared image there is nothing that a run could have verified.
        shown = {**dict.fromkeys(images, False), **approved(self.ledger(), self.run_id, self.ids, images)}
        known = [{**self._known(str(node.get("host")), params), **_read(node)} for node in params["nodes"]]
        self._leave_moved_alone(params, known)
        for node in known if self._task.check_mode else []:
            node["coming"] = self._coming(str(node.get("host")))
        params["nodes"] = [{**node, "image_verified": shown.get(str(node.get("host")))} for node in known]
        return params if self._task.args.get("nodes") else _said_to_driver(params)

    def finish(self, params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        ended = [host for host, verdict in (result.get("verdicts") or {}).items() if verdict.get("ok")]
        known = {host: self._deployments.get(host, NOTHING)["known_at"] for host in ended}
        told = [event for host in ended for event in renamed(params, known[host], host)]
        return {**result, "events": [*(result.get("events") or []), *told]}

    @functools.cached_property
    def _deployments(self) -> dict[str, dict[str, Any]]:
        return deployments(self.ledger(), self.ids)

    def _known(self, host: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Whom the ledger has never seen, as in check mode, it has no notes of."""
        known = self._deployments.get(host, NOTHING)
        return {**known, "known_deployed": bool(params.get("force_reason")) or known["known_deployed"]}

    def _leave_moved_alone(self, params: Mapping[str, Any], nodes: list[dict[str, Any]]) -> None:
        """One that went to another provisioner is none of this one's, whatever it still has of it."""
        events = self.ledger().latest(list(self.ids.values()), moves.KIND, moves.EVENTS)
        for node in nodes if not params.get("force_reason") else []:
            event = events.get(self.ids.get(str(node.get("host")), ""))
            why = moves.elsewhere(event, moves.place_of(params))
            if why is not None:
                node.update(refusal(str(why.located(node=str(node.get("host")))), why.kind))

    def _coming(self, host: str) -> bool:
        """Check mode has enrolled it before this: of such a one its provisioner has no record."""
        befores = [one.get("before") for one in self._told_after(host)]
        return any(isinstance(before, Mapping) and before.get("state") == "absent" for before in befores)


def _read(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is said to the driver, read as an option of the type dict is: also as text. What cannot be read so is told
    as that host's verdict."""
    try:
        return {**node, "driver": check_type_dict(node["driver"])} if node.get("driver") else node
    except (TypeError, ValueError):
        return node


def _said_to_driver(params: Mapping[str, Any]) -> dict[str, Any]:
    """What the task says to the driver, it says of all; where it says nothing, each host's own variable does. Whose
    nodes are no stranger's is asked of all at once: those of whom every host says so."""
    if params.get("driver"):
        return {**params, "nodes": [{k: v for k, v in node.items() if k != "driver"} for node in params["nodes"]]}
    told = [_owners(node, str(params["provisioner"])) for node in params["nodes"]]
    read = [owners for owners in told if owners is not None]
    owners = sorted(set.intersection(*read)) if read else []
    return {**params, **({"driver": {params["provisioner"]: {"owners": owners}}} if owners else {})}


def _owners(node: Mapping[str, Any], provisioner: str) -> set[str] | None:
    """None where its words cannot be read: it has its verdict by that, and is asked and written to by nobody."""
    try:
        return set(said.listed(wants.own_extras(node, provisioner), "owners"))
    except ConfigError:
        return None
