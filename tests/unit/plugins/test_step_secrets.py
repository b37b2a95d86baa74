# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provisioner's step is given may be a password, under whatever name: no ledger gets it with an intent."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import provisioner_node, provisioner_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.specs import NODE_SPEC, WAIT_SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door

SECRET = "Hunter2-Bios"
STEPS = [
    {
        "interface": "bios",
        "step": "apply_configuration",
        "args": {"settings": [{"name": "SetupPassword", "value": SECRET}]},
    }
]


SAID: dict[str, Any] = {"ironic": {"clean_steps": STEPS, "deploy_steps": STEPS}}
PLACE = {"gpufleet_provisioner": "ironic", "gpufleet_provisioner_url": "http://127.0.0.1:9"}


def writes(params: Mapping[str, Any], ctx: Context) -> Result:
    """One write; the steps are whole where they are needed."""
    assert SECRET in str(params)
    ctx.may_write("PUT /nodes/1/states/provision", destructive=False)
    return Result(changed=True, data={"verdicts": {}})


def intent_of(door: Door) -> str:
    found = door.run()
    assert not found.get("failed"), found
    with sqlite3.connect(door.ledger) as ledger:
        events = ledger.execute("SELECT kind, data FROM events").fetchall()
    assert SECRET not in str(events), events
    [intent] = [data for kind, data in events if kind == "intent"]
    return str(intent)


def test_what_a_step_is_given_is_in_no_intent(tmp_path: Path) -> None:
    args = {"state": "enrolled", "driver": SAID}
    its: dict[str, Any] = {"name": "provisioner_node", "own_spec": NODE_SPEC, "args": args}
    intent = intent_of(Door(tmp_path, writes, base=provisioner_node.ActionModule, **its, **PLACE))
    assert "clean_steps" in intent and "apply_configuration" in intent, intent


@pytest.mark.parametrize(
    "args", [{"driver": SAID}, {"nodes": [{"host": "n1", "driver": SAID}, {"host": "n2", "driver": json.dumps(SAID)}]}]
)
def test_nor_in_that_of_a_batch_that_is_waited_for(tmp_path: Path, args: Mapping[str, Any]) -> None:
    """Of each host as well, where that may be said as text."""
    its: dict[str, Any] = {"name": "provisioner_wait", "own_spec": WAIT_SPEC, "args": {"until": "deployed", **args}}
    play: dict[str, Any] = {key: ["gpu001"] for key in ("ansible_play_batch", "ansible_play_hosts")}
    hosts = {"gpu001": {**PLACE, "gpufleet_serial": "GF0001"}}
    intent = intent_of(
        Door(tmp_path, writes, base=provisioner_wait.ActionModule, hostvars=hosts, **its, **play, **PLACE)
    )
    assert "deploy_steps" in intent and "apply_configuration" in intent, intent
