# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose worker is this? PRIVATE to the collection."""

from __future__ import annotations

import multiprocessing
import os

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Fenced


def main_process() -> int:
    """The pid of the run that this worker was forked from, as it was at the fork.

    An orphan's parent is another process, for instance pid 1: taken for the run, it would hold leases that never end.

    :raises Fenced: in an orphan.
    """
    parent = multiprocessing.parent_process()
    pid = os.getppid()
    if parent is not None and parent.pid != pid:
        raise Fenced(
            "the run that this worker belongs to is gone",
            wanted=f"process {parent.pid} as parent",
            seen=f"process {pid}",
            do="run again: nothing is written by this worker",
        )
    return pid
