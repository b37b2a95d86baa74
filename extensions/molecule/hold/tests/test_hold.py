# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hold leaves in Slurm: the node takes no work, and the reason is ours."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

RACK = Path(os.environ.get("GPUFLEET_RACK_DIR", "/var/lib/gpufleet-rack"))
OURS = "gpufleet:"


def test_the_node_is_drained_under_our_token(host):
    node = host.ansible.get_variables()["gpufleet_scheduler_node"]
    environment = {**os.environ, "SLURM_CONF": str(RACK / "slurm" / "slurm.conf")}
    command = ["sinfo", "-h", "-n", node, "-o", "%T|%E"]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    state, _bar, reason = answer.partition("|")
    assert state in ("drained", "drained*")
    assert reason.startswith(OURS) and "molecule" in reason
