# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a fleet stands, written to a file for other programs."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.action.fleet_status import ActionModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Result
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door


def told(folder: Path, *, check_mode: bool = False, **args: Any) -> dict[str, Any]:
    hosts = {f"gpu00{number}": {"gpufleet_serial": f"GF000{number}"} for number in (1, 2)}
    of_play = {"gpufleet_scheduler": "none", "ansible_play_hosts_all": list(hosts)}
    door = Door(
        folder, lambda params, ctx: Result(), base=ActionModule, name="fleet_status", own_spec=SPEC, args=args,
        check_mode=check_mode, of_play=of_play, hostvars=hosts,
    )  # fmt: skip
    return door.run()


def test_u4_what_is_told_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "new" / "status.json"
    result = told(tmp_path, path=str(file), title="Rack 12")
    written = json.loads(file.read_text(encoding="utf-8"))
    assert result["changed"] and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (written["title"], written["states"], written["not_told"]) == ("Rack 12", {"discovered": 2}, [])
    assert written["groups"] == result["groups"] and written["nodes"] == result["nodes"]
    assert [group["folded"] for group in result["groups"]] == ["gpu[001-002]"]
    assert any(line.startswith("  gpu001  discovered") for line in result["lines"]), (
        "by host, as nobody asked otherwise"
    )


def test_u4_check_mode_writes_no_file(tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    assert told(tmp_path, check_mode=True, path=str(file))["changed"] and not file.exists()


def test_u4_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = told(tmp_path, path=str(tmp_path / "file" / "status.json"))
    assert result["failed"] and "cannot be written" in result["msg"] and "file/status.json" in result["msg"]


def test_u4_nothing_more_is_told_to_whoever_asks_for_neither(tmp_path: Path) -> None:
    result = told(tmp_path)
    assert "groups" not in result and not result["changed"]
