# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of what gathers evidence. PRIVATE to the collection. Runs on nodes: standard library only."""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FLEET, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._evidence.readings import READINGS

#: Seconds for all that is read on a node: a tool that hangs on a GPU that is gone must not hide what the others say.
SECONDS = 300.0

NODE = spec(
    FLEET,
    readings={"type": "list", "elements": "str", "choices": list(READINGS), "default": list(READINGS)},
    timeout={"type": "float", "default": SECONDS},
    dmi_path={"type": "path", "default": "/sys/class/dmi/id"},
)
BUNDLE = spec(
    FLEET,
    folder={"type": "path", "required": True},
    case={"type": "str", "default": ""},
    bmc={"type": "dict", "default": {}},
    bmc_log={"type": "dict", "default": {}},
    node={"type": "dict", "default": {}},
    files={"type": "list", "elements": "path", "default": []},
)
