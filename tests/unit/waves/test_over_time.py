# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a report tells of waves over time."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves import over_time


def test_runs_that_began_nothing_are_told_from_the_first_to_the_last_of_all_ledgers() -> None:
    def halt(at: float, number: int) -> dict[str, Any]:
        return {"at": at, "id": number, "data": {"reason": "7 of 9 nodes failed dcgm:80", "nodes": number}}

    told = over_time._in_vain([halt(200.0, 1), halt(300.0, 2), halt(100.0, 1)])
    assert (told["at"], told["until"]) == ("1970-01-01T00:01:40Z", "1970-01-01T00:05:00Z")
    assert (told["runs"], told["nodes"]) == (3, 2)
