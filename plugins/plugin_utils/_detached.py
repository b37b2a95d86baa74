# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of a gate that may go on by itself on its node. PRIVATE to the collection.

It names the job, keeps what was asked of it, and hands on the verdict that ``gate_wait`` wrote down. A gate adds for
how long its job may run and what that was asked; on the node ``_gate/detached.py`` starts it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.names import DETACHED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.watch import ENDING_SECONDS, FROM_START
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import Moment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._shape import beside
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import json_digest
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._collects import Collects
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._gate import GateAction, reference
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._in_force import of_the_site, used, weakened_of

#: What is kept of a job's start: what is waited by, and what every action's result has.
_OF_A_START = (*FROM_START, "joined", "changed", "before", "after", "asked", "evidence", "ansible_facts")


class DetachedGate(GateAction, Collects, base=True):
    """Base of the actions of such gates: with ``detached`` the module starts a job or finds it again, with ``collect``
    nothing is asked of the node."""

    RULES = {"mutually_exclusive": [("detached", "collect")]}
    #: The states with which its jobs begin anew.
    BEGINS: ClassVar[tuple[str, ...]] = ("imaging", "validating")
    OWED: ClassVar[Mapping[str, str]] = {
        **GateAction.OWED,
        "job_limit": "for how long its job may run",
        "job_question": "what its job was asked",
    }

    @abstractmethod
    def job_limit(self, params: Mapping[str, Any]) -> float:
        """Seconds after which the job ends by itself."""
        raise NotImplementedError

    @abstractmethod
    def job_question(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """What was asked, as ``asked`` and ``lacking`` of ``_gate/registry.py`` read it when the job has ended."""
        raise NotImplementedError

    def job_parts(self, params: Mapping[str, Any]) -> list[Any]:
        """By what two jobs of one validation are told apart, beside the profile."""
        return [self.job_question(params)]

    def writes(self, params: Mapping[str, Any]) -> bool:
        return bool(params["detached"]) or super().writes(params)

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        if params["collect"]:
            self._weaker = self._weaker_of(params)
            return params
        params = super().prepare(params)
        if params["detached"] and not params["job"] and not self._unfit:
            params["job"] = self._job(params)
        if params["job"]:
            self._line.notes(job=params["job"])
        return params

    def epoch(self, node: str) -> Mapping[str, Any] | None:
        """The event with which this node's jobs begin anew; None where there is none."""
        return self.ledger().latest([node], "state", self.BEGINS).get(node)

    def _weaker_of(self, params: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Of a job that is collected the profile is read for this alone."""
        try:
            return weakened_of(self.NAME, *used(params)) if of_the_site(params) else ()
        except ConfigError:
            return ()

    def _job(self, params: Mapping[str, Any]) -> str:
        """The same name for every run that goes on with this validation, and another one for any other question."""
        if self._task.check_mode:
            return "none-in-check-mode"
        node = self.node_id()
        began = self.epoch(node)
        if began is None:
            raise ConfigError(
                "the ledger knows of no imaging and no validation of this node that the diagnostics could belong to",
                node=self._host,
                do="record state validating (ledger_event) before it, or give the option job",
            )
        asked = [*self.job_parts(params), json_digest(params["profile"])]
        whole = json_digest([node, began["id"], began["at"], *asked])
        return f"{self.NAME.removesuffix('_gate')}-{whole.partition(':')[2][:32]}"

    def _shipped(self, params: dict[str, Any]) -> dict[str, Any]:
        if params["collect"]:
            return self.collected(params)
        return super()._shipped(params)

    def _is_answer(self, params: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
        return _has_job(params, result) or super()._is_answer(params, result)

    def _answered(self, params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        if not _has_job(params, result):
            return super()._answered(params, result)
        # What was sent, not what the node says that it got: limit and question are not the node's to choose.
        ours = {name: str(params[name]) for name in ("job", "state_dir", "boot_id_path")}
        return {
            **{key: result[key] for key in _OF_A_START if key in result and beside(result[key])},
            **ours,
            "gate": self.NAME,
            "limit": self.job_limit(params),
            "profile": reference(params["profile"]),
            "question": self.job_question(params),
            **(self._job_began(params) if result.get("joined") else self.began("")).as_data(),
            "events": [],
        }

    def _job_began(self, params: Mapping[str, Any]) -> Moment:
        """A job that was found again began before this task: not before the first that was announced of this
        validation, and that could still be going on or be handed over."""
        now = self.began("")
        known = [Moment(event["id"], event["at"]) for event in self.announced(params)]
        oldest = now.at - self.job_limit(params) - ENDING_SECONDS - DETACHED[self.NAME]
        return min([one for one in known if one.at >= oldest] or known, default=now)

    def announced(self, params: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The intents that may have begun this job, oldest first."""
        validation = self.epoch(node := self.node_id())
        since = validation["id"] if validation else 0
        return self.ledger().history(node, since=since, kinds=("intent",), names=(self.NAME,))


def _has_job(params: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    """Did the module start, or find again, the job that this task asked for?"""
    return bool(params["detached"]) and not result.get("failed") and result.get("job") == params["job"]
