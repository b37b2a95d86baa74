# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that nobody holds: no wait drains it, and its work is its owner's."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import hold
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView, Work
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.judge import until_drained


@pytest.mark.parametrize("work", [(), (Work("7"),)])
def test_t1_who_holds_nothing_is_not_waited_for_and_nothing_of_it_is_evicted(work: tuple[Work, ...]) -> None:
    claim = hold.Claim("gpufleet:run1:reimage", frozenset({"run1"}))
    found = until_drained(NodeView("gpu1", "mixed" if work else "idle", answers=True, work=work), claim)
    assert (found.ok, found.settled, found.evict) == (False, True, False)
    assert "it is in service" in found.reason and "hold it first" in found.reason
