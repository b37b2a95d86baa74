# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The BCM driver. PRIVATE to the collection.

BCM is asked by its cmsh on the head node. A deployment is one commit of a node's record: our note, the deployment's id
among its kernel parameters, its software image, and ``nextinstallmode FULL``; whoever drives the node's BMC then boots
it from the network. That the installer has emptied ``nextinstallmode``, and that its log says FULL, proves at BCM that
it ran; that it ran for this very deployment the id proves on the node.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _deployment as deployment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    FleetError,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm import meanwhile, record, tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm.cmsh import WORD
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm.find import BcmReader
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    READY,
    Changes,
    NodeState,
    Taken,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.looked import looked
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.switching import OFF
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import BY_NAME, Image, Wanted

Nodes = Sequence[tuple[NodeState, Wanted]]
Entry = Mapping[str, str]
#: What a write does to the record of one node.
Make = Callable[[NodeState, Wanted], Entry]
#: Asks anew for which nodes it may be sent, and tells why not for the others.
May = Callable[[Nodes], "tuple[Nodes, dict[str, FleetError]]"]

#: Nodes a commit, each with a line of up to a few hundred signs.
BLOCK = 100


class BcmDriver(BcmReader):
    name = "bcm"
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
    switches = True

    # -- the record --------------------------------------------------------------------------------------------

    def enrol(self, wanted: Wanted, node: NodeState | None) -> tuple[NodeState, Changes]:
        left = functools.partial(self._left, tables.ENTERED)
        after = record.fields(wanted, node.raw if node is not None else None, left)
        if node is None:
            return self._create(wanted, after)
        if not after:
            return node, Changes()
        if "mac" in after:
            self._card_is_free(wanted, self.cmsh.cards())
        # Its installer installs whatever boots by that card, where the disk is not as it left it.
        hard = "mac" in after
        self._change(
            wanted, node, lambda now, _wanted: record.fields(wanted, now.raw, left), " ".join(after), hard=hard
        )
        before = {key: node.raw.get(key, "") for key in after}
        return (node if self.ctx.check_mode else self.reread(node, wanted)), Changes(before, after)

    def _create(self, wanted: Wanted, after: Entry) -> tuple[NodeState, Changes]:
        require({"boot_mac": wanted.boot_mac}, "boot_mac", node=wanted.host)
        name, extras = wanted.key, {key: str(value) for key, value in wanted.extras.items()}
        after = {**after, **({"category": extras["category"]} if extras.get("category") else {})}
        where = [extras[key] for key in ("ip", "interface") if extras.get(key)]
        add = " ".join(["add physicalnode", name, *(record.quoted(one, "ip", name) for one in where)])
        state = NodeState(id="", name=name, native=tables.DEFINED, state=READY)
        changes = Changes({}, {**after, **{key: extras[key] for key in ("ip", "interface") if extras.get(key)}})
        sets = [f"set {key} {record.quoted(value, key, name)}" for key, value in after.items()]
        if not self.ctx.may_write(f"{add} {' '.join(after)}", destructive=True, nodes=(wanted.host,)):
            return state, changes
        answer = looked(
            self,
            lambda: self._card_is_free(wanted, self.cmsh.cards()),
            lambda _free: self.cmsh.run("device", add, *sets, "commit"),
        )
        wrong = _differing(after, self.cmsh.nodes([name]).get(name))
        if wrong:
            raise self.cmsh.not_there(answer, f"add physicalnode {name}", wrong).located(node=wanted.host)
        return self.find(wanted) or state, changes

    def annotate(self, node: NodeState, wanted: Wanted) -> Changes:
        marks = record.words(node.raw).marks
        after = {key: value for key, value in wanted.annotations.items() if marks.get(key, "") != value}

        def marked(now: NodeState, _wanted: Wanted) -> Entry:
            return {record.WORDS: record.said(now.raw, marks={**record.words(now.raw).marks, **after})}

        if after:
            self._change(wanted, node, marked, f"marks {' '.join(after)}")
        return Changes({key: marks.get(key, "") for key in after}, after)

    def hold(self, node: NodeState, token: str, wanted: Wanted) -> None:
        self._change(wanted, node, lambda now, _wanted: {record.WORDS: record.said(now.raw, hold=token)}, "hold")

    def lift(self, node: NodeState, wanted: Wanted) -> None:
        self._change(wanted, node, lambda now, _wanted: {record.WORDS: record.said(now.raw, hold="")}, "no hold")

    def _change(self, wanted: Wanted, node: NodeState, make: Make, what: str, *, hard: bool = False) -> None:
        """One node's record as it stands once leave was given: people write there as well."""
        if self.ctx.may_write(f"set {node.id} {what}", destructive=hard, nodes=(wanted.host,)):
            for why in self._sent(make, [(node, wanted)], self._may_still).values():
                raise why.located(node=wanted.host)

    # -- power -------------------------------------------------------------------------------------------------

    def power_of(self, node: NodeState) -> str:
        """:raises Unsupported: of a node whose power BCM does not switch."""
        if node.raw.get("powercontrol", "").lower() == record.NO_POWER:
            raise Unsupported(
                "BCM switches no power of this node",
                node=node.name,
                address=self.address,
                seen="its powercontrol is none",
                do=f"ask the machine's BMC (redfish_power), or set powercontrol of {node.id}; nothing was changed",
            )
        return self.cmsh.power(node.id) or "unknown: cmsh tells none of it"

    def switch(self, state: str, node: NodeState, wanted: Wanted) -> None:
        what = f"power -n {node.id} {state}"
        if self.ctx.may_write(what, destructive=state == OFF, nodes=(wanted.host,)):
            looked(self, lambda: self._as_judged(node, wanted), lambda now: self.cmsh.power(now.id, state))

    def _as_judged(self, node: NodeState, wanted: Wanted) -> NodeState:
        """:raises Changed: where somebody has taken or held it since it was judged."""
        fresh, moved = meanwhile.as_judged([(node, wanted)], self.states([node.id]), self.address)
        for why in moved.values():
            raise why
        return fresh[0][0]

    def is_at_work(self, node: NodeState) -> bool:
        return node.native in tables.UNDER_WAY

    # -- steps -------------------------------------------------------------------------------------------------

    def start(self, step: str, node: NodeState, wanted: Wanted) -> None:
        for _host, error in self.start_many(step, [(node, wanted)]):
            if error is not None:
                raise error.located(node=wanted.host)

    def start_many(self, step: str, nodes: Nodes) -> Iterator[Taken]:
        """One commit for all nodes that get the same image, up to as many as a session takes."""
        groups: dict[str, list[tuple[NodeState, Wanted]]] = {}
        for node, wanted in nodes:
            if step == tables.INSTALL:
                require({"image": wanted.image}, "image", node=wanted.host)
            groups.setdefault(wanted.image.named if wanted.image else "", []).append((node, wanted))
        for group in groups.values():
            for block in _blocks(group):
                yield from self._begun(step, block)

    def _begun(self, step: str, nodes: Nodes) -> Iterator[Taken]:
        granted, refused = self.permitted(functools.partial(_WHAT[step]), step, nodes)
        yield from refused.items()
        if granted:
            make = functools.partial(_MAKE[step], self)
            may = functools.partial(self.permitted, functools.partial(_WHAT[step]), step)
            hosts = [wanted.host for _node, wanted in granted]
            yield from self.one_request(hosts, lambda: self._sent(make, granted, may))

    # -- one commit --------------------------------------------------------------------------------------------

    def _sent(self, make: Make, nodes: Nodes, may: May) -> dict[str, FleetError]:
        """For those whom nobody has taken since they were judged; by host, for whom it is not there afterwards."""

        def send(told: tuple[Nodes, dict[str, Entry], dict[str, FleetError]]) -> dict[str, FleetError]:
            fresh, entries, out = told
            return {**out, **self._committed(fresh, entries)}

        return looked(self, lambda: self._to_send(make, nodes, may), send, renew=False)

    def _may_still(self, nodes: Nodes) -> tuple[Nodes, dict[str, FleetError]]:
        """Of one node."""
        self.ctx.asks_again()
        return nodes, {}

    def _to_send(self, make: Make, nodes: Nodes, may: May) -> tuple[Nodes, dict[str, Entry], dict[str, FleetError]]:
        """Who is as it was judged, and may be written to; what is written to each; and why not, by host, the others."""
        fresh, out = meanwhile.as_judged(nodes, self.states([node.id for node, _wanted in nodes]), self.address)
        entries: dict[str, Entry] = {}
        for node, wanted in fresh:
            try:
                entry = make(node, wanted)
                entries[node.id] = {key: value for key, value in entry.items() if node.raw.get(key, "") != value}
                record.writes({node.id: entries[node.id]})
            except ConfigError as exc:
                entries.pop(node.id, None)
                out[wanted.host] = exc
        ready: Nodes = [one for one in fresh if one[0].id in entries]
        if ready and self.ctx.is_old():
            ready, refused = may(ready)
            out.update(refused)
        return ready, {node.id: entries[node.id] for node, _wanted in ready}, out

    def _committed(self, nodes: Nodes, entries: Mapping[str, Entry]) -> dict[str, FleetError]:
        commands = record.writes(entries)
        if not commands:
            return {}
        answer = self.cmsh.run("device", *commands, "commit", nodes=len(entries))
        there, unread = self.cmsh.read(list(entries))
        wrong: dict[str, FleetError] = {}
        for node, wanted in nodes:
            why = unread.get(node.id)
            differing = str(why) if why is not None else _differing(entries[node.id], there.get(node.id))
            if differing:
                what = " ".join(["set", node.id, *entries[node.id]])
                wrong[wanted.host] = self.cmsh.not_there(answer, what, differing)
        armed = [(node, wanted) for node, wanted in nodes if wanted.host in wrong and _armed(node, there.get(node.id))]
        self._disarm(armed, wrong, entries)
        return wrong

    def _disarm(self, nodes: Nodes, told: Mapping[str, FleetError], entries: Mapping[str, Entry]) -> None:
        """Half an order stands, which no boot of anybody's is to carry out."""
        if not nodes:
            return
        names = [node.id for node, _wanted in nodes]
        left = set(names)
        with self.ctx.ordering(""), suppress(FleetError):
            if self.ctx.may_write(_words("set", names, "nextinstallmode"), nodes=tuple(told)):
                looked(self, lambda: self._still_half(nodes, entries), self._cleared_mode)
                now, _unread = self.cmsh.read(names)
                left = {name for name in names if tables.is_pending(now.get(name, {"nextinstallmode": tables.FULL}))}
        for node, wanted in nodes:
            if node.id in left:
                still = f"cmsh -c 'device; clear {node.id} nextinstallmode; commit'"
                error = told[wanted.host]
                error.do = f"it is still set to be installed at its next boot: run {still}; {error.do}".rstrip("; ")

    def _still_half(self, nodes: Nodes, entries: Mapping[str, Entry]) -> list[str]:
        """Without those that somebody has ordered another way since: that is not ours to take back."""
        now, _unread = self.cmsh.read([node.id for node, _wanted in nodes])
        return [node.id for node, _wanted in nodes if _is_of(node, entries[node.id], now.get(node.id, {}))]

    def _cleared_mode(self, names: Sequence[str]) -> None:
        if names:
            self.cmsh.run("device", *(f"clear {name} nextinstallmode" for name in names), "commit")

    # -- what a step writes ------------------------------------------------------------------------------------

    def _ordered(self, node: NodeState, wanted: Wanted) -> Entry:
        """Its note and its image in the same commit as the order itself, so that nobody is told of one without the
        other."""
        image: Image = wanted.image  # type: ignore[assignment]  # start_many has asked for it
        record.demand_name(image.named, "named in gpufleet_image", wanted.host)
        passed_on = self.needs.passed_on(node.raw, image.named)
        own = record.own_parameters(node.raw, passed_on)
        base = " ".join(passed_on[0].split()) if own is None else own
        note = record.note(image, node.raw, self.end_of_log(), record.digest(base) if own is None else "")
        mark = deployment.marked(image.deploy_id) if image.deploy_id else ""
        return {
            record.WORDS: record.said(node.raw, note=note),
            **record.parameters(node.raw, f"{base} {mark}".strip() if mark else own),
            "softwareimage": image.named,
            "nextinstallmode": tables.FULL,
        }

    def _confirmed(self, node: NodeState, _wanted: Wanted) -> Entry:
        """The installer's log is rotated, and a later installation of somebody's empties the same field."""
        return {record.WORDS: record.said(node.raw, note={**record.words(node.raw).note, "done": "yes", "log": ""})}

    def _cleared(self, node: NodeState, _wanted: Wanted) -> Entry:
        own = record.own_parameters(node.raw, self.needs.passed_on(node.raw, node.raw["softwareimage"]))
        return {
            "nextinstallmode": "",
            **record.parameters(node.raw, own),
            record.WORDS: record.said(node.raw, note=self._left(tables.GIVEN_BACK, node.raw)),
        }

    def _left(self, order: str, raw: Entry) -> Entry:
        """By what it is told later whether anybody has deployed it since."""
        seen, image = raw.get("status") or "down", raw.get("softwareimage", "")
        return {"order": order, "seen": seen, "image": image, "log": self.end_of_log()}


_MAKE: Mapping[str, Callable[[BcmDriver, NodeState, Wanted], Entry]] = {
    tables.INSTALL: BcmDriver._ordered,
    tables.CONFIRM: BcmDriver._confirmed,
    tables.CLEAR: BcmDriver._cleared,
}


def _words(verb: str, names: Sequence[str], what: str) -> str:
    return f"{verb} {','.join(names)} {what}"


def _names(nodes: Nodes) -> list[str]:
    return [node.id for node, _wanted in nodes]


def _installing(nodes: Nodes) -> str:
    image = nodes[0][1].image
    return _words("set", _names(nodes), f"nextinstallmode FULL softwareimage {image.named if image else ''}")


def _confirming(nodes: Nodes) -> str:
    return _words("set", _names(nodes), "note: installed")


def _clearing(nodes: Nodes) -> str:
    return _words("clear", _names(nodes), "deployment")


_WHAT: Mapping[str, Callable[[Nodes], str]] = {
    tables.INSTALL: _installing,
    tables.CONFIRM: _confirming,
    tables.CLEAR: _clearing,
}


def _blocks(nodes: Nodes) -> Iterator[Nodes]:
    """A commit is one word of a command, with the whole line of each node in it."""
    block: list[tuple[NodeState, Wanted]] = []
    size = 0
    for node, wanted in nodes:
        length = 2000 + len(node.raw.get(record.WORDS, "")) + 2 * len(node.raw.get("kernelparameters", ""))
        if block and (len(block) == BLOCK or size + length > WORD):
            yield block
            block, size = [], 0
        block.append((node, wanted))
        size += length
    if block:
        yield block


# -- what is read back ---------------------------------------------------------------------------------------------


def _differing(entry: Entry, there: Entry | None) -> str:
    if there is None:
        return "BCM does not know the node"
    differing = [key for key, value in entry.items() if not record.stands(key, value, there.get(key, ""))]
    return cut(", ".join(f"{key} reads {there.get(key) or 'empty'}" for key in differing), 300)


def _is_of(before: NodeState, entry: Entry, there: Entry) -> bool:
    """Do image and note stand as they did before this write, or as it has them?"""
    keys = ("softwareimage", record.WORDS)
    return all(there.get(key, "") in (before.raw.get(key, ""), entry.get(key, "")) for key in keys)


def _armed(before: NodeState, there: Entry | None) -> bool:
    """Is it set to be installed, and was it not before?"""
    return there is not None and tables.is_pending(there) and not tables.is_pending(before.raw)
