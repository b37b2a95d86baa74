# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One part of a soak, from its begin or its resumption to what ends it. PRIVATE to the collection.

It runs what other gates are: one loads the GPUs, round after round, in a process of its own; one looks at them once an
interval; one reads what the driver says. What one of them fails ends it at once. What could not be measured ends it as
well, but what was soaked until then counts, and the next part goes on from there.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import evidence
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.alone import BUSY, HELD, TEXT, alone
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.begun import Begun
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak import grid, judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.kept import Store
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.load import Load
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.made_of import Parts
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.progress import (
    FAILED,
    NOT_BEGUN,
    OVER,
    STOPPED,
    UNSETTLED,
    Progress,
    Watch,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.section import UNITS, plan_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import BOOT_ID, boot_id, uptime
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    INCONCLUSIVE,
    NODE,
    PASS,
    Tool,
    digest,
)

#: nvidia-smi answers within seconds or not at all; a value that it could not read is read again for so long.
_LOOK_SECONDS, _AGAIN_SECONDS = 60.0, 10.0
#: The kernel log is read again after so many looks.
_LOG_LOOKS = 2
#: Beside the hours: for the round that runs at their end, gaps that are let pass, and the judging.
#: There is also what lies between two rounds.
_SLACK, _SLACK_SECONDS = 1.2, 1800.0
#: Beside the seconds of a round: for a load to begin and to end. One that takes longer hangs.
_ROUND_SLACK, _ROUND_SECONDS = 1.2, 120.0
_MOST_HOURS = 600.0
_STATE, _LOAD = "state", "load"


def loads_of(params: Mapping[str, Any]) -> list[str]:
    return [str(name) for name in params.get("tests") or []]


def hours_of(params: Mapping[str, Any]) -> float:
    """:raises ConfigError: where nobody soaks for so long, or for no time."""
    hours = float(params["hours"])
    if not 0 < hours <= _MOST_HOURS:
        raise ConfigError("that is no time for a soak", wanted=f"at most {_MOST_HOURS:g} hours", seen=f"{hours:g}")
    return hours


def limit_of(params: Mapping[str, Any], hours: float) -> float:
    """Seconds after which a part of a soak of so many hours ends in any case."""
    return float(params.get("timeout") or hours * 3600 * _SLACK + _SLACK_SECONDS)


def round_limit(seconds: float, left: float) -> float:
    """Seconds after which a round of so many is ended; left: those that its part has."""
    return max(1.0, min(seconds * _ROUND_SLACK + _ROUND_SECONDS, left))


class Part:
    """What is known of this part, and of those before it."""

    def __init__(
        self,
        params: Mapping[str, Any],
        begun: Begun,
        parts: Parts,
        store: Store,
        unit: str = "",
        *,
        unsaid: bool = True,
    ) -> None:
        """unsaid: has nobody been told yet how the part before this one ended?"""
        self._parts, self._unsaid = parts, unsaid
        self._params, self._begun, self._store, self._unit = params, begun, store, unit
        self._started = time.monotonic()
        self._plan = plan_of(begun.wanted)
        self._loads = self._parts.loads(begun.wanted, loads_of(params))
        self._load, self._turn, self._wake = Load(), 0, -1
        #: How it ended; empty while it goes on.
        self._why = ""
        #: What other gates said that is no pass, by what they are to the soak.
        self._found: list[tuple[str, Mapping[str, Any]]] = []
        self._first: Optional[list[Mapping[str, Any]]] = None
        self._log_at = float("-inf")
        self._boot = boot_id(str(params.get("boot_id_path") or BOOT_ID))
        self._progress = self._goes_on()
        self._watch = Watch(self._progress, self._plan.gap, uptime(), time.time())

    def _goes_on(self) -> Progress:
        """What was soaked before, where more time can still make a pass of it, or a log that can be read again."""
        known, told = self._store.load() or Progress(), int(self._params.get("cut_off") or 0)
        done = known.ended == OVER and known.seconds >= self._target() and self._all_heard(known)
        if known.failed and self._unsaid:
            self._found = [(what, one) for part in known.parts for what, one in part["found"]]
        elif done or known.failed or judge.spoiled(known, self._plan) or self._in_vain(known):
            known, told = Progress(), 0
        known.begin(self._boot, time.time(), uptime())
        known.told_of(told)
        return known

    def _all_heard(self, known: Progress) -> bool:
        """Where its last log was not read whole, and cannot be now either (it has a hole), no round more mends that."""
        return bool(known.parts[-1]["heard"]) or self._log_of(known)["verdict"] == INCONCLUSIVE

    def _in_vain(self, known: Progress) -> bool:
        """Was it not begun for a log that still cannot be read from there? A hole in it stays."""
        return known.ended == NOT_BEGUN and self._log_of(known)["verdict"] == INCONCLUSIVE

    def _target(self) -> float:
        """Seconds, as they were asked for last, also while it runs."""
        return grid.seconds_of(self._store.asked() or hours_of(self._params))

    def run(self, ctx: Context) -> tuple[dict[str, Any], str]:
        """The verdict, and where the evidence lies."""
        with alone(self._params, ctx, timeout=self._left()) as free:
            if not free:
                return {**self._begun.unmeasured(TEXT, BUSY), "argv": self._argv()}, ""
            with self._listening():
                try:
                    self._soak()
                finally:
                    self._load.end()
        return self._judged(ctx)

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """A word to end wakes it; only a process of its own is told so by a signal."""
        self._wake, writer = os.pipe()
        if self._params.get("detached"):
            signal.signal(signal.SIGTERM, lambda _signal, _frame: os.write(writer, b"x") and None)
        try:
            yield
        finally:
            if self._params.get("detached"):
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.close(self._wake)
            os.close(writer)

    # -- the time of the soak ------------------------------------------------------------------------------------------

    def _soak(self) -> None:
        if not self._progress.failed:
            self._hear_before()
        if self._progress.failed:
            self._why = FAILED  # it was cut off before it could say so
        elif judge.spoiled(self._progress, self._plan):
            self._why = UNSETTLED  # cut off once too often: no time makes a pass of it
        elif problem := self._store.keep_room():
            self._not_begun(_LOAD, self._begun.unmeasured(f"there is no room for what a soak finds: {problem}", "room"))
        while not self._why:
            self._sample()
            self._read_log()
            if not self._why and not self._load.runs():
                self._next_round()
            if not self._why:
                self._pause()
        self._progress.end(self._why)

    def _next_round(self) -> None:
        progress = self._progress
        enough = progress.seconds >= self._target() and set(self._loads) <= set(progress.rounds)
        if enough and self._turn and all(progress.totals):  # no part passes by what others have seen alone
            self._why = OVER if self._store.close(self._target()) else ""
            return
        name = self._loads[self._turn % len(self._loads)]
        limit = round_limit(self._parts.seconds(self._begun.wanted, name), self._left())
        asked = {**self._params, "tests": [name], HELD: True, "timeout": limit, "evidence_path": None}
        self._load.begin(lambda: self._parts.load(asked, Context()).data)
        self._turn += 1
        self._watch.loaded(uptime())

    def _left(self) -> float:
        return self._started + limit_of(self._params, self._target() / 3600) - time.monotonic()

    def _pause(self) -> None:
        """Until the next sample, the end of a round, or what ends the soak."""
        told = self._load.wait(min(self._plan.interval, max(0.0, self._left())), self._wake)
        if told is not None:
            self._take_round(told)
        if select.select([self._wake], [], [], 0)[0]:
            self._why = self._why or STOPPED
        if self._left() <= 0 and not self._why:
            words = f"it had not ended after {time.monotonic() - self._started:.0f} s"
            self._ends_by(_LOAD, self._begun.unmeasured(words, "late"))

    def _take_round(self, told: Mapping[str, Any]) -> None:
        if told.get("verdict") == PASS:
            name = self._loads[(self._turn - 1) % len(self._loads)]
            self._progress.passed(name, str(told["evidence_digest"]))
            self._watch.passed(uptime())
        elif "verdict" in told:
            self._ends_by(_LOAD, told)
        else:
            words = f"the load ended without a verdict: {told.get('broke') or 'it was killed'}"
            self._ends_by(_LOAD, self._begun.unmeasured(words, "crashed"))

    def _ends_by(self, what: str, verdict: Mapping[str, Any]) -> None:
        """A failure is final; after what could not be measured a soak goes on when it is begun again."""
        self._found.append((what, verdict))
        if verdict["verdict"] == FAIL:
            self._fails()
        self._why = self._why or UNSETTLED

    def _not_begun(self, what: str, verdict: Mapping[str, Any]) -> None:
        """Nothing was loaded, and it was not cut off."""
        self._why = self._why or NOT_BEGUN
        self._ends_by(what, verdict)

    def _fails(self) -> None:
        """Known on the disk before anything else is done: whatever ends this process now, the failure stands."""
        self._why = FAILED
        self._progress.end(FAILED)
        self._progress.parts[-1]["found"] = [[what, one] for what, one in self._found]
        self._store.save(self._progress)

    # -- one sample ----------------------------------------------------------------------------------------------------

    def _sample(self) -> None:
        warm = self._load.busy()  # for an interval: a look comes no sooner after the load has begun
        asked = {"before": self._first, "timeout": _LOOK_SECONDS, "again_timeout": _AGAIN_SECONDS}
        found = self._parts.look({**self._params, **asked, "evidence_path": None}, Context()).data
        wall, up = time.time(), uptime()
        good = found["verdict"] == PASS and self._same(found)
        silent = self._watch.look(up, wall, good=good)
        self._progress.clocked(wall, up)
        if good:
            self._keep(found, wall, loaded=warm and self._load.busy())
        elif found["verdict"] == FAIL or silent > self._plan.gap:
            self._ends_by(_STATE, found)
        if judge.spoiled(self._progress, self._plan):
            self._why = self._why or UNSETTLED
        self._store.save(self._progress)

    def _same(self, found: Mapping[str, Any]) -> bool:
        """Are these the GPUs that were soaked so far?"""
        uuids = [str(row["uuid"]) for row in found["gpus"]]
        self._progress.uuids = self._progress.uuids or uuids
        if uuids != self._progress.uuids:
            self._ends_by(_STATE, self._begun.unmeasured("other GPUs are there than when the soak began", "uuid"))
        return uuids == self._progress.uuids

    def _keep(self, found: Mapping[str, Any], wall: float, *, loaded: bool) -> None:
        counted = [_counts(row) for row in found["counters"]]
        self._progress.grew(counted)
        self._first = self._first or list(found["counters"])
        readings = [{name: row[name] for name in UNITS if name in row} for row in found["readings"]]
        self._progress.sample(wall, readings, counted, loaded=loaded)
        if self._progress.unseen or judge.beyond(self._progress, self._plan):
            self._fails()

    def _read_log(self, *, now: bool = False) -> Optional[Mapping[str, Any]]:
        """Since the soak began, earlier boots with the records of their crashes among them."""
        if not now and time.monotonic() - self._log_at < _LOG_LOOKS * self._plan.interval:
            return None
        found = self._log_of(self._progress)
        self._log_at = time.monotonic()
        if found["verdict"] == FAIL and not now:
            self._ends_by(grid.LOG, found)
        elif found["verdict"] == INCONCLUSIVE and not now and not self._turn:
            self._not_begun(grid.LOG, found)  # the same hours later, it would be worth nothing
        return found

    def _log_of(self, progress: Progress) -> Mapping[str, Any]:
        """By the clock of the boot, which nobody sets; records of crashes have the time of the day alone."""
        since = {"since": progress.window(self._boot, uptime()), "_crashed_since": progress.began}
        asked = {**since, "timeout": _LOOK_SECONDS}
        found: Mapping[str, Any] = self._parts.log({**self._params, **asked, "evidence_path": None}, Context()).data
        return found

    def _hear_before(self) -> None:
        """What the kernel said in the boot that ended under the last part: a GPU that took its machine down with it
        shows no error any more after that."""
        boot = self._progress.unheard
        if not boot:
            return
        asked = {"boot": boot, "since_up": self._progress.began_in(boot), "timeout": _LOOK_SECONDS}
        found = self._parts.earlier({**self._params, **asked, "evidence_path": None}, Context()).data
        if found["verdict"] == FAIL:
            self._ends_by(grid.LOG, found)

    # -- the verdict ---------------------------------------------------------------------------------------------------

    def _argv(self) -> list[str]:
        return ["soak", *self._loads, f"{self._target():.0f}", *([self._unit] if self._unit else [])]

    def _judged(self, ctx: Context) -> tuple[dict[str, Any], str]:
        log = self._read_log(now=True) or {}
        self._progress.heard(log["verdict"] == PASS)
        if log["verdict"] == FAIL:
            self._progress.parts[-1]["found"].append([grid.LOG, log])
        rows = list(grid.required(self._begun.wanted, self._plan, self._loads, self._target() / 3600))
        sheet = judge.begin(rows)
        judge.judge(sheet, rows, self._progress, self._plan)
        judge.looked(sheet, self._progress, self._found, log)
        if self._why == STOPPED:
            sheet.unsettled(STOPPED, NODE, "somebody has ended the soak")
        self._progress.end(FAILED if sheet.verdict == FAIL else self._why)
        problem = self._store.save(self._progress)
        judge.series_kept(sheet, self._progress, problem)
        if not problem:
            self._store.give_room_back()
        kept = evidence.save(
            sheet, self._params, ctx, lambda: {"gate": self._begun.gate, "soak": vars(self._progress), "log": dict(log)}
        )
        told = [
            *self._progress.digests,
            *(one["evidence_digest"] for _what, one in self._found),
            log["evidence_digest"],
        ]
        tool = Tool("soak", "", self._argv())
        return self._begun.verdict(sheet, tool, digest(*(str(one).encode() for one in told))), kept


def _counts(row: Mapping[str, Any]) -> dict[str, int]:
    """What a GPU counted, without who it is and when."""
    return {
        key: value
        for key, value in row.items()
        if key != "gpu" and isinstance(value, int) and not isinstance(value, bool)
    }
