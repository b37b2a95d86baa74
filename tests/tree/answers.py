# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What runs on nodes is a verb of ours, whose answer is held for a stranger's, or prints what nobody parses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.tests.tree.listing import loaded, under
from ansible_collections.gpufleet.baremetal.tests.tree.quarantine import OF_NO_NODE

CORE = "ansible.builtin."
#: Of ansible-core: what the controller does itself, and what it parses nothing of.
HARMLESS = frozenset({
    *("assert", "debug", "fail", "meta", "set_fact", "set_stats", "add_host", "group_by", "pause", "raw"),
    *("import_playbook", "import_role", "import_tasks", "include_role", "include_tasks"),
})  # fmt: skip
HERE = ("localhost", "127.0.0.1")


def modules_that_nodes_answer(root: Path) -> list[str]:
    """ansible-core takes ``ansible_facts`` and ``ansible_stats`` out of any module's answer, and a variable of the
    inventory gives way to a fact: a node could name the service to which the next task takes the site's login."""
    found = [
        (path, tasks)
        for path in under(root, "roles", suffix=".yml")
        if path.relative_to(root).parts[2] in ("tasks", "handlers")
        and path.relative_to(root).parts[1] not in OF_NO_NODE
        for tasks in [loaded(path)]
    ]
    found += [
        (path, play)
        for path in under(root, "playbooks", suffix=".yml")
        for play in loaded(path) or []
        if play.get("hosts") not in HERE and play.get("connection") != "local"
    ]
    return [
        f"{path.relative_to(root).as_posix()}: {task.get('name')} is {name}, whose answer a node gives:"
        " let it be a verb of ours, or raw"
        for path, tasks in found
        for task, name in asked(tasks)
    ]


def asked(thing: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Each task of a node with the module of ansible-core that it is."""
    if isinstance(thing, dict):
        if thing.get("delegate_to") in HERE or thing.get("connection") == "local":
            return
        names = (str(key).removeprefix(CORE) for key in thing if str(key).startswith(CORE))
        yield from ((thing, name) for name in names if name not in HARMLESS)
        thing = [
            thing[key]
            for key in ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always")
            if key in thing
        ]
    for inner in thing if isinstance(thing, list) else []:
        yield from asked(inner)
