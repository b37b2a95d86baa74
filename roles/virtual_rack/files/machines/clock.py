# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's wall clock. No namespace has one of its own, so a clock that is off is libfaketime's.

sshd hands each session the environment of this file, and so every program that comes in over SSH has that clock. The
daemons have not: sshd's own sandbox kills a process that libfaketime is in. The node has the file mounted, so it is
written in place.
"""

from __future__ import annotations

import glob
import os

from rackconf import Node, faults_of

SESSIONS = "ssh_environment"
LIBRARY = "/usr/lib/*/faketime/libfaketime.so.1"


def write(node: Node) -> None:
    """Write what sshd reads for each session, as the node's faults demand."""
    fault = faults_of(node).get("clock_off")
    text = ""
    if fault:
        found = glob.glob(LIBRARY)
        if not found:
            raise ValueError(f"the package libfaketime is not installed: there is no {LIBRARY}")
        text = f"LD_PRELOAD={found[0]}\nFAKETIME={float(fault['seconds']):+.3f}\n"
    handle = os.open(node.hardware / SESSIONS, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)
