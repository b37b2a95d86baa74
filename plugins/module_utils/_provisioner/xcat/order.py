# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How xCAT deploys and releases nodes. PRIVATE to the collection.

A deployment is our note in the node's comment, which also takes the order's id to its kernel's command line and clears
``provmethod``; then ``nodeset``, ``rsetboot`` and ``rpower boot``, of which each is sent for those alone for whom the
one before it did what it was to do, and with leave of its own: what stands already is not done again. ``rinstall`` is
not used: of several nodes it boots those as well whose boot it could not set up, and they come up with what they had.
Until the last one a node only waits for its next boot: who is refused before it is taken back, so that no boot of
anybody's wipes a disk by an order that was refused.

Whether the order was given a word of the note tells, and so does any word of the node's own that is newer than it: a
run that was killed before ``rpower`` begins again, and one that was killed after it waits. Where others boot the
machine (by the web service), that word is the last write, and the node is to be booted from then on.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    FleetError,
    PermitDue,
    Refused,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import said
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import OF_ALL, NodeState, Taken
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.looked import begun, looked
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.unread import trouble_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat import (
    notes,
    record,
    tables,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat.cli import (
    errors,
    failures,
    lines,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat.writes import (
    Nodes,
    Send,
    XcatWriter,
    but,
    in_blocks,
    named_of,
    names_of,
)

#: What ``rsetboot`` says of one that boots from the network next.
_NETWORK = "Network"
#: The word of an order that is complete: the last write of one whose boot is others'.
_GIVES = ("chdef -z", "usercomment: given")


@dataclass
class Order:
    """One image for many nodes.

    there: what ``nodeset stat`` said of them before. noted: those whose note of this very order stood before. told:
    those of whom this call has told the order. sent, booted: those that it has sent ``nodeset``, and the last write,
    for.
    """

    named: str
    uefi: bool
    method: str
    there: Mapping[str, str]
    noted: Collection[str]
    told: set[str] = field(default_factory=set)
    sent: set[str] = field(default_factory=set)
    booted: set[str] = field(default_factory=set)

    def is_armed(self, node: NodeState) -> bool:
        """May it install at its next boot, and is that boot still to come?"""
        return (node.id in self.sent or self.stands(node)) and node.id not in self.booted

    def stands(self, node: NodeState) -> bool:
        """Set up for it by a call before this one: the note clears ``provmethod``, and what an older order has set up
        is set offline before it is set up anew."""
        return node.id in self.noted and self._is_set_up(node) and node.raw.get("provmethod") == self.named

    def is_stale(self, node: NodeState) -> bool:
        return self._is_set_up(node) and not self.stands(node)

    def _is_set_up(self, node: NodeState) -> bool:
        return self.there.get(node.id, "").partition(" ")[0] == self.method


class XcatOrders(XcatWriter):
    """What the driver writes in order to deploy and to release."""

    def start(self, step: str, node: NodeState, wanted: Wanted) -> None:
        for _host, error in self.start_many(step, [(node, wanted)]):
            if error is not None:
                raise error.located(node=wanted.host)

    def start_many(self, step: str, nodes: Nodes) -> Iterator[Taken]:
        """One command for all nodes that get the same image, up to as many as a command takes."""
        if step == tables.CLEAR:
            for block in in_blocks(nodes):
                yield from self._cleared(block)
            return
        groups: dict[tuple[str, bool], list[tuple[NodeState, Wanted]]] = {}
        for node, wanted in nodes:
            require({"image": wanted.image}, "image", node=wanted.host)
            told = wanted.extras.get("uefi")
            groups.setdefault((named_of(wanted), told is None or said.flag(told)), []).append((node, wanted))
        for (named, uefi), group in groups.items():
            for block in in_blocks(group):
                yield from self._deployed(named, uefi, block)

    # -- a deployment ------------------------------------------------------------------------------------------

    def _deployed(self, named: str, uefi: bool, nodes: Nodes) -> Iterator[Taken]:
        """All of these get this image, by three commands. Leave is asked for before each, since one of many nodes takes
        longer than leave may last: who has to wait for it goes on from where it stands."""
        noted = [one for one in nodes if notes.is_noted(*one)]
        fresh: list[tuple[NodeState, Wanted]] = []
        with self.ctx.ordering(""):
            record_it = functools.partial(self._recorded, notes.ordered)
            yield from self._one_after(fresh, but(nodes, noted), _recording, tables.DEPLOY, record_it)
        left = [*noted, *((notes.cleared(node), wanted) for node, wanted in fresh)]
        there: dict[str, str] = {}
        method = self.needs.method(named) if left else ""
        hosts = [wanted.host for _node, wanted in left]
        look = self.one_request(hosts, lambda: there.update(self._set_up_there(method, left)))
        unseen = [(host, why) for host, why in look if why is not None]
        yield from unseen
        if left and not unseen:
            yield from self._ordered(Order(named, uefi, method, there, set(names_of(noted))), left)

    def _set_up_there(self, method: str, nodes: Nodes) -> Mapping[str, str]:
        """What ``nodeset stat`` says, of those alone that may be set up by this method."""
        names = [node.id for node, _wanted in nodes if node.raw.get("currstate", "").partition(" ")[0] == method]
        return self.cli.told(names, "nodeset", "stat") if names else {}

    def _ordered(self, order: Order, nodes: Nodes) -> Iterator[Taken]:
        """Each command for those alone for whom the one before it succeeded. Whoever a refusal or a failure ends it for
        before the reset is taken back, and not who waits for leave alone: that is the same order, a moment later."""

        def last_of(send: Send) -> Send:
            def sent(nodes: Nodes) -> Mapping[str, FleetError]:
                with begun(order.booted, names_of(nodes)):
                    return send(nodes)

            return sent

        try:
            left = yield from self._prepared(order, nodes)
            if self.owns_power:
                yield from self._stage(
                    order, left, "rpower", "boot", last_of(self._booted), method=order.named, last=True
                )
            else:  # the boot is not xCAT's, and the order is complete with the word of it
                yield from self._stage(order, left, *_GIVES, last_of(self._completed), method=order.named, last=True)
        except OF_ALL as exc:
            back = [one for one in nodes if order.is_armed(one[0])]
            self._take_back(back, {node.id: exc for node, _wanted in back})
            raise

    def _prepared(self, order: Order, nodes: Nodes) -> Generator[Taken, None, Nodes]:
        """Those of them that install at their next boot, and boot from the network then."""
        stale = [one for one in nodes if order.is_stale(one[0])]
        if stale:  # by what ``nodeset stat`` says of it, it could not be told from one that is set up for this order
            off = functools.partial(self._switched, "nodeset", "offline")
            done = yield from self._stage(order, stale, "nodeset", "offline", off)
            nodes = [*but(nodes, stale), *done]
        due, arm = [one for one in nodes if not order.stands(one[0])], functools.partial(self._armed, order)
        armed = yield from self._stage(order, due, "nodeset", f"osimage={order.named}", arm)
        nodes = [*but(nodes, due), *armed]
        if not self.owns_power:
            return nodes
        by_bmc = [one for one in nodes if one[0].raw.get("mgt") in tables.BY_RSETBOOT]
        again = [node.id for node, _wanted in by_bmc if order.stands(node)]
        bent = self.cli.told(again, "rsetboot", "stat") if again else {}
        due = [one for one in by_bmc if bent.get(one[0].id) != _NETWORK]
        bend, words = functools.partial(self._bent, order.uefi), f"net{' -u' if order.uefi else ''}"
        ready = yield from self._stage(order, due, "rsetboot", words, bend, method=order.named)
        return [*but(nodes, due), *ready]

    def _stage(
        self,
        order: Order,
        nodes: Nodes,
        name: str,
        words: str,
        send: Send,
        *,
        method: str | None = None,
        last: bool = False,
    ) -> Generator[Taken, None, list[tuple[NodeState, Wanted]]]:
        """One of its commands. The first one that a node is sent is told as the order.

        :return: for whom it succeeded.
        """
        left: list[tuple[NodeState, Wanted]] = []
        wrong: dict[str, FleetError] = {}
        what = functools.partial(_words, name, words)
        is_told = words == "offline" or set(names_of(nodes)) <= order.told
        with self.ctx.ordering("") if is_told else nullcontext():
            for host, why in self._one_after(left, nodes, what, tables.DEPLOY, send, last=last, method=method):
                if why is None:
                    yield host, None
                else:
                    wrong[host] = why
        order.told.update(() if words == "offline" else names_of(left))
        ends = {host: why for host, why in wrong.items() if not isinstance(why, PermitDue)}
        out = [one for one in nodes if one[1].host in ends and order.is_armed(one[0])]
        self._take_back(out, {node.id: wrong[wanted.host] for node, wanted in out})
        yield from wrong.items()
        return left

    def _armed(self, order: Order, nodes: Nodes) -> Mapping[str, FleetError]:
        """Set to get this image at the next boot from the network."""
        names = names_of(nodes)
        with begun(order.sent, names):
            answer = self.cli.run("nodeset", ",".join(names), f"osimage={order.named}", nodes=len(names))
        failed, told = failures(answer, names), dict(lines(answer.out, names))
        (there, unread), set_up = self.cli.read(names), self.cli.told(names, "nodeset", "stat")
        wrong = {
            name: failed.get(name)
            or _is("nodeset", told.get(name, ""), order.method)
            or _is("nodeset stat", set_up.get(name, ""), order.method)
            or (str(unread[name]) if name in unread else _not_of(order.named, there.get(name, {})))
            for name in names
        }
        return self._wrong(answer, f"nodeset osimage={order.named}", nodes, wrong)

    def _bent(self, uefi: bool, nodes: Nodes) -> Mapping[str, FleetError]:
        """The next boot is from the network."""
        names = names_of(nodes)
        answer = self.cli.run("rsetboot", ",".join(names), "net", *(["-u"] if uefi else []), nodes=len(names))
        failed, told = errors(answer, names), dict(lines(answer.out, names))
        wrong = {name: failed.get(name) or _is("rsetboot", told.get(name, ""), _NETWORK) for name in names}
        return self._wrong(answer, "rsetboot net", nodes, wrong)

    def _booted(self, nodes: Nodes) -> Mapping[str, FleetError]:
        """The order itself. Who says nothing of it, and who was asked by a command that was lost, is asked for what is
        news of it: until there is some, nobody waits for this order."""
        names = names_of(nodes)
        try:
            answer = self.cli.run("rpower", ",".join(names), "boot", nodes=len(names))
        except AuthFailed as exc:
            self._take_back(nodes, dict.fromkeys(names, exc))
            raise
        failed, told = errors(answer, names), dict(lines(answer.out, names))
        wrong = {name: failed.get(name) or _not_started(told.get(name, "")) for name in names}
        news = self._with_news(names)
        wrong.update({name: "" for name in news if name not in failed and name not in told})
        out = self._wrong(answer, "rpower boot", nodes, wrong)
        refused = [(node, wanted) for node, wanted in nodes if isinstance(out.get(wanted.host), Refused)]
        self._take_back(refused, {node.id: out[wanted.host] for node, wanted in refused})
        self._given([one for one in nodes if one[1].host not in out and one[0].id not in news])
        return out

    def _completed(self, nodes: Nodes) -> Mapping[str, FleetError]:
        """The order itself, where others boot the machine. Of one whose answer was lost nobody knows: what is set up
        stays, and the next look tells whether the word of it stands as well."""
        try:
            out = self._recorded(notes.given, nodes)
        except AuthFailed as exc:
            self._take_back(nodes, dict.fromkeys(names_of(nodes), exc))
            raise
        refused = [(node, wanted) for node, wanted in nodes if isinstance(out.get(wanted.host), Refused)]
        self._take_back(refused, {node.id: out[wanted.host] for node, wanted in refused})
        return out

    def _with_news(self, names: Sequence[str]) -> set[str]:
        """Who has told, or had told of it, anything since the note."""
        with suppress(FleetError):  # what was taken is taken: this only tells it to other runs
            return {name for name, node in self.states(names).items() if node.native not in tables.NO_NEWS}
        return set()

    def _given(self, nodes: Nodes) -> None:
        """The word of it, where xCAT keeps no newer one of the node (``site.nodestatus``)."""
        with self.ctx.ordering(""), suppress(FleetError):
            if nodes and self._may(_words(*_GIVES, nodes), nodes):
                looked(self, lambda: self._as_they_are(nodes), functools.partial(self._recorded, notes.given))

    def _as_they_are(self, nodes: Nodes) -> Nodes:
        now = self.states(names_of(nodes))
        there = [(now[node.id], wanted) for node, wanted in nodes if node.id in now]
        return [one for one in there if trouble_of(one[0]) is None]

    def _take_back(self, nodes: Nodes, told: Mapping[str, FleetError]) -> None:
        """No boot of theirs installs anything; the error of whom that cannot be said of tells it."""
        safe = self._disarmed(nodes) if nodes else set()
        armed: dict[int, tuple[FleetError, list[str]]] = {}
        for node, _wanted in nodes:
            if node.id not in safe:
                armed.setdefault(id(told[node.id]), (told[node.id], []))[1].append(node.id)
        for error, names in armed.values():
            still = (
                f"it is still set to install at its next boot from the network: run nodeset {','.join(names)} offline"
            )
            error.do = f"{cut(still, 400)}; {error.do}".rstrip("; ")

    def _disarmed(self, nodes: Nodes) -> set[str]:
        off: list[str] = []
        others: list[str] = []
        with self.ctx.ordering(""), suppress(FleetError):
            if self._may(_words("nodeset", "offline", nodes), nodes):
                off, others = looked(self, lambda: self._set_by_us(nodes), self._set_offline)
            left = [one for one in nodes if one[0].id in off]
            if left and self._may(f"chdef -z {','.join(off)} provmethod", left):
                looked(self, lambda: self._set_by_us(left), lambda told: self._without_method(told[0]))
        return {*off, *others}

    def _set_offline(self, told: tuple[Nodes, list[str]]) -> tuple[list[str], list[str]]:
        ours, others = told
        wrong = self._switched("nodeset", "offline", ours) if ours else {}
        return [node.id for node, wanted in ours if wanted.host not in wrong], others

    def _without_method(self, nodes: Nodes) -> None:
        if nodes:
            self._written("chdef", {name: {"provmethod": ""} for name in names_of(nodes)})

    def _set_by_us(self, nodes: Nodes) -> tuple[Nodes, list[str]]:
        """Without those that somebody has set up for another image since: that order is not ours to take back; and who
        these are. Of one that cannot be read nobody knows."""
        now = self.states(names_of(nodes))
        unread = {name for name, node in now.items() if trouble_of(node) is not None}
        known = {name: node.raw.get("provmethod", "") for name, node in now.items() if name not in unread}
        ours = [one for one in nodes if known.get(one[0].id) in ("", named_of(one[1]))]
        return ours, [name for name in names_of(but(nodes, ours)) if name not in unread]

    # -- a release ---------------------------------------------------------------------------------------------

    def _cleared(self, nodes: Nodes) -> Iterator[Taken]:
        """No boot from the network, no power, and then no deployment in the record: the last write is the one that
        says so, and until it stands all three are done again."""
        kept = {wanted.host: self.needs.overridden(node.id, record.groups(node.raw)) for node, wanted in nodes}
        yield from ((host, why) for host, why in kept.items() if why is not None)
        left: Nodes = [(node, wanted) for node, wanted in nodes if kept[wanted.host] is None]
        with self.ctx.ordering(""):
            for order in (("nodeset", "offline"), ("rpower", "off")):
                done: list[tuple[NodeState, Wanted]] = []
                what, send = functools.partial(_words, *order), functools.partial(self._switched, *order)
                yield from self._one_after(done, left, what, tables.CLEAR, send)
                left = done
        make = functools.partial(self._recorded, notes.released)
        yield from self._one_after([], left, _recording, tables.CLEAR, make, last=True)


# -- words ---------------------------------------------------------------------------------------------------------


def _words(name: str, state: str, nodes: Nodes) -> str:
    return f"{name} {','.join(names_of(nodes))} {state}"


def _recording(nodes: Nodes) -> str:
    return f"chdef -z {','.join(names_of(nodes))} usercomment addkcmdline provmethod"


# -- what is read back ---------------------------------------------------------------------------------------------


def _is(name: str, told: str, wanted: str) -> str:
    """Why this line of a command is not about that."""
    return "" if told.partition(" ")[0] == wanted else f"{name} says {told or 'nothing of it'}"


def _not_of(named: str, there: Mapping[str, str]) -> str:
    return "" if there.get("provmethod") == named else f"its provmethod is {there.get('provmethod') or 'not set'}"


def _not_started(told: str) -> str:
    """``on reset`` is said of one that was on, ``off on`` of one that was off; some BMCs leave the first word out."""
    return "" if told.split(" ")[-1] in ("on", "reset") else f"rpower says {told or 'nothing of it'}"
