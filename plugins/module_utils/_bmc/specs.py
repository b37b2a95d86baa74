# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Argument specs of the port's verbs, shared by module and action. PRIVATE to the collection."""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import BMC, FLEET, FOR_ALL, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import names

#: By these the machine is known: the right one of several behind a BMC, and before a write the one that is meant.
_WHO = {
    "serial": {"type": "str"},
    "system_uuid": {"type": "str"},
    "boot_mac": {"type": "str"},
}

POWER_SPEC = spec(
    FLEET,
    FOR_ALL,
    BMC,
    _WHO,
    state={"type": "str", "required": True, "choices": list(names.POWER_STATES)},
    timeout={"type": "float", "default": 300.0},
    graceful_timeout={"type": "float", "default": 120.0},
    leave={"type": "dict"},
)

PXE_SPEC = spec(
    FLEET,
    FOR_ALL,
    BMC,
    _WHO,
    target={"type": "str", "choices": list(names.BOOT_TARGETS), "default": "pxe"},
    mode={"type": "str", "choices": list(names.BOOT_MODES), "default": "keep"},
    http_boot_uri={"type": "str"},
    power={"type": "str", "choices": list(names.BOOT_POWER), "default": "none"},
    prove={"type": "str", "choices": list(names.BOOT_PROOFS), "default": "auto"},
    accept_inconclusive={"type": "bool", "default": False},
    leave={"type": "dict"},
    timeout={"type": "float", "default": 900.0},
)

INFO_SPEC = spec(
    FOR_ALL,
    BMC,
    _WHO,
    macs={"type": "bool", "default": True},
    hardware={"type": "bool", "default": False},
    firmware={"type": "list", "elements": "str", "default": []},
    timeout={"type": "float", "default": 60.0},
)

LOG_SPEC = spec(
    BMC,
    _WHO,
    most={"type": "int", "default": 200},
    since={"type": "str"},
    timeout={"type": "float", "default": 120.0},
)
