# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A topology that slurmctld does not take does not stay, whatever befalls the run, and what stays is told as it is."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, NotProven
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.map import topology_file
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline, Result
from unit.scheduler.slurm_commands import World

OURS = "# Written by gpufleet.baremetal.topology_file, which replaces it as a whole.\n"
GOOD = f"{OURS}SwitchName=old Nodes=gpu[001-002]\n"
NODES = {f"gpu00{number}": {"state": "IDLE", "reason": "", "by": ""} for number in (1, 2)}
TAKEN = {"": ["SwitchName=l1 Level=0 LinkSpeed=0 Nodes=gpu[001-002]"]}
STAYS = (0, "", {})


class Line(Lifeline):
    """What happens while it is waited for slurmctld."""

    def __init__(self, happens: Callable[[], None] = lambda: None) -> None:
        self._happens = happens

    def beat(self) -> None:
        self._happens()


@pytest.fixture
def file(world: World, tmp_path: Path) -> Path:
    config = {"ClusterName": "alpha", "SlurmctldHost[0]": "ctl1(10.0.0.1)", "SlurmUser": "root", "PrivateData": "none"}
    config.update(SLURM_VERSION="25.05.3", SLURM_CONF=str(tmp_path / "slurm.conf"), TopologyPlugin="topology/tree")
    partitions = ["PartitionName=gpu AllocNodes=ALL Hidden=NO Nodes=gpu[001-002] TotalNodes=2"]
    world(nodes=NODES, partitions=partitions, config=config, reconfigured=[STAYS, STAYS, STAYS, (0, "", TAKEN)])
    standing = tmp_path / "topology.conf"
    standing.write_text(GOOD, encoding="utf-8")
    return standing


def written(happens: Callable[[], None] = lambda: None, **more: Any) -> Result:
    topology = {"kind": "tree", "units": {"l1": list(NODES)}}
    params = {"scheduler": "slurm", "format": "conf", "topologies": [topology], "reconfigure": True}
    return topology_file({**params, "timeout": 0.2, "interval": 0.05, **more}, Context(lifeline=Line(happens)))


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("lay", [os.mkfifo, lambda path: os.symlink("shared.conf", path)])
def test_what_is_no_file_is_neither_read_nor_replaced(file: Path, lay: Callable[[Path], None], check: bool) -> None:
    """Slurm's folder is often the same on all machines by a link; to read a FIFO waits for ever."""
    file.rename(file.with_name("shared.conf"))
    lay(file)
    with pytest.raises(ConfigError, match="the topology would take the place of a (FIFO|link)"):
        topology_file({"scheduler": "slurm", "format": "conf", "topologies": []}, Context(check_mode=check))
    assert not file.is_file() or file.is_symlink()


def killed() -> None:
    raise KeyboardInterrupt


def beside(file: Path) -> list[str]:
    return sorted(one.name for one in file.parent.glob("topology.conf?*"))


@pytest.mark.parametrize("stood", [GOOD, None])
def test_what_a_killed_run_left_is_not_what_the_next_one_goes_back_to(file: Path, stood: str | None) -> None:
    if stood is None:
        file.unlink()
    with pytest.raises(KeyboardInterrupt):
        written(killed)
    broken = file.read_text(encoding="utf-8")
    assert broken != stood and (stood or "") in file.with_suffix(".conf.before").read_text(encoding="utf-8")
    with pytest.raises(NotProven, match="what stood there before stands there again"):
        written()
    assert (file.read_text(encoding="utf-8") if file.exists() else None) == stood and not beside(file)
    assert written().changed and file.read_text(encoding="utf-8") == broken and not beside(file)


def test_what_was_kept_says_nothing_of_what_a_person_wrote_since(file: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        written(killed)
    persons = f"{OURS}SwitchName=l2 Nodes=gpu[001-002]\n"
    file.write_text(persons, encoding="utf-8")
    with pytest.raises(NotProven, match="stands there again"):
        written()
    assert file.read_text(encoding="utf-8") == persons


def test_what_another_run_wrote_meanwhile_is_left_and_told(file: Path) -> None:
    theirs = f"{OURS}SwitchName=newer Nodes=gpu[001-002]\n"
    with pytest.raises(NotProven, match="was not put back: .*another topology stands there by now"):
        written(lambda: file.write_text(theirs, encoding="utf-8") and None)
    assert file.read_text(encoding="utf-8") == theirs


@pytest.fixture
def disk() -> Iterator[Callable[[], None]]:
    """Fills it: from then on this process writes no byte into any file."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, before)


def test_one_that_cannot_be_put_back_is_told_to_stand_there(file: Path, disk: Callable[[], None]) -> None:
    with pytest.raises(NotProven, match="what was written stands there still, .* cannot be put back") as caught:
        written(disk, timeout=0.01)
    assert "again" not in caught.value.seen and "l1" in file.read_text(encoding="utf-8")
    assert beside(file) == ["topology.conf.before"], "whoever mends that has it"
