# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of ``fleet_plan``. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FLEET, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError

SPEC = spec(
    FLEET,
    state={"type": "str", "choices": ["planned", "begun", "paused", "resumed", "reset"], "default": "planned"},
    hosts={"type": "list", "elements": "str"},
    fleet={"type": "list", "elements": "str"},
    budgets={"type": "dict", "default": {"fleet": "10%"}},
    elsewhere={"type": "bool", "default": True},
    windows={"type": "list", "elements": "dict", "default": []},
    canary={"type": "int", "default": 1},
    growth={"type": "float", "default": 2.0},
    failures={"type": "str", "default": "10%"},
    same_finding={"type": "int", "default": 3},
    recent_failures={"type": "int", "default": 3},
    recent_hours={"type": "float", "default": 24.0},
    remember={"type": "bool", "default": False},
    rollout={"type": "bool", "default": False},
    reason={"type": "str"},
    by={"type": "str"},
    report={"type": "bool", "default": False},
    title={"type": "str", "default": "Waves"},
)
RULES = {
    "required_if": [
        ("state", "paused", ("reason", "by")),
        ("state", "resumed", ("by",)),
        ("state", "reset", ("reason", "by")),
    ]
}


def refuse(params: Mapping[str, Any]) -> None:
    """:raises ConfigError: where no wave could have a node, or the next one would be smaller."""
    if params["canary"] < 1 or not 1 <= params["growth"] < float("inf"):
        raise ConfigError(
            "waves begin with a node, and grow",
            wanted="canary from 1 on, and growth from 1 on",
            seen=f"canary {params['canary']}, growth {params['growth']:g}",
            do="correct the option",
        )
