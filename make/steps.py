# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs make targets one after another, all of them, and closes with a table of what each came to.

    steps.py --main 2.19 --pairs "2.19 2.21" target ...

A failed step stops no other, except that without its environment (setup-X) a step of X cannot run. The exit status is
0 only if every step passed. Each step's output is shown as it comes and kept under build/log/.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, NamedTuple
from xml.etree import ElementTree

LOGS = Path("build/log")
REPORTS = Path("build/junit")
ALL_PAIRS = ("2.19", "2.21")
# A step that hangs must not take the closing table with it.
LIMIT = float(os.environ.get("STEP_LIMIT_SECONDS", "1500"))
POLL = 0.2
TAIL_LINES = 25


class Outcome(NamedTuple):
    step: str
    result: str  # passed, failed, timed out, not run
    seconds: float
    note: str = ""

    @property
    def good(self) -> bool:
        return self.result == "passed"


def environment_of(step: str, main: str) -> str:
    """The environment without which the step cannot run."""
    if step == "setup-system":
        return "system"
    if step == "setup-rack" or step.startswith("rack-"):
        return "rack"
    found = re.search(r"-(\d\.\d+)$", step)
    return found.group(1) if found else main


def follow(process: subprocess.Popen[bytes], log: BinaryIO, deadline: float) -> bool:
    """Shows the log as it grows until the process has ended; False if the deadline came first.

    The step writes to a file and not to a pipe: a daemon that it leaves behind would hold the pipe open for good.
    """
    while True:
        ended = process.poll() is not None
        chunk = log.read()
        if chunk:
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
        elif ended:
            return True
        elif time.monotonic() > deadline:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return False
        else:
            time.sleep(POLL)


def run(step: str) -> Outcome:
    path = LOGS / f"{step}.log"
    start = time.monotonic()
    with path.open("wb") as out, path.open("rb") as log:
        process = subprocess.Popen(
            ["make", "-s", step],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            in_time = follow(process, log, start + LIMIT)
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGINT)
            process.wait()
            raise
    seconds = time.monotonic() - start
    if not in_time:
        return Outcome(step, "timed out", seconds, f"killed after {LIMIT:.0f} s")
    return Outcome(step, "passed" if process.returncode == 0 else "failed", seconds, counts_text(step))


def reports_of(step: str) -> list[Path]:
    """test-rack and e2e run as a target with the version in its name; ansible-test writes in the tree that it tests."""
    if step.startswith("ansible-units-"):
        tree = Path(f"build/tree-{step[len('ansible-units-') :]}")
        return sorted(tree.glob("ansible_collections/*/*/tests/output/junit/*.xml"))
    names = {"test-rack": "rack-on-*", "e2e": "e2e-on-*"}
    return sorted(REPORTS.glob(names.get(step, step) + ".xml"))


def counts(reports: Iterable[Path]) -> dict[str, int]:
    total = {"passed": 0, "failed": 0, "skipped": 0}
    for report in reports:
        try:
            suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
        except ElementTree.ParseError:
            total["failed"] += 1
            continue
        for suite in suites:
            number = {name: int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")}
            bad = number["failures"] + number["errors"]
            total["failed"] += bad
            total["skipped"] += number["skipped"]
            total["passed"] += number["tests"] - bad - number["skipped"]
    return total


def counts_text(step: str) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts(reports_of(step)).items() if number)


def run_all(steps: list[str], main: str) -> list[Outcome]:
    outcomes: list[Outcome] = []
    missing: set[str] = set()
    for number, step in enumerate(steps, 1):
        print(f"\n==== {number}/{len(steps)} {step} {'=' * max(4, 60 - len(step))}", flush=True)
        needed = environment_of(step, main)
        if needed in missing:
            outcome = Outcome(step, "not run", 0.0, f"no environment for {needed}")
            print(outcome.note)
        else:
            try:
                outcome = run(step)
            except KeyboardInterrupt:
                outcomes.append(Outcome(step, "failed", 0.0, "interrupted"))
                return outcomes
        if step.startswith("setup-") and not outcome.good:
            missing.add(needed)
        outcomes.append(outcome)
    return outcomes


def print_failures(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        path = LOGS / f"{outcome.step}.log"
        if outcome.result in ("failed", "timed out") and path.exists():
            print(f"\n---- {outcome.step}: {outcome.result}; the end of {path}:")
            print("\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:]))


def print_table(outcomes: list[Outcome], pairs: list[str]) -> None:
    width = max(len(outcome.step) for outcome in outcomes)
    print(f"\n{'step':{width}}  {'result':9}  {'seconds':>7}")
    for outcome in outcomes:
        line = f"{outcome.step:{width}}  {outcome.result:9}  {outcome.seconds:7.1f}  {outcome.note}"
        print(line.rstrip())
    total = counts({report for outcome in outcomes for report in reports_of(outcome.step)})
    good = sum(outcome.good for outcome in outcomes)
    elapsed = sum(outcome.seconds for outcome in outcomes)
    left_out = [pair for pair in ALL_PAIRS if pair not in pairs]
    print(f"\nansible-core run: {' '.join(pairs)}; not run: {' '.join(left_out) or 'none'}")
    print(f"tests: {total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    print(f"steps: {good} passed, {len(outcomes) - good} failed in {elapsed / 60:.1f} minutes")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--main", required=True, help="the ansible-core on which everything but sanity and units runs")
    parser.add_argument("--pairs", required=True, help="all ansible-cores of this run")
    parser.add_argument("steps", nargs="+")
    options = parser.parse_args()
    LOGS.mkdir(parents=True, exist_ok=True)
    for step in options.steps:
        for report in reports_of(step):
            report.unlink()
    outcomes = run_all(options.steps, options.main)
    print_failures(outcomes)
    print_table(outcomes, options.pairs.split())
    return 0 if len(outcomes) == len(options.steps) and all(outcome.good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
