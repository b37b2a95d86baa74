# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Argument specs of the scheduler's verbs, shared by module and action. PRIVATE to the collection."""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import BATCH, FLEET, FOR_ALL, SCHEDULER, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names, topology

#: Filled by the action on the controller, from the run and from its ledger.
OWNERSHIP = {
    "run_id": {"type": "str"},
    "known_token": {"type": "str", "no_log": False},
    "known_author": {"type": "str"},
    "known_runs": {"type": "list", "elements": "str"},
    "known_announced": {"type": "list", "elements": "str"},
    "known_as": {"type": "list", "elements": "str"},
    "known_heard": {"type": "list", "elements": "str"},
    "known_called": {"type": "str"},
    "known_own": {"type": "str"},
    "known_admitted": {"type": "bool"},
    "known_here": {"type": "bool"},
    "known_scheduler_node": {"type": "str"},
    "known_renamed": {"type": "str"},
    "known_uuids": {"type": "list", "elements": "str"},
    "known_incarnation": {"type": "str"},
    **{f"known_{key}": {"type": "str"} for key in names.PLACE},
    "known_left": {"type": "bool"},
    "known_others": {"type": "list", "elements": "dict"},
    "known_standing": {"type": "list", "elements": "dict", "no_log": False},
}

NODE = spec(
    FLEET,
    FOR_ALL,
    SCHEDULER,
    OWNERSHIP,
    scheduler_node={"type": "str"},
    name={"type": "str"},
    called={"type": "str"},
    lacks={"type": "str"},
    looked_ago={"type": "float"},
    looked_boot={"type": "str"},
    looked_gpus={"type": "int"},
    state={"type": "str", "choices": list(names.STATES), "default": "present"},
    moved_to={"type": "str"},
    why={"type": "str", "default": "maintenance"},
    kind={"type": "str", "choices": list(names.HELD_AS), "default": names.HELD_AS[0]},
    over_keep={"type": "bool", "default": False},
    seen_event={"type": "int"},
    trial={"type": "str", "choices": list(names.TRIED), "default": names.NEVER},
    leave={"type": "dict"},
    timeout={"type": "float", "default": 300.0},
    interval={"type": "float", "default": 2.0},
)

WAIT = spec(
    FLEET,
    BATCH,
    SCHEDULER,
    until={"type": "str", "choices": list(names.GOALS), "default": "drained"},
    over_keep={"type": "bool", "default": False},
    timeout={"type": "float", "default": 3600.0},
    interval={"type": "float", "default": 15.0},
    completing_timeout={"type": "float", "default": 120.0},
    slice={"type": "dict"},
)

TOPOLOGY = spec(
    FLEET,
    SCHEDULER,
    format={"type": "str", "choices": list(names.TOPOLOGY_FORMATS), "default": names.TOPOLOGY_FORMATS[0]},
    path={"type": "path"},
    hosts={"type": "list", "elements": "str"},
    topologies={
        "type": "list",
        "elements": "dict",
        "options": {
            "name": {"type": "str"},
            "kind": {"type": "str", "choices": list(topology.KINDS), "default": topology.TREE},
            "default": {"type": "bool", "default": False},
            "units": {"type": "dict"},
            "switches": {"type": "dict"},
            "sizes": {"type": "list", "elements": "int"},
            "most": {"type": "int", "default": topology.TRAYS},
        },
        "default": [{"kind": topology.TREE}],
    },
    reconfigure={"type": "bool", "default": True},
    timeout={"type": "float", "default": 60.0},
    interval={"type": "float", "default": 1.0},
)

IDLE = spec(
    FLEET,
    BATCH,
    SCHEDULER,
    gate={"type": "str", "choices": list(names.IDLE_GATES), "default": names.IDLE_GATES[0]},
    options={"type": "dict", "default": {}},
    queue={"type": "str", "required": True},
    at_once={"type": "int", "default": 8},
    older_than={"type": "float", "default": 604800.0},
    timeout={"type": "float", "default": 7200.0},
    start_timeout={"type": "float", "default": 120.0},
    interval={"type": "float", "default": 10.0},
    look_timeout={"type": "float", "default": 20.0},
    python={"type": "str", "default": "/usr/bin/python3"},
    sku={"type": "str"},
    profile={"type": "dict"},
    profile_path={"type": "list", "elements": "path"},
    dmi_path={"type": "path", "default": "/sys/class/dmi/id"},
)
