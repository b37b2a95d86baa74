# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A forked run of a module is like one by Python itself: its arguments, files, folder, environment and end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from suite.interpreter import Interpreter

pytestmark = pytest.mark.slow
SAYS = """
import os, sys
print(sys.argv[1:], os.getcwd(), sorted(os.environ), __name__, os.path.basename(__file__), sys.stdin.read())
print("beside", file=sys.stderr)
"""


@pytest.fixture(scope="module")
def forking() -> Iterator[Interpreter]:
    made = Interpreter()
    yield made
    made.close()
    assert not made.program.exists()


@pytest.mark.parametrize("ends", ["", "sys.exit(7)", "sys.exit()", "sys.exit('so')", "raise ValueError('odd')"])
def test_it_ends_and_says_what_python_would(forking: Interpreter, tmp_path: Path, ends: str) -> None:
    script = tmp_path / "module.py"
    script.write_text(f"{SAYS}\n{ends}\n", encoding="utf-8")

    def by(python: object) -> subprocess.CompletedProcess[str]:
        argv = [str(python), str(script), "one", "t w o"]
        env = {"PATH": "/usr/bin", "LC_ALL": "C.UTF-8"}
        return subprocess.run(
            argv, cwd=tmp_path, env=env, input="typed", text=True, capture_output=True, check=False, timeout=120
        )

    real, forked = by(sys.executable), by(forking.program)
    assert (forked.returncode, forked.stdout) == (real.returncode, real.stdout)
    # A trace tells the way to the module as well, which is another one.
    assert forked.stderr.splitlines()[:1] + forked.stderr.splitlines()[-1:] == (
        real.stderr.splitlines()[:1] + real.stderr.splitlines()[-1:]
    )
