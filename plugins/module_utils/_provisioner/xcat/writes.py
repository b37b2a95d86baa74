# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes to many nodes of xCAT: each with leave, for those whom nobody has taken since, and read back. PRIVATE."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import command
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import NodeState, Taken
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.looked import looked
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat import meanwhile, record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat.cli import blocks, errors, failures
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat.find import XcatReader

Nodes = Sequence[tuple[NodeState, Wanted]]
#: Fields of nodes' records, by the node's name.
Entries = Mapping[str, Mapping[str, str]]
#: Sends a write for these nodes, and tells for which hosts it did not do what it was to do.
Send = Callable[[Nodes], Mapping[str, FleetError]]
#: Asks for which of them it may be sent, and tells why not for the others.
May = Callable[[Nodes], "tuple[Nodes, dict[str, FleetError]]"]


class XcatWriter(XcatReader):
    """What all that it writes has in common."""

    def _one_after(
        self,
        left: list[tuple[NodeState, Wanted]],
        nodes: Nodes,
        what: Callable[[Nodes], str],
        step: str,
        send: Send,
        *,
        last: bool = False,
        method: str | None = None,
    ) -> Iterator[Taken]:
        """One write of several that make a step: tell who is out of it, and add who is not to ``left``. It is sent for
        those alone whom nobody has taken since they were judged, as they stand by then.

        :param last: nothing comes after it, so that who is not out of it has taken the order.
        :param method: the ``provmethod`` that we have given them since they were judged.
        """
        if not nodes:
            return
        granted, refused = self.permitted(what, step, nodes)
        yield from refused.items()
        if not granted:
            return
        by_host = {wanted.host: (node, wanted) for node, wanted in granted}
        may = functools.partial(self.permitted, what, step)
        for host, why in self.one_request(list(by_host), lambda: self._still_ours(granted, send, method, may)):
            if why is None and not last:
                left.append(by_host[host])
            else:
                yield host, why

    def _still_ours(self, nodes: Nodes, send: Send, method: str | None, may: May) -> dict[str, FleetError]:
        """Send it for whom nobody has taken since; leave to write may have been waited for, and may be old by then."""

        def look() -> tuple[Nodes, dict[str, FleetError]]:
            fresh, out = meanwhile.as_judged(nodes, self.states(names_of(nodes)), self.address, method)
            if not fresh or not self.ctx.is_old():
                return fresh, out
            granted, refused = may(fresh)
            return granted, {**out, **refused}

        return looked(self, look, lambda told: {**told[1], **(send(told[0]) if told[0] else {})}, renew=False)

    def _may_still(self, nodes: Nodes) -> tuple[Nodes, dict[str, FleetError]]:
        """Of one node."""
        self.ctx.asks_again()
        return nodes, {}

    # -- the record --------------------------------------------------------------------------------------------

    def _written(self, verb: str, entries: Entries) -> dict[str, FleetError]:
        """Of which nodes it does not stand there afterwards, and why not."""
        answer = self.cli.run(verb, "-z", stdin=record.stanza(entries), nodes=len(entries))
        secret = any(record.PASSWORD in entry for entry in entries.values())
        there, unread = self.cli.read(list(entries), *([record.PASSWORD] if secret else []))
        wrong = {
            name: str(unread[name]) if name in unread else _differing(entry, there.get(name))
            for name, entry in entries.items()
        }
        return {name: self.cli.not_there(answer, f"{verb} -z {name}", why) for name, why in wrong.items() if why}

    def _recorded(
        self, make: Callable[[NodeState, Wanted], Mapping[str, str]], nodes: Nodes
    ) -> Mapping[str, FleetError]:
        """Fields that differ from node to node, in one command for all those of whom they can be written."""
        entries: dict[str, Mapping[str, str]] = {}
        wrong: dict[str, FleetError] = {}
        for node, wanted in nodes:
            entry = make(node, wanted)
            try:
                record.stanza({node.id: entry})
            except ConfigError as exc:
                wrong[node.id] = exc
            else:
                entries[node.id] = entry
        wrong.update(self._written("chdef", entries) if entries else {})
        return by_host(nodes, wrong)

    # -- a command for many --------------------------------------------------------------------------------------------

    def _may(self, what: str, nodes: Nodes) -> bool:
        """What hits nothing that runs there."""
        return self.ctx.may_write(what, nodes=tuple(wanted.host for _node, wanted in nodes))

    def _wrong(
        self, answer: command.Answer, what: str, nodes: Nodes, wrong: Mapping[str, str]
    ) -> Mapping[str, FleetError]:
        told = {name: self.cli.not_there(answer, f"{what} {name}", why) for name, why in wrong.items() if why}
        return by_host(nodes, told)

    def _switched(self, command_name: str, to: str, nodes: Nodes) -> Mapping[str, FleetError]:
        """Of which hosts the state is another one than was asked for. Which one ``nodeset`` prints is no proof: it does
        so as it fails. A machine may go off a moment later, which the line of ``rpower`` tells; only one that says
        nothing is looked at."""
        names = names_of(nodes)
        answer = self.cli.run(command_name, ",".join(names), to, nodes=len(names))
        failed = failures(answer, names) if command_name == "nodeset" else errors(answer, names)
        look = [one for one in names if one not in failed and (command_name == "nodeset" or not _says(answer, one, to))]
        seen = self.cli.told(look, command_name, "stat") if look else {}
        wrong = {**failed, **{one: f"it is {seen.get(one) or 'unknown'}" for one in look if seen.get(one) != to}}
        told = {one: self.cli.not_there(answer, f"{command_name} {one} {to}", why) for one, why in wrong.items()}
        return by_host(nodes, told)


def named_of(wanted: Wanted) -> str:
    return wanted.image.named if wanted.image is not None else ""


def names_of(nodes: Nodes) -> list[str]:
    return [node.id for node, _wanted in nodes]


def in_blocks(nodes: Nodes) -> Iterator[Nodes]:
    by_name = {node.id: (node, wanted) for node, wanted in nodes}
    for block in blocks(list(by_name)):
        yield [by_name[name] for name in block]


def but(nodes: Nodes, others: Nodes) -> list[tuple[NodeState, Wanted]]:
    names = set(names_of(others))
    return [one for one in nodes if one[0].id not in names]


def by_host(nodes: Nodes, wrong: Mapping[str, FleetError]) -> dict[str, FleetError]:
    return {wanted.host: wrong[node.id] for node, wanted in nodes if node.id in wrong}


def _differing(entry: Mapping[str, str], there: Mapping[str, str] | None) -> str:
    """Which fields do not stand there, without their values: one may be a secret."""
    if there is None:
        return "xCAT does not know the node"
    differing = [key for key, value in entry.items() if there.get(key, "") != value]
    return f"{', '.join(differing)} reads another way" if differing else ""


def _says(answer: command.Answer, name: str, state: str) -> bool:
    return any(line.strip() == f"{name}: {state}" for line in answer.out.split("\n"))
