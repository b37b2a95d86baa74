# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many hosts of a batch ask their scheduler together."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action.scheduler_node import ActionModule


@pytest.mark.parametrize(
    ("told", "hosts"),
    [
        pytest.param({"scheduler": "slurm", "state": "held"}, 1000, id="by commands"),
        pytest.param({"scheduler": "slurm", "scheduler_url": "https://ctl:6820", "state": "held"}, 1000, id="by REST"),
        pytest.param({"scheduler": "kubernetes", "state": "present"}, 1000, id="a look"),
        pytest.param({"scheduler": "kubernetes", "state": "resumed"}, ActionModule.AT_ONCE, id="node by node"),
    ],
)
def test_where_one_request_writes_for_all_they_ask_together(told: dict[str, str], hosts: int) -> None:
    """With fewer each round of them would read the whole table of nodes again."""
    assert ActionModule.at_once(lambda name: told.get(name, "")) == hosts
