# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Warewulf driver. PRIVATE to the collection.

Warewulf switches no power through its API and boots nothing: it serves an image to whatever boots from the network. So
a deployment is an image in the node's record, overlays that were made from that record, and a boot that others bring
about. Its nodes keep nothing; what they boot is proven on the node, by the deployment's id among the arguments of the
kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _bmc_address as bmc_address
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _deployment as deployment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, Refused, WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import many, said, stored
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    OF_RECORD,
    Changes,
    Driver,
    Found,
    Network,
    NodeState,
    mac,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.stored import Opened, Stored
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import (
    BY_NAME,
    KNOWN_THERE,
    Image,
    Wanted,
    own_extras,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf import (
    declared,
    images,
    record,
    tables,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf.api import (
    Record,
    Seen,
    WarewulfApi,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf.enrolling import Enrolling
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf.extras import check_extras
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf.writes import Writes, path_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

Profiles = Callable[[], Mapping[str, Record]]


class WarewulfDriver(Driver):
    name = "warewulf"
    states_map = tables.STATES
    steps = tables.STEPS
    leads_to = tables.LEADS_TO
    destructive = tables.DESTRUCTIVE
    orders = tables.ORDERS
    image_needs = BY_NAME
    owns_power = False
    serial = True
    inspects = False
    erases = False
    deploy_proof = deployment.NONCE
    takes_images = True
    image_proof = stored.REFERENCE

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        super().__init__(ctx)
        self.api = WarewulfApi(params, ctx)
        self._writes = Writes(self.api)
        self._enrolling = Enrolling(self, self.api, self._writes, self._is_free)
        self._owners = frozenset(said.listed(own_extras(params, self.name), "owners"))

    def close(self) -> None:
        self.api.close()

    @property
    def ahead(self) -> tuple[float, float] | None:  # type: ignore[override]
        return self.api.clock.ahead

    @property
    def address(self) -> str:
        return self.api.address

    # -- reading -----------------------------------------------------------------------------------------------

    def find(self, wanted: Wanted) -> NodeState | None:
        return self._found(wanted, self.api.node, self.api.nodes, self.api.seen, self.api.profiles)

    def find_many(self, wanted: Sequence[Wanted]) -> Found:
        """All nodes come in one answer, what they asked for in another, and their profiles in a third."""
        nodes, seen = functools.cache(self.api.nodes), functools.cache(self.api.seen)
        profiles = functools.cache(self.api.profiles)
        return many.each(wanted, lambda one: self._found(one, lambda key: nodes().get(key), nodes, seen, profiles))

    def _found(
        self,
        wanted: Wanted,
        node_of: Callable[[str], Record | None],
        nodes: Callable[[], Mapping[str, Record]],
        seen: Callable[[], Mapping[str, Seen]],
        profiles: Profiles,
    ) -> NodeState | None:
        check_extras(wanted.extras, wanted.host)
        found = node_of(wanted.key)
        if found is not None:
            return self._state(wanted.key, found, seen(), profiles)
        self._is_free(wanted, nodes=nodes)
        return None

    def _is_free(
        self, wanted: Wanted, but: str = "", *, nodes: Callable[[], Mapping[str, Record]] | None = None
    ) -> None:
        """Of two nodes with one MAC Warewulf serves one, with its image, to whichever machine has it; of two with one
        address neither is reached, and of two with one BMC the wrong one is switched.

        :param but: the node itself.
        """
        card = mac(wanted.boot_mac) if wanted.boot_mac else ""
        own = {where: value for where, value in record.its_alone(wanted).items() if value}
        if not card and not own:
            return
        every = (nodes or self.api.nodes)()
        self._addresses_are_free(wanted, own, {name: one for name, one in every.items() if name != but})
        theirs = (name for name, one in every.items() if name != but and card in record.macs(one))
        other = next(theirs, "")
        if other:
            raise WrongMachine(
                f"its MAC belongs to another node of Warewulf than {wanted.key}",
                node=wanted.host,
                address=self.address,
                wanted=f"MAC {card} free, or the node's own name",
                seen=f"node {other}",
                do=KNOWN_THERE,
            )

    def _addresses_are_free(self, wanted: Wanted, own: Mapping[str, str], others: Mapping[str, Record]) -> None:
        for name, one in others.items():
            where = next((where for where, value in own.items() if value in record.alone(one)[where]), "")
            if where:
                raise WrongMachine(
                    f"its address belongs to another node of Warewulf than {wanted.key}",
                    node=wanted.host,
                    address=self.address,
                    wanted=f"{where}: {own[where]} of no other node",
                    seen=f"node {name}",
                    do=f"say {where} for each host, such as '{{{{ ansible_host }}}}', and for no group; or take it out"
                    f" of the record {name}",
                )

    def resolve(self, wanted: Sequence[Wanted]) -> dict[str, str]:
        return {one.host: one.key for one in wanted}

    def states(self, ids: Sequence[str]) -> dict[str, NodeState]:
        """All nodes come in one answer, and what they asked for in another."""
        if not ids:
            return {}
        nodes = self.api.nodes()
        seen = self.api.seen()
        profiles = functools.cache(self.api.profiles)
        return {name: self._state(name, nodes[name], seen, profiles) for name in ids if name in nodes}

    def _state(self, name: str, found: Record, seen: Mapping[str, Seen], profiles: Profiles) -> NodeState:
        last = seen.get(name, Seen())
        word = record.native(found, last, lambda: record.inherited(found, profiles()))
        return record.state(name, found, last, word, self._owners)

    def serials(self, node: NodeState, *, ask: bool) -> Mapping[str, str]:
        told = record.serial(node.raw["node"]) if node.raw else ""
        return {OF_RECORD: told} if told else {}

    def network(self, node: NodeState, *, ask: bool) -> Network:
        """Those that somebody has entered; the machine may have more. Whatever machine boots by one of them takes the
        image of the node, or of its profiles: the serial, which is in the record because we wrote it there, does not
        outvote them then."""
        known = node.raw["node"] if node.raw else {}
        return Network(record.macs(known), record.addresses(known), complete=bool(record.image_of(known)))

    def bmc(self, node: NodeState) -> tuple[str, str]:
        ipmi = (node.raw["node"] if node.raw else {}).get("ipmi")
        found = ipmi if isinstance(ipmi, dict) else {}
        return bmc_address.joined(str(found.get("ipaddr") or ""), found.get("port")), ""

    def boots(self, node: NodeState) -> str:
        """Without an image of its own it boots that of its profiles."""
        if node.native != tables.OF_PROFILE:
            return super().boots(node)
        image = record.image_of(node.raw["node"])
        return f"its profiles give it the image {image}: take it out of those (wwctl node set {node.id} --profile ...)"

    def marks(self, node: NodeState) -> Mapping[str, str]:
        return record.marks(node.raw["node"]) if node.raw else {}

    def facts(self, node: NodeState, wanted: Wanted) -> Mapping[str, bool]:
        image, known = wanted.image, node.raw["node"]
        shared = declared.digest(wanted.extras)
        current = image is None or (record.image_of(known) == image.named and record.is_ordered(node, image, shared))
        return {
            "image_current": current and not wanted.redeploy,
            "booted": wanted.booted and self._since_boot(node, wanted),
        }

    def _since_boot(self, node: NodeState, wanted: Wanted) -> bool:
        """Did it ask since its power was cut for that boot? Until then what ran before asks for the last part as well.
        Where nobody tells when that was, whatever came since the order counts."""
        if not wanted.booted_at:
            return True
        return bool(node.raw["seen"].at > wanted.booted_at + self.api.ahead + tables.SLACK)

    # -- can it be deployed ------------------------------------------------------------------------------------

    def undeployable(self, wanted: Wanted, node: NodeState | None) -> FleetError | None:
        return self._lacking(wanted, self.api.image)

    def prerequisites(self, nodes: Sequence[tuple[Wanted, NodeState | None]]) -> list[tuple[str, FleetError]]:
        """Each image is asked for once."""
        image = functools.cache(self.api.image)
        asked = ((wanted.host, wanted.flaw or self._lacking(wanted, image)) for wanted, _node in nodes)
        lacking = [(host, why) for host, why in asked if why is not None]
        batch = [wanted for wanted, _node in nodes]
        return [*lacking, *declared.at_odds(batch), *many.at_once(batch, record.its_alone)]

    def _lacking(self, wanted: Wanted, image: Callable[[str], Record | None]) -> FleetError | None:
        odd = record.odd_keys(wanted.annotations)
        if odd is not None or wanted.image is None:
            return odd
        name = wanted.image.named
        found = image(name)
        if found is None:
            return Refused(
                f"Warewulf has no image {name}",
                address=self.address,
                do=f"have it imported: provisioner_image, or wwctl image import --build docker://... {name}; or correct"
                " gpufleet_image.named",
            )
        lacks = {"a kernel": not found.get("kernels"), "a build": not found.get("buildtime")}
        if any(lacks.values()):
            return Refused(
                f"Warewulf's image {name} cannot be booted",
                address=self.address,
                wanted="a kernel in it, and that it was built",
                seen=f"it lacks {' and '.join(what for what, true in lacks.items() if true)}",
                do=f"install a kernel in it (wwctl image shell {name}) and build it (wwctl image build {name})",
            )
        return None

    # -- images ------------------------------------------------------------------------------------------------

    def stored_image(self, wanted: Wanted) -> Stored:
        check_extras(wanted.extras, wanted.host)
        name = self._image(wanted).named
        return images.stored(name, self.api.image(name))

    def bring_image(self, wanted: Wanted, there: Stored, opened: Opened) -> None:
        """Warewulf fetches it by itself."""
        images.bring(self, self.api, wanted, self._image(wanted), there)

    @staticmethod
    def _image(wanted: Wanted) -> Image:
        require({"image": wanted.image}, "image", node=wanted.host)
        return cast(Image, wanted.image)

    # -- the record --------------------------------------------------------------------------------------------

    def enrol(self, wanted: Wanted, node: NodeState | None) -> tuple[NodeState, Changes]:
        check_extras(wanted.extras, wanted.host)
        return self._enrolling.enrol(wanted, node)

    def unserved(self, node: NodeState, wanted: Wanted) -> Mapping[str, str]:
        return self._enrolling.unserved(wanted, node)

    def serve(self, node: NodeState, wanted: Wanted, lacking: Mapping[str, str], stands: float) -> Changes:
        return self._enrolling.serve(wanted, node, lacking, stands)

    def annotate(self, node: NodeState, wanted: Wanted) -> Changes:
        odd = record.odd_keys(wanted.annotations)
        if odd is not None:
            raise odd.located(node=wanted.host)
        own = record.tags(node.raw["node"])
        after = {key: value for key, value in wanted.annotations.items() if own.get(key, "") != value}
        if after:
            self._writes.change(wanted, node, lambda found: record.with_tags(found, after), f"tags {' '.join(after)}")
        return Changes({key: own.get(key, "") for key in after}, after)

    def hold(self, node: NodeState, token: str, wanted: Wanted) -> None:
        self._writes.change(
            wanted, node, lambda found: record.with_tags(found, {record.HOLD: token}), f"tag {record.HOLD}={token}"
        )

    def lift(self, node: NodeState, wanted: Wanted) -> None:
        self._writes.change(
            wanted, node, lambda found: record.with_tags(found, {record.HOLD: ""}), f"without tag {record.HOLD}"
        )

    # -- steps -------------------------------------------------------------------------------------------------

    def start(self, step: str, node: NodeState, wanted: Wanted) -> None:
        _BEGIN[step](self, node, wanted)

    def _assign(self, node: NodeState, wanted: Wanted) -> None:
        """The overlays are made from the record that has the image, and all of it stands before the order itself."""
        image = wanted.image
        if image is None:
            require({"image": None}, "image", node=wanted.host)
            return
        why = self.undeployable(wanted, node)
        if why is not None:
            raise why.located(node=wanted.host)
        if not self.ctx.check_mode:  # of which nothing was made there
            declared.Declared(self.api, wanted).demand_shown()
        with self.ctx.ordering(""):
            self._prepare(node, wanted, image)
        before = self.api.seen().get(node.id, Seen())
        told = record.note(image, before, declared.digest(wanted.extras))

        self._writes.change(
            wanted,
            node,
            lambda found: record.with_note(found, told, **{record.RESTS: record.ORDERED}),
            f"ordered {image.label}",
            hard=True,
            image=image.named,
        )

    def _prepare(self, node: NodeState, wanted: Wanted, image: Image) -> None:
        """The image, and overlays that were built with it. Where an order was begun before, by a run that died or by a
        part of this one whose leave ended, they may be built already; none that takes longer than leave lasts would
        come to its order else."""
        standing = record.built(self.api.overlays(node.id))
        made = record.is_made(node, image, standing, declared.digest(wanted.extras))
        self._begin(node, wanted, image, standing, of=record.image_of(node.raw["node"]))
        if made:
            return
        now = record.built(self.api.overlays(node.id))
        if now != standing:  # somebody else built them, perhaps of the record without the image
            self._begin(node, wanted, image, now, of=image.named)
        self._build(wanted, node, now, image.named)

    def _begin(self, node: NodeState, wanted: Wanted, image: Image, overlays: Mapping[str, str], *, of: str) -> None:
        begun = record.beginning(node, image, overlays, declared.digest(wanted.extras))
        self._writes.change(
            wanted,
            node,
            lambda found: record.with_note(record.with_image(found, image), begun),
            f"image name={image.named}",
            hard=True,
            image=of,
        )

    def _build(self, wanted: Wanted, node: NodeState, before: Mapping[str, str], named: str) -> None:
        name, last = node.id, functools.partial(self._writes.demand_as_judged, wanted, node, named)
        if not self.api.write("POST", f"{path_of(name)}/overlays/build", host=wanted.host, destructive=True, last=last):
            return
        stale = record.unbuilt(before, record.built(self.api.overlays(name)))
        if stale:
            raise Refused(
                "Warewulf took the order to build the node's overlays, and did not build them",
                node=wanted.host,
                address=self.address,
                seen=", ".join(stale),
                do=f"try it there and see what it says: wwctl overlay build {name}",
            )

    def _confirm(self, node: NodeState, wanted: Wanted) -> None:
        """The machine was booted since the order and has asked for all: that outlives a restart of the server."""
        self._writes.change(
            wanted,
            node,
            lambda found: record.with_note(found, {**record.noted(found), "booted": list(node.raw["seen"])}),
            "booted",
            image=record.image_of(node.raw["node"]),
        )

    def _clear(self, node: NodeState, wanted: Wanted) -> None:
        self._writes.change(
            wanted,
            node,
            lambda found: record.with_note(record.without_image(found), {}, **{record.RESTS: record.RELEASED}),
            "without image name",
            hard=True,
            image=record.image_of(node.raw["node"]),
        )


_BEGIN: Mapping[str, Callable[[WarewulfDriver, NodeState, Wanted], None]] = {
    tables.ASSIGN: WarewulfDriver._assign,
    tables.CONFIRM: WarewulfDriver._confirm,
    tables.CLEAR: WarewulfDriver._clear,
}
