# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of gate_outliers; module and action share them. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FAIL_ON, FLEET, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._outliers.rule import PEERS

SPEC = spec(
    FLEET,
    batch={"type": "bool", "default": False},
    hosts={"type": "list", "elements": "str"},
    fail_on={**FAIL_ON["fail_on"], "default": "fail"},
    peers={"type": "int", "default": PEERS},
    days={"type": "int", "default": 90},
    report={"type": "bool", "default": False},
    title={"type": "str", "default": "Outliers"},
)


def refuse(params: Mapping[str, Any]) -> None:
    """:raises ConfigError: for what would judge a node by too few."""
    if params["peers"] < PEERS or params["days"] < 1:
        raise ConfigError(
            "a node is judged by enough peers, that were measured lately",
            wanted=f"peers from {PEERS} on, and days from 1 on",
            seen=f"peers {params['peers']}, days {params['days']}",
            do="correct the option",
        )
    if params["hosts"] and not params["batch"]:
        raise ConfigError("hosts is an option of the whole batch", wanted="batch: true beside it", do="add it")
