# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a driver is tried for at a site's own scheduler: first what only reads, then a hold of each node, and its end.

They call the verbs themselves, as the modules do. Each write is asked for of a guard that knows the selected nodes and
refuses every other one.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    Changed,
    ConfigError,
    NotOurs,
    Refused,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import WORK, NodeView, Scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.node import scheduler_node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.registry import open_scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.wait import scheduler_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import make_token
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline, Result
from contract_outcomes import FAILED, Broken, NotApplicable, Outcome, demand, in_turn, judged
from contract_scenarios import Guard, Machine

WHY = "contract"
#: No scheduler has a node of this name.
NOBODY = "no-such-node-of-ours"


@dataclass(frozen=True)
class Plan:
    """taken: why a node is not to be tried any more, by how it looks now; empty where it is."""

    connection: Mapping[str, Any]
    nodes: tuple[str, ...]
    taken: Callable[[NodeView], str]
    timeout: float = 3600.0
    interval: float = 10.0


class _Of(Lifeline):
    """A verb that is asked for one node writes to that one."""

    def __init__(self, guard: Guard, name: str) -> None:
        self._guard, self._name = guard, name

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> str | None:
        return self._guard.before_write(what, destructive=destructive, nodes=nodes or (self._name,))


class Trial:
    """The verbs, on the nodes of one plan."""

    def __init__(self, plan: Plan, say: Callable[[str], None]) -> None:
        self.plan, self._say = plan, say
        self.machines = tuple(Machine(name, name) for name in plan.nodes)
        self.run = f"contract-{uuid.uuid4().hex[:12]}"
        self.token = make_token(self.run, WHY)
        self.guard = Guard(frozenset(plan.nodes))
        #: Held by us, as far as we know.
        self.held: set[str] = set()

    def open(self) -> Scheduler:
        return open_scheduler(self.plan.connection, node="")

    def view(self, name: str) -> NodeView:
        return self.open().states([name])[name]

    def lead(self, name: str, state: str, *, check: bool = False, **more: Any) -> tuple[Result, list[str]]:
        params = {
            **self.plan.connection,
            "scheduler_node": name,
            "state": state,
            "why": WHY,
            "run_id": self.run,
            "known_runs": [self.run],
            "known_token": self.token if name in self.held else "",
            "timeout": self.plan.timeout,
            "interval": self.plan.interval,
            **more,
        }
        ctx = Context(check_mode=check, node=name, lifeline=_Of(self.guard, name), say=self._say)
        return scheduler_node(params, ctx), ctx.asked

    def other(self, name: str, state: str) -> tuple[Result, list[str]]:
        """As another controller would, whose ledger knows nothing of us."""
        return self.lead(name, state, run_id="contract-other", known_runs=["contract-other"], known_token="")

    def twice(self, name: str, state: str) -> None:
        """What stands is not written again."""
        again, sent = self.lead(name, state)
        demand(not again.changed and not sent, f"{state} once more sent {sent}")


# -- what only reads -------------------------------------------------------------------------------------------


def bulk(trial: Trial, _one: Machine) -> None:
    """All nodes are told together, and one that is not there as absent."""
    found = trial.open().states([*trial.plan.nodes, NOBODY])
    unread = [name for name in trial.plan.nodes if found[name].absent or found[name].unread]
    demand(not unread, f"not told: {', '.join(unread)}")
    demand(found[NOBODY].absent, f"a node that is not there is told as {found[NOBODY].state}")


def unknown(trial: Trial, _one: Machine) -> None:
    """Nothing is held, and nothing given back, that the scheduler does not know."""
    told, sent = trial.lead(NOBODY, "held")
    demand(told.data["state"] == "absent" and not told.changed and not sent, f"a hold of it sent {sent}")
    try:
        trial.lead(NOBODY, "resumed")
    except Refused:
        return
    raise Broken("a node that is not there was given back")


def several(trial: Trial, one: Machine) -> None:
    """A name that could mean more than one node goes out nowhere."""
    for name in (f"{one.name},{one.name}", "ALL", "*"):
        try:
            trial.open().check(name)
        except ConfigError:
            continue
        raise Broken(f"{name} was taken for the name of one node")


def wrong_login(trial: Trial, one: Machine) -> None:
    """It is told as a refusal, without the secret."""
    if not trial.plan.connection.get("scheduler_url"):
        raise NotApplicable("the commands need no credential")
    given = {key: value for key, value in trial.plan.connection.items() if key != "scheduler_token_path"}
    wrong = "no.token.ofours"
    try:
        open_scheduler({**given, "scheduler_token": wrong}, node="").states([one.name])
    except (AuthFailed, ConfigError) as exc:
        demand(wrong not in str(exc), "the refusal tells the secret")
        return
    raise Broken("a wrong token was taken")


def check_mode(trial: Trial, one: Machine) -> None:
    """A hold is predicted, and nothing is sent."""
    told, sent = trial.lead(one.name, "held", check=True)
    demand(told.changed and not sent, f"check mode sent {sent}")
    demand(not trial.view(one.name).held, "check mode has held it")


# -- a hold, from its begin to its end -------------------------------------------------------------------------


def free(trial: Trial, one: Machine) -> None:
    """Those before it were tried since it was selected."""
    why = trial.plan.taken(trial.view(one.name))
    if why:
        raise NotOurs("it was taken since it was selected", node=one.name, seen=why)


def held(trial: Trial, one: Machine) -> None:
    """The hold reads back as ours, and asking once more sends nothing."""
    trial.held.add(one.name)  # whatever comes of it: it is lifted at the end
    told, _sent = trial.lead(one.name, "held", known_token="")
    demand(told.changed and told.data["owner"] == "ours", f"the hold reads back as {told.data['owner']}")
    demand(told.data["state"] in ("draining", "drained"), f"it is {told.data['native']} after the hold")
    trial.twice(one.name, "held")


def conflict(trial: Trial, one: Machine) -> None:
    """What was judged before the node has changed is not written any more."""
    driver, now = trial.open(), trial.view(one.name)
    trial.guard.before_write(driver.hold_request(now, trial.token, WORK), destructive=False, nodes=(one.name,))
    stale = replace(now, version=f"{now.version}-of-before")
    try:
        driver.hold(stale, make_token(trial.run, "stale"), WORK)
    except Changed:
        texts = [hold.text for hold in trial.view(one.name).holds]
        demand(any(text.startswith(trial.token) for text in texts), f"the hold reads {texts}")
        return
    raise Broken("a write went out for a node that is no longer what was judged")


def foreign(trial: Trial, one: Machine) -> None:
    """Another controller leaves it alone: it neither holds it, nor gives it back."""
    for state in ("held", "resumed"):
        try:
            trial.other(one.name, state)
        except NotOurs:
            continue
        raise Broken(f"another run was let through to {state}")
    demand(trial.view(one.name).held, "the hold is gone")


def drained(trial: Trial, one: Machine) -> None:
    """Nothing is left on it, and the ledger may be told so."""
    entry = {"host": one.name, "known_runs": [trial.run], "known_token": trial.token}
    params = {
        **trial.plan.connection,
        "until": "drained",
        "nodes": [entry],
        "timeout": trial.plan.timeout,
        "interval": trial.plan.interval,
        "completing_timeout": 300,
    }
    result = scheduler_wait(params, Context(lifeline=_Of(trial.guard, one.name), say=trial._say))
    verdict = result.data["verdicts"][one.name]
    demand(verdict["ok"], f"it is not drained: {verdict['reason']}")
    told = [event.name for event in result.events if event.kind == "evidence"]
    demand(told[-1:] == ["drained"], f"the evidence is {told}")


def resumed(trial: Trial, one: Machine) -> None:
    """Given back, in service and answering; and asking once more sends nothing."""
    if one.name not in trial.held:
        raise NotApplicable("it was not held")
    told, _sent = trial.lead(one.name, "resumed")
    trial.held.discard(one.name)
    demand(trial.view(one.name).in_service, f"it is {told.data['native']} after its resume")
    trial.twice(one.name, "resumed")


Scenario = Callable[[Trial, Machine], None]
#: Once for all nodes.
OF_ALL: Mapping[str, Scenario] = {
    "one look tells all": bulk,
    "an unknown node is left alone": unknown,
    "a name of several is refused": several,
    "a wrong credential is refused": wrong_login,
}
LIFE: Mapping[str, Scenario] = {
    "check mode sends nothing": check_mode,
    "still free": free,
    "held": held,
    "a changed node is not written to": conflict,
    "somebody else's hold is left alone": foreign,
    "drained": drained,
    "resumed": resumed,
}
#: Tried whatever failed before it, where our hold may stand.
_LAST = "resumed"


def tried(trial: Trial) -> Iterator[Outcome]:
    """All of it. Where what concerns all has failed no node is held; what fails of one spoils no other."""
    of_all = [_tried(trial, name, scenario, trial.machines[0], of_all=True) for name, scenario in OF_ALL.items()]
    yield from of_all
    first = "what concerns all has failed" if any(one.outcome == FAILED for one in of_all) else ""
    for one in trial.machines:
        yield from _life(trial, one, first)


def _life(trial: Trial, one: Machine, broken: str) -> Iterator[Outcome]:
    yield from in_turn(
        LIFE,
        one.name,
        lambda name: _tried(trial, name, LIFE[name], one),
        lambda name: name == _LAST and one.name in trial.held,
        broken,
    )


def _tried(trial: Trial, name: str, scenario: Scenario, one: Machine, *, of_all: bool = False) -> Outcome:
    return judged(name, "" if of_all else one.name, lambda: scenario(trial, one), trial.guard.writes)
