# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both doors: the actions through ansible-playbook with a ledger, and the modules by themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
import yaml
from controller import COLLECTIONS, DEPLOYED, READY, VERIFIED, Controller, wait
from other_bytes import OTHERS
from service_sites import ServiceSite
from suite import playbook
from suite.skips import not_applicable

pytestmark = pytest.mark.slow

#: What asks the door alone, by many runs of a playbook, and has two drivers to ask it with.
OF_THE_DOOR = (
    "test_v9_without_an_image_verify_of_this_run_nothing_is_deployed",
    "test_w6_an_image_that_the_play_names_is_that_of_each_host",
)


@pytest.fixture
def site(request: pytest.FixtureRequest, shipped: Any) -> Any:
    if request.function.__name__ in OF_THE_DOOR and not isinstance(shipped, ServiceSite):
        not_applicable("no matter of the driver: two of them are enough, since each run of a playbook is dear")
    return shipped


@pytest.fixture
def controller(site: Any, tmp_path: Path) -> Controller:
    return Controller(site, tmp_path)


def test_without_proof_that_the_node_is_drained_nothing_is_deployed(site: Any, controller: Controller) -> None:
    controller.play(READY, wait("ready"))
    site.faults.forget()
    results = controller.play(VERIFIED, DEPLOYED, ok=False, forced=False)
    kinds = {one["result"]["error"]["kind"] for one in results if "error" in one["result"]}
    assert kinds == {"evidence_missing"}
    assert site.deployments() == 0


def test_v9_without_an_image_verify_of_this_run_nothing_is_deployed(site: Any, controller: Controller) -> None:
    controller.play(READY, wait("ready"))
    site.faults.forget()
    other = {"image_was_verified": {"image": {**site.image(), "kernel_url": "http://127.0.0.1:9/other"}}}
    refused: dict[str, Any] = {"image_was_verified": {"verdict": "inconclusive"}}
    for looks in ([], [VERIFIED, other], [VERIFIED, refused]):
        results = controller.play(*looks, DEPLOYED, ok=False, forced=False)
        failed = [one["result"] for one in results if "error" in one["result"]]
        assert [one["error"]["kind"] for one in failed] == ["evidence_missing"] * len(controller.nodes), failed
        assert all("image_verify" in one["msg"] for one in failed)
    controller.play(VERIFIED)
    results = controller.play(DEPLOYED, wait("deployed"), ok=False, forced=False)
    kinds = {one["result"]["error"]["kind"] for one in results if "error" in one["result"]}
    assert kinds == {"evidence_missing"}, "another run's"
    [waited] = [one["result"] for one in controller.play(wait("deployed"), forced=False)]
    told = {host: (one["ok"], "image_verify" in one["reason"]) for host, one in waited["verdicts"].items()}
    assert told == dict.fromkeys(controller.nodes, (False, True)), "the batch's own way there"
    assert site.deployments() == 0 and site.faults.writes == []


def test_w6_an_image_that_the_play_names_is_that_of_each_host(site: Any, controller: Controller) -> None:
    controller.play(READY, wait("ready"))
    said = {"vars": {"gpufleet_image": controller.of_play("gpufleet_image")}}
    # Nothing shows that the nodes are drained, so none is deployed; that its image was not verified would come first.
    [waited] = [
        one["result"]
        for one in controller.play({**VERIFIED, **said}, {**wait("deployed"), **said}, forced=False)
        if "verdicts" in one["result"]
    ]
    assert set(waited["verdicts"]) == set(controller.nodes)
    assert not [one["reason"] for one in waited["verdicts"].values() if "image_verify" in one["reason"]]


@pytest.mark.parametrize(("kind", "driver", "lacks"), OTHERS[:3])
def test_v9_a_reason_stands_in_for_a_verdict_on_other_bytes(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, driver: Mapping[str, Any], lacks: tuple[str, ...]
) -> None:
    with request.getfixturevalue(kind).in_good_health() as site:
        controller = Controller(site, tmp_path)
        hosts = tmp_path / "hosts.yml"
        inventory = yaml.safe_load(hosts.read_text(encoding="utf-8"))
        for key in lacks:
            del inventory["all"]["vars"]["gpufleet_image"][key]
        hosts.write_text(yaml.safe_dump(inventory), encoding="utf-8")
        controller.play(READY, wait("ready"))
        site.faults.forget()
        controller._driver = {**site.extras, **driver}
        results = controller.play(VERIFIED, DEPLOYED, ok=False, forced=False)
        failed = [one["result"]["error"]["kind"] for one in results if "error" in one["result"]]
        assert failed == ["config"] * len(controller.nodes) and site.faults.writes == []
        controller.play(DEPLOYED, wait("deployed"))
        assert site.deployments() == len(controller.nodes)


def test_v9_a_batch_without_a_declared_image_gets_no_stock_image(maas_site: Any, tmp_path: Path) -> None:
    with maas_site.in_good_health() as site:
        controller = Controller(site, tmp_path)
        hosts = tmp_path / "hosts.yml"
        inventory = yaml.safe_load(hosts.read_text(encoding="utf-8"))
        del inventory["all"]["vars"]["gpufleet_image"]
        hosts.write_text(yaml.safe_dump(inventory), encoding="utf-8")
        controller.play(READY, wait("ready"))
        site.faults.forget()
        controller._driver = {"distro_series": "noble"}
        results = controller.play(wait("deployed"), forced=False)
        verdicts = results[-1]["result"]["verdicts"]
        assert all("no image_verify of this run has passed" in one["reason"] for one in verdicts.values())
        assert site.faults.writes == []


def test_a_wait_says_to_the_driver_what_each_host_does(maas_site: Any, tmp_path: Path) -> None:
    """The order that a wait gives, once a node is ready for it, is the one that its host asks for."""
    with maas_site.in_good_health() as site:
        controller = Controller(site, tmp_path)
        controller.play(READY, wait("ready"))
        hosts = tmp_path / "hosts.yml"
        inventory = yaml.safe_load(hosts.read_text(encoding="utf-8"))
        inventory["all"]["vars"]["enroll_driver"] = "{{ {'maas': {'distro_series': own}, 'ironic': {}} }}"
        wanted = dict(zip(inventory["all"]["hosts"], ("noble", "jammy")))
        for host, series in wanted.items():
            inventory["all"]["hosts"][host]["own"] = series
        hosts.write_text(yaml.safe_dump(inventory), encoding="utf-8")
        site.faults.forget()
        controller._driver = {}
        controller.play(wait("deployed"))
        bodies = [one.body.decode() for one in site.faults.writes if "op=deploy" in one.what]
        assert sorted(dict(parse_qsl(body))["distro_series"] for body in bodies) == sorted(wanted.values())


def test_proof_that_was_fresh_at_the_start_serves_the_whole_wait(site: Any, controller: Controller) -> None:
    """A reimage by way of a release takes minutes; the proof for its deployment is sixty seconds old long before."""
    controller.play(READY, wait("ready"), DEPLOYED, wait("deployed"))
    inventory = yaml.safe_load((controller.folder / "hosts.yml").read_text())
    inventory["all"]["vars"]["gpufleet_image"] = site.image("2")
    (controller.folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
    proof: dict[str, Any] = {
        "gpufleet.baremetal.scheduler_wait": {"scheduler": "none", "until": "drained", "timeout": 5, "interval": 0.2},
        "run_once": True,
    }
    book = [proof, VERIFIED, DEPLOYED, wait("deployed")]
    results = controller.play(*[task for task in book if task is not proof], ok=False, forced=False)
    assert results[-1]["result"]["error"]["kind"] == "evidence_missing"
    tasks = [{"name": "proof", **proof}, *(controller._task(1 + at, task, False) for at, task in enumerate(book[1:]))]
    play = [{"name": "test", "hosts": "all", "gather_facts": False, "strategy": "linear", "tasks": tasks}]
    (controller.folder / "proven.yml").write_text(yaml.safe_dump(play), encoding="utf-8")
    argv = ["-i", str(controller.folder / "hosts.yml"), str(controller.folder / "proven.yml")]
    done = playbook.run(argv, env=controller.environment(), timeout=120)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


def test_check_mode_writes_nothing_anywhere(site: Any, controller: Controller) -> None:
    results = controller.play(READY, wait("ready"), check=True)
    assert results[0]["result"]["changed"] and results[0]["result"]["diff"]["before"] == {"state": "absent"}
    assert site.faults.writes == [] and controller.events("intent") == []


def test_the_modules_by_themselves(site: Any) -> None:
    """As they run on a jump host: an interpreter, the arguments, no ledger."""
    options = site.new()
    env = {**os.environ, "PYTHONPATH": str(COLLECTIONS), "_ANSIBLE_PROFILE": "legacy"}

    def run(module: str, args: Mapping[str, Any]) -> Any:
        code = f"from ansible_collections.gpufleet.baremetal.plugins.modules.{module} import main; main()"
        told = json.dumps({"ANSIBLE_MODULE_ARGS": args})
        done = subprocess.run(
            [sys.executable, "-c", code], input=told, env=env, capture_output=True, text=True, timeout=60, check=False
        )
        assert not any(secret in done.stderr for secret in site.secrets)
        return json.loads(done.stdout)

    begun = run("provisioner_node", {**options, "state": "ready", "_ansible_no_log": False})
    assert begun["changed"] and begun["name"] == options["name"], begun
    nodes = [{"host": options["name"], "boot_mac": options["boot_mac"]}]
    args = {
        **site.connection(),
        "until": "ready",
        "timeout": 30,
        "interval": 0.2,
        "nodes": nodes,
        "driver": site.extras,
    }
    assert run("provisioner_wait", args)["verdicts"][options["name"]]["ok"]
    failed = run("provisioner_node", {**options, "state": "deployed"})
    assert failed["failed"] and failed["error"]["kind"] == "config" and "image" in failed["msg"]
