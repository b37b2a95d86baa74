# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What counts as proof that a node may be touched, by whose its holds are."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Hold, NodeView, Work
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.evidence import name_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.hold import Claim

CLAIM = Claim("gpufleet:r1:work:x", frozenset({"r1"}))
OURS = Hold("gpufleet:r1:work:x")
THEIRS = Hold("bad DIMM", author="alice")
OTHER_SITE = Hold("gpufleet:r9:work:x")
OWN_MARK = Hold("Not responding", by_scheduler=True)


@pytest.mark.parametrize(
    ("state", "holds", "work", "name"),
    [
        ("drained", (OURS,), (), "drained"),
        ("drained", (OWN_MARK,), (), "not_drained"),
        ("drained", (THEIRS,), (), "foreign_hold"),
        ("drained", (OTHER_SITE,), (), "foreign_hold"),
        ("drained", (OURS, THEIRS), (), "foreign_hold"),
        ("drained", (THEIRS, OURS), (), "foreign_hold"),
        ("drained", (OURS,), (Work("1"),), "not_drained"),
        ("draining", (OURS,), (), "not_drained"),
        ("down", (OURS,), (), "not_drained"),
        ("unknown", (), (), "not_drained"),
        ("idle", (), (), "in_service"),
        ("absent", (), (), "not_in_scheduler"),
    ],
)
def test_t1_only_our_own_drain_of_a_node_without_work_is_proof(
    state: str, holds: tuple[Hold, ...], work: tuple[Work, ...], name: str
) -> None:
    view = NodeView("gpu001", state=state, holds=holds, work=work, answers=state == "idle")
    assert name_of(view, CLAIM) == name
