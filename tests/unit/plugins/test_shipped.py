# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verb that another machine carries out: whose the node was to its end."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door


class Elsewhere(VerbAction):
    """Its module runs on a jump host, and meanwhile another run may take the node."""

    ledger_file: Path
    taken: bool

    def _goes_elsewhere(self) -> bool:
        return True

    def _execute_module(self, *_args: Any, **_options: Any) -> dict[str, Any]:
        if self.taken:
            with sqlite3.connect(self.ledger_file) as connection:
                connection.execute("UPDATE leases SET run_id = 'theirs', fencing = fencing + 1")
        return {"changed": True, "found": "what it is like"}


def never(params: Any, ctx: Context) -> Result:
    raise AssertionError("it was for another machine")


@pytest.mark.parametrize("taken", [True, False])
def test_t1_what_was_done_on_a_node_that_another_run_took_meanwhile_is_nobodys(tmp_path: Path, taken: bool) -> None:
    Elsewhere.ledger_file, Elsewhere.taken = tmp_path / "ledger.sqlite", taken
    result = Door(tmp_path, never, base=Elsewhere).run()
    if not taken:
        assert result["found"] == "what it is like" and not result.get("failed"), result
        return
    assert result["failed"] and "found" not in result, result
    assert "no longer ours" in result["msg"], result["msg"]
