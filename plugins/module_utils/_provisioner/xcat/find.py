# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding nodes in xCAT, and what their records say. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    FleetError,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import many, ways
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    ABSENT,
    OF_RECORD,
    OTHER,
    Found,
    Network,
    NodeState,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.stored import ABSENT as NOT_STORED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.stored import PARTIAL, PRESENT, Stored
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.unread import EachApart, unreadable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image, Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat import record, tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat.cards import Cards, Records
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat.cli import Cli
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat.needs import Needs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat.web import Web
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import has_form
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

Record = dict[str, str]


class XcatReader(EachApart):
    """The reading half of the driver."""

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        super().__init__(ctx)
        self.cli = (Web if ways.by_service(params.get("provisioner_url")) else Cli)(params, self)
        self.needs = Needs(self.cli)
        self.cards = Cards(self.cli, str(params.get("run_cache") or ""))

    def close(self) -> None:
        self.cli.close()

    @property
    def address(self) -> str:
        return self.cli.address

    # -- nodes -------------------------------------------------------------------------------------------------

    def find(self, wanted: Wanted) -> NodeState | None:
        return self._found(wanted, lambda key: self.cli.nodes([key]).get(key))

    def find_many(self, wanted: Sequence[Wanted]) -> Found:
        """One command for the records of all, and one for the cards of every node where some of them have none."""
        asked = list(self.resolve(wanted).values())
        known, wrong = self.cli.read(asked) if asked else ({}, {})

        def node_of(name: str) -> Record | None:
            if name in wrong:
                raise wrong[name]
            return known.get(name)

        return many.each(wanted, lambda one: self._found(one, node_of))

    def _found(self, wanted: Wanted, node_of: Callable[[str], Record | None]) -> NodeState | None:
        record.check(wanted)
        raw = node_of(wanted.key)
        if raw is not None:
            return state(wanted.key, raw)
        own = record.its_alone(wanted)
        if any(own.values()):
            lately = self.cards.lately()
            if any(record.shared(own, other) for other in lately.values()):
                self._free(wanted, own, self.cards.anew())
        return None

    def _free(self, wanted: Wanted, fields: Mapping[str, str], nodes: Records) -> None:
        """A node that has another one's MAC boots its image, one that has its BMC resets it, and of two with one
        address neither is reached.

        :raises WrongMachine: where another node has the MAC, the BMC or the address that this one is to have.
        """
        for name, other in nodes.items():
            shared = record.shared(fields, other) if name != wanted.key else ""
            if shared:
                part, variable = shared.upper(), tables.SAID_BY[shared]
                raise WrongMachine(
                    f"its {part} belongs to {name} at xCAT, and not to {wanted.key}",
                    node=wanted.host,
                    address=self.address,
                    wanted=f"{shared}={cut(fields[shared], 200)} of no other node",
                    seen=f"{name}: {shared}={cut(other.get(shared, ''), 200)}",
                    do=f"correct {variable}, or set gpufleet_provisioner_id: {name}",
                )

    def reread(self, node: NodeState, wanted: Wanted) -> NodeState:
        raw = self.cli.nodes([node.id]).get(node.id)
        return node.moved(ABSENT, ABSENT) if raw is None else state(node.id, raw)

    def resolve(self, wanted: Sequence[Wanted]) -> dict[str, str]:
        """xCAT's id of a node is its name. What is none is told where it is looked for."""
        return {one.host: one.key for one in wanted if record.NODE.match(one.key)}

    def states(self, ids: Sequence[str]) -> dict[str, NodeState]:
        found, wrong = self.cli.read(ids) if ids else ({}, {})
        nodes = {name: state(name, raw) for name, raw in found.items()}
        return {**nodes, **{name: unreadable(name, why) for name, why in wrong.items()}}

    def serials(self, node: NodeState, *, ask: bool) -> Mapping[str, str]:
        told = node.raw.get("serial", "")
        return {OF_RECORD: told} if told else {}

    def network(self, node: NodeState, *, ask: bool) -> Network:
        """The cards that it boots by: a machine has others. While an order or a deployment stands it is another machine
        that boots by another one: the serial, which xCAT has of our own words, does not outvote them then."""
        address = node.raw.get("ip", "")
        stands = self.has_deployment(node) or node.deploy_failed or _is_set_up(node)
        return Network(record.macs(node.raw), frozenset({address} - {""}), complete=stands)

    def bmc(self, node: NodeState) -> tuple[str, str]:
        return node.raw.get("bmc", ""), ""

    def boots(self, node: NodeState) -> str:
        """What ``nodeset`` has set up stands whatever the node has told of itself."""
        set_up = f"nodeset says {node.raw.get('currstate')}: run nodeset {node.id} offline"
        return super().boots(node) or (set_up if _is_set_up(node) else "")

    def marks(self, node: NodeState) -> Mapping[str, str]:
        return record.words(node.raw.get("usercomment", "")).marks

    # -- images ------------------------------------------------------------------------------------------------

    def stored_image(self, wanted: Wanted) -> Stored:
        """As far as its definition tells: whether its files are there and whose they are, no command of xCAT does."""
        require({"image": wanted.image}, "image", node=wanted.host)
        image = cast(Image, wanted.image)
        why = self.needs.no_image(image)
        if isinstance(why, ConfigError):
            raise why.located(node=wanted.host, address=self.address)
        if why is None:
            return Stored(image.named, PRESENT)
        there = self.needs.image(image.named) is not None
        return Stored(image.named, PARTIAL if there else NOT_STORED, lacks=why.seen or why.what, do=why.do)

    def facts(self, node: NodeState, wanted: Wanted) -> Mapping[str, bool]:
        image = wanted.image
        current = image is None or (node.raw.get("provmethod") == image.named and image.is_noted(node.image))
        return {"image_current": current and not wanted.redeploy}

    def prerequisites(self, nodes: Sequence[tuple[Wanted, NodeState | None]]) -> list[tuple[str, FleetError]]:
        batch = [wanted for wanted, _node in nodes]
        return [
            *super().prerequisites(nodes),
            *many.at_once(batch, lambda one: {tables.SAID_BY["ip"]: record.its_alone(one)["ip"]}),
        ]

    def undeployable(self, wanted: Wanted, node: NodeState | None) -> FleetError | None:
        return self.needs.lacking(wanted, node)


def _is_set_up(node: NodeState) -> bool:
    """Does it boot something from the network, whatever that is?"""
    return node.raw.get("currstate", "").partition(" ")[0].partition("=")[0] not in tables.BOOTS_NOTHING


def state(name: str, raw: Mapping[str, str]) -> NodeState:
    """One node's record, as the port has it."""
    comment = record.words(raw.get("usercomment", ""))
    native = tables.native(raw, comment.note)
    ours = comment.note.get("order") == tables.DEPLOY and raw.get("provmethod") == comment.note.get("named")
    return NodeState(
        id=name,
        name=name,
        native=native,
        state=tables.STATES.get(native, OTHER),
        last_error=_words_of(native, raw),
        maintenance=has_form(comment.hold),
        hold=comment.hold,
        foreign=record.foreign(raw),
        stamp=f"provmethod={raw.get('provmethod', '')}",
        image=_image(raw, comment.note if ours else {}),
        deploy_id=comment.note.get("deploy_id", "") if ours else "",
        deploy_failed=native == "failed",
        inspection="unsupported",
        raw=raw,
    )


def _words_of(native: str, raw: Mapping[str, str]) -> str:
    """xCAT keeps no reasons: what its words mean, and since when."""
    told = {
        "failed": "it told status failed: a script of its deployment failed (/var/log/xcat/xcat.log on the node)",
        tables.NOT_INSTALLED: "it told that it has booted, and its installation is still to come: it boots its disk",
        tables.BY_HAND: f"a person has it in {raw.get('currstate', '')}",
    }.get(native, "" if native in tables.STATES else "no word of a deployment; chdef -t node NAME status= clears it")
    return f"{told}, since {raw.get('statustime') or 'an unknown time'}" if told else ""


def _image(raw: Mapping[str, str], note: Mapping[str, str]) -> dict[str, str]:
    if note:
        return {"label": f"{note.get('name')}-{note.get('version')}", **note}
    return {"label": raw["provmethod"]} if raw.get("provmethod") else {}
