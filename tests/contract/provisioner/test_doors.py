# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both doors: the actions through ansible-playbook with a ledger, and the modules by themselves."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from other_bytes import OTHERS
from suite import playbook

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parents[3]
COLLECTIONS = CHECKOUT / "build" / "collections"
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
CALLBACKS = CHECKOUT / "tests" / "contract" / "scheduler" / "callback"
ACTIONS = CHECKOUT / "tests" / "contract" / "action"

READY = {"gpufleet.baremetal.provisioner_node": {"state": "ready"}}
DEPLOYED = {"gpufleet.baremetal.provisioner_node": {"state": "deployed"}}
HELD = {"gpufleet.baremetal.provisioner_node": {"state": "maintenance", "why": "reseat"}}
VERIFIED: dict[str, Any] = {"image_was_verified": {}}
LIFTED = {"gpufleet.baremetal.provisioner_node": {"state": "serviceable"}}


def wait(until: str, **more: Any) -> dict[str, Any]:
    options = {"until": until, "timeout": 30, "interval": 0.2, **more}
    return {"gpufleet.baremetal.provisioner_wait": options, "run_once": True}


class Controller:
    """A ledger, an inventory of new nodes, and plays over them."""

    def __init__(self, site: Any, folder: Path, count: int = 2) -> None:
        self.folder = folder
        self.ledger = folder / "ledger.sqlite"
        self.nodes = {one["name"]: one for one in (site.new() for _number in range(count))}
        hosts = {
            name: {
                # No node is ever connected to: whatever tried would fail.
                "ansible_host": "127.0.0.250",
                **{f"gpufleet_{key}": value for key, value in one.items() if key not in ("name", "driver")},
            }
            for name, one in self.nodes.items()
        }
        shared = {"gpufleet_ledger_url": f"sqlite:///{self.ledger}", "gpufleet_image": site.image()}
        self._driver = site.extras
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": shared}}), encoding="utf-8")

    def of_play(self, name: str) -> Any:
        """The inventory no longer has this variable; its value, for a play to set."""
        inventory = yaml.safe_load((self.folder / "hosts.yml").read_text(encoding="utf-8"))
        value = inventory["all"]["vars"].pop(name)
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
        return value

    def play(self, *tasks: Mapping[str, Any], ok: bool = True, check: bool = False, forced: bool = True) -> list[Any]:
        named = [self._task(number, task, forced) for number, task in enumerate(tasks)]
        book = [{"name": "test", "hosts": "all", "gather_facts": False, "strategy": "linear", "tasks": named}]
        (self.folder / "play.yml").write_text(yaml.safe_dump(book), encoding="utf-8")
        env = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_STDOUT_CALLBACK": "gpufleet_json",
            "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
            "ANSIBLE_ACTION_PLUGINS": str(ACTIONS),
            "ANSIBLE_LOCALHOST_WARNING": "False",
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "home"),
        }
        argv = ["-vvv", "--diff", "-i", str(self.folder / "hosts.yml"), str(self.folder / "play.yml")]
        done = playbook.run([*argv, *(["--check"] if check else [])], env=env)
        self.output = done.stdout + done.stderr
        assert (done.returncode == 0) == ok, self.output[-4000:]
        return [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("RESULT ")]

    def _task(self, number: int, task: Mapping[str, Any], forced: bool) -> dict[str, Any]:
        made: dict[str, Any] = {"name": f"task {number}", **task}
        action = next((key for key in made if key.startswith("gpufleet.")), "")
        if not action:
            return made
        reason = {"force_reason": "a test without a scheduler"} if forced else {}
        made[action] = {**made[action], "driver": self._driver, **reason}
        return made

    def events(self, kind: str) -> list[tuple[str, str, dict[str, Any]]]:
        if not self.ledger.exists():
            return []  # check mode makes none
        rows = sqlite3.connect(self.ledger).execute(
            "SELECT nodes.name, events.name, events.data FROM events JOIN nodes USING (node_id)"
            " WHERE kind = ? ORDER BY id",
            (kind,),
        )
        return [(node, name, json.loads(data)) for node, name, data in rows]


@pytest.fixture
def site(shipped: Any) -> Any:
    return shipped


@pytest.fixture
def controller(site: Any, tmp_path: Path) -> Controller:
    return Controller(site, tmp_path)


def test_day_0_by_playbook_and_again(site: Any, controller: Controller) -> None:
    tasks = (READY, wait("ready"), DEPLOYED, wait("deployed"))
    first = controller.play(*tasks)
    verdicts = first[-1]["result"]["verdicts"]
    assert set(verdicts) == set(controller.nodes) and all(one["ok"] for one in verdicts.values())
    assert not any(secret in controller.output for secret in site.secrets), "a secret in the output of -vvv"
    assert not any(secret.encode() in controller.ledger.read_bytes() for secret in site.secrets)
    for name in controller.nodes:
        intents = [event for node, event, data in controller.events("intent") if node == name]
        # Some need one step alone to be ready, which the first task has begun.
        writers = {"provisioner_node", *(["provisioner_wait"] if site.watcher_writes else [])}
        assert set(intents) == writers, "each writer told what it was about to do"
    site.faults.forget()
    events = len(controller.events("intent"))
    second = controller.play(*tasks)
    assert not any(one["result"].get("changed") for one in second)
    assert site.faults.writes == [] and len(controller.events("intent")) == events


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
    env = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_ACTION_PLUGINS": str(ACTIONS),
        "ANSIBLE_HOME": str(controller.folder / "home"),
    }
    argv = [str(PLAYBOOK), "-i", str(controller.folder / "hosts.yml"), str(controller.folder / "proven.yml")]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


def test_a_hold_is_known_to_the_ledger(site: Any, controller: Controller) -> None:
    controller.play(READY, wait("ready"))
    controller.play(HELD)
    held = controller.events("maintenance")
    assert sorted((node, name) for node, name, data in held) == [(name, "held") for name in sorted(controller.nodes)]
    tokens = [data["hold_token"] for node, name, data in held]
    assert all(token.startswith("gpufleet:") and token.endswith(":reseat") for token in tokens)
    assert not any(one["result"]["changed"] for one in controller.play(HELD)), "another run knows our hold again"
    controller.play(LIFTED)
    assert [name for node, name, data in controller.events("maintenance")][-1] == "lifted"


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
