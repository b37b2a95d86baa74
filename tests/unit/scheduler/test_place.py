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
        (Place(ALPHA, HERE), Place(BETA, HERE), True),  # the address leads to another one now
        (Place(ALPHA, THERE), Place(ALPHA, HERE), False),  # it has moved, or is reached by its other controller
        (Place("kubernetes alpha"), Place(ALPHA), True),
        (Place(at=HERE), Place(at=HERE), False),
        (Place(at=THERE), Place(at=HERE), True),
        (Place(ALPHA, HERE), Place(at=HERE), False),  # it tells its name since it was updated
        (Place(at=HERE), Place(ALPHA, HERE), False),
        (Place(at=HERE), Place(ALPHA), True),  # nothing that could be compared
        (Place(ALPHA), Place(at=HERE), True),
        (Place(), Place(ALPHA), True),
        (Place(), Place(at=HERE), True),
    ],
)
def test_r5_another_scheduler_is_told_by_its_name_else_by_its_address(asked: Place, known: Place, other: bool) -> None:
    assert asked.is_other(known) is other


def test_what_is_told_is_read_back() -> None:
    for place in (Place(), Place(ALPHA), Place(at=HERE), Place(ALPHA, HERE)):
        assert Place.told(place.data()) == Place.told(place.data("known_"), "known_") == place
    assert Place().data() == {} and set(Place().data("known_")) == {"known_cluster", "known_scheduler_at"}
    assert [str(one) for one in (Place(ALPHA, HERE), Place(at=HERE))] == [ALPHA, HERE]
