# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a driver is tried for at a site's own provisioner: first what only reads, then the life of a machine.

They call the verbs themselves, as the modules do. Each write is asked for of a guard that knows the selected machines
and refuses every other one.
"""

from __future__ import annotations

import shlex
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _deployment as deployment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    Changed,
    EvidenceMissing,
    NotAdopted,
    NotOurs,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import DEPLOYED, Driver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.node import node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.watch import watch
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline
from contract_outcomes import FAILED, NOT_TRIED, Broken, NotApplicable, Outcome, demand, in_turn, judged

#: A card that nobody has: of the range for documentation.
NO_CARD = "00:00:5e:00:53:ff"
BOOT_SECONDS = 600.0
#: After these a machine is somebody else's, or another one: nothing more of it is written to.
_HANDS_OFF = (NotOurs, Changed, WrongMachine)
_KINDS = {one.kind for one in (*_HANDS_OFF, NotAdopted, EvidenceMissing)}


class Guard(Lifeline):
    """Lets the selected machines be written to, one after the other, and nothing else."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self.allowed = allowed
        self.writes: list[str] = []
        self.touched: set[str] = set()

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> str | None:
        if not nodes or not set(nodes) <= self.allowed:
            raise NotOurs(
                "refused: this write is to a machine that was not selected",
                node=", ".join(nodes),
                wanted=", ".join(sorted(self.allowed)),
                seen=what,
            )
        self.writes.append(what)
        self.touched.update(nodes)
        return None


@dataclass(frozen=True)
class Machine:
    """One that was selected, with what its provisioner knows it by. serves: it was in use then, and was named."""

    name: str
    id: str
    boot_mac: str = ""
    serial: str = ""
    serves: bool = False


@dataclass(frozen=True)
class Plan:
    """What is to be tried, and how the site is reached."""

    connection: Mapping[str, Any]
    machines: tuple[Machine, ...]
    image: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    boot: str = ""
    erase: bool = False
    timeout: float = 3600.0
    interval: float = 10.0
    secrets: Mapping[str, str] = field(default_factory=dict)


Say = Callable[[str], None]
Taken = Callable[[Machine], str]


class Trial:
    """The verbs, on the machines of one plan."""

    def __init__(self, plan: Plan, driver: type[Driver], say: Say, taken: Taken = lambda _one: "") -> None:
        """:param taken: why a machine is not to be tried any more, looked up now; empty where it is."""
        self.plan = plan
        self.taken = taken
        #: Deployments that were ordered here, by machine; machines that turned out to be somebody else's.
        self.ordered: dict[str, list[str]] = {}
        self.lost: set[str] = set()
        self.driver = driver
        self.run = f"contract-{uuid.uuid4().hex[:12]}"
        self.guard = Guard(frozenset(one.name for one in plan.machines))
        self._say = say

    # -- the verbs ---------------------------------------------------------------------------------------------

    def known(self, one: Machine) -> dict[str, Any]:
        """What a ledger would know of it. Of one that was named whatever it does, what it does may end, once."""
        ids = self.ordered.get(one.name, [])
        known = True if ids else None if one.serves else False
        return {"known_runs": [self.run], "known_deployed": known, "known_deploy_ids": list(ids)}

    def lead(self, one: Machine, state: str, *, check: bool = False, **more: Any) -> dict[str, Any]:
        params = {
            **self.plan.connection, "provisioner_id": one.id, "name": one.name, "boot_mac": one.boot_mac,
            "serial": one.serial, "driver": dict(self.plan.options), "state": state, "run_id": self.run,
            **self.known(one), **more,
        }  # fmt: skip
        ctx = Context(check_mode=check, node=one.name, lifeline=self.guard)
        try:
            return node(params, ctx).as_dict(ctx)
        finally:
            if more.get("deploy_id") and not check:
                self.ordered.setdefault(one.name, []).append(more["deploy_id"])

    def watch(self, until: str, *machines: Machine, check: bool = False, **more: Any) -> dict[str, Any]:
        entries = [
            {"host": one.name, "provisioner_id": one.id, "boot_mac": one.boot_mac, "serial": one.serial,
             **self.known(one), **(more if one in self.plan.machines else {})}
            for one in machines
        ]  # fmt: skip
        params = {
            **self.plan.connection, "until": until, "nodes": entries, "timeout": self.plan.timeout,
            "interval": self.plan.interval, "driver": dict(self.plan.options), "erase": self.plan.erase,
            "booted": bool(more.get("booted_at")), "run_id": self.run,
        }  # fmt: skip
        ctx = Context(check_mode=check, lifeline=self.guard, say=self._say)
        return watch(params, ctx).as_dict(ctx)

    def arrive(self, until: str, one: Machine, **more: Any) -> None:
        """To the end, with the boot that is somebody else's where the driver says so."""
        verdict = self.watch(until, one, **more)["verdicts"][one.name]
        if verdict["step"] == "boot":
            booted_at = self._boot(one)
            verdict = self.watch(until, one, **{**more, "booted_at": booted_at})["verdicts"][one.name]
        if verdict.get("kind") in _KINDS:
            self.lost.add(one.name)
        demand(verdict["ok"], f"it did not become {until}: {verdict['reason']}")

    def _boot(self, one: Machine) -> float:
        if not self.plan.boot:
            raise NotApplicable("this provisioner boots no machine: give BOOT=command, which boots {name}")
        begun = time.time()
        words = [word.replace("{name}", one.name) for word in shlex.split(self.plan.boot)]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, timeout=BOOT_SECONDS, check=False)
        demand(done.returncode == 0, f"the command that boots it ended with {done.returncode}")
        return begun

    def twice(self, one: Machine, state: str, **more: Any) -> None:
        """What stands is not written again."""
        before = len(self.guard.writes)
        again = self.lead(one, state, **more)
        demand(not again["changed"], f"{state} once more says that it changed something")
        demand(len(self.guard.writes) == before, f"{state} once more sent {self.guard.writes[before:]}")

    def deploy_params(self, deploy_id: str) -> dict[str, Any]:
        if not self.plan.image:
            raise NotApplicable("no IMAGE was given")
        return {"image": dict(self.plan.image), "deploy_id": deploy_id}


# -- what only reads -------------------------------------------------------------------------------------------


def bulk(trial: Trial, _one: Machine) -> None:
    """All machines are told in one wait of no time, an unknown one as unknown."""
    nobody = Machine("no-such-machine-of-ours", "no-such-machine-of-ours")
    quick = Trial(replace(trial.plan, timeout=0.0), trial.driver, trial._say)
    found = quick.watch("ready", *trial.plan.machines, nobody, check=True)["verdicts"]
    lost = [one.name for one in trial.plan.machines if not found.get(one.name, {}).get("provision_state")]
    demand(not lost, f"not told: {', '.join(lost)}")
    demand(not found[nobody.name]["ok"], "a machine that is not there was told as ready")


def vocabulary(trial: Trial, one: Machine) -> None:
    """Its state is a word of the driver's tables, and reading it twice sends nothing."""
    told = trial.lead(one, "enrolled", check=True)
    demand(told["provision_state"] in trial.driver.states_map, f"unknown state {told['provision_state']!r}")
    demand(not told["changed"], f"what the provisioner itself says would be changed: {told['before']} {told['after']}")
    demand(not told["asked"], f"check mode sent {told['asked']}")


def wrong_machine(trial: Trial, one: Machine) -> None:
    """A record with another card is not touched."""
    if not one.boot_mac:
        raise NotApplicable("its provisioner knows no card of it")
    other = replace(one, boot_mac=NO_CARD, serial="")
    try:
        trial.lead(other, "ready", check=True)
    except WrongMachine:
        return
    raise Broken("a machine with another card was taken for this one")


def wrong_login(trial: Trial, one: Machine) -> None:
    """It is told as a refusal, without the secret."""
    name, secret = next(((key, value) for key, value in trial.plan.secrets.items() if value), ("", ""))
    if not name:
        raise NotApplicable("no secret was given in the environment")
    wrong = f"{secret[:-1]}{'x' if secret[-1] != 'x' else 'y'}"
    plan = replace(trial.plan, connection={**trial.plan.connection, name: wrong})
    try:
        Trial(plan, trial.driver, trial._say).lead(one, "enrolled", check=True)
    except AuthFailed as exc:
        demand(not any(part in str(exc) for part in (secret, wrong)), "the refusal tells the secret")
        return
    raise Broken("a wrong secret was taken")


def check_mode(trial: Trial, one: Machine) -> None:
    """A deployment is predicted, and nothing is sent."""
    told = trial.lead(one, "deployed", check=True, **trial.deploy_params("d-check"))
    demand(not told["asked"], f"check mode sent {told['asked']}")


# -- the life of a machine -------------------------------------------------------------------------------------


def free(trial: Trial, one: Machine) -> None:
    """Those before it had their lives since it was selected, which may take hours."""
    why = trial.taken(one)
    if why:
        raise NotOurs("it was taken since it was selected", node=one.name, seen=why)


def ready(trial: Trial, one: Machine) -> None:
    trial.lead(one, "ready")
    trial.arrive("ready", one)
    trial.twice(one, "ready")


def held(trial: Trial, one: Machine) -> None:
    """Under our token; another run is kept out; and given back."""
    if not trial.driver.holds:
        raise NotApplicable("this driver keeps no holds")
    demand(trial.lead(one, "maintenance", why="contract")["maintenance"], "the hold does not read back")
    try:
        trial.twice(one, "maintenance", why="contract")
        _kept_out(trial, one)
    finally:
        trial.lead(one, "serviceable")
    trial.twice(one, "serviceable")


def _kept_out(trial: Trial, one: Machine) -> None:
    try:
        trial.lead(one, "maintenance", run_id="contract-other", known_runs=["contract-other"])
    except NotOurs:
        return
    raise Broken("another run was let past the hold")


def deployed(trial: Trial, one: Machine) -> None:
    _deploys(trial, one, f"{trial.run}-1")


def _deploys(trial: Trial, one: Machine, deploy_id: str, **more: Any) -> None:
    params = trial.deploy_params(deploy_id)
    before = trial.lead(one, "deployed", **params, **more)
    demand(before["changed"], "the order says that it changed nothing")
    trial.arrive(DEPLOYED, one, **params)
    now = trial.lead(one, "deployed", **params)
    demand(not now["changed"] and now["state"] == DEPLOYED, f"deployed once more: {now['provision_state']}")
    told = f"{now['image'].get('name')}-{now['image'].get('version')}"
    wanted = f"{params['image']['name']}-{params['image']['version']}"
    demand(told == wanted, f"it says that {told} is deployed, and not {wanted}")
    _known(trial, one, deploy_id)


def _known(trial: Trial, one: Machine, deploy_id: str) -> None:
    """The order is known again by its id, where that is what proves a deployment."""
    if trial.driver.deploy_proof != deployment.NONCE:
        return
    driver = trial.driver(dict(trial.plan.connection), Context(node=one.name))  # type: ignore[call-arg]
    try:
        found = driver.states([one.id]).get(one.id)
    finally:
        driver.close()
    demand(found is not None and found.deploy_id in ("", deploy_id), "it tells the id of another deployment")


def annotated(trial: Trial, one: Machine) -> None:
    if not trial.driver.annotates:
        raise NotApplicable("this driver keeps no marks")
    params = trial.deploy_params(f"{trial.run}-1")
    for value in ("certified", ""):
        told = trial.lead(one, "deployed", annotations={"gpufleet-contract": value}, **params)
        demand(told["changed"], f"the mark was not changed to {value!r}")
        trial.twice(one, "deployed", annotations={"gpufleet-contract": value}, **params)


def redeployed(trial: Trial, one: Machine) -> None:
    """The same image once more is another deployment."""
    _deploys(trial, one, f"{trial.run}-2", redeploy=True)


def released(trial: Trial, one: Machine) -> None:
    erase = {"erase": True} if trial.plan.erase and trial.driver.erases else {}
    trial.lead(one, "released", **erase)
    trial.arrive("released", one)
    trial.twice(one, "released", **erase)


Scenario = Callable[[Trial, Machine], None]
#: Once for all machines.
OF_ALL: Mapping[str, Scenario] = {"one query tells all": bulk, "a wrong credential is refused": wrong_login}
READS: Mapping[str, Scenario] = {
    "its state is a known one": vocabulary,
    "another machine is not taken for it": wrong_machine,
    "check mode sends nothing": check_mode,
}
LIFE: Mapping[str, Scenario] = {
    "still free": free,
    "ready": ready,
    "held and given back": held,
    "deployed": deployed,
    "marked": annotated,
    "deployed anew": redeployed,
    "released": released,
}
#: Tried whatever failed before it, but of what somebody else has by then: nothing is left that was deployed here.
_LAST = "released"


def tried(trial: Trial) -> Iterator[Outcome]:
    """All of it. What fails of a machine ends its life; the others have theirs."""
    for name, scenario in OF_ALL.items():
        yield _tried(trial, name, scenario, trial.plan.machines[0], of_all=True)
    for one in trial.plan.machines:
        reads = [_tried(trial, name, scenario, one) for name, scenario in READS.items()]
        yield from reads
        if any(outcome.outcome == FAILED for outcome in reads):
            yield from (Outcome(name, one.name, NOT_TRIED, "what only reads has failed") for name in LIFE)
            continue
        yield from _life(trial, one)


def _life(trial: Trial, one: Machine) -> Iterator[Outcome]:
    yield from in_turn(
        LIFE,
        one.name,
        lambda name: _tried(trial, name, LIFE[name], one),
        lambda name: name == _LAST and one.name in trial.guard.touched - trial.lost,
    )


def _tried(trial: Trial, name: str, scenario: Scenario, one: Machine, *, of_all: bool = False) -> Outcome:
    def attempt() -> None:
        try:
            scenario(trial, one)
        except _HANDS_OFF:
            trial.lost.add(one.name)
            raise

    return judged(name, "" if of_all else one.name, attempt, trial.guard.writes)
