# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Detached jobs: who may have written the files that a verdict is read from, and when a job is run again."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import job
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.gate import dcgm_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import process_start
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import iso
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made


@pytest.fixture
def params(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "boot_id").write_text("boot-1\n", encoding="ascii")
    return {"job": "job-1", "state_dir": str(tmp_path / "jobs"), "boot_id_path": str(tmp_path / "boot_id")}


def begin(params: dict[str, Any], log: Path) -> dict[str, Any]:
    """A job that notes that it was run, and passes."""

    def work() -> dict[str, str]:
        with open(log, "a", encoding="ascii") as file:
            file.write("run\n")
        return {"verdict": "pass"}

    return job.start("g", params, work, limit=10, profile={})


def answer(params: dict[str, Any]) -> Path:
    return Path(params["state_dir"]) / "job-1.json"


def await_answer(params: dict[str, Any]) -> dict[str, Any]:
    end = time.monotonic() + 30
    while not answer(params).exists():
        assert time.monotonic() < end, "the job gave no answer"
        time.sleep(0.01)
    found: dict[str, Any] = json.loads(answer(params).read_text(encoding="utf-8"))
    return found


def test_v4_room_for_the_answer_is_kept_while_the_gate_runs(params: dict[str, Any], tmp_path: Path) -> None:
    draft, log = Path(f"{answer(params)}.new"), tmp_path / "log"

    def work() -> dict[str, Any]:
        log.write_text(str(draft.stat().st_blocks * 512), encoding="ascii")
        return {"verdict": "pass", "why": "x" * 50_000}

    job.start("g", params, work, limit=10, profile={})
    assert len(await_answer(params)["verdict"]["why"]) == 50_000
    assert int(log.read_text(encoding="ascii")) >= 100_000 > answer(params).stat().st_size
    assert not draft.exists() and answer(params).stat().st_mode & 0o777 == 0o600


def test_v4_an_answer_that_cannot_be_written_says_so(params: dict[str, Any]) -> None:
    """It was told as a kill."""

    def work() -> dict[str, Any]:
        limit = 70_000  # the room is there, and what is beyond it is refused
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        return {"verdict": "pass", "why": "x" * 200_000}

    job.start("g", params, work, limit=10, profile={})
    told = await_answer(params)
    assert "verdict" not in told and told[job.UNWRITTEN] == "File too large"
    assert (told["gate"], told["job"], told["boot_id"]) == ("g", "job-1", "boot-1")


#: Starts a job in a process that may write no file of the size of the room.
FULL = """
import resource, sys
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import job
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
params = {"job": "job-1", "state_dir": sys.argv[1], "boot_id_path": sys.argv[2]}
try:
    job.start("g", params, lambda: {"verdict": "pass"}, limit=10, profile={})
except ConfigError as exc:
    print(exc)
"""


def test_v4_without_room_for_an_answer_no_gate_is_started(params: dict[str, Any]) -> None:
    argv = [sys.executable, "-c", FULL, params["state_dir"], params["boot_id_path"]]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True, env=env)
    assert "no room on the node for the job's files" in done.stdout and params["state_dir"] in done.stdout
    assert "make room there" in done.stdout and not list(Path(params["state_dir"]).glob("*.job"))


def test_t1_a_job_is_run_once_and_joined_afterwards(params: dict[str, Any], tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = begin(params, log)
    assert await_answer(params)["verdict"] == {"verdict": "pass"}
    again = begin(params, log)
    assert (first["joined"], again["joined"]) == (False, True)
    assert again["pid"] == first["pid"] and again["boot_id"] == "boot-1"
    assert log.read_text(encoding="ascii") == "run\n"


def test_t1_an_answer_of_days_ago_is_run_for_again(params: dict[str, Any], tmp_path: Path) -> None:
    log = tmp_path / "log"
    begin(params, log)
    await_answer(params)
    assert begin(params, log)["joined"] is True
    old = iso(time.time() - job.STALE_SECONDS - 60)
    answer(params).write_text(json.dumps({"verdict": {"ended": old}}), encoding="utf-8")
    assert begin(params, log)["joined"] is False
    await_answer(params)
    end = time.monotonic() + 30
    while log.read_text(encoding="ascii") != "run\nrun\n":
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(("word", "joined"), [("pass", False), ("inconclusive", False), ("fail", True)])
def test_t1_only_a_failure_is_believed_that_a_clock_calls_one_to_come(
    params: dict[str, Any], tmp_path: Path, word: str, joined: bool
) -> None:
    """It was joined, and refused, until the clock had caught up with it."""
    begin(params, tmp_path / "log")
    await_answer(params)
    ended = {"verdict": word, "ended": iso(time.time() + 10_800)}
    answer(params).write_text(json.dumps({"verdict": ended}), encoding="utf-8")
    assert begin(params, tmp_path / "log")["joined"] is joined
    await_answer(params)


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o755])
def test_t1_a_folder_that_others_may_enter_is_refused(params: dict[str, Any], tmp_path: Path, mode: int) -> None:
    folder = Path(params["state_dir"])
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(ConfigError, match="not ours alone"):
        begin(params, tmp_path / "log")
    assert not (tmp_path / "log").exists()


def test_t1_a_link_to_a_folder_is_refused(params: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    Path(params["state_dir"]).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="not ours alone"):
        begin(params, tmp_path / "log")


@pytest.mark.parametrize("name", ["", "../escape", "a/b", ".hidden", "a" * 101, "job\n"])
def test_t1_a_jobs_name_is_no_path(params: dict[str, Any], tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="no name for the job"):
        begin({**params, "job": name}, tmp_path / "log")


@pytest.mark.parametrize(
    "content", ['{"schema": 1, "job": "job-2"}', '{"schema": 2, "job": "job-1"}', "[]", "no JSON", ""]
)
def test_t1_a_jobs_file_that_we_did_not_write_is_refused(params: dict[str, Any], tmp_path: Path, content: str) -> None:
    folder = Path(params["state_dir"])
    folder.mkdir(mode=0o700)
    (folder / "job-1.job").write_text(content, encoding="utf-8")
    with pytest.raises(BadAnswer, match="not what we wrote"):
        begin(params, tmp_path / "log")


@pytest.mark.parametrize("content", ["", "\n", None])
def test_t1_without_a_boot_id_nothing_is_started(params: dict[str, Any], tmp_path: Path, content: Any) -> None:
    path = Path(params["boot_id_path"])
    path.unlink()
    if content is not None:
        path.write_text(content, encoding="ascii")
    with pytest.raises(ConfigError, match="boot id cannot be read"):
        begin(params, tmp_path / "log")
    assert not (tmp_path / "log").exists()


def test_t1_a_zombie_is_no_process() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    assert process_start(process.pid) > 0
    os.kill(process.pid, signal.SIGKILL)
    end = time.monotonic() + 10
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < end
    assert process_start(process.pid) == 0
    process.communicate()


def test_t1_a_gate_that_breaks_in_its_job_says_so(params: dict[str, Any], tmp_path: Path) -> None:
    """Its silence would be taken for a kill, and the cause would be lost."""
    options = {**params, "profile": made.profile(), "level": 1, "timeout": 5, "detached": True}
    dcgm_gate({**options, "dcgmi": made.dcgmi(tmp_path, ""), "busy_timeout": "no number"}, Context())
    verdict = await_answer(params)["verdict"]
    assert (verdict["verdict"], verdict["findings"][0]["id"]) == ("inconclusive", "crashed")
    assert "no number" in verdict["findings"][0]["text"]


class Watch(Lifeline):
    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> None:
        self.asked.append((what, destructive))


@pytest.mark.parametrize(
    ("options", "destructive"),
    [({"level": 2}, [True]), ({"tests": ["memory"]}, [True]), ({"tests": ["software", "pcie"]}, [True])]
    + [({"level": 1}, []), ({"tests": ["software"]}, [])],
)
def test_t1_what_loads_the_gpus_asks_for_a_permit_and_a_look_does_not(
    tmp_path: Path, options: dict[str, Any], destructive: list[bool]
) -> None:
    watch = Watch()
    dcgmi = made.dcgmi(tmp_path, made.text(made.dcgm4()))
    dcgm_gate(
        {"profile": made.profile(), "timeout": 5, "dcgmi": dcgmi, "busy_timeout": 0, **options},
        Context(lifeline=watch),
    )
    assert [asked for _what, asked in watch.asked] == destructive
