# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of several schedulers with nodes of the same names it is that is asked."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place

ALPHA, BETA, HERE, THERE = "slurm alpha", "slurm beta", "https://here", "https://there"


@pytest.mark.parametrize(
    ("asked", "known", "other"),
    [
        (Place(ALPHA), Place(), False),  # noted before clusters were
        (Place(), Place(), False),
        (Place(ALPHA), Place(ALPHA), False),
        (Place(ALPHA), Place("slurm Alpha"), False),
        (Place(ALPHA), Place(BETA), True),
        (Place(ALPHA, scheduler_at=HERE), Place(BETA, scheduler_at=HERE), True),  # leads to another one now
        (
            Place(ALPHA, scheduler_at=THERE),
            Place(ALPHA, scheduler_at=HERE),
            False,
        ),  # was moved
        (Place("kubernetes alpha"), Place(ALPHA), True),
        (Place(ALPHA, "ctl1"), Place(ALPHA, "CTL1"), False),
        (Place(ALPHA, "ctl2"), Place(ALPHA, "ctl1"), True),  # two that are called alike, or a new head node
        (Place(ALPHA), Place(ALPHA, "ctl1"), False),  # by slurmrestd, which does not tell
        (Place(ALPHA, "ctl1"), Place(ALPHA), False),
        (Place(scheduler_at=HERE), Place(scheduler_at=HERE), False),
        (Place(scheduler_at=THERE), Place(scheduler_at=HERE), True),
        (Place(ALPHA, scheduler_at=HERE), Place(scheduler_at=HERE), False),  # it tells its name since it was updated
        (Place(scheduler_at=HERE), Place(ALPHA, scheduler_at=HERE), False),
        (Place(scheduler_at=HERE), Place(ALPHA), True),  # nothing that could be compared
        (Place(ALPHA), Place(scheduler_at=HERE), True),
        (Place(), Place(ALPHA), True),
        (Place(), Place(scheduler_at=HERE), True),
    ],
)
def test_r5_another_scheduler_is_told_by_its_name_else_by_its_address(asked: Place, known: Place, other: bool) -> None:
    assert asked.is_other(known) is other


def test_what_is_told_is_read_back() -> None:
    for place in (Place(), Place(ALPHA), Place(scheduler_at=HERE), Place(ALPHA, scheduler_at=HERE)):
        assert Place.told(place.data()) == Place.told(place.data("known_"), "known_") == place
    known = {"known_cluster", "known_cluster_host", "known_scheduler_at"}
    assert Place().data() == {} and set(Place().data("known_")) == known
    assert str(Place(ALPHA, "ctl1")) == "slurm alpha of ctl1" and Place(ALPHA, "ctl1").is_called(" Slurm alpha of ctl1")
    assert [str(one) for one in (Place(ALPHA, scheduler_at=HERE), Place(scheduler_at=HERE))] == [ALPHA, HERE]
