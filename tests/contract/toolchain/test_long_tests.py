# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tests make test-fast leaves out is as it was measured, and of tests that there are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from suite import long

CHECKOUT = Path(__file__).resolve().parents[3]


def test_each_test_that_is_left_out_is_there() -> None:
    gone = []
    for one in sorted(long.listed()):
        path, _colons, name = one.partition("::")
        file = CHECKOUT / path
        if not file.is_file() or f"def {name}(" not in file.read_text(encoding="utf-8"):
            gone.append(one)
    assert not gone, f"run make long-tests, or take out of {long.LIST.name}: {gone}"


def test_what_takes_long_is_written_down_and_what_got_quick_or_was_renamed_is_not(tmp_path: Path) -> None:
    tests = [("tests.unit.test_a", "test_x[1]", 0.05), ("tests.unit.test_a", "test_x[2]", 0.9)]
    tests += [("tests.unit.test_a", "test_quick", 0.01)]
    cases = "".join(f'<testcase classname="{of}" name="{name}" time="{time}"/>' for of, name, time in tests)
    (tmp_path / "report.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>", encoding="utf-8")
    path = tmp_path / "long.txt"
    kept = "tests/contract/toolchain/test_long_tests.py::test_each_test_that_is_left_out_is_there"
    lines = ["# head", "tests/unit/test_a.py::test_quick", "tests/unit/test_a.py::test_was_renamed", kept]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    script = CHECKOUT / "make" / "long_tests.py"
    subprocess.run([sys.executable, script, path, tmp_path / "report.xml"], check=True, cwd=CHECKOUT)
    assert path.read_text(encoding="utf-8").splitlines() == ["# head", kept, "tests/unit/test_a.py::test_x"]


def test_without_a_report_nothing_is_measured(tmp_path: Path) -> None:
    script = CHECKOUT / "make" / "long_tests.py"
    done = subprocess.run([sys.executable, script, tmp_path / "long.txt"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "run make test first" in done.stderr
