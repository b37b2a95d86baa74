# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verbs for a whole batch: one task, one poll for all hosts of the play. PRIVATE to the collection.

Such a task stands under ``run_once: true``; its registered result is there for every host, each of which then
reads its own verdict. Called by several hosts all the same, the workers elect one: the first does the work, the
others wait for its answer and return the same.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from types import ModuleType
from typing import Any, ClassVar

from ansible.errors import AnsibleConnectionFailure
from ansible.playbook.block import Block
from ansible.playbook.task import Task
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    Fenced,
    FleetError,
    NotOurs,
    Unreachable,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import shown
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import WHOSE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from ansible_collections.gpufleet.baremetal.plugins.module_utils._watched import refusal, refused
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _services as services
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._batch_hosts import Hosts
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction, display
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._elected import elected

#: So long a ledger that is away is asked for before a batch is watched.
_AWAY_SECONDS = 30.0
#: Between several results of which the first counts that a host has not skipped.
_OR = " or "


class BatchAction(VerbAction):
    """Hands the verb the option ``nodes``: a list of dicts with ``host`` and the host variables in HOST_VARS."""

    LABEL = "batch"
    BATCH = True
    #: Are the nodes this run's alone while it lasts? Else a lease is taken for each write, and let go behind it.
    HOLDS: ClassVar[bool] = True
    #: Must the ledger know each machine? Else one that it does not know has no lease, and is watched all the same.
    NEEDS_IDENTITY: ClassVar[bool] = False
    #: What the verb needs to know of each host: key in the node's dict, by the host variable that fills it.
    HOST_VARS: Mapping[str, str] = {}
    #: The names of its port, whose connection each host has for itself; None where it has none.
    PORT: ClassVar[ModuleType | None] = None
    #: What else a verdict has where nothing can be told of any host; without it the task fails then.
    UNTOLD: ClassVar[Mapping[str, Any] | None] = None
    #: What the verb also needs, out of the registered result that the option ``after`` names.
    FROM_AFTER: Sequence[str] = ()

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        nodes = [self._connected(node) for node in params.get("nodes") or map(self._node, self.batch())]
        none = services.refused(nodes if self.PORT else [], self.host_var)
        for node in nodes:
            if node.get("host") in none:
                node.update(refusal(str(none[str(node["host"])]), ConfigError.kind))
        self.ids = self._leased(nodes)
        return {**params, "nodes": nodes}

    def _guarded(self, params: dict[str, Any]) -> dict[str, Any]:
        self._asked: list[Any] = []
        try:
            return super()._guarded(params)
        except (
            FleetError
        ) as exc:  # before the watch or after it, as of the ledger; what befalls the watch is told there
            if not self._is_each_hosts() or not _concerns_no_node(exc.kind):
                raise
            nodes = params.get("nodes") or map(self._node, self.batch())
            told = self._told_untold(nodes, str(exc), exc.kind)
            return {**told, "changed": bool(self._asked), "asked": self._asked}

    def _prepared(self, params: dict[str, Any]) -> dict[str, Any]:
        """A ledger that is away for a moment is waited for.

        :raises Unreachable: where it stays away.
        """
        end = time.monotonic() + _AWAY_SECONDS

        def ready() -> dict[str, Any] | None:
            try:
                return super(BatchAction, self)._prepared(dict(params))
            except Unreachable:
                if time.monotonic() >= end:
                    raise
                return None

        beat = self._line.parent_lives
        found = wait_until(ready, bool, timeout=float("inf"), interval=1.0, wanted="the batch prepared", beat=beat)
        return found or {}

    @functools.cached_property
    def _hosts(self) -> Hosts:
        return Hosts(self._host, self._task.args, self._params, self._vars.get("hostvars") or {}, self.host_var)

    def _connected(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """A host of the inventory with its own connection, whole: what it lacks is not to be had from its neighbour."""
        host = str(node.get("host") or "")
        if host not in self._hosts:
            return dict(node)  # named by the task, which speaks for it
        try:
            if self.PORT:  # else it only looks whether the node is there
                self.refuse_tenants(host)
            whole = {**node, **self._hosts.connection(host, node, self.PORT)} if self.PORT else dict(node)
            stands = self._hosts.refusal(host, whole, self.PORT)
        except (ConfigError, NotOurs) as exc:
            return {**node, **refusal(str(exc), exc.kind)}
        return {**whole, **refusal(stands, ConfigError.kind)}

    def _leased(self, nodes: Sequence[dict[str, Any]]) -> dict[str, str]:
        """Take the leases of the batch before its long wait; the ledger's ids of its hosts.

        A host on which another run works, or whose machine is not known where it must be, gets the key ``refused``,
        and is none of this call's.
        """
        ids = {}
        for host, node in ((str(node.get("host") or ""), node) for node in nodes):
            if host not in self._hosts or node.get("refused"):
                continue  # named by the task, and no host of this play; or none of this call's
            try:
                ids[host] = self.node_id(host, create=self.NEEDS_IDENTITY)  # check mode never does
            except ConfigError as exc:
                if self.NEEDS_IDENTITY:
                    node.update(refusal(str(exc.located(node=host)), exc.kind))
        ids = {host: node_id for host, node_id in ids.items() if node_id}
        if self.HOLDS and not self._task.check_mode and ids:
            refused = self._line.hold_each(list(ids))
            for node in nodes:
                if node.get("host") in refused:
                    node.update(refusal(refused[node["host"]], NotOurs.kind))
            ids = {host: node_id for host, node_id in ids.items() if host not in refused}
        return ids

    def hosts(self, params: Mapping[str, Any]) -> list[str]:
        """The hosts of this call; one on which another run works is none of them."""
        return [str(node.get("host") or "") for node in params["nodes"] if not node.get("refused")]

    def written(self, params: Mapping[str, Any]) -> list[str]:
        """The hosts of this call, whose nodes are ours. One that was lost meanwhile, or that nothing tells apart, gets
        the key ``refused``: no other machine writes to it for us."""
        lost = self._line.lost()
        for node in params["nodes"]:
            host = str(node.get("host") or "")
            if node.get("refused") or host not in self._hosts:
                continue
            try:
                self.node_id(host)
            except ConfigError as exc:
                node.update(refusal(str(exc.located(node=host)), exc.kind))
            if host in lost:
                node.update(refusal(lost[host], NotOurs.kind))
        return [host for host in self.hosts(params) if host in self._hosts]

    def beside(self) -> list[str]:
        return list(self.ids)

    def batch(self) -> list[str]:
        """The hosts of this batch that take part, in the play's order.

        A host whose block was rescued counts as alive for Ansible. With the option ``after`` only the hosts take
        part for which those registered results are there and neither failed nor were skipped.
        """
        alive = list(self._vars.get("ansible_play_hosts") or [self._host])
        self._known_to_somebody(alive)
        batch = set(self._vars.get("ansible_play_batch") or alive)
        return [host for host in alive if host in batch and all(succeeded(one, host) for one in self._after(host))]

    def _known_to_somebody(self, alive: Sequence[str]) -> None:
        """A result that no task registers, misspelt for instance, must not look like one that no host came so far for.

        :raises ConfigError: naming it.
        """
        for name in (name for names in self._params.get("after") or [] for name in str(names).split(_OR)):
            if any(self._registered(name, host) is not None for host in alive) or name in _registered(self._task):
                continue
            raise ConfigError(
                f"no task registers {name}, which the option after names",
                wanted="the name of a result that a task before this one registers",
                seen=f"none of {len(alive)} hosts has {name}",
                do="correct the name in the option after",
            )

    def _after(self, host: str) -> list[Any]:
        """What this host has of the results that ``after`` names; of several the first that was not skipped."""
        return [self._first_of(str(names).split(_OR), host) for names in self._params.get("after") or []]

    def _told_after(self, host: str) -> list[Mapping[str, Any]]:
        """In the words of a task of its own, where it was one for all that told."""
        return [own(one, host) for one in self._after(host) if isinstance(one, Mapping)]

    def _first_of(self, names: Sequence[str], host: str) -> Any:
        """One that is not there yet is no reason to go on with the next: the host has not come so far."""
        for name in names:
            found = self._registered(name, host)
            if not (isinstance(found, Mapping) and found.get("skipped")):
                break
        return found

    def _registered(self, name: str, host: str) -> Any:
        """That of a task for all is the same for each of them, and is taken as it is: to go through the verdicts of all
        for each would cost the square of their number."""
        raw = self._variables.raw(host, name)
        if isinstance(raw, Mapping) and "verdicts" in raw:
            return raw
        try:
            return self.host_var(name, host)
        except ConfigError:  # that host has not come so far, and no other one waits for it
            return {"failed": True}

    def _node(self, host: str) -> dict[str, Any]:
        node: dict[str, Any] = {"host": host}
        for key, name in self.HOST_VARS.items():
            try:
                value = self.host_var(name, host)
            except ConfigError as exc:
                node.update(refusal(str(exc), exc.kind))
                continue
            if value is not None:
                node[key] = value
        for told in self._told_after(host):
            node.update({key: told[key] for key in self.FROM_AFTER if told.get(key)})
        return node

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        return self._once(params, super()._in_worker)

    def _shipped(self, params: dict[str, Any]) -> dict[str, Any]:
        return self._once(params, super()._shipped)

    def _once(self, params: dict[str, Any], ask: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        """The answer of whoever was elected, or the own one. ``run_once`` spares no election: some strategies,
        ``free`` among them, run such a task once a host all the same.
        """
        hosts = [str(node.get("host") or "") for node in params["nodes"]]
        if len(hosts) < 2:
            return self._told_each(params, ask)
        # Two calls of one task may ask different things: a loop, or an option that is a template. What was filled in
        # from host variables is not what is asked: it is in ``nodes`` for each host.
        asked = {key: value for key, value in self._task.args.items() if key != "nodes"}
        name = f"{self._task._uuid} {json.dumps(asked, sort_keys=True, default=str)}"
        with ExitStack() as seats:
            # As long as the one who was elected works, and as safely as there: a ledger that is away ends no wait.
            with self._renewing():
                seat = seats.enter_context(elected(name, self._line.beat))
            known = seat.answer_for(self._host, hosts)
            if known is not None:
                return {**known, "asked": [], "events": []}
            try:
                answer = self._told_each(params, ask)
            except Fenced:
                raise
            except FleetError as exc:
                # It concerns all: a password that was refused once is not tried again for each host.
                seat.answer({"failed": True, "changed": False, **exc.as_result()}, self._host, hosts)
                raise
            seat.answer(answer, self._host, hosts)
            return answer

    def _told_each(self, params: dict[str, Any], ask: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        """The answer. What befell the whole batch is each host's own verdict under ``run_once``: a task that fails
        there takes all hosts but one out of the run, without a rescue and without a word."""
        if not self._is_each_hosts():
            return self._watched(params, ask)
        try:
            answer = self._watched(params, ask)
        except FleetError as exc:
            if not _concerns_no_node(exc.kind):
                raise
            self._of_nobody(exc)
            answer = {"failed": True, **exc.as_result()}
        error = answer.get("error") or {}
        if not answer.get("failed") or not _concerns_no_node(str(error.get("kind") or "")):
            return answer
        kept = {key: answer[key] for key in ("asked", "events") if answer.get(key)}
        told = self._told_untold(params["nodes"], str(answer["msg"]), str(error["kind"]))
        return {**told, "changed": bool(kept.get("asked")), **kept}

    def _of_nobody(self, exc: FleetError) -> None:
        """A driver knows no other name than that of the host whose worker asks, and each host is told the same."""
        if exc.node == self._host and exc.kind != WrongMachine.kind and WHOSE[exc.kind] in ("service", "site"):
            exc.node = ""

    def out_of_reach(self, exc: AnsibleConnectionFailure) -> Unreachable:
        """What is told to each host names none: whose worker went there says nothing."""
        found = super().out_of_reach(exc)
        found.node = "" if self._is_each_hosts() else found.node
        return found

    def _about(self) -> str:
        return "" if self._is_each_hosts() else super()._about()

    def _is_each_hosts(self) -> bool:
        return bool(self._task.run_once) and self.UNTOLD is not None

    def _told_untold(self, nodes: Iterable[Mapping[str, Any]], message: str, kind: str) -> dict[str, Any]:
        """Each host's verdict, where nothing can be told of any; what stands in the way of it alone goes first."""
        display.warning(shown(f"{self.LABEL}: {message}", self._secrets))
        verdicts = {}
        for node in nodes:
            why, its_kind = refused(node)
            told = {"reason": why or message, "kind": its_kind or kind}
            verdicts[str(node.get("host") or "")] = {**(self.UNTOLD or {}), "ok": False, **told}
        return {"changed": False, "verdicts": verdicts}

    def _watched(self, params: dict[str, Any], ask: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        """The answer, with the leases renewed meanwhile; a host whose lease was lost has no verdict but that."""
        with self._renewing():
            answer = ask(params)
        self._asked = list(answer.get("asked") or [])
        verdicts = answer.get("verdicts") or {}
        lost = self._line.lost()
        for host, reason in lost.items():
            if host in verdicts:
                # Each value is emptied: later steps read the verdict or the step alone.
                emptied = {key: type(value)() for key, value in verdicts[host].items()}
                kind = {"kind": NotOurs.kind} if "kind" in emptied else {}
                verdicts[host] = {**emptied, "ok": False, "reason": reason, **kind}
        if lost:
            events = answer.get("events") or []
            answer["events"] = [event for event in events if (event.get("node") or self._host) not in lost]
        return answer

    def _renewing(self) -> AbstractContextManager[None]:
        """The leases of this call, where it has any, are renewed from a thread."""
        if not self.HOLDS or not self.ids or self._task.check_mode:
            return nullcontext()
        return self._line.renewing(self.ledger().another)


def _concerns_no_node(kind: str) -> bool:
    """Is it a service, a setting or somebody else that stands in the way? An orphan has no verdicts any more."""
    return kind != Fenced.kind and WHOSE.get(kind, "node") != "node"


def _registered(task: Task) -> set[str]:
    """What the tasks around this one register, and those of the play that are known before it runs."""
    around = []
    above = task._parent
    while above is not None:
        around.append(above)
        above = above._parent
    play = next((block._play for block in around if isinstance(block, Block)), None)
    found, left = set(), [*around, *(play.compile() if play is not None else [])]
    while left:
        one = left.pop()
        if isinstance(one, Block):
            left += [*one.block, *one.rescue, *one.always]
        elif one.register:
            found.add(str(one.register))
    return found


def own(result: Mapping[str, Any], host: str) -> Mapping[str, Any]:
    """What a registered result tells of this host, which a task for all keeps in its verdict."""
    verdict = (result.get("verdicts") or {}).get(host)
    told = verdict.get("result") if isinstance(verdict, Mapping) else None
    return told if isinstance(told, Mapping) else result


def succeeded(result: Any, host: str) -> bool:
    """A result of another task that says so itself; anything else that is set and true counts as well.

    That of a batch is there for all hosts: of this one it says so where it has a verdict of it, and a good one. One
    with an error has not succeeded, whatever its task calls a failure.
    """
    if not isinstance(result, Mapping):
        return bool(result)
    verdicts = result.get("verdicts")
    verdict = verdicts.get(host) if isinstance(verdicts, Mapping) else {}
    if not isinstance(verdict, Mapping) or not verdict.get("ok", True):
        return False
    return not any(result.get(word) for word in ("failed", "skipped", "unreachable", "error"))
