# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tool that hangs, floods, forks or dies must not hold or fool its gate."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _process as process
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.alone import alone
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made


def gone(pid: int) -> bool:
    """No such process, or a zombie that nobody has collected yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"


def eventually_gone(pid: int, seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if gone(pid):
            return True
        time.sleep(0.05)
    return gone(pid)


#: Deadlines of a tool that does not end. A busy machine may take longer than the first until it has begun.
LATE = (1.0, 5.0, 25.0)


def begun(tool: str, deadlines: Sequence[float] = LATE) -> process.Run:
    """The first run in which the tool has said that it has begun."""
    for seconds in deadlines:
        done = process.run([tool], timeout=seconds)
        if done.stdout:
            break
    return done


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
    done = begun(made.program(tmp_path / "t", body))
    assert (done.ended, done.rc, done.stdout) == ("timeout", -9, b"begun\n")
    assert eventually_gone(int((tmp_path / "child").read_text()))


def test_a_child_that_keeps_the_pipe_does_not_keep_the_gate(tmp_path: Path) -> None:
    body = f"sleep 600 &\necho $! > {tmp_path}/child\necho done"
    since = time.monotonic()
    done = process.run([made.program(tmp_path / "t", body)], timeout=300)
    assert (done.ended, done.rc, done.stdout) == ("exit", 0, b"done\n")
    assert time.monotonic() - since < 60
    assert eventually_gone(int((tmp_path / "child").read_text()))


#: A child in a session of its own, and of no pipe of the tool's.
APART = "setsid sleep 600 >&- 2>&- </dev/null &\necho $! > {folder}/child"


@pytest.mark.parametrize(
    ("then", "deadlines", "ended"),
    [("exit", [60.0], "exit"), ("exec sleep 600", LATE, "timeout")],
    ids=["tool", "deadline"],
)
def test_a_child_in_a_session_of_its_own_is_ended_with_the_tool(
    tmp_path: Path, then: str, deadlines: Sequence[float], ended: str
) -> None:
    """It went on, and loaded what the next gate measured."""
    body = f"{APART.format(folder=tmp_path)}\necho begun\n{then}"
    assert begun(made.program(tmp_path / "t", body), deadlines).ended == ended
    assert gone(int((tmp_path / "child").read_text()))


def test_a_tool_is_told_to_end_before_it_is_killed(tmp_path: Path) -> None:
    body = f"trap 'echo told > {tmp_path}/told; exit 7' TERM\necho begun\nwhile :; do sleep 0.05; done"
    done = begun(made.program(tmp_path / "t", body))
    assert (done.ended, done.rc, (tmp_path / "told").exists()) == ("timeout", 7, True)


def test_what_nobody_could_end_holds_the_lock_of_its_gate(tmp_path: Path) -> None:
    """A guard that was killed as well ends nothing; the next gate does not measure beside what is left."""
    tool = made.program(tmp_path / "t", f"{APART.format(folder=tmp_path)}\nkill -9 $PPID")
    with alone({"pci_path": str(tmp_path)}, Context(), timeout=1) as free:
        assert free and process.run([tool], timeout=20).rc == -9
    child = int((tmp_path / "child").read_text())
    assert not gone(child)
    with alone({"pci_path": str(tmp_path)}, Context(), timeout=0) as free:
        assert not free
    os.kill(child, signal.SIGKILL)
    with alone({"pci_path": str(tmp_path)}, Context(), timeout=20) as free:
        assert free


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
    body = f"{APART.format(folder=tmp_path)}\necho $$ > {tmp_path}/pid\nexec sleep 600"
    tool = made.program(tmp_path / "t", body)
    code = (
        "from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import run\n"
        f"run([{tool!r}], timeout=600)"
    )
    path = os.pathsep.join(sys.path)
    gate = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path})
    told, end = tmp_path / "pid", time.monotonic() + 60
    try:
        while not (told.exists() and told.read_text()):
            assert time.monotonic() < end
            time.sleep(0.05)
        pid = int(told.read_text())
        assert not gone(pid)
    finally:
        gate.kill()
        gate.wait()
    assert eventually_gone(pid) and eventually_gone(int((tmp_path / "child").read_text()))
