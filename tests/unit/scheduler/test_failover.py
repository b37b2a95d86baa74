# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the commands of Slurm say while its controllers change over is no answer, and ends no drain of hours."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import AuthFailed, Refused, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.driver import Slurm

#: As the library of Slurm has them.
SAID = [
    "slurm_load_node error: Slurm backup controller in standby mode",
    "slurm_load_node error: Controller is in standby mode, try a different controller",
    "slurm_load_node error: Zero Bytes were transmitted or received",
    "slurm_load_node error: Communication connection failure",
    "slurm_load_node error: Communication shutdown failure",
    "slurm_load_node error: Message receive failure",
    "slurm_load_node error: Message send failure",
    "slurm_load_node error: Header lengths are longer than data received",
    "slurm_load_node error: Unable to contact slurm controller (shutdown failure)",
    "slurm_load_node error: Socket timed out on send/recv operation",
    "slurm_load_node error: Connection reset by peer",
    "scontrol: error: slurm_msg_sendto: address:port=10.77.0.1:16817 msg_type=2007: Unexpected missing socket error",
]


def cluster(folder: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> Slurm:
    """One whose commands say that, as they would, on their way to a controller that is on its way out."""
    (folder / "bin").mkdir()
    for program in ("scontrol", "squeue"):
        (folder / "bin" / program).write_text(f"#!/bin/sh\necho {shlex.quote(said)} >&2\nexit 1\n")
        (folder / "bin" / program).chmod(0o755)
    (folder / "slurm.conf").touch()
    monkeypatch.setenv("PATH", str(folder / "bin"), prepend=":")
    return Slurm({"scheduler_conf": str(folder / "slurm.conf")})


@pytest.mark.parametrize("said", SAID)
def test_q4_a_controller_that_gives_over_to_its_backup_is_one_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    with pytest.raises(Unreachable) as caught:
        cluster(tmp_path, monkeypatch, said).states(["gpu001"])
    assert caught.value.seen == said and "scontrol ping" in caught.value.do or "slurmctld" in str(caught.value)


MUNGED = "scontrol: error: If munged is up, restart with --num-threads=10\nscontrol: error: Munge encode failed: {}"
REFUSED_LOGIN = "slurm_send_node_msg: auth_g_create: REQUEST_NODE_INFO has authentication error"


@pytest.mark.parametrize(
    "why",
    [
        'Failed to access "/run/munge/munge.socket.2": No such file or directory (Did you start munged?)',
        'Failed to connect to "/run/munge/munge.socket.2": Connection refused (Did you start munged?)',
    ],
)
def test_q4_a_munged_that_is_restarted_is_away_and_has_refused_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    with pytest.raises(Unreachable, match="munged does not answer"):
        cluster(tmp_path, monkeypatch, f"{MUNGED.format(why)}\n{REFUSED_LOGIN}").states(["gpu001"])


def test_q4_a_login_that_slurm_refuses_is_a_login_that_it_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AuthFailed):
        cluster(tmp_path, monkeypatch, f"{MUNGED.format('Invalid credential')}\n{REFUSED_LOGIN}").states(["gpu001"])


def test_q4_what_slurm_refuses_is_not_taken_for_a_change_of_controllers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Refused):
        cluster(tmp_path, monkeypatch, "slurm_load_node error: Invalid partition name specified").states(["gpu001"])
