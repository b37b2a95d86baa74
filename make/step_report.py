# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What steps came to: their results, the tests in them, and the table that closes a run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

LOGS = Path("build/log")
REPORTS = Path("build/junit")
ALL_PAIRS = ("2.19", "2.21")
TAIL_LINES = 25
#: Lines of a failure in a run that was killed
FAILURE_LINES = 40
KILLED = ("timed out", "stopped")
KINDS = ("passed", "failed", "skipped")
DEAREST = 8


class Outcome(NamedTuple):
    step: str
    result: str  # passed, failed, timed out, stopped, not run
    seconds: float = 0.0
    cpu: float = 0.0
    note: str = ""

    @property
    def good(self) -> bool:
        return self.result == "passed"


# -- how far a run of tests has come, as it notes itself ------------------------------------------------------------


class Progress(NamedTuple):
    ended: int
    running: list[str]
    failed: dict[str, str]
    cpu: dict[str, float]


def progress_file(step: str) -> Path:
    return LOGS / f"{step}.progress"


def progress_of(step: str) -> Progress:
    """What the tests of a step noted; the last line may be cut off."""
    path = progress_file(step)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    running: dict[str, None] = {}
    failed: dict[str, str] = {}
    cpu: dict[str, float] = {}
    ended = 0
    for line in lines:
        try:
            told: dict[str, Any] = json.loads(line)
        except ValueError:
            continue
        if told["did"] == "starts":
            running[told["test"]] = None
        elif told["did"] == "failed":
            failed[told["test"]] = told.get("text", "")
        else:
            running.pop(told["test"], None)
            cpu[told["test"]] = float(told.get("cpu", 0))
            ended += 1
    return Progress(ended, list(running), failed, cpu)


def killed_text(step: str) -> str:
    """Of a step that was killed, what it could not say itself."""
    told = progress_of(step)
    if not told.ended and not told.running:
        return ""
    lines = [f"{step}: by then {told.ended} tests had ended, {len(told.failed)} of them failed"]
    for test, text in told.failed.items():
        lines += [f"  failed: {test}", *(f"    {line}" for line in text.splitlines()[-FAILURE_LINES:])]
    return "\n".join([*lines, *(f"  running: {test}" for test in told.running)])


# -- how many tests -------------------------------------------------------------------------------------------------


def reports_of(step: str) -> list[Path]:
    """test-rack and e2e run as a target with the version in its name; ansible-test writes in the tree that it tests."""
    if step.startswith("ansible-units-"):
        tree = Path(f"build/tree-{step[len('ansible-units-') :]}")
        return sorted(tree.glob("ansible_collections/*/*/tests/output/junit/*.xml"))
    names = {"test-rack": "rack-on-*", "e2e": "e2e-on-*"}
    return sorted(REPORTS.glob(names.get(step, step) + ".xml"))


def counts(reports: Iterable[Path]) -> dict[str, int]:
    total = dict.fromkeys(KINDS, 0)
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


def counts_of(step: str) -> dict[str, int]:
    """Of the report, or of the notes of a run that came to none: then what did not end has failed."""
    reports = reports_of(step)
    told = progress_of(step)
    if reports or not (told.ended or told.running):
        return counts(reports)
    bad = len(told.failed.keys() | set(told.running))
    return {"passed": max(0, told.ended - len(told.failed)), "failed": bad, "skipped": 0}


def counts_text(step: str) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts_of(step).items() if number)


def forget(step: str) -> None:
    """What an earlier run left of this step."""
    for path in (*reports_of(step), *(LOGS / f"{step}.{kind}" for kind in ("log", "json", "progress"))):
        path.unlink(missing_ok=True)


# -- the end of a run -----------------------------------------------------------------------------------------------


def print_failures(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        path = LOGS / f"{outcome.step}.log"
        if outcome.result in ("failed", *KILLED) and path.exists():
            print(f"\n---- {outcome.step}: {outcome.result}; the end of {path}:")
            print("\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:]))
            if outcome.result in KILLED:
                print(killed_text(outcome.step))


def print_table(outcomes: list[Outcome], pairs: list[str], wall: float, load: tuple[float, float]) -> None:
    """`load` is the machine's load average, at the start and now: what else it did is part of the figures."""
    width = max(len(outcome.step) for outcome in outcomes)
    print(f"\n{'step':{width}}  {'result':9}  {'seconds':>7}  {'CPU':>7}")
    for outcome in outcomes:
        line = f"{outcome.step:{width}}  {outcome.result:9}  {outcome.seconds:7.1f}  {outcome.cpu:7.1f}  {outcome.note}"
        print(line.rstrip())
    each = [counts_of(outcome.step) for outcome in outcomes]
    total = {kind: sum(one[kind] for one in each) for kind in KINDS}
    good = sum(outcome.good for outcome in outcomes)
    left_out = [pair for pair in ALL_PAIRS if pair not in pairs]
    print(f"\nansible-core run: {' '.join(pairs)}; not run: {' '.join(left_out) or 'none'}")
    print(f"tests: {total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    print(f"steps: {good} passed, {len(outcomes) - good} failed in {wall / 60:.1f} minutes")
    cpu = sum(outcome.cpu for outcome in outcomes)
    print(f"CPU: {cpu / 60:.1f} minutes; load average {load[0]:.1f} at the start, {load[1]:.1f} at the end")
    print_dearest(outcomes)


def print_dearest(outcomes: list[Outcome]) -> None:
    """Where to look when a run has become slow: those tests of all steps that took most of the CPU."""
    spent = [(cpu, one.step, test) for one in outcomes for test, cpu in progress_of(one.step).cpu.items() if cpu >= 1]
    if spent:
        total = sum(cpu for cpu, _step, _test in spent)
        print(
            f"\n{len(spent)} tests took a second of CPU or more each, together {total / 60:.1f} minutes; the dearest:"
        )
    for cpu, step, test in sorted(spent, reverse=True)[:DEAREST]:
        print(f"{cpu:7.1f} s  {step}  {test}")
