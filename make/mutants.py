# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Breaks the collection one line at a time, and names each broken line that no fast test notices.

    mutants.py [--jobs 2] [--only SUBSTRING] [--write]

The lines are kept in tests/mutants/. Each is broken in a private copy of the tree, never in the checkout, and only the
tests that are named for it run there. The exit status is 0 only if every one was noticed by a test that passes without
it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tree import copy

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "mutants"))

from kept import Mutation, Stale, load, stale  # noqa: E402

PAGE = Path("docs/reference/mutants.md")
FAST = "not rack and not slow"
#: Seconds after which the tests of one broken line hang: far more than they take, also on a busy machine.
LIMIT = float(os.environ.get("MUTANT_LIMIT_SECONDS", "180"))
BASE_LIMIT = 1200.0
#: pytest's exit statuses.
PASSED, FAILED, NOTHING_RAN = 0, 1, 5
NOTICED, SURVIVED, HANGS, UNCLEAR = "noticed", "survived", "hangs", "unclear"


class Outcome(NamedTuple):
    mutation: Mutation
    result: str
    note: str
    seconds: float


class Copy:
    """A private copy of the tree, and how tests run in it."""

    def __init__(self, checkout: Path, root: Path) -> None:
        self.root = root
        self.tree = copy(checkout, root)
        self._running: subprocess.Popen[bytes] | None = None
        (self.tree / "build").mkdir()
        (self.tree / "build" / "venv").symlink_to((checkout / "build" / "venv").resolve())

    def _environment(self) -> dict[str, str]:
        # Recorded data is beside some checkouts only: what is noticed with it alone is not noticed.
        theirs = ("PYTEST", "PYTHON", "ANSIBLE", "MAKE", "MFLAGS", "GPUFLEET", "CI")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
        for name in ("tmp", "home"):
            (self.root / name).mkdir(exist_ok=True)
        return {
            **clean,
            "PYTHONPATH": str(self.root),
            "ANSIBLE_COLLECTIONS_PATH": str(self.root),
            "ANSIBLE_HOME": str(self.root / "home"),
            "TMPDIR": str(self.root / "tmp"),
        }

    def tests(self, names: Sequence[str], limit: float, *more: str) -> tuple[int | None, str]:
        """pytest's exit status and output; no status where it was still running at its limit."""
        command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", "-m", FAST]
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace", dir=self.root) as output:
            process = subprocess.Popen(
                [*command, *more, *names],
                cwd=self.tree,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running = process
            status: int | None = None
            try:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    status = process.wait(timeout=limit)
            finally:
                _end(process)
            output.seek(0)
            return status, output.read()

    def stop(self) -> None:
        """End what runs here now; nothing does at the end of a whole run."""
        if self._running is not None:
            _end(self._running)

    def broken(self, mutation: Mutation, number: int) -> Outcome:
        """What the named tests say of the tree with this line broken; the tree is whole again afterwards."""
        path = self.tree / mutation.path
        whole, times = path.read_bytes(), path.stat()
        begun = time.monotonic()
        try:
            path.write_text(mutation.mutated(self.tree), encoding="utf-8")
            # Python knows a compiled file by its source's size and time: each broken one has a time of its own.
            os.utime(path, (times.st_atime, times.st_mtime + 1000 + number))
            status, output = self.tests(mutation.tests, LIMIT, "-x")
        finally:
            path.write_bytes(whole)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        return Outcome(mutation, *judged(status, output), time.monotonic() - begun)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Whatever the tests have started goes with them."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def judged(status: int | None, output: str) -> tuple[str, str]:
    """What a run of pytest over a broken line means, and which test noticed or what was in the way."""
    lines = [line for line in output.splitlines() if line.strip()]
    if status == FAILED:
        found = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
        return NOTICED, found.group(1) if found else ""
    if status == PASSED:
        return SURVIVED, lines[-1].strip("= ") if lines else ""
    if status is None:
        return HANGS, f"still running after {LIMIT:.0f} s"
    # A broken line that lets no test be collected says nothing of the tests.
    return UNCLEAR, "no fast test among those named" if status == NOTHING_RAN else f"pytest ended with {status}"


def base_problem(tree: Copy, mutations: Sequence[Mutation], jobs: int) -> str:
    """The same tests over the whole tree: one that fails anyway notices nothing."""
    names = sorted({test for one in mutations for test in one.tests})
    # A file and a test in it are both named; once is enough.
    names = [name for name in names if "::" not in name or name.split("::")[0] not in names]
    status, output = tree.tests(names, BASE_LIMIT, "-n", str(jobs), "--dist", "loadgroup")
    return "" if status == PASSED else f"the tests do not pass without any mutation:\n{output[-4000:]}"


def run(mutations: Sequence[Mutation], trees: Sequence[Copy]) -> list[Outcome]:
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for tree in trees:
        free.put(tree)

    def one(numbered: tuple[int, Mutation]) -> Outcome:
        number, mutation = numbered
        tree = free.get()
        try:
            outcome = tree.broken(mutation, number)
        finally:
            free.put(tree)
        print(f"{outcome.result:9} {outcome.seconds:6.1f} s  {mutation.name}  [{outcome.note}]", flush=True)
        return outcome

    pool = ThreadPoolExecutor(max_workers=len(trees))
    try:
        return list(pool.map(one, enumerate(mutations)))
    finally:
        for tree in trees:
            tree.stop()
        pool.shutdown(cancel_futures=True)


def page(outcomes: Sequence[Outcome], seconds: float, jobs: int) -> str:
    """The last result, for docs/."""
    survivors = [outcome for outcome in outcomes if outcome.result != NOTICED]
    parts = sorted({outcome.mutation.part for outcome in outcomes})
    rows = []
    for part in parts:
        ours = [outcome for outcome in outcomes if outcome.mutation.part == part]
        noticed = sum(outcome.result == NOTICED for outcome in ours)
        rows.append(f"| {part} | {len(ours)} | {noticed} | {len(ours) - noticed} |")
    load_average = " ".join(f"{number:.1f}" for number in os.getloadavg())
    total = len(outcomes)
    lines = [
        "# Broken lines, and whether a test notices",
        "",
        "Written by `make mutants WRITE=1`. [`tests/mutants/`](../../tests/mutants) keeps a list of one-line",
        "mutations, the safety code first: a check left out, a comparison turned, a limit off by one, another host's",
        "value. Each is made in a private copy of the tree, and the fast tests that are named for it must fail.",
        "",
        f"Last run: {time.strftime('%Y-%m-%d', time.gmtime())}, {total} mutations in {seconds:.0f} s with {jobs} jobs",
        f"(load average at its end: {load_average}); {total - len(survivors)} noticed, {len(survivors)} not.",
        "",
        "| part | mutations | noticed | not noticed |",
        "|---|---|---|---|",
        *rows,
        f"| all | {total} | {total - len(survivors)} | {len(survivors)} |",
        "",
    ]
    if survivors:
        lines += ["Not noticed:", ""]
        lines += [f"- {one.mutation.name}: {one.result}" for one in survivors] + [""]
    return "\n".join(lines)


def chosen(only: str) -> list[Mutation]:
    """The mutations whose words, path or old text hold ``only``; all without it.

    :raises Stale: where one of them no longer applies.
    """
    mutations = [one for one in load() if only.lower() in f"{one.name} {one.old}".lower()]
    complaints = stale(mutations, Path.cwd())
    if complaints:
        raise Stale("\n".join(complaints))
    return mutations


def tried(mutations: Sequence[Mutation], jobs: int) -> list[Outcome]:
    """All outcomes.

    :raises RuntimeError: where the tests fail without any mutation.
    """
    place = Path(tempfile.mkdtemp(prefix="gpufleet-mutants-"))
    try:
        trees = [Copy(Path.cwd(), place / str(number)) for number in range(jobs)]
        problem = base_problem(trees[0], mutations, jobs)
        if problem:
            raise RuntimeError(problem)
        return run(mutations, trees)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="only mutations that have this in their words, path or old text")
    parser.add_argument("--write", action="store_true", help=f"write the result to {PAGE}")
    options = parser.parse_args()
    if options.write and options.only:
        parser.error("--write is for a run over the whole list")
    # Whoever ends it ends the tests that it runs, and nothing of it is left.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    begun = time.monotonic()
    try:
        mutations = chosen(options.only)
        outcomes = tried(mutations, options.jobs) if mutations else []
    except (Stale, RuntimeError) as exc:
        print(exc, file=sys.stderr)
        return 2
    seconds = time.monotonic() - begun
    survivors = [outcome for outcome in outcomes if outcome.result != NOTICED]
    print(f"\n{len(outcomes)} mutations in {seconds:.0f} s: {len(outcomes) - len(survivors)} noticed")
    for outcome in survivors:
        print(f"  {outcome.result}: {outcome.mutation.name}\n      {outcome.note}")
    if options.write:
        PAGE.write_text(page(outcomes, seconds, options.jobs), encoding="utf-8")
    return 1 if survivors or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
