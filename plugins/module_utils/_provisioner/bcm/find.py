# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding nodes at BCM, and what their records say. PRIVATE to the collection."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    FleetError,
    Refused,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import many, together
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm import install_log, record, tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm.cmsh import Cmsh
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm.needs import Needs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm.record import Record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    ABSENT,
    OF_RECORD,
    OTHER,
    Found,
    Network,
    NodeState,
    mac,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.stored import ABSENT as NOT_STORED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.stored import PRESENT, Stored
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.unread import (
    EachApart,
    demand_read,
    unreadable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import KNOWN_THERE, Image, Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import has_form
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

_READ_ONLY = "readonly"


class BcmReader(EachApart):
    """The reading half of the driver."""

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        super().__init__(ctx)
        self.cmsh = Cmsh(params, self)
        self.needs = Needs(self.cmsh)
        self.log = install_log.InstallLog(self)

    def close(self) -> None:
        """It keeps nothing open."""

    @property
    def address(self) -> str:
        return self.cmsh.address

    # -- nodes -------------------------------------------------------------------------------------------------

    def find(self, wanted: Wanted) -> NodeState | None:
        return self._found(wanted, lambda key: self.states([key]).get(key), self.cmsh.cards)

    def find_many(self, wanted: Sequence[Wanted]) -> Found:
        """One session for the records of all, and one for every node's card where some of them have no record."""
        known = self.states(list(self.resolve(wanted).values()))
        cards = functools.cache(self.cmsh.cards)
        return many.each(wanted, lambda one: self._found(one, known.get, cards))

    def _found(
        self, wanted: Wanted, node_of: Callable[[str], NodeState | None], cards: Callable[[], Mapping[str, str]]
    ) -> NodeState | None:
        record.check(wanted)
        found = node_of(wanted.key)
        demand_read(found)
        if found is None and wanted.boot_mac:
            self._card_is_free(wanted, cards())
        return found

    def _card_is_free(self, wanted: Wanted, cards: Mapping[str, str]) -> None:
        """Of two nodes with one MAC BCM installs one, on whichever machine has it.

        :raises WrongMachine: where another node has the card that this one is to have.
        """
        card = mac(wanted.boot_mac)
        other = next((name for name, one in cards.items() if one == card and name != wanted.key), "")
        if other:
            raise WrongMachine(
                f"its MAC belongs to {other} at BCM, and not to {wanted.key}",
                node=wanted.host,
                address=self.address,
                wanted=f"MAC {card} of no other node",
                seen=f"node {other}",
                do=KNOWN_THERE,
            )

    def reread(self, node: NodeState, wanted: Wanted) -> NodeState:
        found = self.states([node.id]).get(node.id)
        demand_read(found)
        return found or node.moved(ABSENT, ABSENT)

    def resolve(self, wanted: Sequence[Wanted]) -> dict[str, str]:
        """BCM's id of a node is its name. What is none is told where it is looked for."""
        return {one.host: one.key for one in wanted if record.NAME.match(one.key)}

    def states(self, ids: Sequence[str]) -> dict[str, NodeState]:
        """All in one session; and the installer's log, where an order of ours waits for its end, or a node that we left
        may have been installed by others."""
        found, wrong = self.cmsh.read(ids) if ids else ({}, {})
        notes = {name: record.words(raw).note for name, raw in found.items()}
        due = {
            name: note.get("log", "")
            for name, note in notes.items()
            if (tables.is_ours(found[name], note) and not note.get("done")) or tables.is_left(note)
        }
        log = together.of_each(self, "log", due, self.log.since) if due else {}
        nodes = {name: state(name, raw, log.get(name)) for name, raw in found.items()}
        return {**nodes, **{name: unreadable(name, why) for name, why in wrong.items()}}

    def end_of_log(self) -> str:
        """Where the installer's log ends, to be noted with an order."""
        return together.same(self, "end of the log", self.log.mark)

    def serials(self, node: NodeState, *, ask: bool) -> Mapping[str, str]:
        told = record.words(node.raw).serial
        return {OF_RECORD: told} if told else {}

    def network(self, node: NodeState, *, ask: bool) -> Network:
        """The card that it boots by. A machine has others, and BCM installs whichever has this one: that it agrees in
        a serial, which BCM has of our own words alone, proves nothing against it."""
        cards, addresses = {node.raw.get("mac", "")}, {node.raw.get("ip", "")}
        return Network(frozenset(cards - {""}), frozenset(addresses - {"", "0.0.0.0"}), complete=True)

    def bmc(self, node: NodeState) -> tuple[str, str]:
        return self.cmsh.bmcs({node.id: node.raw}).get(node.id, ""), ""

    def boots(self, node: NodeState) -> str:
        """Its installer takes whatever boots by a node's card, and installs it where the disk is not as it left it."""
        if super().boots(node) or not node.raw.get("mac"):
            return super().boots(node)
        return (
            f"its installer takes whatever boots by the card {node.raw['mac']}: take that out of its record"
            f" (cmsh -c 'device; set {node.id} mac {record.NO_MAC}; commit')"
        )

    def marks(self, node: NodeState) -> Mapping[str, str]:
        return record.words(node.raw).marks

    # -- images ------------------------------------------------------------------------------------------------

    def facts(self, node: NodeState, wanted: Wanted) -> Mapping[str, bool]:
        image, note = wanted.image, record.words(node.raw).note
        current = image is None or (tables.is_ours(node.raw, note) and record.is_noted(image, note))
        return {"image_current": current and not wanted.redeploy}

    def stored_image(self, wanted: Wanted) -> Stored:
        """By its name: what a software image holds, BCM does not tell."""
        require({"image": wanted.image}, "image", node=wanted.host)
        named = cast(Image, wanted.image).named
        there = bool(record.OBJECT.match(named)) and named in self.needs.images()
        return Stored(named, PRESENT if there else NOT_STORED)

    def undeployable(self, wanted: Wanted, node: NodeState | None) -> FleetError | None:
        return self.needs.lacking(wanted, node)

    def prerequisites(self, nodes: Sequence[tuple[Wanted, NodeState | None]]) -> list[tuple[str, FleetError]]:
        """Images and categories come in one answer each, and what our user may do in a third."""
        if nodes and self.cmsh.profile() == _READ_ONLY:
            why = Refused(
                "our user may only read at BCM",
                address=self.address,
                wanted="a profile that may set and commit devices, such as admin",
                seen=_READ_ONLY,
                do="run the task as a user whose certificate has another profile",
            )
            return [(wanted.host, why) for wanted, _node in nodes]
        return super().prerequisites(nodes)


def state(name: str, raw: Record, log: Sequence[str] | None) -> NodeState:
    """One node's record, as the port has it.

    :param log: what the installer's log says of it since our note; None where nobody can tell.
    """
    words = record.words(raw)
    told = None if log is None else install_log.mode(log, of_any=tables.is_left(words.note))
    native = tables.native(raw, words.note, told)
    note = words.note if tables.is_ours(raw, words.note) else {}
    return NodeState(
        id=name,
        name=name,
        native=native,
        state=tables.STATES.get(native, OTHER),
        last_error=_words_of(native, raw, log or ()),
        maintenance=has_form(words.hold),
        hold=words.hold,
        foreign=record.foreign(raw),
        stamp=f"softwareimage={raw['softwareimage']}",
        image=_image(raw, note) if native != tables.DEFINED else {},
        deploy_id=note.get("deploy_id", ""),
        deploy_failed=native in (tables.NOT_INSTALLED, tables.FAILED_WORD),
        inspection="unsupported",
        raw=raw,
    )


def _words_of(native: str, raw: Record, log: Sequence[str]) -> str:
    told = f"its status at BCM is {raw['status'].upper()} {raw['told']}".rstrip()
    if native == tables.NOT_INSTALLED:
        what = f"last in mode {install_log.mode(log)}" if log else "by no line of the installer's log"
        return f"its nextinstallmode was emptied, and it was installed {what}; {told}"
    if native not in (tables.FAILED_WORD, tables.BY_HAND):
        return ""
    return f"{short(told, 300)}{f'; the installer says: {install_log.last(log)}' if log else ''}"


def _image(raw: Record, note: Mapping[str, str]) -> dict[str, str]:
    if not note:
        return {"label": raw["softwareimage"]} if raw.get("softwareimage") else {}
    known = {key: note[key] for key in ("name", "version", "named", "deploy_id") if note.get(key)}
    return {"label": f"{note.get('name')}-{note.get('version')}", **known}
