# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs make targets, all of them, and closes with a table of what each came to.

    steps.py --main 2.19 --pairs "2.19 2.21" [--first STEPS] [--lane STEPS] [--either STEPS] step ...

Those named first run first. The others run one after another; those of the lane run beside them, and whichever has come
to its end takes the next of those for either. A failed step stops no other, except that without its environment
(setup-X) a step of X cannot run. The exit status is 0 only if every step passed. One lane is shown as it comes; of two,
each step is shown whole when it ends, with a line a minute about both.
All output is kept under build/log/.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import step_report as report  # noqa: E402
from step_report import LOGS, Outcome  # noqa: E402

RUNNER = Path(__file__).resolve().with_name("step_runner.py")
ENDS = (signal.SIGTERM, signal.SIGINT)
PROGRESS = "GPUFLEET_TESTS_PROGRESS"
# A step that hangs must not take the closing table with it.
LIMIT = os.environ.get("STEP_LIMIT_SECONDS", "4200")
POLL = 0.2
SIGN_OF_LIFE = 60.0
# The lane waits for other programs most of its time, and what it waits for must not wait for a linter.
NICE = ["nice", "-n", "5"]
# It is there to stay until rack-down, and what tests break of it they start again.
LEAVES_THE_RACK = ("rack-up", "test-rack", "e2e")


def environment_of(step: str, main: str) -> str:
    """The environment without which the step cannot run."""
    if step == "setup-system":
        return "system"
    if step == "setup-rack" or step.startswith("rack-"):
        return "rack"
    found = re.search(r"-(\d\.\d+)$", step)
    return found.group(1) if found else main


class Run:
    """All steps of one call, and what is known to all lanes."""

    def __init__(self, main: str, total: int) -> None:
        self.main = main
        self.total = total
        self.missing: set[str] = set()
        self.outcomes: list[Outcome] = []
        self.either: deque[str] = deque()
        self.now: dict[str, tuple[str, float, subprocess.Popen[bytes]]] = {}
        self.stopping = threading.Event()
        self.signals = 0
        self.heeded = 0
        self.screen = threading.RLock()

    def say(self, text: str) -> None:
        with self.screen:
            print(text, flush=True)

    def told_to_end(self, *_told: Any) -> None:
        """Handles a signal, and raises nothing: a second one would come in the midst of ending what runs."""
        self.signals += 1

    def heed(self) -> None:
        """Ends what runs, once for each signal that has come."""
        while self.heeded < self.signals:
            self.heeded += 1
            self.say("interrupted: ending what runs")
            self.stop()

    def stop(self) -> None:
        """Each runner ends what it has started."""
        self.stopping.set()
        for _step, _start, process in list(dict(self.now).values()):
            process.terminate()

    def sign_of_life(self) -> None:
        told = []
        for lane, (step, start, _process) in sorted(dict(self.now).items()):
            progress = report.progress_of(step)
            tests = f", {progress.ended} tests, {len(progress.failed)} failed" if progress.ended else ""
            at = f", at {progress.running[-1]}" if progress.running else ""
            told.append(f"{lane}: {step} for {time.monotonic() - start:.0f} s{tests}{at}")
        self.say(f"{time.strftime('%H:%M:%S')} {'; '.join(told)}")


class Lane:
    """Steps one after another."""

    def __init__(self, run: Run, name: str, steps: list[str], alone: bool, prefix: list[str]) -> None:
        self.run = run
        self.name = name
        self.steps = steps
        self.alone = alone
        self.prefix = prefix
        self.thread = threading.Thread(target=self._all, name=name)

    def _all(self) -> None:
        for step in self._in_turn():
            if self.run.stopping.is_set():
                return
            self._one(step)

    def _in_turn(self) -> Iterator[str]:
        """Its own, then those that any lane may run; a deque gives each of them to one."""
        yield from self.steps
        while self.run.either:
            try:
                yield self.run.either.popleft()
            except IndexError:  # another lane was quicker
                return

    def _one(self, step: str) -> None:
        run = self.run
        needed = environment_of(step, run.main)
        self._head(step)
        if needed in run.missing:
            outcome = Outcome(step, "not run", note=f"no environment for {needed}")
            run.say(outcome.note)
        else:
            outcome = self._started(step)
        if step.startswith("setup-") and not outcome.good:
            run.missing.add(needed)
        run.outcomes.append(outcome)
        if outcome.result in report.KILLED:
            run.say(report.killed_text(step))
        if not self.alone:
            run.say(f"==== {step}: {outcome.result} after {outcome.seconds:.0f} s")

    def _head(self, step: str) -> None:
        if self.alone:
            number = len(self.run.outcomes) + 1
            self.run.say(f"\n==== {number}/{self.run.total} {step} {'=' * max(4, 60 - len(step))}")
        else:
            self.run.say(f"{time.strftime('%H:%M:%S')} {self.name}: {step} starts")

    def _started(self, step: str) -> Outcome:
        log = LOGS / f"{step}.log"
        log.touch()
        command = [sys.executable, str(RUNNER), LIMIT, str(log), *self.prefix, "make", "-s", step]
        variables = {**os.environ, PROGRESS: str(report.progress_file(step).resolve())}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=variables, start_new_session=True)
        self.run.now[self.name] = (step, time.monotonic(), process)
        if self.run.stopping.is_set():
            process.terminate()
        self._follow(process, log)
        del self.run.now[self.name]
        return outcome_of(step, process.returncode)

    def _follow(self, process: subprocess.Popen[bytes], log: Path) -> None:
        """Shows the log: as it grows where this lane is alone, else whole at its end."""
        with log.open("rb") as grown:
            while process.poll() is None:
                if self.alone:
                    self._show(grown.read())
                time.sleep(POLL)
            with self.run.screen:
                if not self.alone:
                    print(f"\n==== {log.stem} {'=' * max(4, 60 - len(log.stem))}", flush=True)
                self._show(grown.read())

    def _show(self, text: bytes) -> None:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()


def outcome_of(step: str, status: int) -> Outcome:
    path = LOGS / f"{step}.json"
    if not path.exists():
        return Outcome(step, "failed", note=f"its runner ended with {status}")
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    notes = [report.counts_text(step)]
    if told["result"] == "timed out":
        notes.append(f"killed after {float(LIMIT):.0f} s")
    if told["ended"]:
        notes.append("ended with it: " + ", ".join(told["ended"]))
    if told["left"] and step not in LEAVES_THE_RACK:
        notes.append("left behind: " + ", ".join(told["left"]))
    return Outcome(step, told["result"], told["seconds"], told["cpu"], "; ".join(filter(None, notes)))


def await_all(run: Run, lanes: list[Lane]) -> None:
    """Wait for all lanes, whatever signals come: the table tells in any case how far the run came."""
    run.heed()
    for lane in lanes:
        lane.thread.start()
    next_sign = time.monotonic() + SIGN_OF_LIFE
    while any(lane.thread.is_alive() for lane in lanes):
        time.sleep(POLL)
        run.heed()
        if len(lanes) > 1 and time.monotonic() > next_sign:
            next_sign += SIGN_OF_LIFE
            run.sign_of_life()


def words(text: str) -> list[str]:
    return text.split()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--main", required=True, help="the ansible-core on which everything but sanity and units runs")
    parser.add_argument("--pairs", required=True, type=words, help="all ansible-cores of this run")
    parser.add_argument("--first", default=[], type=words, help="steps before all others")
    parser.add_argument("--lane", default=[], type=words, help="steps beside the others")
    parser.add_argument("--either", default=[], type=words, help="steps for whichever of the two comes to its end")
    parser.add_argument("steps", nargs="*")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    everything = [*options.first, *options.steps, *options.lane, *options.either]
    LOGS.mkdir(parents=True, exist_ok=True)
    for step in everything:
        report.forget(step)
    started, load = time.monotonic(), os.getloadavg()[0]
    run = Run(options.main, len(everything))
    for number in ENDS:
        signal.signal(number, run.told_to_end)
    await_all(run, [Lane(run, "first", options.first, True, [])])
    run.either.extend(options.either)
    two = bool(options.lane and options.steps)
    lanes = [Lane(run, "others", options.steps, not two, NICE if two else [])]
    lanes += [Lane(run, "lane", options.lane, not two, [])] if options.lane else []
    await_all(run, lanes)
    report.print_failures(run.outcomes)
    if run.outcomes:
        report.print_table(run.outcomes, options.pairs, time.monotonic() - started, (load, os.getloadavg()[0]))
    for number in ENDS:
        signal.signal(number, signal.SIG_IGN)  # what comes now would only take the exit status away
    complete = len(run.outcomes) == len(everything)
    return 0 if complete and all(outcome.good for outcome in run.outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
