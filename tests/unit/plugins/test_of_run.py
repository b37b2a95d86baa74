# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one task of a run leaves for the next one."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible import constants as C
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _in_force, _of_run
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._of_run import CHECKED_FILES

SKU = {"sku": "h100-sxm-8"}


def left() -> list[Path]:
    return sorted(Path(C.DEFAULT_LOCAL_TMP).iterdir())


def test_who_leaves_it_first_is_heard_and_nothing_else_stays() -> None:
    assert _of_run.read("a") == ""
    _of_run.leave("a", "one")
    _of_run.leave("a", "two")
    assert _of_run.read("a") == "one" and [path.name for path in left()] == ["gpufleet-a"]


def test_where_nothing_can_be_left_each_looks_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(C, "DEFAULT_LOCAL_TMP", str(tmp_path / "none"))
    CHECKED_FILES.put("a", {"b": 1})
    assert CHECKED_FILES.get("a") is None
    assert _in_force.profile_of(SKU).data["sku"] == "h100-sxm-8"


def test_a_profile_is_checked_by_the_first_task_of_a_run_alone() -> None:
    found = _in_force.profile_of(SKU)
    [note] = left()
    again = _in_force.profile_of(SKU)
    assert again == found and left() == [note], "the same to the last digit, and to the digest"
    note.write_text('{"sku": "h100-sxm-8"}', encoding="utf-8")
    assert _in_force.profile_of(SKU).data == {"sku": "h100-sxm-8"}, "it is what was left that is taken"


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\udcff"])
def test_what_is_no_profile_is_not_taken_for_one(text: str) -> None:
    found = _in_force.profile_of(SKU)
    [note] = left()
    note.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert _in_force.profile_of(SKU) == found
