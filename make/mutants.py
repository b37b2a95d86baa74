# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Breaks the collection one line at a time, and names each broken line that no fast test notices.

    mutants.py [--jobs 2] [--only SUBSTRING] [--new] [--write] [--anew]

The lines are kept in tests/mutants/. Each is broken in a private copy of the tree, never in the checkout, and only the
tests that are named for it run there. What was noticed before, with the same code and the same tests, is not asked
again (mutants_noticed.py). The exit status is 0 only if every one was noticed by a test that passes without it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from mutants_noticed import FILE, Notes
from tree import copy

_HERE = Path(__file__).resolve().parent
#: What this program itself imports from, and no test may.
_OURS = (str(_HERE), str(_HERE.parent / "tests" / "mutants"))
sys.path.insert(0, _OURS[1])

from kept import Mutation, Stale, load, never_asked, stale  # noqa: E402
from page import PAGE, noticed_then, run_of, unnoticed_then, written  # noqa: E402

FAST = "not rack and not slow"
ANY = "not rack"
#: Seconds after which the tests of one broken line hang: far more than they take, also on a busy machine.
LIMIT = float(os.environ.get("MUTANT_LIMIT_SECONDS", "180"))
BASE_LIMIT = 1200.0
REMOVAL_LIMIT = 30.0
TICK = 0.05
_NUMBERS = itertools.count(1)
#: pytest's exit statuses.
PASSED, FAILED, NOTHING_RAN = 0, 1, 5
NOTICED, SURVIVED, HANGS, UNCLEAR = "noticed", "survived", "hangs", "unclear"


#: Not xdist: it remembers the paths that are there when it is imported.
LIBRARIES = (
    *("pytest", "_pytest.terminal", "_pytest.junitxml", "_pytest.pytester", "_pytest.python"),
    *("hypothesis", "hypothesis.strategies", "_hypothesis_pytestplugin", "_hypothesis_globals"),
    *("yaml", "jinja2", "jsonschema", "requests", "urllib3", "trustme", "netaddr", "jmespath"),
    *("sqlalchemy", "sqlalchemy.dialects.sqlite", "cryptography.x509", "sushy", "pyghmi.ipmi.private.session"),
    *("cryptography.hazmat.primitives.serialization", "cryptography.hazmat.primitives.asymmetric.ed25519"),
    *("multiprocessing", "concurrent.futures.thread", "http.server", "xml.etree.ElementTree", "sqlite3"),
)


class Outcome(NamedTuple):
    """``day``: of the earlier run that it comes from; empty where it was asked now."""

    mutation: Mutation
    result: str
    note: str
    seconds: float
    day: str = ""


class Copy:
    """A private copy of the tree, and how tests run in it."""

    def __init__(self, checkout: Path, root: Path) -> None:
        self.root = root
        self.tree = copy(checkout, root)
        (self.tree / "build").mkdir()
        (self.tree / "build" / "venv").symlink_to((checkout / "build" / "venv").resolve())
        (self.tree / "build" / "collections").symlink_to(root)
        (self.tree / "build" / "awx").symlink_to((checkout / "build" / "awx").resolve())
        for name in ("tmp", "home"):
            (root / name).mkdir()

    def environment(self) -> dict[str, str]:
        # Recorded data is beside some checkouts only: what is noticed with it alone is not noticed.
        theirs = ("PYTEST", "PYTHON", "ANSIBLE", "MAKE", "MFLAGS", "GPUFLEET", "CI")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
        return {
            **clean,
            "PYTHONPATH": str(self.root),
            "ANSIBLE_COLLECTIONS_PATH": str(self.root),
            "ANSIBLE_HOME": str(self.root / "home"),
            "TMPDIR": str(self.root / "tmp"),
        }


class Tests:
    """pytest over some tests of a copy, in a process that is forked from this one.

    What they all need is imported before, once; nothing of the collection is.
    """

    def __init__(self, tree: Copy, names: Sequence[str], limit: float, *more: str, slow: bool = False) -> None:
        # Of this run alone: what a process of an earlier one still writes is not its own.
        self._output = tree.root / f"output-{next(_NUMBERS)}"
        self._end = time.monotonic() + limit
        arguments = ["-q", "--tb=line", "-p", "no:cacheprovider", "-m", ANY if slow else FAST, *more, *names]
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _become_pytest(tree, self._output, arguments)

    def ended(self) -> tuple[int | None, str] | None:
        """pytest's exit status and output; no status where it was killed at its limit. None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        late = time.monotonic() > self._end
        if not pid and not late:
            return None
        self.kill(collect=not pid)
        code = os.waitstatus_to_exitcode(status) if pid else None
        return code, self._output.read_text(encoding="utf-8", errors="replace")

    def kill(self, *, collect: bool = True) -> None:
        """Whatever the tests have started goes with them."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        if collect:
            os.waitpid(self.pid, 0)


def _become_pytest(tree: Copy, output: Path, arguments: list[str]) -> NoReturn:
    status = 3
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.chdir(tree.tree)
        environment = tree.environment()
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (descriptor, 1), (descriptor, 2)):
            os.dup2(source, target)
        sys.argv = ["pytest", *arguments]
        sys.path[:] = [str(tree.root), *(place for place in sys.path if place not in _OURS)]
        importlib.invalidate_caches()
        status = int(importlib.import_module("pytest").main(arguments))
        sys.stdout.flush()
    finally:
        os._exit(status)


def preload() -> None:
    """Other people's libraries, which cost most of what a short run of tests costs."""
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def judged(status: int | None, output: str) -> tuple[str, str]:
    """What a run of pytest over a broken line means, and which test noticed or what was in the way."""
    lines = [line for line in output.splitlines() if line.strip()]
    if status == FAILED:
        found = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
        return NOTICED, found.group(1) if found else ""
    if status == PASSED:
        last = lines[-1].strip("= ") if lines else ""
        return (SURVIVED, last) if re.search(r"\b\d+ passed", last) else (UNCLEAR, f"its tests do not run here: {last}")
    if status is None:
        return HANGS, f"still running after {LIMIT:.0f} s"
    # A broken line that lets no test be collected says nothing of the tests.
    return UNCLEAR, "none of its tests ran" if status == NOTHING_RAN else f"pytest ended with {status}"


def named(mutations: Sequence[Mutation], *, slow: bool) -> list[str]:
    """The tests of the entries that say slow, or of those that do not."""
    names = sorted({test for one in mutations for test in one.tests if one.slow == slow})
    # A folder or file, and a test in it, are both named; once is enough.
    return [name for name in names if not any(re.match(f"{re.escape(other)}(/|::)", name) for other in names)]


def base_problem(tree: Copy, mutations: Sequence[Mutation], jobs: int) -> str:
    """The same tests over the whole tree: one that fails anyway notices nothing."""
    for slow in (False, True):
        names = named(mutations, slow=slow)
        if not names:  # pytest that is told no names runs all tests that there are
            continue
        status, output = _awaited(Tests(tree, names, BASE_LIMIT, "-n", str(jobs), "--dist", "loadgroup", slow=slow))
        if status != PASSED:
            return f"the tests do not pass without any mutation:\n{output[-4000:]}"
    return ""


def fast_tests(tree: Copy, mutations: Sequence[Mutation]) -> list[str]:
    """Those of the entries' tests that run where nobody says slow."""
    names = named(mutations, slow=False)
    status, output = _awaited(Tests(tree, names, BASE_LIMIT, "--collect-only")) if names else (NOTHING_RAN, "")
    if status not in (PASSED, NOTHING_RAN):
        raise RuntimeError(f"the tests cannot be listed:\n{output[-4000:]}")
    return [line for line in output.splitlines() if "::" in line]


def _awaited(ran: Tests) -> tuple[int | None, str]:
    try:
        while True:
            found = ran.ended()
            if found is not None:
                return found
            time.sleep(TICK)
    except BaseException:
        ran.kill()
        raise


class Broken:
    """One line broken in a copy, and what its tests say of it; the copy is whole again afterwards."""

    def __init__(self, tree: Copy, mutation: Mutation, number: int) -> None:
        self.tree = tree
        self._mutation = mutation
        self._path = tree.tree / mutation.path
        self._whole, self._times = self._path.read_bytes(), self._path.stat()
        self._begun = time.monotonic()
        self._path.write_text(mutation.mutated(tree.tree), encoding="utf-8")
        # Python knows a compiled file by its source's size and time: each broken one has a time of its own.
        os.utime(self._path, (self._times.st_atime, self._times.st_mtime + 1000 + number))
        self.tests = Tests(tree, mutation.tests, LIMIT, "-x", slow=mutation.slow)

    def outcome(self) -> Outcome | None:
        ended = self.tests.ended()
        if ended is None:
            return None
        self._path.write_bytes(self._whole)
        os.utime(self._path, ns=(self._times.st_atime_ns, self._times.st_mtime_ns))
        return Outcome(self._mutation, *judged(*ended), time.monotonic() - self._begun)


def run(mutations: Sequence[Mutation], trees: Sequence[Copy], notes: Notes) -> list[Outcome]:
    """Each in the first copy that is free."""
    todo, free = deque(enumerate(mutations)), deque(trees)
    running: list[Broken] = []
    outcomes: list[Outcome] = []
    try:
        while todo or running:
            while todo and free:
                number, mutation = todo.popleft()
                running.append(Broken(free.popleft(), mutation, number))
            time.sleep(TICK)
            for one in list(running):
                outcome = one.outcome()
                if outcome is not None:
                    running.remove(one)
                    free.append(one.tree)
                    outcomes.append(outcome)
                    if outcome.result == NOTICED:
                        notes.keep(outcome.mutation, outcome.note, outcome.seconds)
                    print(f"{outcome.result:9} {outcome.seconds:6.1f} s  {outcome.mutation.name}  [{outcome.note}]")
                    sys.stdout.flush()
    finally:
        for one in running:
            one.tests.kill()
    return outcomes


def _run_in_words(outcomes: Sequence[Outcome], seconds: float, jobs: int) -> str:
    """What was asked in this run, and what in an earlier one."""
    days = sorted(outcome.day for outcome in outcomes if outcome.day)
    load_average = " ".join(f"{number:.1f}" for number in os.getloadavg())
    today = time.strftime("%Y-%m-%d", time.gmtime())
    words = f"{today}, {len(outcomes)} mutations: {len(outcomes) - len(days)} in {seconds:.0f} s with {jobs} jobs\n"
    words += f"(load average at its end: {load_average})"
    return f"{words}, {len(days)} in runs since {days[0]}\nwith the same code and the same tests" if days else words


def _since(page: str, run: str) -> str:
    """The same of a run over what was new alone, behind the last whole one."""
    return f"{run_of(page)};\nsince then {run}"


def chosen(only: str, page: str) -> list[Mutation]:
    """The mutations whose words, path or old text hold ``only``; all without it.

    :param page: to which the answers are added: what it calls not noticed is asked again, whatever it holds.
    :raises Stale: where one of them no longer applies, or there is none.
    """
    again = unnoticed_then(page)
    mutations = [one for one in load() if only.lower() in f"{one.name} {one.old}".lower() or one.name in again]
    if not mutations:
        raise Stale(f"no mutation has {only!r} in its words, path or old text: nothing was asked")
    complaints = stale(mutations, Path.cwd())
    if complaints:
        raise Stale("\n".join(complaints))
    return mutations


def tried(mutations: Sequence[Mutation], jobs: int, *, anew: bool = False) -> list[Outcome]:
    """All outcomes, those of earlier runs that still hold among them.

    :raises RuntimeError: where the tests fail without any mutation.
    :raises Stale: for an entry that no test would be asked about.
    """
    place = Path(tempfile.mkdtemp(prefix="gpufleet-mutants-"))
    try:
        trees = [Copy(Path.cwd(), place / str(number)) for number in range(jobs)]
        notes = Notes(trees[0].tree, Path.cwd() / FILE)
        notes.learn(mutations)
        known = [] if anew else [found for one in mutations if (found := _known(one, notes)) is not None]
        if known:
            print(f"{len(known)} of {len(mutations)} were noticed before, with the same code and tests")
        before = {outcome.mutation.name for outcome in known}
        todo = [one for one in mutations if one.name not in before]
        return known + (_asked(todo, trees, notes) if todo else [])
    finally:
        _removed(place)


def _removed(place: Path) -> None:
    """Killed processes still write for a moment, and what appears in a folder meanwhile keeps the folder."""
    end = time.monotonic() + REMOVAL_LIMIT
    while place.exists() and time.monotonic() < end:
        shutil.rmtree(place, ignore_errors=True)
        time.sleep(TICK)
    if place.exists():
        print(f"{place} could not be removed: something still writes there", file=sys.stderr)


def _known(mutation: Mutation, notes: Notes) -> Outcome | None:
    note = notes.of(mutation)
    return Outcome(mutation, NOTICED, note.by, note.seconds, note.day) if note is not None else None


def _asked(mutations: Sequence[Mutation], trees: Sequence[Copy], notes: Notes) -> list[Outcome]:
    preload()
    complaints = never_asked(mutations, fast_tests(trees[0], mutations))
    if complaints:
        raise Stale("\n".join(complaints))
    problem = base_problem(trees[0], mutations, len(trees))
    if problem:
        raise RuntimeError(problem)
    return run(mutations, trees, notes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="only mutations that have this in their words, path or old text")
    parser.add_argument("--new", action="store_true", help=f"only what {PAGE} does not call noticed")
    parser.add_argument("--write", action="store_true", help=f"write the result to {PAGE}")
    parser.add_argument("--anew", action="store_true", help="ask also what was noticed before")
    options = parser.parse_args()
    if options.write and options.only and not options.new:
        parser.error("--write is for a run over the whole list, or over what is --new of a part")
    # Whoever ends it ends the tests that it runs, and nothing of it is left.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    begun = time.monotonic()
    try:
        before = Path(PAGE).read_text(encoding="utf-8") if options.new and Path(PAGE).exists() else ""
        known = noticed_then(before, load())
        asked = [one for one in chosen(options.only, before) if one not in known]
        outcomes = tried(asked, options.jobs, anew=options.anew)
    except (Stale, RuntimeError) as exc:
        print(exc, file=sys.stderr)
        return 2
    seconds = time.monotonic() - begun
    survivors = [outcome for outcome in outcomes if outcome.result != NOTICED]
    print(f"\n{len(outcomes)} mutations in {seconds:.0f} s: {len(outcomes) - len(survivors)} noticed")
    for outcome in survivors:
        print(f"  {outcome.result}: {outcome.mutation.name}\n      {outcome.note}")
    if options.write:
        results = [(one, NOTICED) for one in known] + [(outcome.mutation, outcome.result) for outcome in outcomes]
        words = _run_in_words(outcomes, seconds, options.jobs)
        told = written(results, NOTICED, _since(before, words) if before else words)
        Path(PAGE).write_text(told, encoding="utf-8")
    return 1 if any(not outcome.mutation.survives for outcome in survivors) else 0


if __name__ == "__main__":
    sys.exit(main())
