# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No verb writes for a node that a tenant has, unless the run names the tenant; the door asks, once for all verbs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.splitter import parse_kv
from ansible_collections.gpufleet.baremetal.plugins.action import provisioner_wait, scheduler_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import for_tenant
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.test_batch_connection import _batch

BLUE = {"gpufleet_tenant": "blue"}


def writes(params: Any, ctx: Context) -> Result:
    ctx.may_write("POST /power")
    return Result(changed=True)


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize("named", [{}, {"gpufleet_for_tenant": "green"}, {"gpufleet_for_tenant": ""}])
def test_u10_a_write_to_a_tenants_node_is_refused_as_somebody_elses(
    tmp_path: Path, check_mode: bool, named: dict[str, str]
) -> None:
    """And a reason is no leave: it is the tenant who gives it."""
    forced = {"args": {"force_reason": "urgent"}}
    for more in ({}, forced):
        door = Door(tmp_path, writes, check_mode=check_mode, **BLUE, **named, **more)
        refused = door.run()
        assert refused["failed"] and refused["error"]["kind"] == "not_ours" and "blue" in refused["msg"], refused
        assert not door.events(), "nothing is held, and nothing was intended"


@pytest.mark.parametrize("more", [{}, {**BLUE, "gpufleet_for_tenant": "blue"}, {"gpufleet_tenant": ""}])
def test_u10_a_run_that_names_the_tenant_writes(tmp_path: Path, more: dict[str, str]) -> None:
    assert Door(tmp_path, writes, **more).run().get("changed")


@pytest.mark.parametrize("said", [False, 0, 0.0, True, 7, [], {}])
@pytest.mark.parametrize("name", ["gpufleet_tenant", "gpufleet_for_tenant"])
def test_u10_a_tenant_whose_name_yaml_reads_as_something_else_is_somebody(tmp_path: Path, name: str, said: Any) -> None:
    """``gpufleet_tenant: no`` protected nothing."""
    door = Door(tmp_path, writes, **{**BLUE, name: said})
    refused = door.run()
    assert refused["failed"] and refused["error"]["kind"] == "config", refused
    assert f"{name} is no text" in refused["msg"] and "quote it" in refused["msg"] and not door.events()


def test_u10_a_look_at_a_tenants_node_is_nobodys_harm(tmp_path: Path) -> None:
    assert not Door(tmp_path, lambda params, ctx: Result(), **BLUE).run().get("failed")


@pytest.mark.parametrize("module", [scheduler_wait, provisioner_wait])
def test_u10_in_a_batch_the_tenants_node_alone_is_refused(tmp_path: Path, module: Any) -> None:
    found = _batch(tmp_path, module, {}, BLUE)
    assert found["gpu002"]["refused"].startswith("gpu002: this node is a tenant's"), found
    assert "not_ours" in found["gpu002"].values() and not found["gpu001"].get("refused")


@pytest.mark.parametrize("name", ["blue", "ACME Corp", "x'; $(id) #", "a=b, c", '"', "é\n"])
def test_u10_the_command_that_is_told_names_the_tenant_whatever_its_name_is(name: str) -> None:
    """As a shell and ansible-playbook read it."""
    command = shlex.split(for_tenant(name))
    assert command[0] == "-e" and len(command) == 2
    word = command[1]
    read = json.loads(word) if word.startswith("{") else parse_kv(word)
    assert read == {"gpufleet_for_tenant": name}
