# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding nodes in Ironic, and what their records say. PRIVATE to the collection."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import quote

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    NotOurs,
    Refused,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._hardware import Hardware
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import many, said
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    OF_RECORD,
    OTHER,
    Driver,
    Found,
    Network,
    NodeState,
    mac,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic import record, tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.api import IronicApi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.words import without_arguments
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import (
    KNOWN_THERE,
    Wanted,
    own_extras,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._serial import serial_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import has_form
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

_PORT_FIELDS = "uuid,address,node_uuid,pxe_enabled"
#: In a record that came with those of a batch: its ports.
_PORTS = "ports of the batch"
Raw = dict[str, Any]


class IronicReader(Driver):
    """The reading half of the driver."""

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        super().__init__(ctx)
        self.api = IronicApi(params, ctx)
        self._named = frozenset(said.listed(own_extras(params, self.name), "owners"))

    @cached_property
    def _owners(self) -> frozenset[str]:
        return (self._named | {self.api.project}) - {""}

    def close(self) -> None:
        self.api.close()

    @property
    def ahead(self) -> tuple[float, float] | None:  # type: ignore[override]
        return self.api.clock.ahead

    @property
    def address(self) -> str:
        return self.api.address

    @property
    def hidden(self) -> str:  # type: ignore[override]
        project = self.api.project
        return f"a login of the project {project} may not be shown the nodes of other ones" if project else ""

    def find(self, wanted: Wanted) -> NodeState | None:
        return self._found(wanted, lambda key: self.api.get(f"/nodes/{quote(key, safe='')}"), self.port_of)

    def find_many(self, wanted: Sequence[Wanted]) -> Found:
        """Out of Ironic's lists of nodes and ports, however many hosts these are."""
        if not wanted:
            return {}
        nodes = self.api.listed("/nodes", "nodes", fields=tables.POLL_FIELDS)
        ports = self.api.listed("/ports", "ports", fields=_PORT_FIELDS)
        of_node: dict[str, list[Raw]] = {}
        for port in ports:
            of_node.setdefault(str(port.get("node_uuid") or ""), []).append(port)
        whole = [{**raw, _PORTS: of_node.get(str(raw.get("uuid") or ""), [])} for raw in nodes]
        known = {str(raw.get(key)): raw for key in ("name", "uuid") for raw in whole if raw.get(key)}
        owners = {mac(str(port.get("address") or "")): port for port in ports}
        return many.each(wanted, lambda one: self._found(one, known.get, lambda address: owners.get(mac(address))))

    def _found(
        self, wanted: Wanted, node_of: Callable[[str], Raw | None], port_of: Callable[[str], Raw | None]
    ) -> NodeState | None:
        record.check_extras(wanted.extras, wanted.host)
        raw = node_of(wanted.key)
        if raw is None:
            self._nobody_else_has(wanted, port_of)
            return None
        return self.state_of(raw)

    def _nobody_else_has(self, wanted: Wanted, port_of: Callable[[str], Raw | None]) -> None:
        if not wanted.boot_mac:
            return
        port = port_of(wanted.boot_mac)
        if port is not None:
            raise WrongMachine(
                f"Ironic does not know {wanted.key}, but its MAC belongs to a node there",
                node=wanted.host,
                address=self.api.address,
                wanted=f"MAC {mac(wanted.boot_mac)} free, or the node's own id",
                seen=f"node {port.get('node_uuid')}",
                do=KNOWN_THERE,
            )

    @contextlib.contextmanager
    def taken_by_others(self, wanted: Wanted, what: str) -> Iterator[None]:
        """Of a node of another project this login is told nothing, but that its name or its MAC is taken.

        :raises NotOurs: in place of that refusal
        """
        try:
            yield
        except Refused as exc:
            if not self.hidden or "already exists" not in exc.seen:
                raise
            raise NotOurs(
                f"{what} is that of a node which is not shown to this login",
                node=wanted.host,
                address=self.api.address,
                wanted=f"no node, or one of the project {self.api.project}",
                seen=exc.seen,
                do="ask who administers Ironic whose it is; or correct the inventory",
                details={"foreign": exc.seen},
            ) from exc

    def port_of(self, address: str) -> dict[str, Any] | None:
        ports = self.api.listed("/ports", "ports", address=mac(address), fields=_PORT_FIELDS)
        return ports[0] if ports else None

    def serials(self, node: NodeState, *, ask: bool) -> Mapping[str, str]:
        told = {OF_RECORD: str((node.raw.get("extra") or {}).get(record.EXTRA_SERIAL) or "")}
        if ask:
            vendor = self._inspected(node, self.api.shown).get("system_vendor") or {}
            told["found by its inspection"] = str(vendor.get("serial_number") or "")
        return {source: serial for source, serial in told.items() if serial_of(serial)}

    @staticmethod
    def _inspected(node: NodeState, ask: Callable[[str], Any]) -> dict[str, Any]:
        """What its inspection stored; empty where it did not pass, or stored nothing. A lessee is not shown it."""
        found = ask(f"/nodes/{node.id}/inventory") if node.inspection == "passed" else None
        return (found or {}).get("inventory") or {}

    def hardware(self, node: NodeState) -> Hardware | None:
        found = self._inspected(node, self.api.get)
        return record.hardware_in(found) if found else None

    def network(self, node: NodeState, *, ask: bool) -> Network:
        """Its ports. Not all cards need have one, whoever made them."""
        if not ask:
            return Network()
        ports = node.raw.get(_PORTS)
        if ports is None:
            ports = self.api.listed("/ports", "ports", node=node.id, fields="uuid,address")
        return Network(frozenset(mac(str(port.get("address") or "")) for port in ports))

    def bmc(self, node: NodeState) -> tuple[str, str]:
        return record.reached_in(self._driver_info(node))

    def withholds(self, node: NodeState) -> bool:
        return record.is_withheld(self._driver_info(node))

    def _driver_info(self, node: NodeState) -> Mapping[str, Any]:
        """A list of nodes tells nothing of it."""
        raw = node.raw if "driver_info" in node.raw else self.api.get(f"/nodes/{node.id}") or {}
        return raw.get("driver_info") or {}

    def boots(self, node: NodeState) -> str:
        """One whose inspection failed rests, as one does that was never looked at."""
        return "" if node.native == tables.INSPECT_FAILED else super().boots(node)

    def marks(self, node: NodeState) -> Mapping[str, str]:
        """What is no text was written by no annotation."""
        extra = node.raw.get("extra") or {}
        return {key: one for key, one in extra.items() if isinstance(one, str) and not key.startswith(record.EXTRA)}

    def resolve(self, wanted: Sequence[Wanted]) -> dict[str, str]:
        """Ironic's list has both the name and the UUID."""
        return {one.host: one.key for one in wanted}

    def states(self, ids: Sequence[str]) -> dict[str, NodeState]:
        asked = set(ids)
        found: dict[str, NodeState] = {}
        for raw in self.api.listed("/nodes", "nodes", fields=tables.POLL_FIELDS):
            for key in {str(raw.get("uuid") or ""), str(raw.get("name") or "")} & asked:
                found[key] = self.state_of(raw)
        return found

    def state_of(self, raw: Any) -> NodeState:
        if not isinstance(raw, dict) or not raw.get("uuid") or "provision_state" not in raw:
            raise BadAnswer("a node without uuid or provision_state", address=self.api.address, seen=cut(raw, 300))
        native = str(raw["provision_state"])
        image = (raw.get("extra") or {}).get(record.EXTRA_IMAGE)
        return NodeState(
            id=str(raw["uuid"]),
            name=str(raw.get("name") or ""),
            native=native,
            state=tables.STATES.get(native, OTHER),
            power=str(raw.get("power_state") or ""),
            last_error=without_arguments(raw.get("last_error")),
            maintenance=bool(raw.get("maintenance")),
            hold=without_arguments(raw.get("maintenance_reason")),
            foreign=self._foreign(raw),
            owner=str(raw.get("lessee") or raw.get("owner") or raw.get("instance_uuid") or ""),
            stamp=str(raw.get("provision_updated_at") or ""),
            image=_noted(image),
            inspection=_inspection(raw),
            deploy_id=record.deploy_id(raw),
            deploy_failed=native == tables.DEPLOY_FAILED,
            excuse=next((told for words, told in tables.EXCUSES.items() if words in str(raw.get("last_error"))), ""),
            raw=raw,
        )

    def _foreign(self, raw: Mapping[str, Any]) -> str:
        reason = str(raw.get("maintenance_reason") or "")
        fault = str(raw.get("fault") or "")
        if raw.get("maintenance") and not has_form(reason) and not _is_its_own(raw):
            told = without_arguments(reason) or "no reason given"  # an error of Ironic's, as it was once
            return f"in maintenance{f' ({fault})' if fault else ''}: {told}"
        for key in ("owner", "lessee"):
            if raw.get(key) and raw[key] not in self._owners:
                return f"{key} is {raw[key]}"
        if raw.get("instance_uuid"):
            return f"it serves the instance {raw['instance_uuid']}"
        if raw.get("protected"):
            return f"protected: {raw.get('protected_reason') or 'no reason given'}"
        if raw.get("retired"):
            return f"retired: {raw.get('retired_reason') or 'no reason given'}"
        return ""


def _is_its_own(raw: Mapping[str, Any]) -> bool:
    """Did Ironic itself write this maintenance, for a fault that a step of ours mends?

    Its fault alone proves nothing: it stays where a person writes a text of their own. Ironic writes its error as the
    reason, and only where none stands (ironic/conductor/utils.py of Ironic 39.0, cleaning_error_handler).
    """
    reason = str(raw.get("maintenance_reason") or "")
    mends = tables.FAULTS.get(str(raw.get("fault") or ""), False)
    return mends and bool(reason) and reason == str(raw.get("last_error") or "")


def _inspection(raw: Mapping[str, Any]) -> str:
    """Whether Ironic itself has looked at the hardware; an interface that looks at nothing is no pass."""
    if raw.get("inspect_interface") == "no-inspect":
        return "unsupported"
    if raw.get("provision_state") == "inspect failed":
        return "failed"
    return "passed" if raw.get("inspection_finished_at") else "pending"


def _noted(image: Any) -> dict[str, str]:
    """What :meth:`IronicDriver._note_image` wrote, for people."""
    if not isinstance(image, dict):
        return {}
    known = {key: str(image.get(key) or "") for key in ("name", "version", "url", "sha256")}
    return {"label": f"{known['name']}-{known['version']}", **known}
