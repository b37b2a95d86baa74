# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each controller verb through a jump host that has nothing but the module's declared requirements."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_bmc.logs import MANAGER, Logs, OneLog, events
from fake_bmc.redfish_server import PASSWORD, FakeBmc
from jump import Site
from suite.events import known

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]

Python = Callable[..., Path]
Bmc = tuple[FakeBmc, dict[str, Any]]
WHY = "the test says so"
#: What only one door adds: Ansible's own words, and what a task is registered with.
ANSIBLES = {"deprecations", "warnings", "exception"}


def task(verb: str, **options: Any) -> dict[str, Any]:
    return {f"gpufleet.baremetal.{verb}": options}


def keys(result: dict[str, Any]) -> set[str]:
    return {key for key in result if not key.startswith("_ansible")} - ANSIBLES


def assert_kept_at_home(site: Site, *texts: str) -> None:
    """The ledger's address, the node's id and why it is forced never travel; nor does a secret show up anywhere."""
    arrived = site.shipped()
    assert arrived, "nothing was shipped"
    for text in (site.ledger.name, WHY, "the-nodes-own-id", "ledger_url"):
        assert not any(f'"{text}' in one or f"{site.ledger}" in one or WHY in one for one in _arguments(arrived)), text
    for secret in texts:
        assert secret not in site.output, "a secret in the output of -vvv"
        assert secret.encode() not in site.ledger.read_bytes()


def _arguments(arrived: list[str]) -> list[str]:
    """The arguments as they stand in what was shipped; a file without them would make the search worthless."""
    found = [line for text in arrived for line in text.splitlines() if "ANSIBLE_MODULE_ARGS" in line]
    assert found
    return found


# -- BMC -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def bmc_site(tmp_path: Path, ssh: dict[str, Any], python: Python, bmc: Bmc) -> Site:
    return Site(tmp_path, ssh, python("redfish_power", "Redfish"), **bmc[1])


def test_the_interpreter_has_the_declared_library_alone(python: Python) -> None:
    bare = python("redfish_power", "Redfish")
    assert subprocess.run([bare, "-c", "import sushy"], check=False).returncode == 0
    for other in ("ansible", "sqlalchemy", "openstack", "pyghmi", "yaml"):
        done = subprocess.run([bare, "-c", f"import {other}"], capture_output=True, check=False)
        assert done.returncode != 0, other


def test_bmc_verbs_give_the_same_as_in_the_worker(bmc_site: Site, bmc: Bmc) -> None:
    tasks = [
        task("bmc_info"),
        task("bmc_log", most=2),
        task("pxe_boot", power="on", force_reason=WHY),
        task("redfish_power", state="on"),
        task("redfish_power", state="force_off", force_reason=WHY),
    ]
    bmc[0].logs = Logs(OneLog(f"{MANAGER}/LogServices/SEL", events(3)))
    there = bmc_site.run(*tasks)
    told = bmc_site.events()
    assert_kept_at_home(bmc_site, PASSWORD)
    here = bmc_site.run(*tasks, here=True)
    assert [keys(one) for one in there] == [keys(one) for one in here]
    assert [one["changed"] for one in there] == [one["changed"] for one in here] == [False, False, True, False, True]
    info, log, boot, on, off = there
    assert log["entries"] == here[1]["entries"] and [one["id"] for one in log["entries"]] == ["3", "2"]
    assert info["identity"]["serial"] == "SN0001" and (boot["proof"], boot["verdict"]) == ("readback", "pass")
    assert on["asked"] == [] and off["after"] == {"power": "off"} and off["evidence"] == f"forced:{WHY}"
    assert bmc[0].machine.power == "Off" and bmc[0].failed_logins == 0
    for verb in ("pxe_boot", "redfish_power"):
        assert ("intent", verb) in told and ("outcome", verb) in told
    assert bmc_site.data("outcome", "pxe_boot")[0]["asked"] == boot["asked"] != []


def test_r2_a_machine_that_nobody_knows_is_written_to_for_a_reason_there_as_here(bmc_site: Site, bmc: Bmc) -> None:
    """That there is one travels, and not what it is."""
    bmc[0].machine.reset("On")
    bmc[0].vendor["system"] = {**bmc[0].vendor["system"], "SerialNumber": "", "UUID": ""}
    (found,) = bmc_site.run(task("redfish_power", state="force_off", force_reason=WHY))
    assert bmc[0].machine.power == "Off" and "by force_reason alone" in found["notes"][0]
    assert_kept_at_home(bmc_site, PASSWORD)
    assert {note["reason"] for note in bmc_site.data("note", "forced") if "in common" in note["write"]} == {WHY}
    assert any('"force_reason": "given on the controller' in line for line in _arguments(bmc_site.shipped()))


def test_without_evidence_nothing_destructive_is_even_shipped(bmc_site: Site, bmc: Bmc) -> None:
    found = bmc_site.run(
        task("redfish_power", state="force_off"),
        task("redfish_power", state="cycle"),
        task("pxe_boot", power="restart"),
    )
    assert [one["error"]["kind"] for one in found] == ["evidence_missing"] * 3
    assert bmc_site.shipped() == [] and bmc[0].requests.total() == 0


def test_j8_a_machine_is_armed_from_there_only_with_leave_from_here(bmc_site: Site, bmc: Bmc) -> None:
    """Whether it is on or off."""
    refused, forced, gone = bmc_site.run(
        task("pxe_boot"), task("pxe_boot", force_reason=WHY), task("pxe_boot", target="none")
    )
    assert refused["error"]["kind"] == "evidence_missing" and not refused["changed"], refused
    assert forced["changed"] and forced["evidence"] == f"forced:{WHY}", forced
    assert gone["changed"] and bmc[0].machine.override["enabled"] == "Disabled", gone
    kinds = [one.get("kind") for one in bmc_site.data("outcome", "pxe_boot")]
    assert kinds == [None, None], "what was refused was not shipped, and has no intent"
    assert_kept_at_home(bmc_site, PASSWORD)


def test_past_the_provisioner_nothing_is_shipped_either(bmc_site: Site, bmc: Bmc) -> None:
    bmc_site.node["gpufleet_provisioner"] = "ironic"
    found = bmc_site.run(task("redfish_power", state="on"), task("pxe_boot"))
    assert [one["error"]["kind"] for one in found] == ["not_ours"] * 2
    assert bmc_site.shipped() == [] and bmc[0].requests.total() == 0


def test_check_mode_sends_no_write(bmc_site: Site, bmc: Bmc) -> None:
    found = bmc_site.run(task("pxe_boot", power="on"), task("redfish_power", state="on"), check=True)
    assert [one["changed"] for one in found] == [True, True] and found[1]["diff"]["after"] == {"power": "on"}
    assert bmc[0].writes == [] and bmc_site.events() == []


def test_a_failure_there_is_an_outcome_here(bmc_site: Site, bmc: Bmc) -> None:
    bmc[0].faults["liar"] = True
    (found,) = bmc_site.run(task("redfish_power", state="on", timeout=3))
    assert found["failed"] and found["error"]["kind"] in ("deadline", "not_proven") and "node1" in found["msg"]
    (outcome,) = bmc_site.data("outcome", "redfish_power")
    assert outcome["kind"] == found["error"]["kind"] and outcome["error"] == found["msg"]


def test_a_wrong_password_is_tried_once(bmc_site: Site, bmc: Bmc) -> None:
    bmc_site.node["gpufleet_bmc_password"] = "wrong-horse"
    (found,) = bmc_site.run(task("redfish_power", state="on"))
    assert found["error"]["kind"] == "auth" and bmc[0].failed_logins == 1
    assert_kept_at_home(bmc_site, "wrong-horse")


def test_the_nodes_id_stays_at_home(bmc_site: Site) -> None:
    (found,) = bmc_site.run(task("redfish_power", state="on", node_id="the-nodes-own-id"))
    assert found["after"] == {"power": "on"}, found
    assert not any("the-nodes-own-id" in line or "node_id" in line for line in _arguments(bmc_site.shipped()))


def test_a_jump_host_that_is_away(bmc_site: Site, bmc: Bmc) -> None:
    bmc_site.jump["ansible_port"] = 1
    (found,) = bmc_site.run(task("redfish_power", state="on"))
    assert found["unreachable"] and bmc[0].requests.total() == 0


@pytest.mark.parametrize(
    ("verb", "options", "library"),
    [
        ("redfish_power", {"state": "on"}, "sushy"),
        ("redfish_power", {"state": "on", "bmc_protocol": "ipmi"}, "pyghmi"),
        ("provisioner_node", {"provisioner": "maas", "state": "ready", "force_reason": WHY}, "requests"),
        ("provisioner_node", {"provisioner": "ironic", "state": "ready", "force_reason": WHY}, "openstacksdk"),
    ],
)
def test_a_missing_library_is_named_with_the_interpreter(
    tmp_path: Path, ssh: dict[str, Any], python: Python, bmc: Bmc, verb: str, options: dict[str, Any], library: str
) -> None:
    empty = python("scheduler_node")
    site = Site(
        tmp_path, ssh, empty, **bmc[1], gpufleet_provisioner_url="http://127.0.0.1:9",
        gpufleet_provisioner_username="fleet", gpufleet_provisioner_password="battery-staple",
        gpufleet_provisioner_api_key="consumer:token:battery",
    )  # fmt: skip
    (found,) = site.run(task(verb, **options))
    assert found["error"]["kind"] == "missing_library", site.output[-3000:]
    assert f"{empty} -m pip install {library}" in found["msg"]


# -- provisioner ---------------------------------------------------------------------------------------------------


def test_provisioner_verbs_give_the_same_as_in_the_worker(
    tmp_path: Path, ssh: dict[str, Any], python: Python, maas: Any
) -> None:
    def variables() -> dict[str, Any]:
        return {f"gpufleet_{key}": value for key, value in maas.new().items() if key not in ("name", "driver")}

    tasks = [
        task("provisioner_node", state="ready", force_reason=WHY),
        {**task("provisioner_wait", until="ready", timeout=30, interval=0.2, force_reason=WHY), "run_once": True},
        task("provisioner_node", state="deployed", image=maas.image(), deploy_id="7", force_reason=WHY),
        {**task("provisioner_wait", until="deployed", timeout=30, interval=0.2), "run_once": True},
        task("provisioner_node", state="maintenance", why="reseat"),
        task("provisioner_node", state="serviceable"),
        {"image_was_verified": {"image": maas.image("2")}},
        task("provisioner_node", state="deployed", image=maas.image("2")),
    ]
    found = {}
    for door, here in (("there", False), ("here", True)):
        (tmp_path / door).mkdir()
        site = Site(tmp_path / door, ssh, python("provisioner_node", "MAAS"), **variables())
        site.name = f"node-{door}"
        found[door] = site.run(*tasks, here=here)
        if not here:
            assert_kept_at_home(site, *maas.secrets)
            events = site.events()
            assert ("maintenance", "held") in events and ("maintenance", "lifted") in events
            assert ("outcome", "provisioner_node") in events
    assert [keys(one) for one in found["there"]] == [keys(one) for one in found["here"]]
    assert [one["changed"] for one in found["there"]] == [one["changed"] for one in found["here"]]
    for door, results in found.items():
        verdicts = [results[at]["verdicts"][f"node-{door}"] for at in (1, 3)]
        assert [verdict["ok"] for verdict in verdicts] == [True, True], verdicts
        assert results[-1]["error"]["kind"] == "evidence_missing"


def test_ironic_needs_its_own_library_alone(tmp_path: Path, ssh: dict[str, Any], python: Python) -> None:
    site = Site(
        tmp_path, ssh, python("provisioner_node", "Ironic"), gpufleet_provisioner="ironic",
        gpufleet_provisioner_url="http://127.0.0.1:9", gpufleet_provisioner_username="fleet",
        gpufleet_provisioner_password="battery-staple",
    )  # fmt: skip
    (found,) = site.run(task("provisioner_node", state="ready", force_reason=WHY))
    assert found["error"]["kind"] == "unreachable", found


# -- scheduler -----------------------------------------------------------------------------------------------------


def test_scheduler_verbs_give_the_same_as_in_the_worker(
    tmp_path: Path, ssh: dict[str, Any], python: Python, cluster: Any
) -> None:
    wait = {**task("scheduler_wait", until="drained", timeout=10, interval=0.3), "run_once": True}
    tasks = [
        task("scheduler_node", state="present"),
        task("scheduler_node", state="held", why="reimage"),
        wait,
        task("scheduler_node", state="resumed", timeout=30, interval=0.3, force_reason="a test"),
    ]
    found = {}
    for door, here, node in (("there", False, "gpu001"), ("here", True, "gpu002")):
        cluster.in_service(node)
        (tmp_path / door).mkdir()
        site = Site(
            tmp_path / door, ssh, python("scheduler_node"), gpufleet_scheduler="slurm",
            gpufleet_scheduler_conf=str(cluster.conf), gpufleet_scheduler_node=node,
        )  # fmt: skip
        known(site.ledger, site.name, "SN0001", scheduler_node=node)
        found[door] = site.run(*tasks, here=here)
        assert not (wrong := [one for one in found[door] if one.get("failed")]), f"{wrong}\n{site.output[-1000:]}"
        events = [event for event in site.events() if event[0] in ("hold", "evidence")]
        assert ("hold", "taken") in events and ("hold", "released") in events
        assert ("evidence", "drained") in events and events[-1] == ("evidence", "in_service")
        if not here:
            assert_kept_at_home(site)
    assert [keys(one) for one in found["there"]] == [keys(one) for one in found["here"]]
    assert [one["changed"] for one in found["there"]] == [one["changed"] for one in found["here"]]
    assert found["there"][2]["verdicts"]["node1"]["ok"]
    assert found["there"][1]["reason"].startswith("gpufleet:")


# -- what stays on the controller ----------------------------------------------------------------------------------


def test_verbs_of_the_ledger_are_never_shipped(bmc_site: Site) -> None:
    found = bmc_site.run(
        task("ledger_event", kind="note", name="seen", reason=WHY), {**task("fleet_status"), "run_once": True}
    )
    assert not any(one.get("failed") for one in found), found
    assert found[1]["nodes"]["node1"]["state"] == "discovered" and bmc_site.shipped() == []
