# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A preflight whose run was killed asks nobody else."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from sound_site import SoundSite

HOSTS = 400


def test_x3_who_was_left_behind_by_its_run_ends_its_looks(site: SoundSite, tmp_path: Path) -> None:
    """The run is a process, and its worker one that it has forked: as Ansible's own."""
    asked, done = tmp_path / "asked", tmp_path / "done"

    def look(host: str, _one: int) -> None:
        with asked.open("a", encoding="utf-8") as file:
            file.write(f"{host}\n")
        time.sleep(0.05)

    run = os.fork()
    if not run:
        with contextlib.suppress(BaseException):
            if not os.fork():
                site.hosts = {f"gpu{number:03}": {} for number in range(HOSTS)}
                site.batch(threads=2).each("bmc", dict.fromkeys(site.hosts, 1), look)
                done.touch()
            else:
                time.sleep(60)
        os._exit(0)
    _await(asked)
    os.kill(run, signal.SIGKILL)
    os.waitpid(run, 0)
    _await(done)
    assert 0 < len(asked.read_text(encoding="utf-8").splitlines()) < HOSTS


def _await(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.02)
