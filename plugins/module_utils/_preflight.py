# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the verb ``preflight``, shared by module and action. PRIVATE to the collection."""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import spec

#: What is looked at, in the order in which it is told.
CHECKS = ("settings", "ledger", "keys", "sku", "policy", "image", "bmc", "provisioner", "scheduler", "ssh")

SPEC = spec(
    hosts={"type": "list", "elements": "str"},
    skip={"type": "list", "elements": "str", "choices": list(CHECKS), "default": []},
    stop={"type": "bool", "default": True},
    threads={"type": "int", "default": 64},
    title={"type": "str", "default": "Preflight"},
)
