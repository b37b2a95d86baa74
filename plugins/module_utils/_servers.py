# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the verb ``servers_import``, shared by module and action. PRIVATE to the collection."""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import spec

#: How a list is read.
LIST = {
    # No path: that has what its text names of the environment in it, which errors show, and a job's secrets are there.
    "path": {"type": "str", "required": True},
    "delimiter": {"type": "str", "default": ""},
    "check_serials": {"type": "bool", "default": True},
    "password_lookup": {"type": "str", "default": "", "no_log": False},
    "password_refs": {"type": "list", "elements": "str", "no_log": False},
}

SPEC = spec(
    LIST,
    dest={"type": "path"},
    purge={"type": "bool", "default": False},
    sources={"type": "list", "elements": "dict", "default": [], "no_log": False},
    server={"type": "str"},
    group={"type": "str", "default": "imported_servers"},
)
RULES = {"mutually_exclusive": [("dest", "server")]}
