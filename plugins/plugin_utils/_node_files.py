# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What something of ours has written on a node, read over the connection of the task. PRIVATE to the collection."""

from __future__ import annotations

import shlex

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

#: A few lines.
_MOST = 4096


def read_away(action: ActionBase, path: str) -> str:
    """A file that is taken away there; empty where there is none that we may read, or the node does not answer."""
    name = shlex.quote(path)
    try:
        answer = action._low_level_execute_command(f"head -c {_MOST} {name}; rm -f {name}", sudoable=True)
    except (AnsibleConnectionFailure, AnsibleError):
        return ""
    return str(answer.get("stdout", ""))
