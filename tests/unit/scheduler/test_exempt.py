# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Slurm that leaves a job alone although its node is wanted verifies no idle node: its users would wait."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.driver import Slurm
from unit.scheduler.slurm_commands import World

CONFIG = {
    "ClusterName": "alpha",
    "SlurmctldHost[0]": "ctl1(10.0.0.1)",
    "SlurmUser": "root",
    "PrivateData": "none",
    "PreemptType": "preempt/partition_prio",
}
VERIFY = "PartitionName=verify Nodes=gpu001 PriorityTier=1 PreemptMode=CANCEL GraceTime=0 State=UP"


def unyielding(world: World, **settings: str) -> object:
    world(nodes={}, config={**CONFIG, **settings}, partitions=[VERIFY])
    return Slurm({}).unyielding("verify", ["gpu001"])


@pytest.mark.parametrize(
    ("settings", "seen"),
    [
        ({"PreemptExemptTime": "00:00:30"}, "PreemptExemptTime=00:00:30"),
        ({"PreemptExemptTime": "1-00:00:00"}, "PreemptExemptTime=1-00:00:00"),
        ({"PreemptParameters": "send_user_signal,min_exempt_priority=1"}, "PreemptParameters=min_exempt_priority=1"),
    ],
)
def test_what_keeps_a_job_where_it_is_is_told(world: World, settings: dict[str, str], seen: str) -> None:
    with pytest.raises(ConfigError, match="leave a verification alone") as refused:
        unyielding(world, **settings)
    assert refused.value.seen == seen


@pytest.mark.parametrize(
    "settings", [{}, {"PreemptExemptTime": "00:00:00", "PreemptParameters": "(null)"}, {"PreemptExemptTime": "NONE"}]
)
def test_a_slurm_that_leaves_nobody_alone_is_good_enough(world: World, settings: dict[str, str]) -> None:
    assert unyielding(world, **settings) == {}
