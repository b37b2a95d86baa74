# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every option of a port's connection goes with each host of a batch, also one that no driver of ours has yet."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import provisioner_wait, scheduler_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import BATCH
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names as provisioner
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names as scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Result
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door

HOSTS = ("gpu001", "gpu002")


def _nodes(folder: Path, port: Any, module: ModuleType, **args: str) -> dict[str, dict[str, Any]]:
    """What the verb is told of each host, whose every variable of the port has a value of its own."""
    own = {
        host: {
            "gpufleet_serial": f"S-{host}",
            **{f"gpufleet_{name}": f"{name} of {host}" for name in (port.OPTION, *port.OPTIONS)},
        }
        for host in HOSTS
    }
    seen: list[dict[str, Any]] = []

    def verb(params: Any, ctx: Any) -> Result:
        seen.extend(params["nodes"])
        return Result(data={"verdicts": {host: {"ok": True} for host in HOSTS}})

    shared = {"hostvars": own, "ansible_play_hosts": list(HOSTS), "ansible_play_batch": list(HOSTS)}
    options = {port.OPTION: {"type": "str"}, **port.OPTIONS}
    Door(
        folder, verb, base=module.ActionModule, more={**BATCH, **options}, args=args, **own[HOSTS[0]], **shared
    ).run()  # fmt: skip
    return {node["host"]: node for node in seen}


@pytest.mark.parametrize(("port", "action"), [(scheduler, scheduler_wait), (provisioner, provisioner_wait)])
def test_a_new_option_of_a_port_goes_with_each_host_and_a_secret_does_not(
    port: Any, action: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(port.OPTIONS, f"{port.OPTION}_context", {"type": "str"})
    monkeypatch.setitem(port.OPTIONS, f"{port.OPTION}_jwt", {"type": "str", "no_log": True})
    # Read anew, as if the option had always been in the list of names.
    found = importlib.util.spec_from_file_location("read_anew", str(action.__file__))
    assert found is not None and found.loader is not None
    fresh = importlib.util.module_from_spec(found)
    found.loader.exec_module(fresh)
    nodes = _nodes(tmp_path, port, fresh)
    told = [port.OPTION, *(name for name, option in port.OPTIONS.items() if not option.get("no_log"))]
    assert [nodes[host].get(name) for host in HOSTS for name in told] == [
        f"{name} of {host}" for host in HOSTS for name in told
    ]
    assert f"{port.OPTION}_jwt" not in str(nodes)
    if port is scheduler:  # What the task itself says is meant for all.
        said = _nodes(tmp_path, port, fresh, scheduler_context="said")
        assert {host: node["scheduler_context"] for host, node in said.items()} == dict.fromkeys(HOSTS, "said")
