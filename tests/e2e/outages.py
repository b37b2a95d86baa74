# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs from which services are taken away at named stages, and what must hold of each of them afterwards.

A service that comes back says nothing of a node: none is quarantined. The run goes on, or it ends and names the service
and what to do; the command that it names completes what it left. No node is imaged a second time but where the outage
met the imaging itself.
"""

from __future__ import annotations

import re
import shlex
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import counts
import gone
import lab
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import WHOSE

#: How each service is called in what a user reads.
CALLED = {
    "ironic": r"[Ii]ronic",
    "boot-http": r"10\.77\.0\.1:8080",
    "slurmctld": r"[Ss]lurm",
    "munged": r"[Mm]unge|[Ss]lurm|authent",
    "bmc": r"BMC",
    "sshd": r"SSH|ssh",
    "ledger": r"ledger",
}
#: From the order of a deployment until its node answers: what is lost of it then is ordered anew.
IMAGING = ("Start the deploy", "Wait until the batch is deployed", "Wait until the batch answers over SSH")
#: What takes part in it.
IMAGERS = ("ironic", "boot-http", "bmc")
PREFLIGHT = "Look at everything that a run needs, and stop where the site or a service stands in its way"
#: A command of the report, of which the inventory is the reader's own.
_NEXT = re.compile(r"ansible-playbook gpufleet\.baremetal\.(?P<playbook>\w+) -i INVENTORY(?P<flags>[^;\n]*)")


@dataclass(frozen=True)
class Outage:
    """A service that is away from the beginning of a stage for so many seconds, and how."""

    stage: str
    service: str
    seconds: float
    how: str

    def __str__(self) -> str:
        return f"{self.service} {self.how} for {self.seconds:.0f} s at {self.stage!r}"

    @property
    def kind(self) -> str:
        return self.service.partition(":")[0]


class Disturbed:
    """A run under way, and the threads that take away and give back."""

    def __init__(self, playbook: str, args: Sequence[str], outages: Sequence[Outage]) -> None:
        self._folder = lab.CHECKOUT / "build" / "e2e" / "stages"
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        stages = "".join(f"{outage.stage}\n" for outage in outages)
        (self._folder / "stages").write_text(stages, encoding="utf-8")
        self._over = threading.Event()
        self.met: list[Outage] = []
        #: What was not there to be taken away when the run came to the stage: it says nothing of an outage.
        self.absent: list[Outage] = []
        self._failed: list[BaseException] = []
        callbacks = "gpufleet.baremetal.host_tasks,every_result,stage_reached"
        env = {"ANSIBLE_CALLBACKS_ENABLED": callbacks, "GPUFLEET_TEST_STAGES": str(self._folder)}
        self._threads = [
            threading.Thread(target=self._disturb, args=(outage, self._folder / str(number)))
            for number, outage in enumerate(outages)
        ]
        self._run = lab.started(playbook, *args, env=env, label="outages")
        for thread in self._threads:
            thread.start()

    def _disturb(self, outage: Outage, stage: Path) -> None:
        while not stage.with_suffix(".reached").exists():
            if self._over.wait(0.02):
                return
        try:
            back = gone.take(outage.service, outage.how)
            self.met.append(outage)
            stage.with_suffix(".gone").touch()
            self._over.wait(outage.seconds)
            back()
        except gone.NothingThere:
            self.absent.append(outage)
            stage.with_suffix(".gone").touch()
        except BaseException as exc:
            self._failed.append(exc)

    def end(self) -> lab.Run:
        try:
            return self._run.end()
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join()
            if self._failed:
                raise self._failed[0]


@dataclass(frozen=True)
class Played:
    """A disturbed run: what it met, what of that ended it, what was done in the end, and everything that is wrong."""

    run: lab.Run
    done: dict[str, Any]
    met: list[Outage]
    ended: list[Outage]
    wrong: list[str]


def play(
    playbook: str,
    args: Sequence[str],
    outages: Sequence[Outage],
    undisturbed: dict[str, Any] | None = None,
    nodes: Sequence[str] = lab.NODES,
) -> Played:
    """A run without these services, and those that its report asks for, over these nodes."""
    before = counts.counters()
    disturbed = Disturbed(playbook, args, outages)
    run, met = disturbed.end(), disturbed.met
    ended = ending(run, met)
    unmet = [outage for outage in outages if outage not in (*met, *disturbed.absent)]
    wrong = [f"{outage.stage!r} was never reached" for outage in unmet if run.rc == 0]
    wrong += [*quarantined(before), *(untold(run, ended) if run.rc else ())]
    heard(nodes)
    for follow in to_do(run, (playbook, *args)):
        again = lab.play(*follow)
        if again.rc:
            wrong.append(f"{' '.join(follow)} after it: exit {again.rc}\n{again.tail()[-3000:]}")
    done = counts.done_since(before)
    wrong += [*quarantined(before), *unserving(nodes), *twice(done, met, nodes)]
    if undisturbed and run.rc == 0 and not imaged_anew(met):
        wrong += apart(done, undisturbed)
    return Played(run, done, met, ended, list(dict.fromkeys(wrong)))


def heard(nodes: Sequence[str]) -> None:
    """As the report says: a Slurm that was killed hears of its nodes again within a minute or two."""
    seconds = 120 * lab.slowness()
    lab.wait_for(lambda: all(lab.node_state(node)["state"] != "UNKNOWN" for node in nodes), seconds, "Slurm hears")


def failures(run: lab.Run) -> dict[str, dict[str, Any]]:
    """The first failure of each host."""
    failed = [line for line in run.results if line["result"].get("failed") or line["result"].get("unreachable")]
    return {line["host"]: line["result"] for line in reversed(failed)}


def ending(run: lab.Run, met: Sequence[Outage]) -> list[Outage]:
    """The outages that the run says it ended by."""
    said = [str(result.get("msg")) for result in failures(run).values()]
    return [outage for outage in met if any(re.search(CALLED[outage.kind], one) for one in said)]


def passed(run: lab.Run) -> list[str]:
    """The tasks, in their order, that all who came to them got through before anything of the run failed."""
    broken = [bool(line["result"].get("failed") or line["result"].get("unreachable")) for line in run.results]
    until = broken.index(True) if True in broken else len(broken)
    failed = {line["task"] for line, failed in zip(run.results, broken) if failed}
    return [task for task in dict.fromkeys(line["task"] for line in run.results[:until]) if task not in failed]


def quarantined(before: dict[str, Any]) -> list[str]:
    return [
        f"{node} is healthy and was quarantined"
        for node, states in counts.done_since(before)["states"].items()
        if "quarantined" in states
    ]


def untold(run: lab.Run, ended: Sequence[Outage]) -> Iterator[str]:
    """What a run that ended does not tell: which service, whose failure it is, and what to do."""
    told = failures(run)
    looked = [line["result"] for line in run.results if line["task"] == PREFLIGHT]
    if not told:
        yield "no result of a host says why it ended"
    for host, result in told.items():
        said = str(result.get("msg"))
        if not any(re.search(CALLED[outage.kind], said) for outage in ended):
            yield f"{host} does not name the service: {said}"
        # What the preflight says has its kinds beside it: a BMC that is away is told of its node.
        if looked and {one["kind"] for one in looked[-1]["findings"]} in ({"service"}, {"node"}, {"service", "node"}):
            continue
        kind = (result.get("error") or {}).get("kind") or result.get("kind")
        if kind and WHOSE.get(str(kind)) != "service":  # a verdict that a role tells has its kind with the watcher
            yield f"{host} failed as {kind!r}, which is no service's: {said}"
    if not re.search(r"\bDo: |\bNext: |(then|and)\s+run\s+again", run.output):
        yield "nobody is told what to do"


def to_do(run: lab.Run, same: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The commands that the report's own next ones name, as a person types them for all of their nodes at once; the
    same one again where there is none.

    :param same: the playbook, and what it was given.
    """
    if run.rc == 0:
        return []
    reports = [line["result"] for line in run.results if line["task"] == "Show where each node stands"]
    nodes = reports[-1].get("nodes", {}) if reports else {}
    limits: dict[tuple[str, ...], list[str]] = {}
    for one in nodes.values():
        command = _NEXT.match(one.get("next") or "")
        if command:
            words = shlex.split(command["flags"])
            at = words.index("--limit") if "--limit" in words else len(words)
            limits.setdefault((command["playbook"], *words[:at], *words[at + 2 :]), []).extend(words[at + 1 : at + 2])
    return [(*said, "--limit", ",".join(hosts)) if hosts else said for said, hosts in sorted(limits.items())] or [same]


def unserving(nodes: Sequence[str]) -> Iterator[str]:
    states = counts.events_of("state")
    for node in nodes:
        slurm, state = lab.node_state(node), states[node][-1:]
        if slurm != {"state": "IDLE", "reason": ""} or state != ["admitted"]:
            yield f"{node} does not serve in the end: {slurm}, {state}"


def imaged_anew(met: Sequence[Outage]) -> bool:
    """Whether a deployment may have been lost, which is then ordered again."""
    return any(outage.stage in IMAGING and outage.kind in IMAGERS for outage in met)


def twice(done: dict[str, Any], met: Sequence[Outage], nodes: Sequence[str]) -> Iterator[str]:
    """What was done more often than was needed."""
    for node in nodes:
        if done["boots"][node] > 1 + imaged_anew(met):
            yield f"{node} was imaged {done['boots'][node]} times"
        # Whose BMC was away was left in service as it was.
        if done["slurm"][node][-1:] not in ([], ["IDLE"]):
            yield f"{node} has at Slurm {done['slurm'][node]}"


def apart(done: dict[str, Any], undisturbed: dict[str, Any]) -> Iterator[str]:
    """What a run that went on by itself did otherwise than one that nobody disturbed."""
    for name, value in undisturbed.items():
        if done[name] != value:
            yield f"{name}: {done[name]} instead of {value}"
