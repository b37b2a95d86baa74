# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role gate runs nothing that goes on by itself and that it would not wait for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_fleet_status import Fleet

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("options", "refused"),
    [({"detached": True}, True), ({"detached": "yes"}, True), ({"detached": False}, False), (None, False)],
)
def test_a_gate_of_the_site_that_goes_on_by_itself_is_refused_before_anything_is_done(
    tmp_path: Path, options: Any, refused: bool
) -> None:
    fleet = Fleet(tmp_path)
    before = fleet.count()["events"]
    more = {"gpufleet.baremetal.kernel_log_gate": None, "gpufleet.baremetal.dcgm_gate": options}
    role = {"ansible.builtin.import_role": {"name": "gpufleet.baremetal.gate"}, "vars": {"gate_more": more}}
    fleet.play(role, ok=False, flags=("--limit", "fresh-imaging"))
    said = " ".join(fleet.output.replace("\\n", " ").split())
    told = "gate_more starts gpufleet.baremetal.dcgm_gate with detached" in said and "gate_wait" in said
    assert told is refused, fleet.output
    assert (fleet.count()["events"] == before) is refused, "validation begins where nothing is refused"
