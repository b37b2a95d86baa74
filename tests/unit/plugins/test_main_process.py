# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A worker knows its run by the process that forked it, and notices that it was orphaned."""

from __future__ import annotations

import multiprocessing
import os
import signal
from multiprocessing.connection import Connection

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Fenced
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._main_process import main_process

fork = multiprocessing.get_context("fork")


def _worker(told: Connection, killed: Connection) -> None:
    told.send(main_process())
    killed.recv()
    while os.getppid() == multiprocessing.parent_process().pid:  # type: ignore[union-attr]
        pass  # the kernel is about to hand this process to another parent
    try:
        told.send(main_process())
    except Fenced as exc:
        told.send(str(exc))


def test_an_orphan_is_not_taken_for_a_run_of_its_new_parent() -> None:
    told, tell = fork.Pipe(duplex=False)
    wait, kill = fork.Pipe(duplex=False)
    run = os.fork()
    if run == 0:
        fork.Process(target=_worker, args=(tell, wait)).start()
        signal.pause()
    assert told.recv() == run
    os.kill(run, signal.SIGKILL)
    os.waitpid(run, 0)
    kill.send(None)
    assert told.poll(10)
    answer = told.recv()
    assert isinstance(answer, str) and f"process {run}" in answer
