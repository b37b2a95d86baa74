# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine of the rack that somebody boots anew, past everybody."""

from __future__ import annotations

import subprocess

from lab import CHECKOUT, RACK, clean_env, node_state, slowness, wait_for


def boot_id(node: str) -> str:
    """Of the boot that it runs, as its kernel has it."""
    path = RACK / "nodes" / node / "hw" / "boot_id"
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""


def reset(node: str) -> None:
    """Somebody presses its reset button; it is back when its system runs. Whether Slurm calls a node down that booted
    unasked depends on when it has last heard of it."""
    before, program = boot_id(node), CHECKOUT / "roles" / "virtual_rack" / "files" / "machines" / "chassis.py"
    argv = ["/usr/bin/python3", "-EsS", str(program), "--config", str(RACK / "rack.json"), "--node", node, "reset"]
    subprocess.run(argv, env=clean_env(), check=True, capture_output=True)
    seconds = 60 * slowness()
    wait_for(lambda: boot_id(node) != before and "DRAIN" in node_state(node)["state"], seconds, "it is back")
