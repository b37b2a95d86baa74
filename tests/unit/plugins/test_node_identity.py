# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node tells of itself in one round trip, also where its GPUs hang."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._node_identity import read_identity

GPU = "GPU-00000000-0000-4000-8000-000000000001"


def node(folder: Path, **programs: str) -> dict[str, Any]:
    """What is read on a node that has these programs, and no others but cat."""
    (folder / "bin").mkdir()
    (folder / "bin" / "cat").symlink_to("/bin/cat")
    for name, text in programs.items():
        program = folder / "bin" / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{text}\n", encoding="ascii")
        program.chmod(0o755)
    (folder / "boot_id").write_text("boot-1\n", encoding="ascii")
    paths = {"nvidia_smi": "nvidia-smi", "dmi_path": str(folder), "boot_id_path": str(folder / "boot_id")}

    def execute(command: str) -> dict[str, Any]:
        env = {"PATH": str(folder / "bin")}
        done = subprocess.run(["/bin/sh", "-c", command], env=env, capture_output=True, text=True, check=False)
        return {"rc": done.returncode, "stdout": done.stdout}

    return read_identity(execute, paths)


@pytest.mark.parametrize("limited", [True, False])
def test_q1_gpus_are_read_with_a_time_limit_where_the_node_has_one(tmp_path: Path, limited: bool) -> None:
    log = tmp_path / "limits"
    timeout = {"timeout": f'echo "$1 $2 $3" > {log}; shift 3; exec "$@"'} if limited else {}
    found = node(tmp_path, nvidia_smi=f"echo {GPU}", **timeout)
    assert (found["gpu_uuids"], found["boot_id"], found["gpu_problem"]) == ([GPU], "boot-1", "")
    assert not limited or log.read_text(encoding="ascii") == "-k 5 60\n"


@pytest.mark.parametrize("status", [124, 137])
def test_q1_gpus_that_hang_are_told_as_such(tmp_path: Path, status: int) -> None:
    found = node(tmp_path, timeout=f"exit {status}", nvidia_smi="exit 1")
    assert found["gpu_uuids"] == [] and found["gpu_problem"] == "nvidia-smi gave no answer within 60 s"
    assert found["boot_id"] == "boot-1"
