# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verb that a task runs beside its own, for the same host and over the same connection. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.executor.module_common import _apply_action_arg_defaults
from ansible.plugins.action import ActionBase


def beside(action: ActionBase, other: type[ActionBase], task_vars: Mapping[str, Any]) -> dict[str, Any]:
    """Its result, as a task of its own without an option would have it: what the play says for that module counts."""
    task = action._task.copy()
    # As Ansible's own package and service do it; nothing public says what module_defaults are of another module.
    task.args = _apply_action_arg_defaults(f"gpufleet.baremetal.{other.NAME}", task, {}, action._templar)
    run = other(
        task, action._connection, action._play_context, action._loader, action._templar, action._shared_loader_obj
    )
    result: dict[str, Any] = run.run(task_vars=dict(task_vars))
    return result
