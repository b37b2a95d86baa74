# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One finding on several nodes, and many failures lately, stop waves whatever their share of all that ended."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves import breaker, ended
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.breaker import Came
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.budget import Limit
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.rollout import Past

NOW = 1_800_000_000.0
HOUR = 3600.0


def rules(**more: Any) -> breaker.Rules:
    return breaker.Rules(**{"failures": Limit(percent=50), "same": 3, "recent": 3, "hours": 24.0, **more})


def came(failed: dict[str, Came], through: int, at: float = NOW) -> dict[str, Came]:
    return {**failed, **{f"ok{number}": Came(False, at) for number in range(through)}}


def failures(count: int, *findings: str, at: float = NOW) -> dict[str, Came]:
    return {f"gpu{number:03}": Came(True, at, findings) for number in range(1, count + 1)}


def halted(shown: dict[str, Came], image: str = "", **more: Any) -> str:
    return breaker.halted(shown, rules(**more), NOW, image)


def test_several_nodes_with_one_finding_stop_though_their_share_is_small() -> None:
    told = halted(came(failures(3, "dcgm:80", "dcgm:80", "link"), 6), image="2026.11.2")
    assert told.startswith("3 of 9 nodes failed dcgm:80 since image 2026.11.2 (gpu[001-003]), and 3 with one finding")
    assert halted(came(failures(2, "dcgm:80"), 6)) == ""
    assert halted(came(failures(2, "dcgm:80"), 6), same=2) and not halted(came(failures(9, "x"), 40), same=0)
    assert "failed dcgm:80 (" in halted(came(failures(3, "dcgm:80"), 6)), "of no image none is named"


def test_one_finding_is_counted_by_nodes_and_not_by_what_they_have_in_all() -> None:
    mixed = {f"gpu{number}": Came(True, NOW, (f"f{number}", f"g{number % 2}", f"g{number % 2}")) for number in range(4)}
    assert halted(came(mixed, 20)) == "", "each has three, and none is on more than two of them"
    healed = came({"gpu009": Came(False, NOW, ("x",)), **failures(2, "x")}, 20)
    assert halted(healed) == ""
    assert halted(came(failures(5), 20)) == "", "without a finding they have nothing in common"


@pytest.mark.parametrize(
    ("failed", "through", "at", "more", "stops"),
    [
        (3, 2, NOW - HOUR, {}, True),
        (3, 2, NOW - 25 * HOUR, {}, False),
        (3, 2, NOW - 25 * HOUR, {"hours": 26.0}, True),
        (2, 0, NOW - HOUR, {}, False),
        (3, 3, NOW - HOUR, {}, False),
        (3, 3, NOW - HOUR, {"failures": Limit(percent=10)}, True),
        (9, 0, NOW - HOUR, {"recent": 0}, False),
    ],
)
def test_many_failures_lately_stop(failed: int, through: int, at: float, more: dict[str, Any], stops: bool) -> None:
    """A thousand that ended well before count for nothing then."""
    before = {f"old{number}": Came(False, NOW - 90 * HOUR) for number in range(1000)}
    told = halted({**before, **came(failures(failed, at=at), through, at)}, same=0, **more)
    assert bool(told) is stops and (not stops or told.startswith(f"{failed} of {failed + through} nodes failed within"))


def test_what_a_run_has_begun_itself_is_judged_as_its_own() -> None:
    """An earlier failure is none of the wave that has the node now; who was taken and killed failed when it began."""
    own = ended.Ended(through=("gpu001",), failed=("gpu002", "gpu003"))
    began = dict.fromkeys(("gpu001", "gpu002", "gpu003", "gpu004"), NOW)
    waves = [{"id": 1, "run_id": "r", "data": {}}]
    old = Past(waves=waves, failed=True, at=NOW - HOUR, findings=("x",))
    new = Past(waves=waves, failed=True, at=NOW + 5, findings=("y",))
    pasts = dict.fromkeys(("gpu001", "gpu002", "gpu004", "gpu005"), (old, "admitted"))
    found = breaker.shown(own, began, {**pasts, "gpu003": (new, "quarantined")})
    assert found == {
        "gpu001": Came(False, NOW),
        "gpu002": Came(True, NOW),
        "gpu003": Came(True, NOW + 5, ("y",)),
        "gpu005": Came(True, NOW - HOUR, ("x",)),
    }
