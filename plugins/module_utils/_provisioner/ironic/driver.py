# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Ironic driver. PRIVATE to the collection.

``active`` is no proof of anything: with a ramdisk deploy Ironic says it as soon as it has switched the power on.
What runs on the node is proven by image_verify, there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any
from urllib.parse import quote

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _deployment as deployment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Changes, NodeState, mac
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic import bmcs, record, tables, work
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic import templates as of_site
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.find import IronicReader
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.prerequisites import lacking
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.whole import (
    demand_port,
    unless_there,
    whole,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.words import without_arguments
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.meanwhile import WHOSE, Judged
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.switching import OFF
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import has_form

#: Why a node is in maintenance while its boot port is put right.
_BOOT_PORT = "boot-port"


class IronicDriver(IronicReader):
    name = "ironic"
    states_map = tables.STATES
    steps = tables.STEPS
    leads_to = tables.LEADS_TO
    destructive = tables.DESTRUCTIVE
    orders = tables.ORDERS
    works = tables.WORKS
    busy = tables.BUSY
    settled = tables.SETTLED
    paused = tables.PAUSED
    carrying = tables.CARRYING
    led_to_by = tables.LED_TO_BY
    keeps_images = False
    deploy_proof = deployment.NONCE
    stateless = ("ramdisk",)
    switches = True

    # -- the record --------------------------------------------------------------------------------------------

    def enrol(self, wanted: Wanted, node: NodeState | None) -> tuple[NodeState, Changes]:
        is_new = node is None
        # Before a word of the row is in its record: where its card is another's, its BMC is hardly this one's either.
        has_port = node is not None and bool(wanted.boot_mac) and self._has_port(wanted, node)
        node, changes = self._create(wanted) if node is None else self._update(wanted, node)
        if wanted.boot_mac and node.raw.get("uuid") and not has_port:
            with whole(self.api, wanted, node) if is_new else nullcontext():
                changes = self._with_port(wanted, node, changes)
        return node, self._with_traits(wanted, node, changes)

    def _with_traits(self, wanted: Wanted, node: NodeState, changes: Changes) -> Changes:
        """By its traits a node takes runbooks, and may be given the site's own steps of a deployment."""
        lacking = record.lacking_traits(node.raw, wanted.extras)
        if not lacking:
            return changes
        if node.native in tables.RECORD_LOCKED:
            return Changes(changes.before, changes.after, (*changes.deferred, "traits"))
        self._give_traits(wanted, node, lacking)
        before = {**changes.before, "traits": list(node.raw.get("traits") or [])}
        return Changes(before, {**changes.after, "traits": [*before["traits"], *lacking]}, changes.deferred)

    def _give_traits(self, wanted: Wanted, node: NodeState, traits: Sequence[str]) -> None:
        for trait in traits if node.id else ():
            path = f"/nodes/{node.id}/traits/{quote(trait, safe='')}"
            self.api.write("PUT", path, body=None, saying="", host=wanted.host)

    def _templates(self, wanted: Wanted, node: NodeState) -> dict[str, Any]:
        """What of instance_info has the deploy templates of the site's traits go with a deployment. The node must have
        them by then, and what a batch is told of it does not say."""
        traits = of_site.asked(wanted.extras)
        if not traits:
            return {}
        there = self.api.get(f"/nodes/{node.id}/{of_site.TRAITS}") or {}
        self._give_traits(wanted, node, record.lacking_traits(there, wanted.extras))
        return {of_site.TRAITS: traits}

    def _create(self, wanted: Wanted) -> tuple[NodeState, Changes]:
        if "driver" not in wanted.extras:
            require(wanted.bmc, "bmc_address", node=wanted.host)
        demand_port(self.hidden, wanted, self.address)
        body: dict[str, Any] = {
            "name": wanted.name or wanted.key,
            **record.fields(wanted),
            "driver_info": record.driver_info(wanted),
            "properties": dict(wanted.properties),
            "extra": record.extra(wanted),
        }
        bmcs.demand_free(self, wanted, body["driver_info"], {})
        after = {**body, "driver_info": record.shown(body["driver_info"])}
        if wanted.boot_mac:
            after["port"] = mac(wanted.boot_mac)
        with self.taken_by_others(wanted, f"the name {body['name']}"):
            raw = self.api.write(
                "POST", "/nodes", body=body, saying=f"name={body['name']} driver={body['driver']}", host=wanted.host
            )
        if raw is None:
            predicted = NodeState(id="", name=body["name"], native="enroll", state=tables.STATES["enroll"])
            return predicted, Changes({}, after)
        return self.state_of(raw), Changes({}, after)

    def _update(self, wanted: Wanted, node: NodeState) -> tuple[NodeState, Changes]:
        raw = node.raw
        plain = {key: value for key, value in record.fields(wanted).items() if key != "deploy_interface"}
        deferred: list[str] = []
        if node.native not in tables.INTERFACES_CHANGEABLE:
            deferred = [key for key, value in plain.items() if raw.get(key) != value]
            plain = {}
        login_failed = node.native == "enroll" and bool(node.last_error)
        info = record.info_to_send(wanted, raw.get("driver_info") or {}, again=wanted.update_password or login_failed)
        operations = record.patch(raw, plain)
        for key, values in (
            ("driver_info", info),
            ("properties", wanted.properties),
            ("extra", record.extra(wanted)),
        ):
            operations += record.patch(raw.get(key) or {}, values, under=f"/{key}")
        if operations and node.native in tables.RECORD_LOCKED:
            deferred += [operation["path"] for operation in operations]
            operations = []
        if not operations:
            return node, Changes(deferred=tuple(deferred))
        bmcs.demand_free(self, wanted, info, raw)
        changed = self._patched(wanted, node, operations)
        return changed, record.changes(raw, operations, tuple(deferred))

    def _patched(
        self,
        wanted: Wanted,
        node: NodeState,
        operations: list[dict[str, Any]],
        *,
        still: Callable[[], None] = lambda: None,
        destructive: bool = False,
    ) -> NodeState:
        raw = self.api.write(
            "PATCH",
            f"/nodes/{node.id}",
            body=operations,
            saying=record.told(operations),
            host=wanted.host,
            destructive=destructive,
            still=still,
        )
        return node if raw is None else self.state_of(raw)

    def _with_port(self, wanted: Wanted, node: NodeState, changes: Changes) -> Changes:
        address = mac(wanted.boot_mac)
        if self._has_port(wanted, node):
            return changes
        body = {"address": address, "node_uuid": node.id, "pxe_enabled": True}
        what = f"the MAC {address} of gpufleet_boot_mac"
        with unless_there(self.port_of, node, address), self.taken_by_others(wanted, what):
            self.api.write("POST", "/ports", body=body, saying=f"{address} node={node.id}", host=wanted.host)
        return Changes(changes.before, {**changes.after, "port": address}, changes.deferred)

    def _has_port(self, wanted: Wanted, node: NodeState) -> bool:
        """:raises WrongMachine: where another node has it."""
        port = self.port_of(wanted.boot_mac)
        if port is None or port.get("node_uuid") == node.id:
            return port is not None
        address = mac(wanted.boot_mac)
        raise WrongMachine(
            "the MAC belongs to another node",
            node=wanted.host,
            address=self.api.address,
            wanted=f"{address} on {node.id}",
            seen=f"{address} on {port.get('node_uuid')}",
            do="correct gpufleet_boot_mac, or delete that port in Ironic",
        )

    def annotate(self, node: NodeState, wanted: Wanted) -> Changes:
        values = {key: value if value != "" else None for key, value in wanted.annotations.items()}
        operations = record.patch(node.raw.get("extra") or {}, values, under="/extra")
        if not operations:
            return Changes()
        if node.native in tables.RECORD_LOCKED:
            return Changes(deferred=tuple(operation["path"] for operation in operations))
        self._patched(wanted, node, operations)
        return record.changes(node.raw, operations, ())

    # -- steps -------------------------------------------------------------------------------------------------

    def facts(self, node: NodeState, wanted: Wanted) -> Mapping[str, bool]:
        return {
            "inspected": node.inspection in ("passed", "unsupported"),
            "image_current": self._image_current(node, wanted) and not wanted.redeploy,
            "same_deploy_interface": self._same_deploy_interface(node, wanted),
            "cleaned_by_hand": node.raw.get("target_provision_state") == "manageable",
        }

    def undeployable(self, wanted: Wanted, node: NodeState | None) -> FleetError | None:
        flaw = record.undeployable(wanted.image) if wanted.image is not None else None
        return flaw or of_site.writing(self.api, wanted)

    def other_bytes(self, wanted: Wanted) -> str:
        keys = record.own_image_keys(wanted.extras)
        own = f"driver.instance_info says by itself what is deployed: {', '.join(keys)}" if keys else ""
        return own or work.writes_an_image(wanted.extras)

    @staticmethod
    def _image_current(node: NodeState, wanted: Wanted) -> bool:
        """Is the wanted image what this node was last deployed with, and was it deployed since that was written?"""
        image = wanted.image
        if image is None:
            return True
        info = node.raw.get("instance_info") or {}
        noted = (node.raw.get("extra") or {}).get(record.EXTRA_IMAGE)
        needed = record.instance_info(image, wanted.extras, wanted.host)
        expected = {**dict.fromkeys(record.IN_PLACE_KEYS + record.BESIDE_KEYS), **needed}
        if record.has_drive(image) and isinstance(noted, dict) and noted.get("deploy_id"):
            # Ironic masks what is in it. Whatever another has put there, the next order brings its own.
            expected.pop("configdrive")
        if record.patch(info if image.deploy_id else record.without_mark(info), expected):
            return False
        if not isinstance(noted, dict):
            return not image.deploy_id
        # Written for a deployment that never began: the state has not changed since.
        if noted.get("before") == node.stamp:
            return False
        return image.is_noted(noted)

    @staticmethod
    def _same_deploy_interface(node: NodeState, wanted: Wanted) -> bool:
        if wanted.image is None:
            return True
        needed = record.deploy_interface(wanted.image, wanted.extras)
        return not needed or node.raw.get("deploy_interface") == needed

    def prerequisites(self, nodes: Sequence[tuple[Wanted, NodeState | None]]) -> list[tuple[str, FleetError]]:
        return [*super().prerequisites(nodes), *lacking(self.api, nodes)]

    def start(self, step: str, node: NodeState, wanted: Wanted) -> None:
        sent, version = work.order(step, wanted)
        if step in (tables.DEPLOY, tables.REBUILD) and wanted.image is not None:
            sent = {**work.deploy_steps(wanted), **record.config_drive(wanted.image, wanted.extras)}
        judged = Judged(self, node, wanted)
        with self.ctx.ordering(""):
            self._before(step, node, wanted, judged)
        self._provision(step, node, wanted, sent, judged, version)

    def _provision(
        self,
        step: str,
        node: NodeState,
        wanted: Wanted,
        sent: dict[str, Any],
        judged: Judged,
        version: str = tables.MICROVERSION,
    ) -> None:
        target = tables.TARGETS[step]
        self.api.write(
            "PUT",
            f"/nodes/{node.id}/states/provision",
            body={"target": target, **sent},
            saying=" ".join([f"target={target}", *work.told(sent)]),
            host=wanted.host,
            destructive=wanted.work or step in tables.DESTRUCTIVE,
            version=version,
            still=judged.demand,
        )

    def _before(self, step: str, node: NodeState, wanted: Wanted, judged: Judged) -> None:
        managed_first = node.native in tables.MANAGED_FIRST.get(step, ())
        if step in (tables.DEPLOY, tables.REBUILD):
            self._note_image(step, node, wanted, judged)
        if step == tables.UNDEPLOY and wanted.erase and node.raw.get("automated_clean") is not True:
            cleaned = [{"op": "add", "path": "/automated_clean", "value": True}]
            self._patched(wanted, node, cleaned, still=judged.demand)
        if (step == tables.RECOVER_CLEAN or managed_first) and node.maintenance:
            # Ironic sets it when a cleaning fails, and refuses `manage` for as long as it stands.
            self._maintenance("DELETE", node, None, wanted, judged)
        if managed_first:
            self._provision(tables.MANAGE, node, wanted, {}, judged)
            judged.goes_on()
        if step in (tables.PROVIDE, tables.DEPLOY):
            self._boots_from(node, wanted, judged)

    def _boots_from(self, node: NodeState, wanted: Wanted, judged: Judged) -> None:
        """Let the node boot from its boot MAC again.

        A Redfish inspection cannot tell which NIC boots, and by default ([inspector]update_pxe_enabled) takes every
        port out of network booting: a deploy would then end `active` without a boot entry. After `provide` Ironic
        changes it in maintenance alone (409).
        """
        port = self.port_of(wanted.boot_mac) if wanted.boot_mac else None
        held = self.left_over(node)
        if port is not None and port.get("node_uuid") == node.id and not port.get("pxe_enabled"):
            if node.native in tables.PORTS_FIXED and not held:
                self._maintenance("PUT", node, {"reason": wanted.token(_BOOT_PORT)}, wanted, judged)
                held = True
            body = [{"op": "replace", "path": "/pxe_enabled", "value": True}]
            saying = f"{port['address']} pxe_enabled"
            self.api.write("PATCH", f"/ports/{port['uuid']}", body=body, saying=saying, host=wanted.host)
        if held:
            self._maintenance("DELETE", node, None, wanted, judged)

    def left_over(self, node: NodeState) -> bool:
        return node.maintenance and has_form(node.hold) and node.hold.endswith(f":{_BOOT_PORT}")

    def _note_image(self, step: str, node: NodeState, wanted: Wanted, judged: Judged) -> None:
        """Write the whole of instance_info (an undeploy empties it) and, beside it, which image that is.

        ``before`` is the time of the last change of state: while Ironic still tells the same, the deployment that
        this was written for has not begun, whatever the state says.
        """
        image = wanted.image
        if image is None:
            require({"image": None}, "image", node=wanted.host)
            return
        info = {**record.instance_info(image, wanted.extras, wanted.host), **self._templates(wanted, node)}
        current = node.raw.get("instance_info") or {}
        # Whatever else stands there was written by somebody else, or for another image.
        operations = record.patch(current, {**dict.fromkeys(current), **info}, under="/instance_info")
        noted = {**image.identity(), "before": node.stamp}
        extra = node.raw.get("extra") or {}
        # With another board than it was enrolled with it goes on by that one's serial.
        serial = record.extra(wanted) if extra.get(record.EXTRA_SERIAL) else {}
        operations += record.patch(extra, {**serial, record.EXTRA_IMAGE: noted}, under="/extra")
        interface = record.deploy_interface(image, wanted.extras)
        if interface and step == tables.DEPLOY and node.native in tables.INTERFACES_CHANGEABLE:
            operations += record.patch(node.raw, {"deploy_interface": interface})
        if operations:
            self._patched(wanted, node, operations, still=judged.demand, destructive=True)

    # -- power -------------------------------------------------------------------------------------------------

    def power_of(self, node: NodeState) -> str:
        """Its conductor writes it once the BMC has said so, and each time that it looks by itself."""
        raw = self.api.get(f"/nodes/{node.id}") or {}
        state = tables.POWER.get(str(raw.get("power_state")), str(raw.get("power_state") or "unknown"))
        coming = raw.get("target_power_state")
        error = short(without_arguments(raw.get("last_error")))
        told = f", on its way to {coming}" if coming else f": {error}" if error else ""
        return state if not coming and state in tables.POWER.values() else f"{state}{told}"

    def switch(self, state: str, node: NodeState, wanted: Wanted) -> None:
        target = next(word for word, ours in tables.POWER.items() if ours == state)
        self.api.write(
            "PUT",
            f"/nodes/{node.id}/states/power",
            body={"target": target},
            saying=f"target={target}",
            host=wanted.host,
            destructive=state == OFF,
            still=Judged(self, node, wanted).demand,
        )

    # -- holds -------------------------------------------------------------------------------------------------

    def hold(self, node: NodeState, token: str, wanted: Wanted) -> None:
        self._maintenance("PUT", node, {"reason": token}, wanted, Judged(self, node, wanted, WHOSE))

    def lift(self, node: NodeState, wanted: Wanted) -> None:
        self._maintenance("DELETE", node, None, wanted, Judged(self, node, wanted, WHOSE))

    def _maintenance(self, method: str, node: NodeState, body: Any, wanted: Wanted, judged: Judged) -> None:
        self.api.write(
            method,
            f"/nodes/{node.id}/maintenance",
            body=body,
            saying=f"reason={body['reason']}" if body else "",
            host=wanted.host,
            destructive=wanted.work,
            still=judged.demand,
        )
        judged.is_now(hold=body["reason"] if body else "")
