# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Has HPL solve one system after the other, and judges what came of it. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory import linpack
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.linpack import Seen, Solve
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import record_end
from ansible_collections.gpufleet.baremetal.plugins.module_utils._private import write
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run, run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, NODE, PASS, Check, Sheet

_REMEDY = "field_diag"
_PREFIX = "gpufleet-hpl-"
#: No gate runs for so long.
_LEFT_SECONDS = 86400.0


class Solved(NamedTuple):
    solve: Solve
    run: Run
    seen: Seen


def take(solves: Sequence[Solve], program: Sequence[str], end: float) -> Iterator[Solved]:
    for one in solves:
        try:
            done = _run(one, program, end)
        except OSError as exc:
            why = f"what it is to solve cannot be written: {exc.strerror}: {exc.filename}"
            done = Run(tuple(program), None, b"", why.encode(), "denied", 0.0)
            yield Solved(one, done, Seen(problems=[why]))
        else:
            yield Solved(one, done, linpack.read(done.text, one))


def _run(one: Solve, program: Sequence[str], end: float) -> Run:
    """:raises OSError: where nothing can be written for it."""
    _sweep(tempfile.gettempdir())
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    try:
        write(os.path.join(folder, "HPL.dat"), linpack.dat(one))
        return run(linpack.command(program, one, folder), timeout=max(1.0, end - time.monotonic()))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(place: str) -> None:
    """Remove what a gate of ours that was killed has left there."""
    for entry in os.scandir(place):
        with suppress(OSError):
            about = entry.stat(follow_symlinks=False)
            ours = entry.name.startswith(_PREFIX) and stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid()
            if ours and time.time() - about.st_mtime > _LEFT_SECONDS:
                shutil.rmtree(entry.path, ignore_errors=True)


def judge(sheet: Sheet, solved: Solved) -> None:
    one, seen = solved.solve, solved.seen
    record_end(sheet, solved.run)
    if seen.wrong:
        sheet.find(f"{one.cell}.wrong", NODE, f"wrong results in {one.name}: {'; '.join(seen.wrong)}", _REMEDY)
        sheet.record(Check(one.cell, NODE, FAIL, "wrong results", one.minimum, one.unit, one.source))
    elif seen.problems or seen.rate is None:
        sheet.unsettled(one.cell, NODE, f"{one.name}: HPL: {'; '.join(seen.problems)}")
    else:
        verdict = PASS if seen.rate >= one.minimum else FAIL
        if verdict == FAIL:
            text = f"{one.name}: {seen.rate:.5g} {one.unit}, wanted {one.minimum:g}"
            sheet.find(one.cell, NODE, text, _REMEDY)
        sheet.record(Check(one.cell, NODE, verdict, seen.rate, one.minimum, one.unit, one.source))
