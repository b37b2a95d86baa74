# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of every gate. PRIVATE to the collection.

It hands the node the checked profile of its SKU, and sees to it that each gate ends with a verdict in the ledger:
also when the module crashed, ran out of time, or the connection died under it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Optional

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    FleetError,
    MissingLibrary,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collected import KEYS, dated, problem_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Own, strange, written
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted, wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._shape import beside as fits_beside
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    PASS,
    answer,
    inconclusive,
    json_digest,
    now_utc,
    refusal,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._in_force import used, weakened_of
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._right_machine import OnItsMachine
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._told import of_a_crash, said_last

#: What only the controller may know; a ledger's URL can hold a password.
_STAYS_HERE = ("ledger_url", "node_id", "force_reason", "profile_path", "dmi_path")
#: The states and the outcomes of the provisioner that begin a node's life anew.
_REIMAGED = ("imaging",)
_DEPLOYING = ("deploying", "deployed")
#: The longest command that a gate announces.
_ANNOUNCED = 2000


class GateAction(OnItsMachine):
    """Base of the gates' actions: what each tells of is its own verdict, and each says whether it loads the GPUs, what
    its question is, and what a claimed pass lacks."""

    NODE_SIDE = True
    #: Does a run load the GPUs? Then it takes the lease, needs the permit of a destructive write, and is announced.
    #: On the node nobody could refuse it.
    LOADS: ClassVar[bool]
    #: What a module's result has beside its verdict.
    BESIDE: ClassVar[tuple[str, ...]] = ("evidence", "evidence_path")
    #: What the profile in force demands less than the one that is shipped for the SKU.
    _weaker: Sequence[Mapping[str, Any]] = ()
    #: What each gate says itself, since no default is right for the next one: without a question any pass answers any
    #: failure.
    OWED: ClassVar[Mapping[str, str]] = {
        "asked": "what it was asked",
        "lacking": "what a claimed pass lacks",
        "own": "what it knows of a pass, so that a passport would sign the node's own words",
    }

    def __init_subclass__(cls, *, base: bool = False, **more: Any) -> None:
        """base: of other actions, and no gate by itself."""
        super().__init_subclass__(**more)
        if base:
            return
        if not isinstance(getattr(cls, "LOADS", None), bool):
            raise TypeError(f"the action of {cls.NAME} does not say whether a run LOADS the GPUs: True or False")
        for method, what in cls.OWED.items():
            if getattr(getattr(cls, method), "__isabstractmethod__", False):
                raise TypeError(f"the action of {cls.NAME} does not say {what}: {method}")
        cls.TELLS = {"verdict": (cls.NAME,)}

    def writes(self, params: Mapping[str, Any]) -> bool:
        return self.LOADS

    def destructive(self, params: Mapping[str, Any]) -> bool:
        return self.LOADS

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        self.on_its_own_node()
        self._started = now_utc()
        self._unfit: Optional[ConfigError] = None
        params = dict(params)
        try:
            params["profile"], where = used(params)
            self._weaker = weakened_of(self.NAME, params["profile"], where)
            self.needs(wanted_of(params["profile"]))
        except MissingLibrary:
            raise
        except ConfigError as exc:
            self._unfit = exc
        return {key: value for key, value in params.items() if key not in _STAYS_HERE}

    def needs(self, wanted: Wanted) -> object:
        """:raises ConfigError: where the profile does not say what this gate must see."""

    def _shipped(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._unfit:
            # Nothing was measured, and it is a setting's fault: see _quarantine.py.
            told = self._without(str(self._unfit), "profile", "remediate_config", params)
            return self._concluded(params, {**told, "kind": self._unfit.kind})
        try:
            self._right_machine()
            result = super()._shipped(params)
        except BadAnswer as exc:  # not what a module of ours says: what was measured there is unknown
            return self._concluded(params, self._without(cut(exc, 300), "forged", "retest", params))
        except FleetError as exc:
            self._unconfirmed(exc, params)
            raise
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as exc:  # Ansible's own time limit is no Exception
            lost = isinstance(exc, AnsibleConnectionFailure)
            text = f"the {'connection to the node died' if lost else 'gate did not end'}: {cut(exc, 300)}"
            self._append_verdict(self._without(text, "unreachable" if lost else "aborted", "retest", params))
            raise
        if not self._is_answer(params, result):
            return self._crashed(params, result)
        try:
            return self._answered(params, result)
        except FleetError:
            raise
        except Exception as exc:  # an answer that breaks what reads it is one all the same, and no pass
            text = f"what the node answered cannot be read: {type(exc).__name__}: {cut(exc, 300)}"
            return self._concluded(params, self._without(text, "forged", "retest", params))

    def _unconfirmed(self, exc: FleetError, params: Mapping[str, Any]) -> None:
        """Where the gate ran, an older verdict must not stay its newest one."""
        if not self._intended:
            return  # refused before anything was done there
        self._line.parent_lives()
        text = f"whether the node was ours to the gate's end is not known: {exc}"
        result = self._without(text, "aborted", "retest", params)
        self._told_if_there([Event(str(e["kind"]), str(e["name"]), dict(e["data"])) for e in result["events"]])

    def _is_answer(self, params: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
        """Did the module say what a gate has to say?"""
        return result.get("verdict") in ("pass", "fail", "inconclusive")

    def _answered(self, params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        """The module's verdict as this controller records it: checked, and its event built here."""
        verdict = {key: result.get(key) for key in KEYS}
        problem = problem_of(verdict, gate=self.NAME, profile=reference(params["profile"]))
        verdict = verdict if problem else dated(verdict)
        told = verdict["findings"]
        if not problem and verdict["verdict"] == PASS:
            problem = self.lacking(params, verdict) or strange(verdict, own := self.own(params, verdict))
            verdict = verdict if problem else written(verdict, own)
        if problem:
            text = f"what the node answered is no verdict of this gate: {cut(problem, 300)}"
            return self._concluded(params, self._without(text, "forged", "retest", params))
        beside = {key: result[key] for key in self.BESIDE if key in result and fits_beside(result[key])}
        ctx = Context(check_mode=bool(self._task.check_mode), diff=bool(self._task.diff))
        ctx.asked = [cut(what, _ANNOUNCED) for what in result.get("asked") or [] if isinstance(what, str)]
        # Notes of a pass are for the play that ran it; what is kept, and signed, has none of them.
        beside["findings"] = told
        return self._concluded(params, answer(verdict, self._question(params, verdict), **beside).as_dict(ctx))

    @abstractmethod
    def own(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> Own:
        """What this gate knows of a pass that lacks nothing: that alone is kept of it, and signed."""
        raise NotImplementedError

    @abstractmethod
    def asked(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
        """What this gate was asked beside its profile: level, tests, window. By it questions are compared.

        verdict: what was answered. A pass must not say that it was asked what it has not answered.
        """
        raise NotImplementedError

    def _question(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
        """The question as verdict and passport carry it. What a node says that it was asked is its own word."""
        profile = {} if self._unfit or not params.get("profile") else {"profile": json_digest(params["profile"])}
        return {**self.asked(params, verdict), **profile}

    @abstractmethod
    def lacking(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> str:
        """What a claimed pass lacks of the cells that this task asked for; empty where it lacks nothing."""
        raise NotImplementedError

    def _crashed(self, params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        """The module said something else than a verdict: it was killed, or could not even start."""
        text = f"the gate's module gave no verdict: {cut(said_last(result), 300)}"
        own = self._without(text, "crashed", "retest", params)
        return {**self._concluded(params, own), **of_a_crash(result)}

    def _without(self, text: str, id: str, remedy: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """An inconclusive result that this controller wrote for the node."""
        profile: Optional[dict[str, str]] = None
        if params.get("profile") and not self._unfit:
            profile = reference(params["profile"])
        verdict = inconclusive(self.NAME, text, id=id, remedy=remedy, started=self._started, profile=profile)
        return answer(verdict, self._question(params, verdict)).as_dict(Context(check_mode=bool(self._task.check_mode)))

    def _concluded(self, params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        if self._weaker:
            result["weakened"] = self._weaker
        fail_on = str(params.get("fail_on") or "inconclusive")
        if refusal(result, fail_on, check_mode=bool(self._task.check_mode)):
            result["failed"] = True
        return result

    def _append_verdict(self, result: Mapping[str, Any]) -> None:
        """Nobody will return this result: what it says goes to the ledger now."""
        self._append([Event(str(item["kind"]), str(item["name"]), dict(item["data"])) for item in result["events"]])

    def remediated(self) -> Optional[float]:
        """Seconds since this node was last imaged, as the ledger knows; None where it was never, or where the ledger's
        clock was set back since: a window that begins too late would miss what the new system logged.

        A state ``validating`` is no remedy: what the new system logged while it booted comes before it.
        """
        node = self.node_id()
        found = [self.ledger().latest([node], "state", _REIMAGED).get(node)]
        outcome = self.ledger().latest([node], "outcome", ["provisioner_node"]).get(node)
        if outcome and _deployed_by(outcome["data"]):
            found.append(outcome)
        known = [event for event in found if event]
        if not known:
            return None
        return self.ledger().age(max(known, key=lambda event: int(event["id"])))


def reference(profile: Mapping[str, Any]) -> dict[str, str]:
    """The profile that was sent, as a verdict names it; what the node says that it got is its own word."""
    return {"sku": str(profile.get("sku", "")), "digest": json_digest(profile)}


def _deployed_by(outcome: Mapping[str, Any]) -> bool:
    """Did this call begin a deploy? One that only annotated a deployed node, or lifted its maintenance, did not."""
    states = [(outcome.get(key) or {}).get("state") for key in ("before", "after")]
    return states[0] not in _DEPLOYING and states[1] in _DEPLOYING


def seconds_ago(age: Optional[float]) -> str:
    """A window's start as a node can place it whatever its clock says; without one, its whole boot."""
    return "boot" if age is None else f"{age:.1f}"
