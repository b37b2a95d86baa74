# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A way back from every state: the command that the report shows is run, and takes the node up."""

from __future__ import annotations

import contextlib
import json
import shlex
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import PASSPORTS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._preflight import CHECKS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import Nodes, in_service
from contract.trust.conftest import Image, image, keys
from maas_server.config import Config, User
from maas_server.server import MaasServer

pytestmark = pytest.mark.slow

__all__ = ["image", "keys"]

KEY = "fleetkey:token:maas-S3cret-part"

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "lifecycle.md"
DAY_0, DAY_2 = "day0_bringup", "day2_recycle"
ALL, OFF, RENEW = ("-e", "day2_recycle_all=true"), ("-e", "maintenance=off"), ("-e", "passports_renew=true")
Events = tuple[tuple[str, dict[str, Any]], ...]
ANEW: Events = (("retired", {"reason": "sold"}), ("discovered", {"reason": "it is back"}))
FAILED = ("quarantined", {"reason": "it failed", "remedy": "reimage"})
HELD = {"state": "IDLE+DRAIN", "reason": "gpufleet:r1:x", "by": "root"}


#: Nothing answers here: what waits is at its end at once.
SOON = {"enroll_timeout": 2, "deploy_timeout": 2, "deploy_boot_timeout": 1, "enroll_verify_hardware": False}


def states(*names: str) -> Events:
    return tuple((name, {}) for name in names)


#: Of machines that never served: what became of each, and what the report says is next.
NEVER_SERVED: Mapping[str, tuple[Events, str, tuple[str, ...]]] = {
    "discovered": (ANEW, DAY_0, ()),
    "enrolled": ((*ANEW, *states("enrolled")), DAY_0, ()),
    "imaging": ((*ANEW, *states("enrolled", "imaging")), DAY_0, ()),
    "validating": ((*ANEW, *states("enrolled", "imaging", "validating")), DAY_0, ()),
    "quarantined before it was enrolled": ((*ANEW, FAILED), DAY_2, ()),
    "quarantined as enrolled": ((*ANEW, *states("enrolled"), FAILED), DAY_2, ()),
    "quarantined in its deployment": ((*ANEW, *states("enrolled", "imaging"), FAILED), DAY_2, ()),
    "quarantined by a gate": ((*ANEW, *states("enrolled", "imaging", "validating"), FAILED), DAY_2, ()),
}
#: Of machines that did, in the same way; and what their scheduler says now.
SERVED: Mapping[str, tuple[Events, Mapping[str, str], str, tuple[str, ...]]] = {
    "held by a run that was killed": ((), HELD, DAY_2, ()),
    "drained by a person through us": (states("draining", "drained"), HELD, DAY_2, ()),
    "imaging": (states("draining", "drained", "imaging"), HELD, DAY_2, ()),
    "wiping": (states("draining", "drained", "wiping"), HELD, DAY_2, ()),
    "quarantined": ((FAILED,), HELD, DAY_2, ()),
    "waits for a part": ((("quarantined", {"reason": "it failed", "remedy": "rma"}),), HELD, DAY_2, ALL),
    "down": ((), {"state": "DOWN", "reason": "Not responding", "by": "slurm"}, DAY_2, ALL),
    "kept": ((), {**HELD, "reason": "gpufleet:r1+keep:disk swap"}, "maintenance", OFF),
    "renewing": (
        (("draining", {"playbook": PASSPORTS}), ("drained", {"playbook": PASSPORTS})), HELD, PASSPORTS, RENEW
    ),
}  # fmt: skip


def lived(nodes: Nodes, name: str, events: Events) -> None:
    with Ledger(nodes.url) as ledger:
        node = ledger.identify(name, aliases=[("serial", nodes.hosts[name]["gpufleet_serial"])])
        ledger.append("r1", [(node, Event("state", state, data)) for state, data in events])


def named(nodes: Nodes) -> None:
    for number, host in enumerate(nodes.hosts.values()):
        host["gpufleet_boot_mac"] = f"7c:c2:55:00:00:{number:02x}"


def shown(nodes: Nodes) -> dict[str, tuple[str, tuple[str, ...]]]:
    """By host the playbook that the report names, and what it says behind the limit."""
    nodes.book("status", "-e", f"status_write_to={nodes.folder}/status.json", ok=True)
    told = json.loads((nodes.folder / "status.json").read_text(encoding="utf-8"))["nodes"]
    found = {}
    for name, one in told.items():
        program, playbook, inventory, _place, limit, host, *more = shlex.split(one["next"])
        assert (program, inventory, limit, host) == ("ansible-playbook", "-i", "--limit", name), one
        found[name] = (playbook.rpartition(".")[2], tuple(more))
    return found


def gone_on(nodes: Nodes) -> set[str]:
    """Whom a run of these here has held, or taken to another state. That it was met is no way back."""
    asked = (
        "SELECT DISTINCT nodes.name FROM events JOIN nodes USING (node_id)"
        " WHERE run_id != 'r1' AND kind IN ('state', 'hold')"
    )
    with contextlib.closing(sqlite3.connect(nodes.ledger)) as ledger:
        return {name for (name,) in ledger.execute(asked)}


def each_goes_on(nodes: Nodes, wanted: Mapping[str, tuple[str, tuple[str, ...]]]) -> None:
    told = shown(nodes)
    assert told == wanted
    for command in dict.fromkeys(told.values()):
        mine = {name for name, one in told.items() if one == command}
        before = gone_on(nodes)
        assert not before & mine
        asked = ("--limit", ",".join(sorted(mine)), *command[1], "-e", json.dumps(SOON))
        nodes.book(command[0], *asked, ok=command[0] == "maintenance")
        assert gone_on(nodes) == before | mine, (command, nodes.output[-4000:])


def past_the_preflight(nodes: Nodes, *looks: str) -> None:
    """Only these looks."""
    nodes.options["preflight"] = {"skip": [check for check in CHECKS if check not in looks]}


@pytest.fixture
def provisioner(tmp_path: Path, image: Image) -> Iterator[dict[str, Any]]:
    """What a host names of a MAAS that knows none of them yet, and of the image."""
    folder = tmp_path / "maas"
    folder.mkdir()
    images = {"hpc-1.4": {"url": "http://127.0.0.1:9/", "sha256": image.sha256}}
    server = MaasServer(Config(users=(User("fleet", KEY),), state_dir=folder, images=images))
    server.start()
    yield {
        "gpufleet_provisioner": "maas", "gpufleet_provisioner_url": server.url, "gpufleet_provisioner_api_key": KEY,
        "gpufleet_image": image.declared(),
    }  # fmt: skip
    server.close()


def test_q3_each_day_takes_up_what_never_served_in_whatever_stage(tmp_path: Path, provisioner: dict[str, Any]) -> None:
    with in_service(tmp_path, len(NEVER_SERVED)) as nodes:
        nodes.shared |= {"gpufleet_scheduler": "none", **provisioner}
        named(nodes)
        past_the_preflight(nodes)
        wanted = {}
        for name, (events, playbook, more) in zip(nodes.hosts, NEVER_SERVED.values()):
            lived(nodes, name, events)
            wanted[name] = (playbook, more)
        each_goes_on(nodes, wanted)


def test_q3_a_node_that_the_preflight_leaves_out_is_in_the_report_with_why(tmp_path: Path) -> None:
    with in_service(tmp_path, 2) as nodes:
        nodes.shared["gpufleet_scheduler"] = "none"
        past_the_preflight(nodes, "bmc")
        for name in nodes.hosts:
            lived(nodes, name, ANEW)
        nodes.hosts["gpu001"]["gpufleet_bmc_password"] = "not-this-one"
        nodes.book(DAY_0, ok=False)
        [(name, note)] = [one for one in nodes.events("gpu001", "note") if one[0] == "stopped"]
        assert "login" in note["reason"], note
        command = shown(nodes)["gpu001"]
        told = json.loads((nodes.folder / "status.json").read_text(encoding="utf-8"))["nodes"]["gpu001"]
        assert command == (DAY_0, ()) and told["state"] == "discovered" and "login" in told["stopped"], told


def test_q3_what_served_is_taken_up_by_the_command_that_is_shown(tmp_path: Path, provisioner: dict[str, Any]) -> None:
    with in_service(tmp_path, len(SERVED)) as nodes:
        nodes.shared |= provisioner
        named(nodes)
        wanted = {}
        for name, (what, (events, scheduler, playbook, more)) in zip(nodes.hosts, SERVED.items()):
            lived(nodes, name, events)
            nodes.scheduler(name, **scheduler)
            told = [Event("intent", "scheduler_node", {"options": {"state": "held"}})]
            if what == "kept":
                told.append(Event("hold", "taken", {"hold_token": scheduler["reason"], "hold_author": "root"}))
            with Ledger(nodes.url) as ledger:
                ledger.append("r1", [(nodes.node_id(name), one) for one in told])
            wanted[name] = (playbook, more)
        each_goes_on(nodes, wanted)


COMMANDS = {f"{one[-2]} {' '.join(one[-1])}".strip() for one in (*NEVER_SERVED.values(), *SERVED.values())}


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_q3_the_page_names_each_way_back(command: str) -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## The way back")[2].partition("\n## ")[0]
    assert f"`{command}`" in table
