# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counts what costs a controller its time: the tasks that it starts a worker for, host by host."""

from __future__ import annotations

DOCUMENTATION = r"""
name: host_tasks
type: aggregate
short_description: Count the host-tasks of a run
version_added: 0.1.0
description:
  - Counts each task that is started for a host, whatever comes of it. Tasks that a condition skips are counted, and so
    are those that no playbook names, such as gathering facts and the validation of a role's arguments.
  - A host-task costs the controller 15 to 25 ms, whatever it does. On thousands of hosts that adds up to hours, and
    this count is how to see it.
  - Meta tasks are not counted, since no worker is started for them.
options:
  path:
    description: The JSON file to write when the run ends. Nothing is written without it.
    type: path
    env:
      - name: GPUFLEET_HOST_TASKS_PATH
    ini:
      - section: callback_host_tasks
        key: path
author:
  - gpufleet.baremetal contributors (@gpufleet)
requirements:
  - enabled as a callback (C(callbacks_enabled = gpufleet.baremetal.host_tasks) in C(ansible.cfg))
"""

import json
import typing as t

from ansible.plugins.callback import CallbackBase
from ansible_collections.gpufleet.baremetal.plugins.module_utils._private import write_for_people
from ansible_collections.gpufleet.baremetal.plugins.module_utils._text import harmless

if t.TYPE_CHECKING:
    from ansible.executor.stats import AggregateStats
    from ansible.executor.task_result import CallbackTaskResult
    from ansible.inventory.host import Host
    from ansible.playbook.task import Task

SCHEMA = 1
VALIDATION = ("validate_argument_spec", "ansible.builtin.validate_argument_spec")


class HostCount:
    """The tasks of one host."""

    def __init__(self) -> None:
        self.tasks = 0
        self.skipped = 0
        self.implicit = 0
        self.argument_specs = 0
        self.by_role: dict[str, int] = {}

    def started(self, task: Task) -> None:
        self.tasks += 1
        self.implicit += bool(task.implicit)
        self.argument_specs += task.action in VALIDATION
        role = role_name(task)
        self.by_role[role] = self.by_role.get(role, 0) + 1


def role_name(task: Task) -> str:
    """The role that the task is of, or an empty string for a task of a play."""
    role = getattr(task, "_role", None)
    return str(role.get_name()) if role else ""


def write_json(path: str, content: dict[str, t.Any]) -> None:
    """All or nothing: a reader never finds half a file."""
    write_for_people(path, json.dumps(content, indent=2, sort_keys=True), "the count of host-tasks")


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpufleet.baremetal.host_tasks"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: t.Any, **kwargs: t.Any) -> None:
        super().__init__(*args, **kwargs)
        self.wants_implicit_tasks = True
        self.hosts: dict[str, HostCount] = {}

    def v2_runner_on_start(self, host: Host, task: Task) -> None:
        self.hosts.setdefault(host.get_name(), HostCount()).started(task)

    def v2_runner_on_skipped(self, result: CallbackTaskResult) -> None:
        # A skipped meta task comes here too, though nothing was started for it.
        counted = self.hosts.get(result.host.get_name())
        if counted and result.task.action not in ("meta", "ansible.builtin.meta"):
            counted.skipped += 1

    def v2_playbook_on_stats(self, stats: AggregateStats) -> None:
        path = self.get_option("path")
        if path:
            write_json(path, self.report())
        for name, count in sorted(self.hosts.items()):
            self._display.v(f"host-tasks of {harmless(name)}: {count.tasks} ({count.skipped} skipped)")

    def report(self) -> dict[str, t.Any]:
        return {
            "schema": SCHEMA,
            "total": sum(count.tasks for count in self.hosts.values()),
            "most": max((count.tasks for count in self.hosts.values()), default=0),
            "hosts": {name: vars(count) for name, count in self.hosts.items()},
        }
