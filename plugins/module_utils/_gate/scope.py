# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process as a unit of systemd's own, where systemd runs. PRIVATE to the collection.

What a login starts may end with it (``KillUserProcesses``), and is counted as its own. A transient scope takes the
process as it is: there is nothing to execute anew, and nothing to leave on the node. ``systemctl status`` shows it.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os

from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import run

#: It is there where systemd is the first process.
RUNTIME = "/run/systemd/system"
_MANAGER = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
_SECONDS = 20.0


def enter(name: str, about: str, *, busctl: str = "busctl", runtime: str = RUNTIME) -> str:
    """Put this process into a scope of this name; the unit, or nothing where there is no systemd, or it refuses."""
    if not os.path.isdir(runtime):
        return ""
    # With the process in its name: the scope of one that was killed just now may still be there.
    unit = f"gpufleet-{name}-{os.getpid()}.scope"
    done = run(command(busctl, unit, about, os.getpid()), timeout=_SECONDS)
    return unit if done.ended == "exit" and done.rc == 0 else ""


def command(busctl: str, unit: str, about: str, pid: int) -> list[str]:
    """``StartTransientUnit``: name, mode, properties, and no auxiliary units."""
    properties = ["3", "PIDs", "au", "1", str(pid), "Description", "s", about, "CollectMode", "s", "inactive-or-failed"]
    return [
        busctl,
        "--system",
        "call",
        *_MANAGER,
        "StartTransientUnit",
        "ssa(sv)a(sa(sv))",
        unit,
        "fail",
        *properties,
        "0",
    ]
