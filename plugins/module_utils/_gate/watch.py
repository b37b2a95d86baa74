# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watches the detached gates of a batch from one task on the controller. PRIVATE to the collection.

Each look is one small shell command a node, so that nothing but ``cat`` is needed there, and a hundred nodes cost what
a hundred commands over open connections cost.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import DeadlineExceeded, NotOurs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collected import dated, misdated, problem_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.job import UNWRITTEN, word
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.names import DETACHED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Own, strange, written
from ansible_collections.gpufleet.baremetal.plugins.module_utils._once import once
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import start_in
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    inconclusive,
    now_utc,
    seconds_of,
    sentence,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._watched import refused

#: What a look brings from each host: the command's output and nothing, or nothing and what was in the way.
Look = Callable[[Sequence[Mapping[str, Any]]], Mapping[str, "tuple[str, str]"]]

#: What a pass lacks of the cells that its question demands; the gate itself knows.
Lacking = Callable[[Mapping[str, Any], Mapping[str, Any]], str]

#: What the gate knows of a pass that lacks nothing of its question.
Knows = Callable[[Mapping[str, Any], Mapping[str, Any]], Own]

#: What a question is, as others are compared with it, with the verdict on it: a pass is of what it answered.
Asked = Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]

#: What the wait must know of each job; the result of the task that started it tells.
FROM_START = (
    "gate",
    "job",
    "boot_id",
    "pid",
    "pid_start",
    "limit",
    "started",
    "profile",
    "question",
    "state_dir",
    "boot_id_path",
)
#: What a wait finds of a job that is over, whatever it was.
REBOOTED, DIED = "rebooted", "died"
CUT_OFF = (REBOOTED, DIED)
GONE = (*CUT_OFF, UNWRITTEN)
#: What is true of a node also after its next boot, by the gate; of the others it is a failure.
_LASTING: Mapping[str, Sequence[str]] = {"soak_gate": (FAIL, PASS, INCONCLUSIVE)}
#: The finding of what a shutdown ends as well: such a job goes on after the boot.
_STOPPED = "stopped"
_MARK = "gpufleet-look"
#: The longest file that is read.
_LIMIT = 4 * 1024 * 1024
#: So much is shown of what is wrong with a file.
_SHOWN = 300
#: A job ends its tool at its own limit; this long it may take to do so and to write its verdict.
ENDING_SECONDS = 120.0
#: No soak takes a month.
_LONGEST_SECONDS = 2678400.0
#: At first the looks come close together, for gates that take seconds.
_EARLY_SECONDS = 20.0
_EARLY_INTERVAL = 2.0


def command(node: Mapping[str, Any]) -> str:
    """Asks for boot id and clock, worker, answer. In this order: a worker that is gone has written all it ever will."""
    answer = shlex.quote(f"{node['state_dir']}/{node['job']}.json")
    return (
        f"echo {_MARK}; cat {shlex.quote(str(node['boot_id_path']))}; date -u +%Y-%m-%dT%H:%M:%SZ; echo {_MARK};"
        f" cat /proc/{int(node['pid'])}/stat 2>/dev/null; echo {_MARK};"
        f" test -e {answer} && head -c {_LIMIT} {answer}; echo; echo {_MARK}"
    )


def gate_wait(params: Mapping[str, Any], ctx: Context) -> Result:
    """Look at all open nodes until each has a verdict; a late or silent one gets an inconclusive one.

    ``params["look"]`` is handed over by the action: only the controller has the hosts' connections.
    ``params["lacking"]`` is the gate's own.
    """
    watch = _Watch(params, ctx)
    rounds = ((_EARLY_SECONDS, min(_EARLY_INTERVAL, params["interval"])), (float("inf"), params["interval"]))
    for timeout, interval in rounds:
        with contextlib.suppress(DeadlineExceeded):
            ctx.wait(watch.look, lambda open: not open, timeout=timeout, interval=interval, wanted="every gate ended")
            break
    return watch.result()


class _Watch:
    """What is known of each node so far."""

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        self._ctx = ctx
        self._gate = str(params["gate"])
        self._ask: Look = params["look"]
        self._lacking: Lacking = params["lacking"]
        self._asked: Asked = params["asked_of"]
        self._own: Knows = params["own"]
        self._timeout: Optional[float] = params.get("timeout")
        self._grace = float(params["grace"])
        self._begun = time.monotonic()
        self._since = now_utc()
        self._nodes = {str(node["host"]): node for node in params["nodes"]}
        self._heard = dict.fromkeys(self._nodes, self._begun)
        self._problem = dict.fromkeys(self._nodes, "")
        self.verdicts: dict[str, dict[str, Any]] = {}
        self._whole: dict[str, dict[str, Any]] = {}
        for host, node in self._nodes.items():
            self._unfit(host, node)

    def _unfit(self, host: str, node: Mapping[str, Any]) -> None:
        """Nodes that need no look."""
        if node.get("refused"):
            self._refuse(host, *refused(node))
        elif self._ctx.check_mode:
            self._conclude(host, "not waited for in check mode: nothing was started", "check_mode")
        elif node.get("gate") != self._gate or any(not node.get(key) for key in FROM_START):
            missing = [key for key in FROM_START if not node.get(key)] or ["a job of this gate"]
            self._conclude(host, f"no job was started for it: {', '.join(missing)} not told", "no_job")
        else:
            wrong = [key for key, fits in _FITS.items() if not fits(node[key])]
            if wrong:
                self._conclude(host, f"what it told of its job cannot be: {', '.join(wrong)}", "unreadable")

    def _refuse(self, host: str, reason: str, kind: str) -> None:
        """Another run works on it, for instance: this one has no verdict about it."""
        self.verdicts[host] = {"ok": False, "verdict": "", "seconds": 0.0, "reason": reason, "kind": kind}

    def _give_up(self, lost: Mapping[str, str]) -> None:
        """A verdict that came before the loss goes as well: it was not written while the node was ours."""
        for host, reason in lost.items():
            if host in self._nodes:
                self._whole.pop(host, None)
                self._refuse(host, reason, NotOurs.kind)

    def look(self) -> list[str]:
        """One look at all nodes that are open; those that still are."""
        self._give_up(self._ctx.lifeline.lost())
        waiting = [node for host, node in self._nodes.items() if host not in self.verdicts]
        before = len(self.verdicts)
        found = self._ask(waiting) if waiting else {}
        now = time.monotonic()
        for node in waiting:
            text, problem = found.get(str(node["host"]), ("", "not asked"))
            self._judged(str(node["host"]), node, text, problem, now)
        if len(self.verdicts) > before:
            self._ctx.say(f"{self._gate}: {len(self.verdicts)} of {len(self._nodes)} nodes have a verdict")
        return [host for host in self._nodes if host not in self.verdicts]

    def _judged(self, host: str, node: Mapping[str, Any], text: str, problem: str, now: float) -> None:
        """Whatever a node's answer breaks, it breaks for that node alone."""
        try:
            self._judge(host, node, text, problem, now)
        except Exception as exc:
            self._conclude(host, f"its answer cannot be read: {type(exc).__name__}: {cut(exc, _SHOWN)}", "unreadable")

    def _judge(self, host: str, node: Mapping[str, Any], text: str, problem: str, now: float) -> None:
        limit = float(node["limit"]) + ENDING_SECONDS if self._timeout is None else float(self._timeout)
        parts = [part.strip() for part in text.split(f"{_MARK}\n")]
        if problem or len(parts) != 5 or not parts[1]:
            self._problem[host] = problem or "its answer was cut short"
            silent = now - self._heard[host]
            if silent >= self._grace or now - self._begun >= limit:
                told = f"the node did not answer for {silent:.0f} s while its gate ran: {cut(self._problem[host], 200)}"
                self._conclude(host, told, "unreachable")
            return
        self._heard[host] = now
        boot, _line, clock = parts[1].partition("\n")
        stat, answer = parts[2:4]
        if boot != node["boot_id"] and not self._ended_before(node, answer):
            self._conclude(host, "the node was rebooted while its gate ran", REBOOTED)
        elif answer:
            self._read(host, node, answer, clock.strip())
        elif start_in(stat) != int(node["pid_start"]):  # the worker itself, not another process of its number
            gone = "the gate's process ended without a verdict: it was killed, or could not write in"
            self._conclude(host, f"{gone} {node['state_dir']}", DIED)
        elif now - self._begun >= limit:
            self._conclude(host, f"no verdict within {limit:.0f} s", "late")

    def _ended_before(self, node: Mapping[str, Any], answer: str) -> bool:
        """Had the job ended on its own boot, with a word that a reboot does not make older?"""
        said = _parsed(answer)
        if said.get("boot_id") != node["boot_id"]:
            return False
        stopped = any(row["id"] == _STOPPED for row in (said.get("verdict") or {}).get("findings") or [])
        return word(said) in _LASTING.get(self._gate, (FAIL,)) and not stopped

    def _read(self, host: str, node: Mapping[str, Any], answer: str, clock: str) -> None:
        said = _parsed(answer)
        wrong = [key for key in ("gate", "job", "boot_id") if said.get(key) != node[key]]
        if not wrong and isinstance(said.get(UNWRITTEN), str):
            told = f"its gate ended, and the node could not write the verdict: {cut(said[UNWRITTEN], _SHOWN)}"
            self._conclude(host, f"{told}; make room in {node['state_dir']}", UNWRITTEN, "remediate_config")
            return
        problem = f"it tells of another {', '.join(wrong)}" if wrong else ""
        verdict = said.get("verdict")
        problem = problem or problem_of(verdict, gate=self._gate, profile=node["profile"])
        doubt = "" if problem else self._misdated(node, verdict, clock)
        problem = problem or self._misfit(node, verdict, doubt)
        if problem:
            told = f"the file of the verdict is not what the gate writes: {cut(problem, _SHOWN)}"
            self._conclude(host, told, "unreadable")
        else:
            self._keep(host, self._kept(dated(verdict or {}, doubt), node["question"]))

    def _kept(self, verdict: dict[str, Any], question: Mapping[str, Any]) -> dict[str, Any]:
        return written(verdict, self._own(verdict, question)) if verdict["verdict"] == PASS else verdict

    def _misdated(self, node: Mapping[str, Any], verdict: Any, clock: str) -> str:
        waited = time.monotonic() - self._begun
        return misdated(
            verdict,
            started=node["started"],
            now=clock,
            limit=float(node["limit"]) + ENDING_SECONDS,
            oldest=DETACHED[self._gate] + waited + ENDING_SECONDS,
        )

    def _misfit(self, node: Mapping[str, Any], verdict: Any, doubt: str) -> str:
        """It is a verdict; is a pass one of this job and of now, and on the question that was asked?"""
        if doubt or verdict["verdict"] != PASS:
            return doubt if verdict["verdict"] == PASS else ""
        lacks = self._lacking(verdict, node["question"])
        return lacks or strange(verdict, self._own(verdict, node["question"]))

    def _conclude(self, host: str, text: str, id: str, remedy: str = "retest") -> None:
        node = self._nodes[host]
        # Of what a node told, only what could be so.
        started = str(node["started"]) if _FITS["started"](node.get("started")) else self._since
        profile = node["profile"] if _FITS["profile"](node.get("profile")) else None
        self._keep(host, inconclusive(self._gate, text, id=id, remedy=remedy, started=started, profile=profile))

    def _keep(self, host: str, verdict: dict[str, Any]) -> None:
        self._whole[host] = verdict
        self.verdicts[host] = {
            "ok": verdict["verdict"] == PASS,
            "verdict": verdict["verdict"],
            "seconds": round(time.monotonic() - self._begun, 1),
            "reason": "" if verdict["verdict"] == PASS else sentence(verdict),
            "findings": verdict["findings"],
            "remedy": verdict["remedy"],
            "evidence_digest": verdict["evidence_digest"],
        }

    def _of(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """Of which job this is the word, of gates that have several in one validation."""
        known = self._gate in _LASTING and _FITS["job"](node.get("job"))
        return {"job": node["job"]} if known else {}

    def _question(self, node: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
        """What this host's verdict was asked; nothing where its job told of no question."""
        try:
            return {**self._asked(node["question"], verdict), "profile": node["profile"]["digest"]}
        except Exception:  # however it breaks: the verdicts of the others are to be recorded
            return {}

    def result(self) -> Result:
        self._give_up(self._ctx.lifeline.confirm())
        events = [
            Event("verdict", self._gate, {**verdict, "asked": self._question(node, verdict), **self._of(node)}, host)
            for host, verdict, node in ((host, one, self._nodes[host]) for host, one in self._whole.items())
        ]
        return Result(changed=False, data={"gate": self._gate, "verdicts": self.verdicts}, events=events)


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def _parsed(text: str) -> dict[str, Any]:
    """A node's file; empty where it is none. However it was made, it closes its own host and no other."""
    try:
        known = json.loads(text, object_pairs_hook=once, parse_constant=_no_number)
    except ValueError:
        return {}
    return known if isinstance(known, dict) else {}


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**53


def _word(value: Any) -> bool:
    return isinstance(value, str) and bool(re.fullmatch(r"[\x20-\x7e]{1,1000}", value))


#: What a job must look like before a command is made of it.
_FITS: Mapping[str, Callable[[Any], bool]] = {
    "job": _word,
    "boot_id": _word,
    "pid": _whole,
    "pid_start": _whole,
    "limit": lambda value: isinstance(value, (int, float)) and 0 < value <= _LONGEST_SECONDS,
    "started": lambda value: seconds_of(value) is not None,
    "profile": lambda value: isinstance(value, Mapping) and all(map(_word, value.values())),
    "question": lambda value: isinstance(value, Mapping),
    "state_dir": _word,
    "boot_id_path": _word,
}
