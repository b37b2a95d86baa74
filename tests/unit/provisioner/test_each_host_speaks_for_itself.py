# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A task that runs once for a batch is templated with its first host's variables: what a site says to its provisioner's
driver is of each host, so that such a task leaves it out and the verb reads each host's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CHECKOUT = Path(__file__).resolve().parents[3]
_BATCH = ("gpufleet.baremetal.provisioner_wait", "gpufleet.baremetal.provisioner_info")


def _tasks(found: Any) -> Iterator[dict[str, Any]]:
    if isinstance(found, list):
        for one in found:
            yield from _tasks(one)
    elif isinstance(found, dict):
        yield found
        for key in ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always"):
            yield from _tasks(found.get(key))


def test_no_batch_is_asked_with_one_hosts_words() -> None:
    files = [*CHECKOUT.glob("playbooks/*.yml"), *CHECKOUT.glob("roles/*/tasks/*.yml")]
    asked = [
        (path.name, task[module])
        for path in files
        for task in _tasks(yaml.safe_load(path.read_text(encoding="utf-8")))
        for module in _BATCH
        if module in task
    ]
    assert len(asked) > 3, "they are looked for in the right places"
    assert [name for name, args in asked if "driver" in (args or {})] == []
