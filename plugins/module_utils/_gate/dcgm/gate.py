# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The DCGM gate: runs ``dcgmi diag`` on this node and judges what it said. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import DeadlineExceeded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import evidence
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.alone import BUSY, TEXT, alone
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.begun import Begun, begin
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm import again, exits, health, link, options
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.discovery import NOT_ASKED, Found, parse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import Diagnosis, read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.judge import WORDS, judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.section import section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.tests import WantedTest, wanted_tests
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.detached import detached
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run, run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    NODE,
    PASS,
    Sheet,
    Tool,
    answer,
    digest,
)

GATE = "dcgm_gate"
#: dcgmi itself, asked for its version or for its GPUs, answers at once or not at all.
_QUICK_SECONDS = 30.0


def stresses(params: Mapping[str, Any]) -> bool:
    """Would this run load the GPUs? Level 1 and the test ``software`` only look."""
    names = [options.canonical(name) for name in params.get("tests") or []]
    if names:
        return any(name != "software" for name in names)
    return int(params.get("level") or 1) > 1


def limit_of(params: Mapping[str, Any]) -> float:
    """Seconds after which the diagnostic is killed."""
    named = bool(params.get("tests"))
    return float(params.get("timeout") or options.TIMEOUTS[3 if named else int(params.get("level") or 1)])


def dcgm_gate(params: Mapping[str, Any], ctx: Context) -> Result:
    """Run the diagnostic and say what it proves."""
    return begin(GATE, params, lambda begun: _look(params, ctx, begun), needs=section_of)


def _look(params: Mapping[str, Any], ctx: Context, begun: Begun) -> Result:
    session = _Session(params, ctx, begun.wanted)
    goes_on, loads = bool(params.get("detached")), stresses(params)
    if (loads or goes_on or params.get(health.CELL)) and not ctx.may_write(session.announced(), destructive=loads):
        words = "not run in check mode: it would load the GPUs, set watches of DCGM, or go on by itself"
        verdict = begun.unmeasured(words, "check_mode")
        return answer({**verdict, "argv": session.argv()})
    if goes_on:
        # The same diagnostic in a process of its own.
        return detached(params, begun, lambda: _measured(params, session, Context(), begun)[0], limit=session.limit)
    verdict, more = _measured(params, session, ctx, begun)
    return answer(verdict, **more)


def _measured(
    params: Mapping[str, Any], session: _Session, ctx: Context, begun: Begun
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The verdict, and what the result tells beside it."""
    with alone(params, ctx, timeout=session.limit) if stresses(params) else nullcontext(True) as free:
        if not free:
            return {**begun.unmeasured(TEXT, BUSY), "argv": session.argv()}, {}
        sheet = session.measure()
    kept = session.save(sheet, ctx)
    tool = Tool("dcgmi", options.dotted(session.owed) or session.seen.version, session.argv())
    verdict = begun.verdict(sheet, tool, digest(*(part for one in session.runs for part in one.parts())))
    gpus = [{"gpu": number, **gpu} for number, gpu in sorted(session.seen.gpus.items())]
    return verdict, {"gpus": gpus, "evidence_path": kept}


class _Session:
    """All runs of dcgmi for one verdict."""

    def __init__(self, params: Mapping[str, Any], ctx: Context, wanted: Wanted) -> None:
        self._params = params
        self._ctx = ctx
        self._wanted = wanted
        self._names: list[str] = list(params.get("tests") or [])
        self._level = int(params.get("level") or 1)
        self._dcgmi = str(params.get("dcgmi") or "dcgmi")
        self.limit = limit_of(params)
        self._deadline = time.monotonic() + self.limit
        self.version: Optional[options.Version] = None
        self.runs: list[Run] = []
        self.seen = Diagnosis()
        self._found = NOT_ASKED
        self._watches = bool(params.get(health.CELL))
        #: Since when DCGM watches, by the clock of the boot; None where it does not.
        self._since: Optional[float] = None
        #: What it did not watch all that time.
        self._off: set[str] = set()

    def announced(self) -> str:
        return f"run {' '.join(self.argv())}"

    def argv(self) -> list[str]:
        what = options.spelled(self._names) if self._names else str(self._level)
        ignored, count = section_of(self._wanted).ignored_errors, self._wanted.gpu_count
        return options.argv(self._dcgmi, what, self.version, gpus=count, ignore=ignored, more=self._floors())

    def _floors(self) -> list[str]:
        """What each PCIe link has to be, where the test of them is run."""
        names = [options.canonical(name) for name in self._names]
        return link.floors(self._wanted.profile["gpu"]) if link.runs(self._level, names) else []

    def _judge(self, seen: Diagnosis, done: Run, *, watched: bool = False) -> Sheet:
        linked = bool(self._floors())
        return judge(seen, done, self._wanted, self._tests(), found=self._found, watched=watched, linked=linked)

    def _left(self) -> float:
        return max(1.0, self._deadline - time.monotonic())

    def _run(self, argv: list[str], *, timeout: float = 0.0) -> Run:
        done = run(argv, timeout=min(timeout or self._left(), self._left()))
        self.runs.append(done)
        return done

    def measure(self) -> Sheet:
        sheet = self._measured()
        self._agree(sheet)
        return sheet

    def _measured(self) -> Sheet:
        asked = self._run([self._dcgmi, "--version"], timeout=_QUICK_SECONDS)
        self.version = options.printed_version(asked.text)
        if asked.ended in ("missing", "denied"):
            return judge(Diagnosis(), asked, self._wanted, self._tests(), watched=self._watches)
        if not self._watches:
            return self._diagnosed()
        ours = self._watch()
        sheet = self._diagnosed()
        said = self._watched()
        health.judge(sheet, said, None if self._since is None else time.monotonic() - self._since, sorted(self._off))
        if ours:  # nobody had set them: the host engine is left as it was found
            self._run([self._dcgmi, "health", "--clear"], timeout=_QUICK_SECONDS)
        return sheet

    def _watch(self) -> bool:
        """See that DCGM watches the GPUs; did nobody else want that of it?"""
        ours = not health.is_set(self._run(self._check(), timeout=_QUICK_SECONDS))
        done = self._run([self._dcgmi, "health", "-s", "a"], timeout=_QUICK_SECONDS) if ours else None
        if done is None or (done.ended == "exit" and done.rc == 0):
            self._since = time.monotonic()
            self._set()
        return ours

    def _set(self) -> None:
        """Whoever set them may have set a part, or does so meanwhile."""
        fetched = self._run([self._dcgmi, "health", "-f", "-j"], timeout=_QUICK_SECONDS)
        self._off |= set(health.unset(fetched))

    def _check(self) -> list[str]:
        return [self._dcgmi, "health", "-c", "-j"]

    def _watched(self) -> Run:
        """What the watches say, once they can say anything."""
        since, timeout = self._since, min(health.SECONDS, self._left() - 1)
        if since is not None:
            with suppress(DeadlineExceeded):
                self._ctx.wait(
                    lambda: time.monotonic() - since, lambda age: age >= health.SECONDS, timeout=timeout, interval=1.0,
                    wanted="DCGM has watched the GPUs for a minute",
                )  # fmt: skip
            self._set()
        return self._run(self._check(), timeout=_QUICK_SECONDS)

    def _diagnosed(self) -> Sheet:
        done = self._diagnose()
        self.seen = read(done.text)
        self._found = self._discover()
        sheet = self._judge(self.seen, done, watched=self._watches)
        if sheet.verdict == FAIL:
            sheet = self._once_more(sheet, done)
        if sheet.verdict == FAIL:
            self._localise(sheet)
        return sheet

    def _agree(self, sheet: Sheet) -> None:
        """dcgmi may be of another release than the host engine that ran the tests."""
        document = options.parse_version(self.seen.version)
        if None not in (self.version, document) and self.version != document:
            ran = f"dcgmi is of {options.dotted(self.version)}, and the diagnosis of {options.dotted(document)}"
            remedy = "none" if sheet.verdict == PASS else "remediate_config"
            sheet.find("versions", NODE, f"{ran}: the tests of the newer one are wanted", remedy)

    @property
    def owed(self) -> Optional[options.Version]:
        """The release whose tests must be seen: the newer one, for an old dcgmi prints what a new host engine ran."""
        known = [one for one in (self.version, options.parse_version(self.seen.version)) if one]
        return max(known, default=None)

    def _tests(self) -> list[WantedTest]:
        return wanted_tests(self._wanted, self._level, self._names, self.owed)

    def _diagnose(self) -> Run:
        """The diagnostic itself; while DCGM is busy, again until the time for that is over."""
        wait = min(float(self._params.get("busy_timeout") or 0), self._left())
        tried: list[int] = []

        def once() -> Run:
            done = self._run(self.argv())
            tried.append(done.rc if done.rc is not None else -1)
            return done

        def settled(done: Run) -> bool:
            if done.ended != "exit" or done.rc is None or exits.meaning(done.rc).kind != exits.BUSY:
                return True
            return done.rc in exits.ONCE and tried.count(done.rc) > 1

        try:
            return self._ctx.wait(
                once, settled, timeout=wait, interval=5.0, wanted="dcgmi is free", seen=lambda r: str(r.rc)
            )
        except DeadlineExceeded:
            return self.runs[-1]

    def _discover(self) -> Found:
        """Which GPUs DCGM knows, for documents that do not say which they are of (up to 3.2.5)."""
        told = self.seen.devices()
        if told and all(told.values()) and self.seen.gpu_ids() <= set(told):
            return NOT_ASKED
        asked = self._run([self._dcgmi, "discovery", "-l"], timeout=_QUICK_SECONDS)
        return parse(asked.text, str(self._params.get("pci_path") or "/sys/bus/pci/devices"))

    def _once_more(self, sheet: Sheet, done: Run) -> Sheet:
        """nvbandwidth that saw no more than the load of the test before it is run again, alone."""
        if self._names == [again.NAME] or not again.saw_load(self.seen, done):
            return sheet
        once = self._run(options.argv(self._dcgmi, again.NAME, self.version, gpus=self._wanted.gpu_count))
        alone = read(once.text)
        own = wanted_tests(self._wanted, self._level, [again.NAME], self.owed)
        whole = judge(alone, once, self._wanted, own, found=self._found)
        second = self._judge(again.merged(self.seen, alone), once)
        if whole.verdict != PASS or second.verdict != PASS or alone.gpus != self.seen.gpus:
            return sheet
        if self._watches:
            second.require(health.CELL, NODE, wanted=health.HEALTHY, source=health.SOURCE)
        second.find("dcgm.nvbandwidth.alone", NODE, "nvbandwidth failed in the row and passed alone (DCGM#272)", "none")
        return second

    def _localise(self, sheet: Sheet) -> None:
        """One bad GPU can fail all of its group (DCGM#145): ask each alone, while the time for that lasts."""
        end = time.monotonic() + min(float(self._params.get("localise_timeout") or 0), self._left())
        for test in self._tests():
            cells = {cell.entity: cell for cell in self.seen.cells if cell.test == test.name}
            gpus = sorted(int(name[4:]) for name in cells if name.startswith("GPU "))
            if test.name == "software" or len(gpus) < 2 or not options.has("-i", self.version):
                continue
            if any(WORDS.get(cells[f"GPU {number}"].word) != FAIL for number in gpus):
                continue
            self._ask_each(sheet, test.name, gpus, end)

    def _ask_each(self, sheet: Sheet, test: str, gpus: list[int], end: float) -> None:
        innocent: list[int] = []
        guilty: list[int] = []
        for number in gpus:
            left = end - time.monotonic()
            if left < 1:
                break
            floors = self._floors() if test == link.TEST else []
            done = self._run(options.argv(self._dcgmi, test, self.version, only=number, more=floors), timeout=left)
            words = [
                cell.word for cell in read(done.text).cells if cell.test == test and cell.entity == f"GPU {number}"
            ]
            verdict = WORDS.get(words[0]) if len(words) == 1 and done.ended == "exit" else None
            (innocent if verdict == PASS and done.rc == 0 else guilty if verdict == FAIL else []).append(number)
        if not innocent or not guilty:
            return
        clear = {f"GPU {number}" for number in innocent}
        ours = {f"dcgm.{test}"} | {
            f"dcgm:{fault.error_id}" for cell in self.seen.cells if cell.test == test for fault in cell.faults
        }
        sheet.findings = [row for row in sheet.findings if not (row.entity in clear and row.id in ours)]
        shown = ", ".join(map(str, guilty))
        sheet.find(f"localised.{test}", NODE, f"{test} failed for all GPUs; asked alone, GPU {shown} fails", "none")

    def save(self, sheet: Sheet, ctx: Context) -> str:
        def content() -> dict[str, Any]:
            return {"gate": GATE, "runs": [one.as_evidence() for one in self.runs]}

        return evidence.save(sheet, self._params, ctx, content)
