# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What day 0 costs where nothing goes wrong, by its files; on a rack the callback counts the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[4]
ROLE, FILE, META = (f"ansible.builtin.{word}" for word in ("import_role", "import_tasks", "meta"))


def test_day_0_has_at_most_22_tasks_of_each_node_and_20_for_all() -> None:
    """The play that fails what is not admitted has none of them."""
    *plays, _fails = read(ROOT / "playbooks" / "day0_bringup.yml")
    started = [task for play in plays for task in begun(play["tasks"], ROOT / "playbooks")]
    own, of_all = (
        [task["name"] for task in started if bool(task.get("run_once")) == together] for together in (False, True)
    )
    assert len(own) <= 22, own
    assert len(of_all) <= 20, of_all


def begun(tasks: Sequence[Mapping[str, Any]], folder: Path) -> Iterator[Mapping[str, Any]]:
    """Those of imported files among them, not those of a rescue. What is skipped costs as much; an include is one;
    what starts no worker costs nothing."""
    for task in tasks:
        if "block" in task:
            yield from begun(task["block"], folder)
        elif FILE in task:
            yield from begun(read(folder / task[FILE]), folder)
        elif ROLE in task:
            of_role = ROOT / "roles" / task[ROLE]["name"].rpartition(".")[2] / "tasks"
            yield from begun(read(of_role / task[ROLE].get("tasks_from", "main.yml")), of_role)
        elif META not in task:
            yield task


def read(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load(path.read_text(encoding="utf-8")))
