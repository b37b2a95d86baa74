# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A playbook begins with a verb that asks whether all that was given with -e is heard: a slip there would be seen by
nobody, in a run that writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpufleet.baremetal.tests.tree.listing import text, under
from ansible_collections.gpufleet.baremetal.tests.tree.parts import COLLECTION, ROLE_WORDS, tasks_of

#: Playbooks that begin with another verb, and why they may.
MAY = {
    "awx_setup": "it asks no verb, and writes to a controller what its own role demands",
    "history": "it reads alone, and shows what it has read",
    "preflight": "it reads alone, and tells what nobody hears with all else that is wrong",
    "rack": "it makes the built-in rack, with its own role",
}
_ASKS, _PASSED_ON = "heard(self)", "super()._in_worker(params)"


def playbooks_that_do_not_listen(root: Path) -> list[str]:
    complaints = []
    for path in under(root, "playbooks", suffix=".yml"):
        if path.parent != root / "playbooks" or path.stem in MAY:
            continue
        first = next(verbs_of(yaml.safe_load(text(path))), None)
        if first is not None and not asks(root, first):
            complaints.append(f"{path.name}: it begins with {first}, which does not ask whether all of -e is heard")
    return complaints


def verbs_of(plays: Any) -> Iterator[str]:
    """What is asked of this collection, in its order: a verb, or a role."""
    for task in tasks_of(plays):
        for key, given in task.items():
            if key.startswith(f"{COLLECTION}."):
                yield key.rpartition(".")[2]
            elif key.rpartition(".")[2] in ROLE_WORDS:
                yield f"the role {given['name'].rpartition('.')[2]}"


def asks(root: Path, verb: str) -> bool:
    """Its action does, or passes its call on to another one's that does."""
    path = root / "plugins" / "action" / f"{verb}.py"
    said = text(path) if path.is_file() else ""
    passed_on = _PASSED_ON in said and "plugins.action.fleet_status import" in said
    return _ASKS in said or (passed_on and asks(root, "fleet_status"))
