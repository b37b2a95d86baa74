# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tool that hangs, floods, forks or dies must not hold or fool its gate."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _process as process
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made


def gone(pid: int) -> bool:
    """No such process, or a zombie that nobody has collected yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"


def eventually_gone(pid: int, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if gone(pid):
            return True
        time.sleep(0.05)
    return gone(pid)


def test_output_and_errors_stay_apart(tmp_path: Path) -> None:
    done = process.run([made.program(tmp_path / "t", "echo out; echo err >&2; exit 3")], timeout=10)
    assert (done.rc, done.stdout, done.stderr, done.ended) == (3, b"out\n", b"err\n", "exit")


def test_the_language_is_c(tmp_path: Path) -> None:
    assert process.run([made.program(tmp_path / "t", "echo $LC_ALL")], timeout=10).text == "C\n"


def test_a_tool_that_is_not_there() -> None:
    assert process.run(["/nonexistent/tool"], timeout=1).ended == "missing"


def test_a_tool_that_may_not_be_run(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("no program", encoding="utf-8")
    assert process.run([str(tmp_path / "t")], timeout=1).ended == "denied"


def test_a_hanging_tool_is_killed_with_its_children(tmp_path: Path) -> None:
    body = f"sleep 600 &\necho $! > {tmp_path}/child\ntrap '' TERM\necho begun\nwhile :; do sleep 1; done"
    begun = time.monotonic()
    done = process.run([made.program(tmp_path / "t", body)], timeout=1)
    assert done.ended == "timeout"
    assert done.stdout == b"begun\n"
    assert time.monotonic() - begun < 10
    assert eventually_gone(int((tmp_path / "child").read_text()))


def test_a_child_that_keeps_the_pipe_does_not_keep_the_gate(tmp_path: Path) -> None:
    body = f"sleep 600 &\necho $! > {tmp_path}/child\necho done"
    begun = time.monotonic()
    done = process.run([made.program(tmp_path / "t", body)], timeout=60)
    assert (done.ended, done.rc, done.stdout) == ("exit", 0, b"done\n")
    assert time.monotonic() - begun < 10
    assert eventually_gone(int((tmp_path / "child").read_text()))


def test_a_tool_that_closes_its_output_and_hangs(tmp_path: Path) -> None:
    done = process.run([made.program(tmp_path / "t", "exec >&- 2>&-; exec sleep 600")], timeout=1)
    assert done.ended == "timeout"


def test_a_flood_is_cut(tmp_path: Path) -> None:
    done = process.run([made.program(tmp_path / "t", "exec yes")], timeout=60, limit=100_000)
    assert done.ended == "flood"
    assert len(done.stdout) < 300_000


def test_a_tool_that_kills_itself(tmp_path: Path) -> None:
    assert process.run([made.program(tmp_path / "t", "kill -9 $$")], timeout=10).rc == -9


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux ties a child to its parent")
def test_the_tool_dies_with_the_gate(tmp_path: Path) -> None:
    """A controller that is killed takes the module with it; a stress test must not go on alone."""
    tool = made.program(tmp_path / "t", f"echo $$ > {tmp_path}/pid\nexec sleep 600")
    code = (
        "from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import run\n"
        f"run([{tool!r}], timeout=600)"
    )
    path = os.pathsep.join(sys.path)
    gate = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path})
    try:
        end = time.monotonic() + 20
        while time.monotonic() < end and not (tmp_path / "pid").exists():
            time.sleep(0.05)
        time.sleep(0.1)
        pid = int((tmp_path / "pid").read_text())
        assert not gone(pid)
    finally:
        gate.kill()
        gate.wait()
    assert eventually_gone(pid)
