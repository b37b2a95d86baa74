# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Detached jobs that hang before they begin, and what the ones of before have left."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError, DeadlineExceeded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import job
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import process_start


@pytest.fixture
def params(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "boot_id").write_text("boot-1\n", encoding="ascii")
    return {"job": "job-1", "state_dir": str(tmp_path / "jobs"), "boot_id_path": str(tmp_path / "boot_id")}


class Hangs:
    """Whoever writes it down waits for somebody, and says who waits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __str__(self) -> str:
        (self.folder / "waits.new").write_text(str(os.getpid()), encoding="ascii")
        (self.folder / "waits.new").rename(self.folder / "waits")
        while not (self.folder / "go").exists():
            time.sleep(0.05)
        return "written"


def test_a_job_that_did_not_start_in_its_time_does_not_start_later(params: dict[str, Any], tmp_path: Path) -> None:
    """It was told as not started, and loaded the GPUs for hours."""

    def work() -> dict[str, Any]:
        (tmp_path / "worked").touch()
        return {"verdict": "pass"}

    with pytest.raises(BadAnswer, match="did not start") as told:
        job.start("g", params, work, limit=10, profile={"sku": Hangs(tmp_path)}, report=5)
    assert "within 5 s" in str(told.value)
    worker, end = int((tmp_path / "waits").read_text(encoding="ascii")), time.monotonic() + 20
    while process_start(worker) and time.monotonic() < end:
        time.sleep(0.05)
    lives = process_start(worker)
    (tmp_path / "go").touch()
    assert not lives, "it is ended, and not told to end when it comes to that"
    assert not (tmp_path / "worked").exists() and job.known(params["state_dir"], "job-1") is None


#: Begins a job and is gone before its worker has reported itself.
LEAVES = """
import os, sys, threading, time
from pathlib import Path
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import job
from ansible_collections.gpufleet.baremetal.tests.unit.gate.test_job_places import Hangs
folder = Path(sys.argv[1])
params = {"job": "job-1", "state_dir": str(folder / "jobs"), "boot_id_path": str(folder / "boot_id")}
job.start("g", params, (folder / "worked").touch, limit=10, profile={"sku": Hangs(folder)})
"""


def test_a_job_whose_starter_is_gone_does_not_begin(params: dict[str, Any], tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    starter = subprocess.Popen([sys.executable, "-c", LEAVES, str(tmp_path)], env=env)
    end = time.monotonic() + 60
    while not (tmp_path / "waits").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    starter.kill()
    starter.wait()
    (tmp_path / "go").touch()
    while process_start(int((tmp_path / "waits").read_text(encoding="ascii"))):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert not (tmp_path / "worked").exists() and job.known(params["state_dir"], "job-1") is None


def test_who_waits_for_a_starter_that_hangs_waits_no_longer_than_it_may(tmp_path: Path) -> None:
    held = os.open(tmp_path / ".lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(DeadlineExceeded, match="no other start of a job"), job.alone_in(str(tmp_path), 0.3):
        pass
    os.close(held)
    with job.alone_in(str(tmp_path), 0.3) as folder:
        assert folder == str(tmp_path)


def test_a_place_in_which_nothing_can_be_written_is_told_in_words(params: dict[str, Any]) -> None:
    place = "/proc/version/jobs"
    with pytest.raises(ConfigError) as told:
        job.start("g", {**params, "state_dir": place}, dict, limit=10, profile={})
    assert place in str(told.value) and "read-only" in str(told.value)


def left(folder: Path, name: str, *, gate: str, age: float, pid: int = 1, pid_start: int = 1) -> list[Path]:
    about = {"schema": 1, "gate": gate, "job": name, "boot_id": "boot-1", "pid": pid, "pid_start": pid_start}
    (folder / f"{name}.job").write_text(json.dumps(about), encoding="utf-8")
    files = [folder / f"{name}.{kind}" for kind in ("job", "json.new", "soak", "asked", "spare", "soak.new")]
    for file in files:
        file.touch()
        os.utime(file, (time.time() - age, time.time() - age))
    return files


def test_what_killed_jobs_have_left_goes_when_nobody_asks_for_it_any_more(params: dict[str, Any]) -> None:
    folder = Path(params["state_dir"])
    folder.mkdir(mode=0o700)
    pid, day = os.getpid(), 86_400.0
    old = [*left(folder, "dcgm-1", gate="dcgm_gate", age=day), *left(folder, "soak-1", gate="soak_gate", age=15 * day)]
    kept = [
        *left(folder, "soak-2", gate="soak_gate", age=day),
        *left(folder, "soak-3", gate="soak_gate", age=15 * day, pid=pid, pid_start=process_start(pid)),
    ]
    strange = folder / "a-file-of-somebody"
    strange.touch()
    os.utime(strange, (1.0, 1.0))
    job.start("g", params, lambda: {"verdict": "pass"}, limit=10, profile={})
    assert not [file.name for file in old if file.exists()]
    assert all(file.exists() for file in [*kept, strange])
