# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver that no user sees: a service that takes orders for many nodes in one request, and whose status lags behind.

It keeps no hold and no mark of ours and erases nothing, and declares that.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import requests
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    FleetError,
    Refused,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.cells import DONE, WAIT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    ABSENT as GONE,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    CLEANING,
    DEPLOYED,
    DEPLOYING,
    ENROLLED,
    FAILED,
    INSPECTING,
    OTHER,
    READY,
    RELEASING,
    Changes,
    Driver,
    Network,
    NodeState,
    Taken,
    mac,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.meanwhile import difference, marks
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.stored import ABSENT, PRESENT, Stored
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import BY_NAME, Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import Peer, said
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

_PEER = Peer(
    "the queue",
    reach="check gpufleet_provisioner_url",
    trust="set gpufleet_provisioner_ca_path to the CA that vouches for it",
    login="check gpufleet_provisioner_password",
)

#: Of the connection, those that it reads.
OPTIONS = ("provisioner_url", "provisioner_password", "provisioner_ca_path")

DISCOVER, INSTALL, CLEAR = "discover", "install", "clear"

STATES = {
    "defined": ENROLLED,
    "discover ordered": INSPECTING,
    "discovering": INSPECTING,
    "ready": READY,
    "install ordered": DEPLOYING,
    "installing": DEPLOYING,
    "booted": DEPLOYED,
    "clear ordered": RELEASING,
    "clearing": CLEANING,
    "failed": FAILED,
    "stuck": OTHER,
}
_AT_WORK = dict.fromkeys(("discover ordered", "discovering", "clear ordered", "clearing"), WAIT)
STEPS = {
    READY: {
        **_AT_WORK,
        "defined": DISCOVER,
        "failed": DISCOVER,
        **dict.fromkeys(("ready", "install ordered", "installing", "booted"), DONE),
    },
    DEPLOYED: {
        **_AT_WORK,
        "defined": DISCOVER,
        "ready": INSTALL,
        "install ordered": WAIT,
        "installing": WAIT,
        "booted": ("image_current", DONE, INSTALL),
        "failed": INSTALL,
    },
    "released": {
        **_AT_WORK,
        "defined": DONE,
        "ready": DONE,
        "install ordered": WAIT,
        "installing": WAIT,
        "booted": CLEAR,
        "failed": CLEAR,
    },
}


class TaskQueueDriver(Driver):
    name = "taskqueue"
    states_map = STATES
    steps = STEPS
    leads_to = {DISCOVER: "discover ordered", INSTALL: "install ordered", CLEAR: "clear ordered"}
    destructive = frozenset({DISCOVER, INSTALL, CLEAR})
    orders = {INSTALL: "deployed", CLEAR: "released"}
    image_needs = BY_NAME
    holds = False
    annotates = False
    erases = False

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        super().__init__(ctx)
        require(params, "provisioner_url", "provisioner_password", node=ctx.node)
        self._url = str(params["provisioner_url"])
        self._http = requests.Session()
        self._http.trust_env = False
        self._http.verify = str(params.get("provisioner_ca_path") or "") or True
        self._http.headers["X-Token"] = str(params["provisioner_password"])

    @property
    def address(self) -> str:
        return self._url

    def close(self) -> None:
        self._http.close()

    # -- requests ----------------------------------------------------------------------------------------------

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        try:
            answer = self._http.request(method, self._url + path, json=body, timeout=30, allow_redirects=False)
        except requests.exceptions.SSLError as exc:
            raise _PEER.untrusted(self._url, exc) from exc
        except requests.exceptions.RequestException as exc:
            raise _PEER.silent(self._url, exc) from exc
        if answer.status_code == 401:
            raise _PEER.login_refused(self._url)
        if answer.status_code >= 300:
            raise _PEER.refusal(self._url, method, path, answer.status_code, said(answer.status_code, answer.text))
        try:
            return answer.json()
        except (ValueError, RecursionError) as exc:
            raise _PEER.no_json(self._url, f"{method} {path}", answer.status_code, answer.text) from exc

    def _nodes(self, names: Sequence[str] = ()) -> dict[str, NodeState]:
        told = self._ask("GET", f"/nodes?names={','.join(names)}")
        found = told.get("nodes") if isinstance(told, dict) else None
        if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
            raise BadAnswer("no list of nodes", address=self._url, seen=cut(told, 200))
        return {name: self._state(name, record) for name, record in found.items()}

    # -- reading -----------------------------------------------------------------------------------------------

    def find(self, wanted: Wanted) -> NodeState | None:
        found = self._nodes([wanted.key]).get(wanted.key)
        if found is None and wanted.boot_mac:
            for name, other in self._nodes().items():
                if mac(wanted.boot_mac) in self.network(other, ask=True).macs:
                    raise WrongMachine(f"its MAC belongs to {name}", node=wanted.host, address=self._url)
        return found

    def resolve(self, wanted: Sequence[Wanted]) -> dict[str, str]:
        return {one.host: one.key for one in wanted}

    def states(self, ids: Sequence[str]) -> dict[str, NodeState]:
        return self._nodes(ids)

    def serials(self, node: NodeState, *, ask: bool) -> Mapping[str, str]:
        told = str(node.raw.get("serial") or "")
        return {"of its record": told} if told else {}

    def network(self, node: NodeState, *, ask: bool) -> Network:
        return Network(frozenset({mac(str(node.raw.get("mac") or ""))} - {""}))

    def _state(self, name: str, record: Mapping[str, Any]) -> NodeState:
        order = record.get("order") or {}
        stands = record.get("status_time") or 0
        native = str(record.get("status")) if stands > (order.get("at") or 0) else f"{order['action']} ordered"
        note = (order.get("note") or {}) if order.get("action") == INSTALL else {}
        foreign = next((f"{key} is {record[key]}" for key in ("locked_by", "owner") if record.get(key)), "")
        looked = native not in ("defined", "discover ordered", "discovering", "failed")
        return NodeState(
            id=name,
            name=name,
            native=native,
            state=STATES.get(native, OTHER),
            last_error=str(record.get("error") or ""),
            foreign=foreign,
            owner=str(record.get("owner") or ""),
            stamp=str(stands),
            deploy_failed=native == "failed" and order.get("action") == INSTALL,
            image={"label": f"{note.get('name')}-{note.get('version')}", **note} if note else {},
            inspection="passed" if looked else "pending",
            raw=record,
        )

    def facts(self, node: NodeState, wanted: Wanted) -> Mapping[str, bool]:
        current = wanted.image is None or wanted.image.is_noted(node.image)
        return {"image_current": current and not wanted.redeploy}

    def undeployable(self, wanted: Wanted, node: NodeState | None) -> FleetError | None:
        if wanted.image is None or wanted.image.named in self._ask("GET", "/images")["images"]:
            return None
        return Refused(f"the queue has no image {wanted.image.named}")

    def stored_image(self, wanted: Wanted) -> Stored:
        there = _named(wanted) in self._ask("GET", "/images")["images"]
        return Stored(_named(wanted), PRESENT if there else ABSENT, lacks="" if there else "no such image")

    # -- writing -----------------------------------------------------------------------------------------------

    def enrol(self, wanted: Wanted, node: NodeState | None) -> tuple[NodeState, Changes]:
        bmc = {"address": wanted.bmc.get("bmc_address"), "user": wanted.bmc.get("bmc_username")}
        fields = {"mac": mac(wanted.boot_mac), "serial": wanted.serial, "bmc": bmc if bmc["address"] else None}
        raw = node.raw if node is not None else {}
        after = {key: value for key, value in fields.items() if value and raw.get(key) != value}
        if wanted.bmc.get("bmc_password") and (node is None or "bmc" in after or wanted.update_password):
            after["bmc"] = {**bmc, "password": "********"}
        if node is not None and not after:
            return node, Changes()
        changes = Changes({key: raw.get(key) for key in after if node}, after)
        if not self.ctx.may_write(f"PUT /nodes/{wanted.key} {' '.join(after)}", nodes=(wanted.host,)):
            return node or NodeState(id="", name=wanted.key, native="defined", state=ENROLLED), changes
        secret = {"bmc": {**bmc, "password": wanted.bmc.get("bmc_password")}} if "bmc" in after else {}
        self._ask("PUT", f"/nodes/{wanted.key}", {**after, **secret})
        return self._nodes([wanted.key])[wanted.key], changes

    def start(self, step: str, node: NodeState, wanted: Wanted) -> None:
        for _host, error in self.start_many(step, [(node, wanted)]):
            if error is not None:
                raise error

    def start_many(self, step: str, nodes: Sequence[tuple[NodeState, Wanted]]) -> Iterator[Taken]:
        """One order for all nodes that get the same image."""
        for image in {wanted.image.named if wanted.image and step == INSTALL else "" for _node, wanted in nodes}:
            group = [(node, wanted) for node, wanted in nodes if step != INSTALL or _named(wanted) == image]
            granted, refused = self.permitted(functools.partial(_order, step, image), step, group)
            yield from refused.items()
            if granted:
                hosts = [wanted.host for _node, wanted in granted]
                yield from self.one_request(hosts, functools.partial(self._ordered, step, image, granted))

    def _ordered(self, step: str, image: str, nodes: Sequence[tuple[NodeState, Wanted]]) -> Mapping[str, FleetError]:
        """Of which nodes the queue did not take the order, though it took it of others. Who became somebody else's
        while leave for it was waited for is left out of it."""
        now = self.states([node.id for node, _wanted in nodes])
        changed = {wanted.host: self._changed(node, now.get(node.id), wanted) for node, wanted in nodes}
        moved = {host: why for host, why in changed.items() if why is not None}
        nodes = [(node, wanted) for node, wanted in nodes if wanted.host not in moved]
        if not nodes:
            return moved
        notes = {node.id: wanted.image.identity() if wanted.image else {} for node, wanted in nodes}
        taken = self._ask("POST", "/orders", {"action": step, "image": image, "nodes": notes})["taken"]
        refused = Refused("the queue did not take the order for this node", address=self.address)
        return {**moved, **{wanted.host: refused for node, wanted in nodes if node.id not in taken}}

    def _changed(self, judged: NodeState, now: NodeState | None, wanted: Wanted) -> FleetError | None:
        there = now if now is not None else judged.moved(GONE, GONE)
        return difference(marks(self, judged), marks(self, there), wanted, self.address)


def _order(step: str, image: str, nodes: Sequence[tuple[NodeState, Wanted]]) -> str:
    return f"POST /orders {step} {image} {','.join(node.id for node, _wanted in nodes)}"


def _named(wanted: Wanted) -> str:
    return wanted.image.named if wanted.image else ""
