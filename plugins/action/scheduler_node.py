# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.action.kernel_log_gate import ActionModule as KernelLog
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, NotOurs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.announced import ABOUT, TOKENS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.strangers import ours
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.absence import alike, is_called
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.called import NAMED, OWN_NAME
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.evidence import EVIDENCE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.hold import announced, is_unnamed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.node import scheduler_node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.specs import NODE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.identity import normal_identity
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.last_look import looked_again
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _own_name as own_name
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._admission import (
    demand_quiet,
    lacks,
    looked_ago,
    looked_boot,
    looked_gpus,
    renewable,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._beside import beside
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._bound import others
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._for_all import ForAll
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._holds import holds
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._leaves import forced
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._node_identity import read_identity


class ActionModule(ForAll):
    """Holds or resumes a node, knowing from the ledger which holds are ours."""

    NAME = "scheduler_node"
    SPEC = NODE
    LEAVES = True
    #: Each waits for the one answer that its scheduler gives for all; but where that is written to node by node, for
    #: the writes of the others, too.
    _ASK_AT_ONCE = 1000
    TELLS = {"evidence": EVIDENCE, "hold": ("taken", "released"), "named": (NAMED,)}
    verb = staticmethod(scheduler_node)
    #: What the machine has answered that was asked for its name.
    _answer: Mapping[str, Any] | None = None

    @classmethod
    def at_once(cls, told: Callable[[str], str]) -> int:
        in_one = told(names.OPTION) == "slurm" or told("state") == "present"
        return cls._ASK_AT_ONCE if in_one else cls.AT_ONCE

    def writes(self, params: Mapping[str, Any]) -> bool:
        return params["state"] != "present"

    def told(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """That there is a reason lets the module give back a node that lacks its proof; what it is stays at home."""
        return forced(params, "known_renamed")

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        params = self._tried_from_here(params)
        if params["state"] == "resumed" and not self._task.check_mode:
            # First: what the ledger says of the node is to be true until the write.
            self._line.hold([self._host])
        if params.get("seen_event") is not None and params["state"] != "present":
            self._as_it_was_seen(int(params["seen_event"]))
        named = {self._host: str(params.get("scheduler_node") or params.get("name") or "")}
        known = holds(self.ledger(), {self._host: self.node_id()}, self.host_var, names=named)[self._host]
        known["known_runs"] = known["known_runs"] if self.node_id() else None
        if params["state"] == "resumed" and self.node_id():
            asks_nobody = self._task.check_mode or self._task.delegate_to or self.OF_ALL
            if not (asks_nobody or params.get("force_reason")):
                self._look_again()
            known = self.known_now({**params, **known})
        known["known_here"] = known["known_here"] or bool(params.get("force_reason"))
        known.update(known_heard=[], known_called="")
        known["known_renamed"] = self._renamed(params, known)
        known["known_others"] = self._others(params, known)
        self._demand_a_move(params)
        known["known_own"] = self._heard(params)
        known["looked_boot"] = looked_boot(self.ledger(), self.node_id())
        known["looked_gpus"] = looked_gpus(self.ledger(), self.node_id())
        return {**params, **known, "run_id": self.run_id, "name": params.get("name") or self._host}

    def finish(self, params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        """A hold that stood already was looked at without a lease: of a node that was held anew since it is no news,
        and noted it would pass for the newest one."""
        told = any(event["kind"] == "hold" and event["name"] == "taken" for event in result.get("events") or [])
        if not told or result.get("asked") or self._task.check_mode:
            return result
        self._line.hold([self._host])
        newest = self.ledger().latest([self.node_id()], "hold").get(self.node_id())
        if newest is not None and newest["id"] > self._known_at:
            raise NotOurs(
                "another run has held this node since this one looked at it",
                node=self._host,
                wanted=f"the hold that this run saw: {result.get('reason') or params.get('why')}",
                seen=f"{newest['name']}: {newest['data'].get('hold_token') or 'no token'} (event {newest['id']})",
                do="run again, which looks at what stands now; nothing was noted",
            )
        return result

    def _called(self, params: Mapping[str, Any]) -> str:
        """As which node of its scheduler this call asks for the host."""
        return str(params.get("scheduler_node") or params.get("name") or self._host)

    def noted(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """By these words a hold is known whose run was killed before it told of it."""
        name = self._called(params)
        return {**super().noted(params), TOKENS: list(announced(self.run_id, params)), ABOUT: name}

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        """All hosts of this run wait together for a scheduler that is away."""
        return super()._in_worker({**params, "run_cache": self._run_as.process})

    def _tried_from_here(self, params: dict[str, Any]) -> dict[str, Any]:
        """A module on another machine comes back for leave while a job runs, and could not tell its own trial from one
        that a run has left.

        :raises ConfigError: where the node must be tried all the same.
        """
        if not self._task.delegate_to or params["trial"] == names.NEVER:
            return params
        if params["trial"] == names.ALWAYS:
            raise ConfigError(
                "a task that is delegated has no job of ours try the node",
                node=self._host,
                wanted="a task of the controller",
                seen=f"delegate_to {self._task.delegate_to} with trial=always",
                do="leave delegate_to out, or say trial=never",
            )
        return {**params, "trial": names.NEVER}

    def _demand_a_move(self, params: Mapping[str, Any]) -> None:
        """A reason alone is given for other things, such as another name in the same cluster.

        :raises ConfigError: where a cluster is named, and nothing but a look with a reason would say why.
        """
        if params.get("moved_to") and (params["state"] != "present" or not params.get("force_reason")):
            raise ConfigError(
                "a machine is moved to another cluster by a look, and for a reason",
                node=self._host,
                wanted="state=present with moved_to and force_reason",
                seen=f"state={params['state']}" + ("" if params.get("force_reason") else " without force_reason"),
                do="say that by a call of its own",
            )

    def _renamed(self, params: Mapping[str, Any], known: dict[str, Any]) -> str:
        """What shows that the machine, which the ledger has as another node of the scheduler, is this one now; also of
        one that is ours and has never been any.

        :raises WrongMachine: where another machine than the node answers.
        """
        name = self._called(params)
        was = known["known_scheduler_node"]
        first = params["state"] != "present" and self._is_first(name, known)
        if params.get("scheduler") == names.NONE:  # that it is no node any more only a person can say
            return str(params.get("force_reason") or "") if was or Place.told(known, "known_") != Place() else ""
        if was == name or not (was or first):
            return ""
        if params.get("force_reason") and (not was or params["state"] == "present"):
            return str(params["force_reason"])  # one that was given for other things renames nothing
        own = self._own_name()
        if own_name.shows(own, name, was):
            known["known_called"] = "" if is_called([own], [name]) else own
            return f"the machine calls itself {cut(own, 100)}" if self._is_it() else ""
        if own:  # its scheduler may have it under that; whoever answers unproven speaks against a node alone
            known["known_as" if self._is_it() else "known_heard"].append(own)
        return ""

    def _others(self, params: Mapping[str, Any], known: Mapping[str, Any]) -> list[dict[str, str]]:
        """Whose that node is already, where this machine is about to become it."""
        name = self._called(params)
        becomes = name != known["known_scheduler_node"] and (params["state"] == "held" or known["known_renamed"])
        if params.get("scheduler") == names.NONE or not (becomes or params.get("moved_to")):
            return []
        return others(self.ledger(), name, self.node_id())

    def _is_first(self, name: str, known: Mapping[str, Any]) -> bool:
        """Is this name no more than the inventory's word? One that is ours must have served, and be called so by its
        row as a whole; a stranger, which is silent more often than not, is called nearly so."""
        if known["known_here"]:
            return is_unnamed(known) and not (known["known_admitted"] and is_called([name], known["known_as"]))
        return not alike([name], known["known_as"])

    def _own_name(self) -> str:
        """What the machine that answers calls itself, asked once; empty of one that is silent, or in whose place
        another one would answer."""
        if self._answer is None and not self._task.delegate_to:
            with self._line.renewing(self.ledger().another):
                self._answer = own_name.asked(self, self._vars, self._host, self._strangers, self._line.parent_lives)
        return own_name.told(self._answer or {})

    def _strangers(self) -> list[str]:
        """Those of the batch that are strangers to the ledger like this host, and are asked for their names next."""
        alive = set(self._vars.get("ansible_play_hosts") or ())
        ids = {self._host: self.node_id(create=False)}
        for host in alive.intersection(self._vars.get("ansible_play_batch") or ()):
            with suppress(ConfigError):  # what is wrong with that host is told where its own task runs
                if self.host_var("gpufleet_scheduler", host) != names.NONE:
                    ids[host] = self.node_id(host, create=False)
        known = ours(self.ledger(), [node_id for node_id in ids.values() if node_id])
        return [] if ids[self._host] in known else sorted(host for host, node_id in ids.items() if node_id not in known)

    def _heard(self, params: Mapping[str, Any]) -> str:
        """What speaks against the scheduler's node where the machine has another one's name: how it was heard to call
        itself by this run, and by the last look, on which a resume rests and a person's word is given; nothing where it
        was vouched for by that name."""
        if params["state"] == "present" or not self.node_id(create=False):
            return own_name.told(self._answer or {})
        of_any = params["state"] == "resumed" or bool(params.get("force_reason"))
        own = own_name.told(self._answer or {}) or own_name.heard(
            self.ledger(), self.node_id(), "" if of_any else self.run_id
        )
        name = self._called(params)
        return "" if own_name.vouched(self.ledger(), self.node_id(), name, own) else own

    def _is_it(self) -> bool:
        """:raises WrongMachine: where another machine than the node has answered."""
        inventory = {key: self.host_var(f"gpufleet_{key}") for key in ("serial", "system_uuid")}
        try:
            answer = self._answer or {}
            own_name.demand(self.ledger(), self.node_id(), self._host, self.run_id, inventory, answer)
        except ConfigError:
            return False
        return True

    def known_now(self, params: dict[str, Any]) -> dict[str, Any]:
        """With what the ledger says of giving it work."""
        if params["state"] != "resumed" or not self.node_id():
            return params
        ago = None if params.get("force_reason") else looked_ago(self.ledger(), self.node_id())
        lacking = lacks(self.ledger(), self.node_id(), looked=not self._task.check_mode)
        return {**params, "lacks": lacking, "looked_ago": ago}

    def _look_again(self) -> None:
        """A host that waited for its turn behind slow ones is not refused for that.

        :raises FleetError: where the node is no longer what this run has seen.
        """
        look = renewable(self.ledger(), self.node_id(), self.run_id)
        if look is not None:
            began = self.ledger().moment().as_data()  # a boot from here on it may not have seen
            with self._line.renewing(self.ledger().another):  # its nvidia-smi may hang for as long as a lease lasts
                demand_quiet(beside(self, KernelLog, self._vars), self._host)
                told = read_identity(self._low_level_execute_command, look["asked"])
            event = looked_again(look, normal_identity(told), Context(node=self._host))
            event.data.update(began, **{OWN_NAME: told[OWN_NAME]})
            self.ledger().append(self.run_id, [(self.node_id(), event)])

    def _as_it_was_seen(self, event: int) -> None:
        """A look at the fleet is old when its turn comes: what another run has brought about since is not to be undone.

        :raises NotOurs: before anything is written; read under our lease, so that it is still true at the write.
        """
        if not self._task.check_mode:
            self._line.hold([self._host])
        node_id = self.node_id()
        newest = self.ledger().latest([node_id], "state").get(node_id) if node_id else None
        if newest is None or newest["id"] == event:
            return
        raise NotOurs(
            "another run has worked on this node since this one looked at it",
            node=self._host,
            wanted=f"its state of event {event}",
            seen=f"{newest['name']} since event {newest['id']}, of {newest['run_id']}",
            do="run again: the new run reads the node's state afresh",
        )
