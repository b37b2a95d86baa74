# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cpu_memory_gate and HPL: an xhpl that prints what HPLinpack 2.3 prints, and what would pass elsewhere."""

from __future__ import annotations

import copy
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory import claimed, linpack
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.gate import cpu_memory_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.section import section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import strange
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate import stress
from ansible_collections.gpufleet.baremetal.tests.unit.mutated import shuffled
from recorded import demanded

ROW: dict[str, Any] = {
    "name": "linpack", "order": 20000, "block": 192, "rows": 2, "columns": 2, "minimum": 1000, **stress.ABOUT,
}  # fmt: skip
ONE = linpack.solves_of({"solves": [ROW]})[0]
LINE = "WR11C2R4       20000   192     2     2               4.85             {}"
TEXT = f"""================================================================================
HPLinpack 2.3  --  High-Performance Linpack benchmark  --   December 2, 2018
================================================================================
T/V                N    NB     P     Q               Time                 Gflops
--------------------------------------------------------------------------------
{LINE.format("1.0997e+03")}
HPL_pdgesv() start time Sat Nov 28 16:33:45 2026

HPL_pdgesv() end time   Sat Nov 28 16:33:50 2026

--------------------------------------------------------------------------------
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   4.12139792e-03 ...... PASSED
================================================================================

Finished      1 tests with the following results:
              1 tests completed and passed residual checks,
              0 tests completed and failed residual checks,
              0 tests skipped because of illegal input values.
--------------------------------------------------------------------------------

End of Tests.
================================================================================
"""
WRONG = TEXT.replace("4.12139792e-03 ...... PASSED", "8.91e+11 ...... FAILED")


def profile() -> dict[str, Any]:
    plain = stress.profile()
    return {**plain, "cpu_memory": {**plain["cpu_memory"], "solves": [ROW]}}


def params(folder: Path, output: str = TEXT, body: str = "") -> dict[str, Any]:
    (folder / "hpl.out").write_text(output, encoding="utf-8")
    script = (
        f'pwd > {folder}/where; echo "$@" > {folder}/called; cp HPL.dat {folder}/asked\n{body}\ncat {folder}/hpl.out'
    )
    program = made.program(folder / "mpirun", script)
    return {**stress.params(folder), "profile": profile(), "hpl": [program, "-np", "{ranks}", "xhpl"]}


def judged(folder: Path, output: str = TEXT, body: str = "") -> dict[str, Any]:
    return dict(cpu_memory_gate(params(folder, output, body), Context()).data)


def test_a_system_that_is_solved_right_and_fast_passes_and_leaves_nothing(tmp_path: Path) -> None:
    found = judged(tmp_path)
    assert found["verdict"] == "pass", found["msg"]
    [cell] = [row for row in found["checks"] if row["id"] == "solve.linpack"]
    assert (cell["measured"], cell["wanted"]) == (1099.7, 1000)
    assert cell["unit"] == "Gflop/s, HPL, N 20000, NB 192, 2 x 2"
    assert found["tool"] == {"name": "HPL", "version": "2.3"}
    assert (tmp_path / "called").read_text() == "-np 4 xhpl\n"
    asked = (tmp_path / "asked").read_text().splitlines()
    assert (asked[5], asked[7], asked[10], asked[11]) == ("20000", "192", "2", "2")
    where = Path((tmp_path / "where").read_text().strip())
    assert where.parent == Path(tempfile.gettempdir()) and not where.exists()


@pytest.mark.parametrize(
    ("output", "body", "verdict", "word"),
    [
        (TEXT.replace("1.0997e+03", "9.9900e+02").replace("  4.85 ", "  5.34 "), "", "fail", "999 Gflop/s"),
        (WRONG, "", "fail", "the residual is 8.91e+11"),
        (TEXT.replace("0 tests completed and failed", "1 tests completed and failed"), "", "fail", "the residual is"),
        (TEXT.replace("PASSED", "SKIPPED"), "", "inconclusive", "whether its solution is right"),
        (TEXT.replace("1 tests completed and passed", "0 tests completed and passed"), "", "inconclusive", "is right"),
        (TEXT.replace("1.0997e+03", "2.0997e+03"), "", "inconclusive", "do not fit each other"),
        (TEXT.replace("1.0997e+03", "nan"), "", "inconclusive", "do not fit"),
        (TEXT.replace(" 20000 ", " 10000 "), "", "inconclusive", "another system"),
        (TEXT.replace("End of Tests.", ""), "", "inconclusive", "was cut"),
        (TEXT + TEXT, "", "inconclusive", "several"),
        ("", "", "inconclusive", "whether its solution is right"),
        (TEXT, "exit 1", "inconclusive", "exit status 1"),
        (TEXT, "kill -9 $$", "inconclusive", "signal 9"),
    ],
)
def test_what_hpl_may_show_instead(tmp_path: Path, output: str, body: str, verdict: str, word: str) -> None:
    found = judged(tmp_path, output, body)
    assert found["verdict"] == verdict and word in str(found["findings"]), found["msg"]


def test_a_pass_has_the_system_at_or_above_its_floor(tmp_path: Path) -> None:
    found = judged(tmp_path)
    profiles.check(profile(), made.PROFILE_SCHEMA)
    assert claimed.asked(profile(), []) == {"tests": ["health", "linpack"]}
    assert claimed.lacking(profile(), [], found) == "" and strange(found, claimed.own(profile(), [])) == ""
    for value in (999.0, None, "1100", True):
        lied = copy.deepcopy(found)
        next(row for row in lied["checks"] if row["id"] == "solve.linpack")["measured"] = value
        assert "solve.linpack" in claimed.lacking(profile(), [], lied)
    assert claimed.lacking(profile(), ["health"], {**found, "checks": found["checks"]}) == ""


@pytest.mark.parametrize("row", [{"order": 0}, {"block": 30000}, {"minimum": 0}, {"name": "health"}, {"rows": 0}])
def test_a_system_that_cannot_be_solved_is_none(row: dict[str, Any]) -> None:
    broken = profile()
    broken["cpu_memory"]["solves"] = [{**ROW, **row}]
    with pytest.raises(ConfigError):
        section_of(wanted_of(broken))


def test_no_mutation_of_a_wrong_solution_is_right() -> None:
    for seed in range(300):
        dice = random.Random(seed)
        assert linpack.read(shuffled(WRONG, dice), ONE).rate is None, f"seed {seed}"


def test_a_recorded_run_is_read() -> None:
    text = (demanded("gates") / "hpl" / "hplinpack_2.3_cpu.log").read_text(encoding="utf-8")
    asked = linpack.Solve("recorded", 384000, 384, 1, 2, 8000, "as recorded")
    seen = linpack.read(text, asked)
    assert (seen.version, seen.rate, seen.problems, seen.wrong) == ("2.3", 8126.1, [], [])
    assert round(asked.gib) == 1099


def test_where_nothing_can_be_written_nothing_is_solved_and_the_rest_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate broke, and took its findings along."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    found = cpu_memory_gate(params(tmp_path), Context()).data
    assert (found["verdict"], found["remedy"]) == ("inconclusive", "remediate_config")
    assert "what it is to solve cannot be written: No such file or directory" in str(found["findings"])


def test_what_a_killed_gate_has_left_is_removed_after_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    for name, age in (("gpufleet-hpl-old", 90_000), ("gpufleet-hpl-new", 60), ("somebodys", 90_000)):
        (place / name).mkdir()
        os.utime(place / name, (time.time() - age, time.time() - age))
    assert cpu_memory_gate(params(tmp_path), Context()).data["verdict"] == "pass"
    assert sorted(path.name for path in place.iterdir()) == ["gpufleet-hpl-new", "somebodys"]
