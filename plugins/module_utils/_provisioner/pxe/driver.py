# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PXE alone: a boot server of our own, for a site without a provisioner. PRIVATE to the collection.

The role ``netboot`` sets it up. A node's record is a file there, and what it boots another one: a kernel and a system
that runs from memory, by their addresses. A deployment is that file, with the deployment's id among the arguments of
the kernel, and a boot that the node's BMC brings about. Nothing is kept on the node; what runs is proven there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _deployment as deployment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    FleetError,
    Refused,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import many, said
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    OF_RECORD,
    READY,
    Changes,
    Found,
    Network,
    NodeState,
    mac,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.pxe import record, tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.pxe.cli import Cli, broken
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.pxe.record import Record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.unread import EachApart, unreadable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import (
    KNOWN_THERE,
    Wanted,
    own_extras,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


class PxeDriver(EachApart):
    name = "pxe"
    states_map = tables.STATES
    steps = tables.STEPS
    leads_to = tables.LEADS_TO
    destructive = tables.DESTRUCTIVE
    orders = tables.ORDERS
    image_needs = ("name", "version", "url", "kernel_url")
    owns_power = False
    serial = True
    inspects = False
    erases = False
    keeps_images = False
    deploy_proof = deployment.NONCE
    stateless = ("ramdisk",)

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        super().__init__(ctx)
        self.cli = Cli(params, self)
        self._owners = frozenset(said.listed(own_extras(params, self.name), "owners"))

    def close(self) -> None:
        """It keeps nothing open."""

    @property
    def address(self) -> str:
        return self.cli.address

    # -- reading -----------------------------------------------------------------------------------------------

    def find(self, wanted: Wanted) -> NodeState | None:
        return self._found(wanted, self.cli.nodes())

    def find_many(self, wanted: Sequence[Wanted]) -> Found:
        nodes = self.cli.nodes()
        return many.each(wanted, lambda one: self._found(one, nodes))

    def _found(self, wanted: Wanted, nodes: Mapping[str, Record]) -> NodeState | None:
        record.check_extras(wanted.extras, wanted.host)
        if wanted.key in nodes:
            return self._state(wanted.key, nodes[wanted.key])
        card = mac(wanted.boot_mac) if wanted.boot_mac else ""
        other = next((name for name, one in nodes.items() if card and one.get("mac") == card), "")
        if other:
            raise WrongMachine(
                f"its MAC belongs to another node of the boot server than {wanted.key}",
                node=wanted.host,
                address=self.address,
                wanted=f"MAC {card} free, or the node's own name",
                seen=f"node {other}",
                do=KNOWN_THERE,
            )
        return None

    def resolve(self, wanted: Sequence[Wanted]) -> dict[str, str]:
        return {one.host: one.key for one in wanted}

    def states(self, ids: Sequence[str]) -> dict[str, NodeState]:
        nodes = self.cli.nodes(ids) if ids else {}
        return {name: self._apart(name, one) for name, one in nodes.items()}

    def _apart(self, name: str, found: Record) -> NodeState:
        try:
            return self._state(name, found)
        except Refused as exc:
            return unreadable(name, exc)

    def _state(self, name: str, found: Record) -> NodeState:
        """:raises Refused: where a hand has written there what is none of a record's."""
        odd = found.get("error") or record.odd(found)
        if odd:
            raise broken(odd, self.address)
        return record.state(name, found, self._owners)

    def serials(self, node: NodeState, *, ask: bool) -> Mapping[str, str]:
        told = str(node.raw.get("serial") or "")
        return {OF_RECORD: told} if told else {}

    def network(self, node: NodeState, *, ask: bool) -> Network:
        """The card that it boots by. The machine has others, but by this one alone does an order reach it: the serial,
        which is in the record because we wrote it there, does not outvote it."""
        card, address = str(node.raw.get("mac") or ""), str(node.raw.get("ip") or "")
        return Network(frozenset({card} - {""}), frozenset({address} - {""}), complete=True)

    def marks(self, node: NodeState) -> Mapping[str, str]:
        return {str(key): str(value) for key, value in dict(node.raw.get("marks") or {}).items()}

    def facts(self, node: NodeState, wanted: Wanted) -> Mapping[str, bool]:
        current = wanted.image is None or record.is_current(node.id, node.raw, wanted.image)
        return {
            "image_current": current and not wanted.redeploy,
            "booted": wanted.booted and self._since_boot(node, wanted),
        }

    def _since_boot(self, node: NodeState, wanted: Wanted) -> bool:
        """Did its loader ask since its power was cut for that boot? Where nobody tells when that was, whatever came
        since the order counts."""
        at = float((node.raw.get("seen") or {}).get("at") or 0.0)
        return not wanted.booted_at or at > wanted.booted_at + self.cli.ahead + tables.SLACK

    def undeployable(self, wanted: Wanted, node: NodeState | None) -> FleetError | None:
        if node is None and not wanted.boot_mac:
            return ConfigError("nobody knows by which card the node boots", do="set gpufleet_boot_mac")
        if wanted.image is None:
            return None
        unfit = record.unfit(node.raw, wanted.extras) if node is not None else None
        return record.unbootable(wanted.image) or unfit

    def other_bytes(self, wanted: Wanted) -> str:
        return record.other_bytes(wanted.extras)

    # -- the record --------------------------------------------------------------------------------------------

    def enrol(self, wanted: Wanted, node: NodeState | None) -> tuple[NodeState, Changes]:
        wishes = record.wishes(wanted)
        if node is None:
            require({"boot_mac": wanted.boot_mac}, "boot_mac", node=wanted.host)
            new = NodeState(id="", name=wanted.key, native=tables.NO_ENTRY, state=READY)
            made = self.cli.write(wanted.host, "put", wanted.key, 0, wishes, saying=_told(wishes))
            return (new if made is None else self._state(wanted.key, made)), Changes({}, wishes)
        after = {key: value for key, value in wishes.items() if str(node.raw.get(key) or "") != value}
        before = {key: str(node.raw.get(key) or "") for key in after}
        if not after:
            return node, Changes()
        return self._put(node, wanted, after, _told(after)) or node, Changes(before, after)

    def _put(self, node: NodeState, wanted: Wanted, fields: Mapping[str, Any], saying: str) -> NodeState | None:
        """Its record with these fields, made of the one that was judged."""
        body = {**record.own(node.raw), **fields}
        made = self.cli.write(wanted.host, "put", node.id, int(node.raw["version"]), body, saying=saying)
        return None if made is None else self._state(node.id, made)

    def annotate(self, node: NodeState, wanted: Wanted) -> Changes:
        marks = dict(node.raw.get("marks") or {})
        after = {key: value for key, value in wanted.annotations.items() if marks.get(key, "") != value}
        if after:
            whole = {key: value for key, value in {**marks, **after}.items() if value}
            self._put(node, wanted, {"marks": whole}, f"marks {' '.join(after)}")
        return Changes({key: marks.get(key, "") for key in after}, after)

    def hold(self, node: NodeState, token: str, wanted: Wanted) -> None:
        self._put(node, wanted, {"hold": token}, f"hold={token}")

    def lift(self, node: NodeState, wanted: Wanted) -> None:
        self._put(node, wanted, {"hold": ""}, "without hold")

    # -- steps -------------------------------------------------------------------------------------------------

    def start(self, step: str, node: NodeState, wanted: Wanted) -> None:
        _BEGIN[step](self, node, wanted)

    def _assign(self, node: NodeState, wanted: Wanted) -> None:
        """One write of the command: the note with what stood there before, and then the entry, which is the order."""
        image = wanted.image
        if image is None:
            require({"image": None}, "image", node=wanted.host)
            return
        why = self.undeployable(wanted, node)
        if why is not None:
            raise why.located(node=wanted.host)
        body = {"entry": record.entry(node.id, node.raw, image), "note": image.identity()}
        version = int(node.raw["version"])
        self.cli.write(wanted.host, "boot", node.id, version, body, saying=f"image={image.label}", hard=True)

    def _confirm(self, node: NodeState, wanted: Wanted) -> None:
        """Its loader has asked since the order, by a boot that was brought about for it."""
        self._put(node, wanted, {"booted": float(node.raw["seen"]["at"])}, "booted")

    def _clear(self, node: NodeState, wanted: Wanted) -> None:
        self.cli.write(wanted.host, "unboot", node.id, int(node.raw["version"]), saying="without entry", hard=True)


def _told(fields: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in fields.items())


_BEGIN: Mapping[str, Callable[[PxeDriver, NodeState, Wanted], None]] = {
    tables.ASSIGN: PxeDriver._assign,
    tables.CONFIRM: PxeDriver._confirm,
    tables.CLEAR: PxeDriver._clear,
}
