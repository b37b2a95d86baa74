# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the verb ``hardware_verify``, shared by module and action. PRIVATE to the collection."""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import (
    BMC,
    FAIL_ON,
    FLEET,
    FOR_ALL,
    PROVISIONER,
    spec,
)

SPEC = spec(
    FLEET,
    BMC,
    PROVISIONER,
    FAIL_ON,
    FOR_ALL,
    provisioner_id={"type": "str"},
    name={"type": "str"},
    serial={"type": "str"},
    system_uuid={"type": "str"},
    boot_mac={"type": "str"},
    sku={"type": "str"},
    profile_path={"type": "list", "elements": "str"},
    expected={"type": "dict", "default": {}},
    bmc={"type": "dict"},
    timeout={"type": "float", "default": 180.0},
)
