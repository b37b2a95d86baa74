# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every option of a port's connection goes with each host of a batch, also one that no driver of ours has yet; and
what a host lacks is not taken from its neighbour."""

from __future__ import annotations

import importlib.util
import sqlite3
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from ansible.template import trust_as_template
from ansible_collections.gpufleet.baremetal.plugins.action import node_wait, provisioner_wait, scheduler_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import BATCH
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names as provisioner
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import elsewhere
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
    assert f"{port.OPTION}_jwt of" not in str(nodes)
    if port is scheduler:  # What the task itself says is meant for all.
        said = _nodes(tmp_path, port, fresh, scheduler_context="said")
        assert {host: node["scheduler_context"] for host, node in said.items()} == dict.fromkeys(HOSTS, "said")


#: Made of a variable that the inventory does not have.
_VAULT = trust_as_template("{{ vault }}")


def _batch(
    folder: Path,
    module: Any,
    first: dict[str, Any],
    second: dict[str, Any],
    *,
    of_play: dict[str, Any] | None = None,
    **args: Any,
) -> dict[str, dict[str, Any]]:
    """What the verb is told of a first host, which runs the task, and of its neighbour.

    of_play: variables of the play, which go before those of the inventory and are not among another host's.
    """
    inventory = {host: {"gpufleet_serial": f"S-{host}", **own} for host, own in zip(HOSTS, (first, second))}
    seen: list[dict[str, Any]] = []

    def verb(params: Any, ctx: Any) -> Result:
        seen.extend(params["nodes"])
        return Result(data={"verdicts": {host: {"ok": True} for host in HOSTS}})

    shared = {"hostvars": inventory, "ansible_play_hosts": list(HOSTS), "ansible_play_batch": list(HOSTS)}
    base, port = module.ActionModule, module.names
    more = {**BATCH, port.OPTION: {"type": "str"}, **port.OPTIONS}
    found = Door(folder, verb, base=base, more=more, args=args, of_play=of_play, **inventory[HOSTS[0]], **shared).run()
    assert not found.get("failed"), found
    return {node["host"]: node for node in seen}


def test_what_a_host_lacks_is_not_taken_from_the_first(tmp_path: Path) -> None:
    first = {"gpufleet_scheduler": "none", "gpufleet_scheduler_conf": "/etc/one.conf"}
    found = _batch(tmp_path, scheduler_wait, first, {"gpufleet_scheduler_node": "zzz"})
    assert found["gpu001"]["scheduler"] == "none"
    second = found["gpu002"]
    assert (second["scheduler"], second["scheduler_conf"], second["scheduler_node"]) == ("", "", "zzz")


def test_what_the_task_names_of_a_host_of_the_inventory_is_filled_from_that_host(tmp_path: Path) -> None:
    first = {"gpufleet_scheduler": "none"}
    nodes = [{"host": "gpu002", "scheduler_conf": "/etc/two.conf"}, {"host": "stranger"}]
    found = _batch(tmp_path, scheduler_wait, first, {"gpufleet_scheduler": "slurm"}, nodes=nodes)
    assert (found["gpu002"]["scheduler"], found["gpu002"]["scheduler_conf"]) == ("slurm", "/etc/two.conf")
    assert found["stranger"] == {"host": "stranger"}


@pytest.mark.parametrize("second", [{}, {"gpufleet_scheduler_conf": _VAULT}])
def test_what_the_play_says_is_for_all_of_its_hosts(tmp_path: Path, second: dict[str, Any]) -> None:
    own = {"gpufleet_scheduler": "slurm"}
    of_play = {"gpufleet_scheduler_conf": "/etc/play.conf"}
    found = _batch(tmp_path, scheduler_wait, {**own, **second}, {**own, **second}, of_play=of_play)
    assert [found[host]["scheduler_conf"] for host in HOSTS] == ["/etc/play.conf"] * 2


def test_w2_what_the_play_says_is_made_for_each_host_and_goes_before_the_inventory(tmp_path: Path) -> None:
    own = {"gpufleet_scheduler": "slurm", "gpufleet_scheduler_conf": "/etc/inventory.conf"}
    of_play = {"gpufleet_scheduler_conf": trust_as_template("/etc/{{ inventory_hostname }}.conf")}
    found = _batch(tmp_path, scheduler_wait, own, own, of_play=of_play)
    assert [found[host]["scheduler_conf"] for host in HOSTS] == [f"/etc/{host}.conf" for host in HOSTS]


def test_w6_an_image_of_the_play_is_that_of_each_host(tmp_path: Path) -> None:
    own = {"gpufleet_provisioner": "ironic"}
    found = _batch(tmp_path, provisioner_wait, own, own, of_play={"gpufleet_image": {"name": "gold"}})
    assert [found[host].get("image") for host in HOSTS] == [{"name": "gold"}] * 2


@pytest.mark.parametrize("name", ["gpufleet_image", "gpufleet_serial", "gpufleet_boot_mac"])
def test_w6_a_host_with_a_variable_that_cannot_be_read_is_refused_alone(tmp_path: Path, name: str) -> None:
    own = {"gpufleet_provisioner": "ironic", "gpufleet_image": {"name": "gold"}}
    found = _batch(tmp_path, provisioner_wait, own, {**own, name: _VAULT})
    assert "refused" not in found["gpu001"]
    assert f"its {name} cannot be read" in found["gpu002"]["refused"]


def test_a_host_whose_connection_cannot_be_read_is_refused_alone(tmp_path: Path) -> None:
    own = {"gpufleet_scheduler": "slurm", "gpufleet_scheduler_conf": "/etc/one.conf"}
    found = _batch(tmp_path, scheduler_wait, own, {**own, "gpufleet_scheduler_conf": _VAULT})
    assert "refused" not in found["gpu001"]
    assert "gpufleet_scheduler_conf cannot be read" in found["gpu002"]["refused"]


_CLOUD = {"gpufleet_provisioner": "ironic", "gpufleet_provisioner_cloud": "B"}
_ADDRESS = {"gpufleet_provisioner": "ironic", "gpufleet_provisioner_url": "https://a:6385"}


@pytest.mark.parametrize(
    ("first", "second"), [(_ADDRESS, _CLOUD), (_CLOUD, _ADDRESS), (_CLOUD, {"gpufleet_provisioner": "ironic"})]
)
def test_a_host_of_another_provisioner_says_so_also_by_what_it_lacks(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any]
) -> None:
    found = _batch(tmp_path, provisioner_wait, first, second)
    asked = {name.removeprefix("gpufleet_"): value for name, value in first.items()}
    assert [bool(elsewhere(found[host], asked)) for host in HOSTS] == [False, True]


@pytest.mark.parametrize("own", [{}, {"gpufleet_provisioner_password": "of two"}])
def test_a_host_is_not_let_in_with_the_login_of_the_first(tmp_path: Path, own: dict[str, Any]) -> None:
    first = {**_ADDRESS, "gpufleet_provisioner_password": "of one"}
    found = _batch(tmp_path, provisioner_wait, first, {**_ADDRESS, **own})
    assert "refused" not in found["gpu001"] and "of one" not in str(found) and "of two" not in str(found)
    assert "provisioner_password is not that of this batch" in found["gpu002"]["refused"]
    same = _batch(tmp_path, provisioner_wait, first, first)
    assert not any("refused" in node for node in same.values())


@pytest.mark.parametrize("module", [node_wait, provisioner_wait, scheduler_wait])
@pytest.mark.parametrize("name", ["other", ""])
def test_a_host_of_another_ledger_takes_no_lease_in_that_of_the_first(tmp_path: Path, module: Any, name: str) -> None:
    other = {"gpufleet_ledger_url": f"sqlite:///{tmp_path}/{name}.sqlite" if name else ""}
    own = {"gpufleet_scheduler": "none", "gpufleet_provisioner": "ironic"}
    found = _batch(tmp_path, _ported(module), own, {**own, **other})
    assert "refused" not in found["gpu001"]
    assert "gpufleet_ledger_url is not that of this batch" in found["gpu002"]["refused"]
    with sqlite3.connect(tmp_path / "ledger.sqlite") as ledger:
        known = ledger.execute("SELECT name FROM nodes").fetchall()
    assert ("gpu002",) not in known
    said = f"sqlite:///{tmp_path}/said.sqlite"
    all_there = _batch(tmp_path, _ported(module), own, {**own, **other}, ledger_url=said)
    assert not any("refused" in node for node in all_there.values()), "what the task says is meant for all"


def _ported(module: Any) -> Any:
    return module if hasattr(module, "names") else SimpleNamespace(ActionModule=module.ActionModule, names=scheduler)
