# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verb for all hosts of a play from one task: ``batch: true``. PRIVATE to the collection.

Such a task stands under ``run_once: true``. It drives the door of each host, as a task of that host's own would: the
same options, filled from that host's variables, the same lease, permit, intent, events and outcome, and the same verb.
So what holds for one holds for all, and there is nothing here that could be less careful. What they have in common is
the worker: its threads, one connection to the ledger, and a scheduler that is asked for all of them together. No node
is asked over its own connection, as where a task is delegated.
"""

from __future__ import annotations

import copy
import functools
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from typing import Any, ClassVar, cast

from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FOR_ALL
from ansible_collections.gpufleet.baremetal.plugins.module_utils._broken_off import BrokenOff
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError, unexpected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import turns
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifeline import LedgerLifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import shown
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.shared import SharedLedger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._pace import Progress
from ansible_collections.gpufleet.baremetal.plugins.module_utils._together import Peers
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _run_ends as run_ends
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._apart import Seats
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._batch import BatchAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._crew import Crew
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction, display
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._one_ledger import of_this_run
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._proof import BESIDE
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._said_by_each import demand_paths, said
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._variables import ONE_AT_A_TIME

#: What is part of each verdict itself.
_OF_THE_VERDICT = ("failed", "changed", "msg", "error", "diff", "warnings")


class ForAll(VerbAction):
    """A verb that has both forms."""

    #: So many hosts are worked on at once where the task does not say it.
    AT_ONCE: ClassVar[int] = 32
    #: What one machine has for itself. Said by the task it would be said of every machine, each of which is then taken
    #: for the one; so are words that a template of the task makes, which Ansible fills in for the host that runs it.
    OF_ONE: ClassVar[frozenset[str]] = frozenset(
        [*("node_id", "serial", "system_uuid", "boot_mac", "name", "called", "seen_event", "deploy_id")]
        + ["bmc_address", "bmc_system_id", "provisioner_id", "scheduler_node", "adoption"]
        + ["bmc_username", "bmc_password", "bmc_ipmi_kg", "bmc_tls_fingerprint"]  # tried at all BMCs, they lock logins
        + ["force_reason"]  # one host's leave would be that of all
        + ["driver", "properties"]  # with the profile, address and login of the host for which a template is filled in
        + ["carry", "annotations", "moved_to"]  # its card, its marks and its id at a provisioner
        + ["lacks", "looked_ago", "looked_boot", "looked_gpus", "image_verified", "leave"]  # filled in for each
    )
    #: What the ledger knows of one machine begins so.
    OF_LEDGER: ClassVar[str] = "known"

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        if not _is_for_all(self._task.args.get("batch")):
            return super().run(tmp, task_vars)
        own = (self._task, self._connection, self._play_context, self._loader, self._templar, self._shared_loader_obj)
        return _leader_of(type(self))(*own).run(tmp, task_vars)

    @classmethod
    def of_one(cls, option: str) -> bool:
        return option in cls.OF_ONE or option.startswith(cls.OF_LEDGER)

    @classmethod
    def at_once(cls, told: Callable[[str], str]) -> int:
        """How many, where the task does not say it. :param told: an option, as the host has it that runs the task."""
        return cls.AT_ONCE

    def _validated(self) -> dict[str, Any]:
        alone = sorted(name for name in FOR_ALL if name != "batch" and self._task.args.get(name) is not None)
        if alone:
            raise ConfigError(
                f"{alone[0]} is for a task that serves all hosts of the play",
                node=self._host,
                wanted="batch: true beside it",
                seen="a task of this host alone",
                do=f"add batch: true and run_once: true, or leave {alone[0]} out",
            )
        return super()._validated()


def _is_for_all(value: Any) -> bool:
    """What is no yes and no no is told by the check of all options."""
    with suppress(TypeError):
        return bool(boolean(value, strict=True)) if value is not None else False
    return False


class OneOfAll(VerbAction):
    """The door of one host among those that one task serves."""

    OF_ALL = True
    leader: Leader
    #: Reads a variable of this host.
    variable: Callable[[str], Any]
    _common: Ledger | None = None

    def is_apart(self) -> bool:
        if self.APART is None:
            return False
        name = self.APART.option
        return str(self._task.args.get(name) or self.variable(f"gpufleet_{name}") or "") in self.APART.words

    def _lifeline(self, params: Mapping[str, Any]) -> LedgerLifeline:
        self._line = super()._lifeline(params)
        if self.leader.over:  # who cuts those at work may have come before this line was there
            self._line.cut()
        return self._line

    def cut(self) -> None:
        """Whatever it does, it is to stop at its next turn."""
        if hasattr(self, "_line"):  # else it has asked nobody yet
            self._line.cut()

    def ledger(self) -> Ledger:
        """The one of them all, where this host has that; a host with another one opens its own."""
        if self._common is None and self._ledger is None:
            named = self._params.get("ledger_url") or self.host_var("gpufleet_ledger_url")
            self._common = self.leader.ledger_at(str(named or ""))
        return super().ledger() if self._common is None else self._common

    def peers(self) -> Peers:
        return self.leader.common

    def beside(self) -> list[str]:
        return self.leader.next_to(self._host)

    def _reaches_node(self) -> bool:
        return False

    def _own_name(self) -> str:
        return ""


class Leader(BatchAction):
    """Whoever serves them all."""

    DOOR: ClassVar[type[ForAll]]
    UNTOLD = {"changed": False, "result": {}}

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        self.common = Peers()
        self._opening = threading.RLock()
        self._verdicts: dict[str, dict[str, Any]] = {}
        self._diffs: dict[str, Any] = {}
        self._warnings: list[str] = []
        self._at_work: dict[str, OneOfAll] = {}
        #: All is to end: set before those at work are cut.
        self.over = False
        return super().run(tmp, task_vars)

    # -- before any host's turn --------------------------------------------------------------------------------

    def _validated(self) -> dict[str, Any]:
        """What the task says is meant for all, and what is wrong with it concerns all."""
        given = {key: value for key, value in self._task.args.items() if not key.startswith("_")}
        self.demand_no_leave(given)
        self._demand_one_task()
        self._demand_for_all(given)
        spec = {name: {key: of for key, of in one.items() if key != "required"} for name, one in self.SPEC.items()}
        checked = ArgumentSpecValidator(spec).validate(given)
        if checked.error_messages:
            raise ConfigError(
                f"{self.NAME}: " + "; ".join(checked.error_messages),
                do=f"see ansible-doc gpufleet.baremetal.{self.NAME}",
            )
        params: dict[str, Any] = checked.validated_parameters
        self._conceal(params, [name for name, one in spec.items() if one.get("no_log") and params.get(name)])
        demand_paths(params.get("each") or {}, given, spec)
        if params.get("at_once") is not None and params["at_once"] < 1:
            raise ConfigError("at_once is a number of hosts", wanted="1 or more", seen=str(params["at_once"]))
        return params

    def _demand_one_task(self) -> None:
        if not self._task.run_once:
            raise ConfigError(
                "batch: true is one task for all hosts, and would be done by each of them for all",
                wanted="run_once: true",
                seen="a task of each host",
                do="add run_once: true, or leave batch out",
            )
        if self._goes_elsewhere():
            raise ConfigError(
                "all hosts are served by the controller itself, and not by another machine",
                wanted="a task that is not delegated",
                seen=f"delegate_to {self._task.delegate_to}",
                do="leave delegate_to out, or leave batch and run_once out",
            )

    def _demand_for_all(self, given: Mapping[str, Any]) -> None:
        own = sorted(name for name, value in given.items() if value is not None and self.DOOR.of_one(name))
        if own:
            row = f"gpufleet_{own[0]} of each host, or " if own[0] in self.FILLED else ""
            raise ConfigError(
                f"{own[0]} is what one machine has for itself, and the task says it of all",
                wanted=f"{row}the name of a variable of each: each: {{{own[0]}: a_name}}",
                do="leave it out of the task, and of module_defaults, where a host variable says it; a template would"
                " be filled in for one host alone",
            )

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        """Those that come so far; each takes its lease where its own task would take it."""
        self.ids = {}
        if "ledger_url" in self.SPEC:  # one that is away is waited for once, and not by each
            self.ledger()
        return {**params, "nodes": [{"host": host} for host in self.batch()]}

    # -- the turns ---------------------------------------------------------------------------------------------

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        return self._once(params, self._of_all)

    def _of_all(self, params: dict[str, Any]) -> dict[str, Any]:
        self._served = hosts = [str(node["host"]) for node in params["nodes"]]
        self._progress = Progress(len(hosts), time.monotonic())
        crew = Crew(self._serve, self.common.rounds)
        ended, apart = BrokenOff(), self.DOOR.APART
        self._seats = Seats(apart.most if apart else 1)
        with apart.begun(self.common) if apart else nullcontext():
            self._by(crew, hosts, params, ended)
        return self._answer(hosts)

    def _by(self, crew: Crew, hosts: list[str], params: Mapping[str, Any], ended: BrokenOff) -> None:
        ended.hold()
        try:
            with turns.together():
                crew.serve(hosts, int(params.get("at_once") or self.DOOR.at_once(self._told)), self._beat)
        except BaseException:
            self.over = True
            for one in list(self._at_work.values()):
                one.cut()
            ended.leaving()
            crew.left()
            raise
        finally:
            ended.release()

    def _beat(self) -> None:
        self._line.parent_lives()
        head = f"{self.NAME}: "
        at_work = list(self._at_work)
        width = display.columns - len(head)
        line = self._progress.line(len(self._verdicts), at_work, time.monotonic(), width)
        if line:
            display.display(shown(head + line, self._secrets))

    def _told(self, name: str) -> str:
        return str(self._params.get(name) or self.host_var(f"gpufleet_{name}") or "")

    def _answer(self, hosts: Iterable[str]) -> dict[str, Any]:
        verdicts = {host: self._verdicts.get(host) or verdict({"failed": True}) for host in hosts}
        answer: dict[str, Any] = {"changed": any(one["changed"] for one in verdicts.values()), "verdicts": verdicts}
        if self._warnings:
            answer["warnings"] = sorted(self._warnings)
        if self._task.diff:
            answer["diff"] = [
                {"before_header": host, "after_header": host, **self._diffs[host]}
                for host in verdicts
                if self._diffs.get(host)
            ]
        return answer

    def _serve(self, host: str) -> None:
        """One host's verdict; then those of the hosts that have waited for its seat."""
        following: str | None = host
        while following is not None:
            self._serve_one(following)
            following = self._seats.left(following)

    def _serve_one(self, host: str) -> None:
        result: dict[str, Any]
        try:
            with ONE_AT_A_TIME:
                one, variables = self._one(host)
                waits = one.is_apart() and not self._seats.has(host)
            if waits:  # before the time of its task begins
                return
            self._at_work[host] = one
            if self.over:
                return
            result = one.run(task_vars=variables)
        except FleetError as exc:
            result = {"failed": True, "changed": False, **exc.located(node=host).as_result()}
        except AnsibleError as exc:
            problem = ConfigError("what its task is told cannot be read", node=host, seen=short(exc), do="correct it")
            result = {"failed": True, "changed": False, **problem.as_result()}
        except Exception as exc:
            result = {"failed": True, "changed": False, **unexpected(exc, node=host).as_result()}
        finally:
            self._at_work.pop(host, None)
        self._warnings += [f"{host}: {line}" for line in result.get("warnings") or ()]
        self._diffs[host] = result.get("diff")
        self._verdicts[host] = verdict(result)

    def _one(self, host: str) -> tuple[OneOfAll, dict[str, Any]]:
        """Its door, and what its own task would see."""
        own = host == self._host
        own_words = {"inventory_hostname": host, "hostvars": self._vars["hostvars"]}
        seen = None if own else self._variables.taken(host)
        variables = dict(self._vars) if seen is None else {**seen.all(), **own_words}
        templar = self._templar if seen is None else seen.templar

        def variable(name: str) -> Any:
            return self.host_var(name) if seen is None else seen.get(name)

        task = copy.copy(self._task)
        task.args = {key: value for key, value in self._task.args.items() if key not in FOR_ALL}
        task.args.update(said(self._params.get("each") or {}, variable, host))
        common = (self._connection, self._play_context, self._loader, templar, self._shared_loader_obj)
        one = self._kind(task, *common)
        one.leader, one.variable = self, variable
        return one, variables

    @functools.cached_property
    def _kind(self) -> type[OneOfAll]:
        return cast(type[OneOfAll], type("ActionModule", (OneOfAll, self.DOOR), {}))

    def next_to(self, host: str) -> list[str]:
        """Those that are at work beside it, or come next: any of them may be the first to ask."""
        at = self._served.index(host)
        return [*self._served[at + 1 :], *self._served[:at]][:BESIDE]

    # -- what they have in common ------------------------------------------------------------------------------

    def ledger(self) -> Ledger:
        with self._opening:
            if self._ledger is None:
                self._ledger = of_this_run(self._url, create=not self._task.check_mode, kind=SharedLedger)
                run_ends.used(self._url)
            return self._ledger

    def ledger_at(self, url: str) -> Ledger | None:
        """None where that of all lies elsewhere."""
        return self.ledger() if url == self._url else None

    @functools.cached_property
    def _url(self) -> str:
        return str(self._params.get("ledger_url") or self.host_var("gpufleet_ledger_url") or "")


def verdict(result: Mapping[str, Any]) -> dict[str, Any]:
    """What is told of one host, in the words of those that watch a batch."""
    failed = bool(result.get("failed"))
    error = result.get("error") or {}
    told: dict[str, Any] = {
        "ok": not failed,
        "changed": bool(result.get("changed")),
        "reason": str(result.get("msg") or "no message") if failed else "",
        "kind": str(error.get("kind") or FleetError.kind) if failed else "",
        "result": {key: value for key, value in result.items() if key not in _OF_THE_VERDICT},
    }
    return {**told, "error": error} if failed else told


def _leader_of(door: type[ForAll]) -> type[Leader]:
    return cast(type[Leader], type("ActionModule", (Leader,), {"NAME": door.NAME, "SPEC": door.SPEC, "DOOR": door}))
