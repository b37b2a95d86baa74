# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Argument specs of the port's verbs, shared by module and action. PRIVATE to the collection."""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import (
    BATCH,
    BMC,
    FLEET,
    FOR_ALL,
    PROVISIONER,
    spec,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names

NODE_SPEC = spec(
    FLEET,
    FOR_ALL,
    PROVISIONER,
    BMC,
    state={"type": "str", "required": True, "choices": list(names.STATES)},
    provisioner_id={"type": "str"},
    name={"type": "str"},
    boot_mac={"type": "str"},
    serial={"type": "str"},
    image={"type": "dict"},
    properties={"type": "dict", "default": {}},
    driver={"type": "dict", "default": {}},
    annotations={"type": "dict", "default": {}},
    why={"type": "str", "default": "maintenance"},
    author={"type": "str"},
    known_mark={"type": "str"},
    run_id={"type": "str"},
    known_runs={"type": "list", "elements": "str"},
    known_deployed={"type": "bool"},
    known_deploy_ids={"type": "list", "elements": "str"},
    known_stamps={"type": "list", "elements": "str"},
    known_works={"type": "list", "elements": "str"},
    known_former_serials={"type": "list", "elements": "str"},
    image_verified={"type": "bool"},
    erase={"type": "bool", "default": False},
    redeploy={"type": "bool", "default": False},
    deploy_id={"type": "str"},
    moved_to={"type": "dict"},
    carry={"type": "dict", "default": {}},
    known_move={"type": "dict"},
    known_place={"type": "dict"},
    known_at={"type": "dict"},
    update_password={"type": "str", "choices": ["on_create", "always"], "default": "on_create", "no_log": False},
    rescue_password={"type": "str", "no_log": True},
    leave={"type": "dict"},
)

WAIT_SPEC = spec(
    FLEET,
    BATCH,
    PROVISIONER,
    until={"type": "str", "required": True, "choices": list(names.UNTIL)},
    timeout={"type": "float", "default": 3600.0},
    interval={"type": "float", "default": 10.0},
    driver={"type": "dict", "default": {}},
    erase={"type": "bool", "default": False},
    booted={"type": "bool", "default": False},
    run_id={"type": "str"},
    slice={"type": "dict"},
)

INFO_SPEC = spec(
    FLEET,
    BATCH,
    PROVISIONER,
    thorough={"type": "bool", "default": False},
    driver={"type": "dict", "default": {}},
)

IMAGE_SPEC = spec(
    FLEET,
    PROVISIONER,
    image={"type": "dict"},
    properties={"type": "dict", "default": {}},
    driver={"type": "dict", "default": {}},
    ca_path={"type": "path"},
    timeout={"type": "float", "default": 7200.0},
    image_verified={"type": "bool"},
)
