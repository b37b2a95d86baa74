# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures the nodes of a batch with each other, from one task on the controller. PRIVATE to the collection.

All pairs of a round run at the same time, and each of their commands over its node's own connection. Before a round
each of its nodes is asked for anew whether it may be loaded. Whatever one node says or lacks, it is its own trouble,
and its partners'.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, Fenced, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.pair import shell
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.pair.judge import (
    Settled,
    merged,
    settle,
    together,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.pair.plan import Pair, pairs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.together import (
    Call,
    Cell,
    Counted,
    Figure,
    Figures,
    Heard,
    Leg,
    Member,
    Test,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    NODE,
    PASS,
    Check,
    Sheet,
    Tool,
    as_verdict,
    digest,
    inconclusive,
    now_utc,
    sentence,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._watched import refused

GATE = "pair_gate"
#: Runs one command on each of these hosts, in this order, and gives each so many seconds.
Look = Callable[[Mapping[str, str], float], Mapping[str, "tuple[str, str]"]]
#: The tests of a profile: those named, or all.
Asks = Callable[[Wanted, Sequence[str]], "list[Test]"]
_LOOK_SECONDS = 30.0
#: What a row of ``nodes`` may have of its own.
PLACES = ("sysfs_path", "boot_id_path", "pci_path")


@dataclass
class Node:
    """One host of the batch. places: where it shows what it is asked for. unfit: what keeps it from taking part.
    has: the addresses that are its own. said: all that it printed."""

    host: str
    leaf: str
    member: Member
    wanted: Wanted
    tests: Sequence[Test]
    places: Mapping[str, str]
    unfit: str = ""
    has: set[str] = field(default_factory=set)
    said: list[bytes] = field(default_factory=list)


def pair_gate(params: Mapping[str, Any], ctx: Context) -> Result:
    """``params["look"]`` and ``params["asks"]`` are the action's: only the controller has the connections."""
    batch = _Batch(params, ctx)
    if ctx.check_mode:
        for host in batch.nodes:
            batch.conclude(host, "not run in check mode: it would load nodes and their network", "check_mode")
    else:
        batch.measure()
    return batch.result()


class _Batch:
    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        self._params, self._ctx = params, ctx
        self._look: Look = params["look"]
        self._since = now_utc()
        self.verdicts: dict[str, dict[str, Any]] = {}
        self._whole: dict[str, dict[str, Any]] = {}
        self._asked: dict[str, dict[str, Any]] = {}
        self._loaded: set[str] = set()
        self.nodes: dict[str, Node] = {}
        for row in params["nodes"]:
            self._take(row)
        self._leaves = {node.host: node.leaf for node in self.nodes.values()}

    def _take(self, row: Mapping[str, Any]) -> None:
        host = str(row["host"])
        why, kind = refused(row)
        if why:
            self.refuse(host, why, kind)
            return
        try:
            wanted: Wanted = row["wanted"]
            tests = self._params["asks"](wanted, [str(name) for name in self._params.get("tests") or []])
            self._asked[host] = {"tests": sorted(test.name for test in tests), "profile": wanted.digest}
            member = Member(host, str(row["address"]))
            places = {key: str(row.get(key) or self._params[key]) for key in PLACES}
            self.nodes[host] = Node(host, str(row.get("leaf") or ""), member, wanted, tests, places)
        except ConfigError as exc:
            self.refuse(host, str(exc), exc.kind)

    # -- what is told ----------------------------------------------------------------------------------------------

    def refuse(self, host: str, reason: str, kind: str) -> None:
        """Nothing is known of it, and it has no verdict."""
        self._whole.pop(host, None)
        self.verdicts[host] = {"ok": False, "verdict": "", "reason": reason, "kind": kind}

    def conclude(self, host: str, text: str, id: str, remedy: str = "retest") -> None:
        reference = self.nodes[host].wanted.reference()
        self._keep(host, inconclusive(GATE, text, id=id, remedy=remedy, started=self._since, profile=reference))

    def _keep(self, host: str, verdict: dict[str, Any]) -> None:
        self._whole[host] = verdict
        told = {key: verdict[key] for key in ("verdict", "findings", "remedy", "evidence_digest")}
        passed = verdict["verdict"] == PASS
        self.verdicts[host] = {"ok": passed, "reason": "" if passed else sentence(verdict), **told}

    def result(self) -> Result:
        lost = {**self._ctx.lifeline.lost(), **self._ctx.lifeline.confirm()}
        for host, reason in lost.items():
            if host in self.verdicts:
                self.refuse(host, reason, "not_ours")
        # Each intent has its outcome.
        done = [Event("outcome", GATE, {"changed": False}, host) for host in sorted(self._loaded - set(lost))]
        events = done + [
            Event("verdict", GATE, {**verdict, "asked": self._asked[host]}, host)
            for host, verdict in self._whole.items()
        ]
        return Result(changed=False, data={"gate": GATE, "verdicts": self.verdicts}, events=events)

    # -- what is measured ------------------------------------------------------------------------------------------

    def measure(self) -> None:
        """Nodes of one profile with each other: of others nobody knows what a pair of them should reach."""
        self._address()
        crowds: dict[str, list[Node]] = {}
        for node in self._fit():
            crowds.setdefault(node.wanted.digest, []).append(node)
        for nodes in crowds.values():
            self._crowd(nodes)
        for node in self.nodes.values():
            if node.host not in self.verdicts:
                self.conclude(node.host, node.unfit or "it was not measured", "unfit")

    def _fit(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.host not in self.verdicts and not node.unfit]

    def _told(self, commands: Mapping[str, str], seconds: float = _LOOK_SECONDS) -> dict[str, tuple[str, str]]:
        """Of each host that is asked what it printed, and what was in the way."""
        found = self._look(commands, seconds) if commands else {}
        return {host: found.get(host, ("", "it was not asked")) for host in commands}

    def _own(self, nodes: Sequence[Node]) -> None:
        """Under an address of another machine, which may be in service, that one would be loaded."""
        asked = [node for node in nodes if any(not test.addressed for test in node.tests)]
        asks = {node.host: shell.own(node.member.address) for node in asked}
        answers = self._told(asks)
        for node in asked:
            text, problem = answers[node.host]
            node.unfit = problem or shell.not_own(text, node.member.address)
            node.has = shell.has(text)

    def _address(self) -> None:
        """Each is asked for the addresses of the ports over which it is to be reached."""
        ports = {node.host: [port for test in node.tests for port in test.addressed] for node in self._fit()}
        asks = {host: shell.addresses(names) for host, names in ports.items() if names}
        for host, (text, problem) in self._told(asks).items():
            node, found = self.nodes[host], shell.addressed(text, ports[host])
            lacking = [port for port in ports[host] if port not in found]
            if problem or lacking:
                node.unfit = problem or f"it has no address on {', '.join(lacking)}"
            node.member = Member(host, node.member.address, found)

    def _crowd(self, nodes: Sequence[Node]) -> None:
        least = max([2, *(test.least for test in nodes[0].tests)])
        if len(nodes) < least:
            for node in nodes:
                text = f"of this batch {len(nodes)} nodes of its profile can be measured, and it takes {least}"
                self.refuse(node.host, text, ConfigError.kind)
            return
        self._own(nodes)
        places = {node.host: self._leaves[node.host] for node in nodes}
        found = {test.name: self._test(test, places) for test in nodes[0].tests}
        for node in nodes:
            if node.host not in self.verdicts and not node.unfit:
                self._judge(node, nodes[0].tests, found)

    def _test(self, test: Test, places: Mapping[str, str]) -> dict[Pair, Figures]:
        """By pair its figures; of a test of all at once one row, by no pair."""
        hosts = [host for host in places if self._open(host)]
        if test.least:
            return {("", ""): self._round(test, [hosts])[0] if len(hosts) >= test.least else {}}
        found: dict[Pair, Figures] = {}
        for one in pairs({host: places[host] for host in hosts}):
            able = [pair for pair in one if all(map(self._open, pair))]
            found.update(zip(able, self._round(test, able)))
        return found

    def _open(self, host: str) -> bool:
        return host not in self.verdicts and not self.nodes[host].unfit

    def _round(self, test: Test, groups: Sequence[Sequence[str]]) -> list[Figures]:
        """All groups at the same time, leg by leg."""
        astray = self._astray(test, groups)
        known = [group for group, why in zip(groups, astray) if not why]
        allowed = self._permitted(test, [host for group in known for host in group])
        legs = [
            self._legs(test, group, at) if not astray[at] and allowed.issuperset(group) else []
            for at, group in enumerate(groups)
        ]
        found: list[dict[tuple[str, Cell], list[Figure]]] = [
            {(host, cell): [Figure(why=why)] for host in group for cell in test.cells} if why else {}
            for group, why in zip(groups, astray)
        ]
        stuck: set[int] = set()
        for at in range(max(map(len, legs), default=0)):
            running = {which: rows[at] for which, rows in enumerate(legs) if at < len(rows) and which not in stuck}
            for which, figures in self._leg(test, groups, running) if running else ():
                for key, figure in figures.items():
                    found[which].setdefault(key, []).append(figure)
                # What did not run once would keep its partner waiting once more for each port.
                stuck |= set() if any(figure.good is not None for figure in figures.values()) else {which}
        return [{key: merged(figures) for key, figures in one.items()} for one in found]

    def _astray(self, test: Test, groups: Sequence[Sequence[str]]) -> list[str]:
        """Of each group why one of it would reach another machine by a partner's name, as it resolves that now."""
        partners = {
            host: [
                self.nodes[other]
                for other in group
                if other != host and shell.is_name(self.nodes[other].member.address)
            ]
            for group in ([] if test.addressed else groups)
            for host in group
        }
        asks = {host: shell.resolves([node.member.address for node in of]) for host, of in partners.items() if of}
        why = {host: _misled(host, partners[host], *told) for host, told in self._told(asks).items()}
        return [next(filter(None, (why.get(host, "") for host in group)), "") for group in groups]

    def _legs(self, test: Test, group: Sequence[str], at: int) -> Sequence[Leg]:
        return test.legs([self.nodes[host].member for host in group], at)

    def _permitted(self, test: Test, hosts: Sequence[str]) -> set[str]:
        """Whom this run may load now; what stands against one of them is asked for each of them alone."""
        what = f"measure {test.name} between nodes"
        try:
            if hosts and self._ctx.may_write(what, destructive=True, nodes=tuple(hosts)):
                self._loaded |= set(hosts)
                return set(hosts)
        except Fenced:
            raise
        except FleetError:
            return {host for host in hosts if self._permitted_alone(what, host)}
        return set()

    def _permitted_alone(self, what: str, host: str) -> bool:
        try:
            may = self._ctx.may_write(what, destructive=True, nodes=(host,))
            self._loaded |= {host} if may else set()
            return may
        except Fenced:
            raise
        except FleetError as exc:
            self.refuse(host, str(exc.located(node=host)), exc.kind)
            return False

    def _leg(
        self, test: Test, groups: Sequence[Sequence[str]], running: Mapping[int, Leg]
    ) -> Iterator[tuple[int, Figures]]:
        hosts = [host for which in running for host in groups[which]]
        before = self._counts(test, hosts)
        calls = {call.host: call for leg in running.values() for call in leg.calls}
        self._ctx.lifeline.beat()
        answers = self._called(calls)
        after = self._counts(test, hosts)
        counted = _moved(test, before, after)
        for which, leg in running.items():
            yield which, leg.read({call.host: answers[call.host] for call in leg.calls}, counted)

    def _called(self, calls: Mapping[str, Call]) -> dict[str, Heard]:
        """A server is called before its client, and both at once."""
        commands = {host: shell.command(call, self.nodes[host].places["pci_path"]) for host, call in calls.items()}
        limit = max(map(shell.longest, calls.values())) + _LOOK_SECONDS
        answers = {host: shell.heard(*told) for host, told in self._told(commands, limit).items()}
        for host, heard in answers.items():
            self.nodes[host].said.append(f"{commands[host]}\0{heard.rc}\0{heard.text}\0{heard.problem}".encode())
        return answers

    def _counts(self, test: Test, hosts: Sequence[str]) -> dict[str, tuple[str, dict[str, Any]]]:
        nodes = {host: self.nodes[host] for host in hosts}
        asks = {
            host: shell.look(node.places["sysfs_path"], node.places["boot_id_path"], test.ports)
            for host, node in nodes.items()
        }
        told = self._told(asks)
        for host, (text, problem) in told.items():
            self.nodes[host].said.append(f"{text}\0{problem}".encode())
        return {
            host: ("", {}) if problem else shell.counted(text, test.ports) for host, (text, problem) in told.items()
        }

    # -- what it proves --------------------------------------------------------------------------------------------

    def _judge(self, node: Node, tests: Sequence[Test], found: Mapping[str, Mapping[Pair, Figures]]) -> None:
        sheet = Sheet()
        for test in tests:
            for cell, wants in test.cells.items():
                sheet.require(*cell, wanted=wants.wanted, unit=wants.unit, source=wants.source)
                _record(sheet, test, cell, self._settled(test, node.host, cell, found[test.name]))
        tool = Tool(" and ".join(sorted({test.tool for test in tests})))
        evidence = digest(*node.said)
        verdict = as_verdict(
            GATE, sheet, tool=tool, started=self._since, evidence=evidence, profile=node.wanted.reference()
        )
        self._keep(node.host, verdict)

    def _settled(self, test: Test, host: str, cell: Cell, found: Mapping[Pair, Figures]) -> Settled:
        if not test.least:
            return settle(host, cell, found, self._leaves)
        figures = found[("", "")]
        if not figures:
            return Settled("inconclusive", None, f"fewer than {test.least} nodes of this batch can take part", "retest")
        return together(host, cell, figures)


def _misled(host: str, partners: Sequence[Node], text: str, problem: str) -> str:
    reached = shell.resolved(text, [node.member.address for node in partners])
    for node in partners:
        ends = reached[node.member.address]
        if problem or not ends or not ends <= node.has:
            to = problem or ", ".join(sorted(ends)) or "nothing"
            return f"{host} resolves {node.member.address} to {to}, and {node.host} has no such address: not measured"
    return ""


def _moved(
    test: Test, before: Mapping[str, tuple[str, dict[str, Any]]], after: Mapping[str, tuple[str, dict[str, Any]]]
) -> Counted:
    """Of a node that was rebooted meanwhile, or did not answer, nothing."""
    return {
        (host, port): shell.moved(before[host][1][port], after[host][1][port])
        for host in before
        if before[host][0] and before[host][0] == after[host][0]
        for port in test.ports
    }


def _record(sheet: Sheet, test: Test, cell: Cell, settled: Settled) -> None:
    id, entity = cell
    wants = test.cells[cell]
    if settled.verdict != PASS:
        whom = "" if entity == NODE else f"{entity}: "
        sheet.find(id, entity, f"{test.name}: {whom}{short(settled.why, 400)}", settled.remedy)
    sheet.record(Check(id, entity, settled.verdict, settled.measured, wants.wanted, wants.unit, wants.source))
