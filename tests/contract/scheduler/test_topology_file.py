# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The topology of a real Slurm: what is written, what slurmctld makes of it, and who is not given back without it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, NotOurs, NotProven
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.map import topology_file
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from contract.scheduler import slurm_cluster
from contract.scheduler.verbs import node
from suite import services

#: gpu003 and those without a slurmd are missing: Slurm takes that without a word.
FIRST = "SwitchName=l1 Nodes=gpu[001-002]\n"
LEAVES = {"rack-1.leaf": ["gpu001", "gpu002"], "rack-2.leaf": ["gpu003", "gpu004", "gpu005"]}


@pytest.fixture(scope="module")
@services.real
def cluster() -> Iterator[Any]:
    with slurm_cluster.running(topology=FIRST) as made:
        yield made


class Site:
    def __init__(self, cluster: Any) -> None:
        self.connection = {"scheduler": "slurm", "scheduler_conf": str(cluster.conf)}


def written(
    cluster: Any, units: dict[str, list[str]], check_mode: bool = False, switches: Any = None, **more: Any
) -> Result:
    topology = {"kind": "tree", "units": units, "switches": switches}
    params = {**Site(cluster).connection, "format": "conf", "reconfigure": True, "topologies": [topology], **more}
    ctx = Context(check_mode=check_mode, diff=True)
    result = topology_file({"timeout": 20, "interval": 0.2, **params}, ctx)
    result.data["asked"] = ctx.asked
    return result


def test_who_is_missing_is_not_resumed_and_is_once_the_topology_has_it(cluster: Any) -> None:
    """One story, since each step is the next one's beginning, and a cluster takes seconds to start."""
    site, file = Site(cluster), cluster.root / "topology.conf"
    held = node(site, "gpu003", "held")
    token = held.data["reason"]
    with pytest.raises(ConfigError, match="no job for ever"):
        node(site, "gpu003", "resumed", known_token=token)
    assert "DRAIN" in cluster.state("gpu003")

    with pytest.raises(NotOurs, match="somebody else wrote"):
        written(cluster, LEAVES)
    with pytest.raises(ConfigError, match=r"gpu\[003-005\] would stand idle for good"):
        written(cluster, {"l1": ["gpu001", "gpu002"]}, force_reason="ours from now on")
    with pytest.raises(ConfigError, match="rack-1.leaf is below itself"):
        # measured: slurmctld 22.05 is gone after that
        circle = {"a": ["rack-1.leaf", "b"], "b": ["a", "rack-2.leaf"]}
        written(cluster, LEAVES, switches={**circle, "rack-1.leaf": ["rack-1.leaf"]}, force_reason="x")
    assert file.read_text(encoding="ascii") == FIRST

    foretold = written(cluster, LEAVES, check_mode=True, force_reason="ours from now on")
    assert foretold.changed and not foretold.data["asked"] and file.read_text(encoding="ascii") == FIRST
    done = written(cluster, LEAVES, force_reason="ours from now on")
    assert done.changed and done.data["diff"]["before"] == FIRST and done.after == foretold.after
    assert (
        done.data["asked"] == [f"write {file}; scontrol reconfigure"] and "l1 is there still" in done.data["was_amiss"]
    )
    assert file.stat().st_mode & 0o777 == 0o644
    shown = cluster.scontrol("show", "topology")
    assert "SwitchName=rack-2.leaf Level=0" in shown and "Switches=rack-1.leaf,rack-2.leaf" in shown, shown
    again = written(cluster, LEAVES)
    assert not again.changed and not again.data["asked"]

    assert node(site, "gpu003", "resumed", known_token=token).changed
    number = cluster.job("gpu003")
    cluster.end_job(number)

    # A hand put slurmctld on another one, and the file back: what it goes by is read, not what lies there.
    ours = file.read_text(encoding="ascii")
    file.write_text(f"{FIRST}SwitchName=l2 Nodes=gpu[003-005]\n", encoding="ascii")
    cluster.scontrol("reconfigure")
    file.write_text(ours, encoding="ascii")
    mended = written(cluster, LEAVES)
    assert mended.changed and mended.data["asked"] == ["scontrol reconfigure"]
    assert not written(cluster, LEAVES).changed


def test_what_slurmctld_does_not_take_is_put_back(cluster: Any) -> None:
    """A file that slurmctld does not read, as on a machine that is not its own, changes nothing of what it goes by."""
    elsewhere = cluster.root / "login" / "topology.conf"
    elsewhere.parent.mkdir()
    with pytest.raises(NotProven, match="does not go by the topology") as caught:
        written(
            cluster, {"other": [name for nodes in LEAVES.values() for name in nodes]}, path=str(elsewhere), timeout=0.5
        )
    assert "other is not there" in caught.value.seen and not elsewhere.exists()
