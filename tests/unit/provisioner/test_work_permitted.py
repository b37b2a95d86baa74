# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes before work of Ironic's asks for the permit as the work itself does."""

from __future__ import annotations

from typing import Any

import pytest
from unit.provisioner.test_ironic_each_line import NODE, Line, Server, driver, wanted


@pytest.mark.parametrize(("step", "hard"), [("inspect", False), ("clean", True)])
@pytest.mark.parametrize("work", [True, False])
def test_w4_each_write_of_work_needs_its_permit_before_the_first_and_none_on_the_way_to_ready(
    step: str, hard: bool, work: bool
) -> None:
    """`manage` takes a node out of the pool: that is no more to be done of one that works than what it leads to."""
    raw = {**NODE, "maintenance": True, "maintenance_reason": "gpufleet:r1:x"}
    there = dict(raw)

    def answer(method: str, path: str, query: Any) -> tuple[int, Any]:
        if method == "DELETE":
            there.update(maintenance=False, maintenance_reason=None)
        return (200, {"ports": []} if path == "/ports" else there) if method == "GET" else (202, None)

    server, line = Server(answer), Line()
    one = driver(server.url, line)
    asked = wanted(work=work, extras={"clean_steps": [{"interface": "bios", "step": "factory_reset"}]})
    try:
        one.start(step, one.state_of(raw), asked)
    finally:
        server.close()
    writes = [("DELETE /v1/nodes/u-1/maintenance", work), ("target=manage", work), (f"target={step}", work or hard)]
    assert len(line.asked) == len(writes)
    for (what, told, _nodes), (words, needs) in zip(line.asked, writes):
        assert words.split()[-1] in what and told == needs, line.asked
