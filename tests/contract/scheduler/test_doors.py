# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both doors, through ansible-playbook, with a ledger: who holds what is known across runs and controllers."""

from __future__ import annotations

import base64
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
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from suite import events, playbook

CHECKOUT = Path(__file__).resolve().parents[3]
HOSTS = ("gpu001", "gpu002", "gpu003", "gpu004")


class Site:
    """A controller with its own ledger, and a play that is told what to do."""

    def __init__(self, slurm: Any, folder: Path, known: bool = True) -> None:
        self.slurm = slurm
        self.folder = folder
        folder.mkdir()
        self.ledger = folder / "ledger.sqlite"
        hosts: dict[str, dict[str, Any]] = {
            host: {"gpufleet_serial": f"S{host}", "gpufleet_scheduler_node": host} for host in HOSTS
        }
        for host in HOSTS if known else ():
            events.known(self.ledger, host, f"S{host}")
        hosts["bare"] = {"gpufleet_serial": "Sbare", "gpufleet_scheduler": "none"}
        inventory = {
            "all": {
                "hosts": hosts,
                "vars": {
                    # No node is ever connected to: whatever tried would fail.
                    "ansible_host": "127.0.0.250",
                    "ansible_connection": "ssh",
                    "gpufleet_scheduler": "slurm",
                    "gpufleet_scheduler_conf": str(slurm.conf),
                    "gpufleet_ledger_url": f"sqlite:///{self.ledger}",
                },
            }
        }
        (folder / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")

    def play(self, *tasks: Mapping[str, Any], limit: str = "gpu001", check: bool = False, ok: bool = True) -> list[Any]:
        """Run the tasks; returns all results in their order, each with its host."""
        named = [{"name": f"task {number}", **task} for number, task in enumerate(tasks)]
        book = [{"name": "test", "hosts": "all", "gather_facts": False, "strategy": "linear", "tasks": named}]
        (self.folder / "play.yml").write_text(yaml.safe_dump(book), encoding="utf-8")
        env = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "collections"),
            "ANSIBLE_STDOUT_CALLBACK": "gpufleet_json",
            "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).with_name("callback")),
            "ANSIBLE_LOCALHOST_WARNING": "False",
        }
        argv = ["-i", str(self.folder / "hosts.yml"), "--limit", limit, str(self.folder / "play.yml"), "--diff"]
        done = playbook.run([*argv, *(["--check"] if check else [])], env=env)
        assert (done.returncode == 0) == ok, done.stdout[-3000:] + done.stderr[-3000:]
        return [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("RESULT ")]

    def events(self, kind: str) -> list[tuple[str, str, dict[str, Any]]]:
        return events.of_kind(self.ledger, kind)


@pytest.fixture
def site(slurm: Any, tmp_path: Path) -> Site:
    return Site(slurm, tmp_path / "site")


HOLD = {"gpufleet.baremetal.scheduler_node": {"state": "held", "why": "reimage"}}
_NO_PASSPORT = {"force_reason": "a test without a passport"}
RESUME = {"gpufleet.baremetal.scheduler_node": {"state": "resumed", "timeout": 30, "interval": 0.3, **_NO_PASSPORT}}
WAIT = {"gpufleet.baremetal.scheduler_wait": {"timeout": 5, "interval": 0.3}, "run_once": True}


def test_hold_of_one_run_is_lifted_by_the_next(site: Site) -> None:
    held = site.play(HOLD)[0]["result"]
    assert held["changed"] and held["reason"].startswith("gpufleet:") and held["reason"].endswith(":reimage")
    (node, name, data) = site.events("hold")[0]
    assert (node, name, data["hold_token"]) == ("gpu001", "taken", held["reason"])
    assert [name for node, name, data in site.events("evidence")] == ["drained"]
    assert not site.play(HOLD)[0]["result"]["changed"], "a second run keeps the hold of the first"
    resumed = site.play(RESUME)[0]["result"]
    assert resumed["changed"] and resumed["state"] == "idle"
    assert [name for node, name, data in site.events("hold")] == ["taken", "released"]
    assert [name for node, name, data in site.events("evidence")][-1] == "in_service"
    assert not site.play(RESUME)[0]["result"]["changed"]


STATES = [
    {"gpufleet.baremetal.ledger_event": {"state": state}} for state in ("draining", "drained", "imaging", "validating")
]
ADMIT = {
    "ansible.builtin.import_role": {"name": "gpufleet.baremetal.join", "tasks_from": "admit.yml"},
    "vars": {"join_passport": {"passport": {"digest": "sha256:1"}}},
}


@pytest.mark.slow
@pytest.mark.parametrize("failed", [True, False])
def test_x1_a_node_that_is_not_admitted_does_not_stay_in_service(site: Site, slurm: Any, failed: bool) -> None:
    """The scheduler gives it work already when another run's look finds something."""
    site.play(HOLD, *STATES)
    assert site.play(RESUME)[0]["result"]["state"] == "idle"
    payload = base64.b64encode(b'{"predicate": {}}').decode()
    envelope = {"payload": payload, "payloadType": "application/vnd.in-toto+json", "signatures": []}
    with Ledger(f"sqlite:///{site.ledger}") as ledger:
        node, now = ledger.identify("gpu001", aliases=[("serial", "Sgpu001")]), ledger.now()
        ledger.save_passport("r1", node, issued=now, expires=now + 9e6, digest="sha256:1", envelope=envelope)
        found = {"verdict": "fail", "asked": {"window": "imaging"}, **ledger.moment().as_data()}
        ledger.append("another run", [(node, Event("verdict", "kernel_log_gate", found))] if failed else [])
    told = site.play(ADMIT, ok=not failed)
    assert slurm.state("gpu001") == ("IDLE+DRAIN" if failed else "IDLE")
    assert ("admitted" in [name for _node, name, _data in site.events("state")]) is not failed
    if failed:
        told = told[-1]["result"]
        assert "assertion" in told and "held again" in told["msg"] and "kernel_log_gate" in told["msg"], told


def test_another_controller_of_ours_without_this_ledger_is_foreign(site: Site, slurm: Any, tmp_path: Path) -> None:
    site.play(HOLD)
    other = Site(slurm, tmp_path / "other")
    refused = other.play(HOLD, ok=False)[0]["result"]
    assert refused["error"]["kind"] == "not_ours" and "another controller" in refused["msg"]
    assert "gpufleet_ledger_url" in refused["error"]["do"]
    assert other.play(RESUME, ok=False)[0]["result"]["error"]["kind"] == "not_ours"
    assert slurm.state("gpu001") == "IDLE+DRAIN"


@pytest.mark.slow
def test_a_run_that_died_after_its_write_is_known_by_its_intent(site: Site, slurm: Any) -> None:
    """SIGKILL between the scheduler's write and the ledger's event leaves only the intent."""
    site.play(HOLD)
    with sqlite3.connect(site.ledger) as ledger:
        ledger.execute("DROP TRIGGER events_delete")
        ledger.execute("DELETE FROM events WHERE kind IN ('hold', 'outcome', 'evidence')")
    assert site.play(RESUME)[0]["result"]["changed"]


def test_the_batch_is_watched_by_one_task(site: Site, slurm: Any) -> None:
    job = slurm.job("gpu002")
    slurm.update("gpu003", "State=DRAIN", "Reason=somebody else")
    hold = {**HOLD, "ignore_errors": True}
    results = site.play(hold, WAIT, limit="all:!gpu004")
    verdicts = [item for item in results if "verdicts" in item["result"]][-1]["result"]["verdicts"]
    assert {host for host, verdict in verdicts.items() if verdict["ok"]} == {"gpu001", "bare"}
    assert job in verdicts["gpu002"]["reason"] and "somebody else" in verdicts["gpu003"]["reason"]
    newest = {node: name for node, name, data in site.events("evidence")}
    assert newest == {
        "gpu001": "drained", "gpu002": "not_drained", "gpu003": "foreign_hold", "bare": "not_in_scheduler",
    }  # fmt: skip


def test_only_hosts_that_the_hold_left_standing_take_part(site: Site, slurm: Any) -> None:
    slurm.update("gpu003", "State=DRAIN", "Reason=somebody else")
    hold = {**HOLD, "ignore_errors": True, "register": "hold_node"}
    options = {"timeout": 5, "interval": 0.3, "after": "hold_node"}
    wait = {"gpufleet.baremetal.scheduler_wait": options, "run_once": True}
    results = site.play(hold, wait, limit="gpu001,gpu003")
    assert set(results[-1]["result"]["verdicts"]) == {"gpu001"}


def test_called_by_every_host_one_polls(site: Site, slurm: Any) -> None:
    wait = {key: value for key, value in WAIT.items() if key != "run_once"}
    results = site.play(HOLD, wait, limit="gpu001,gpu002")
    answers = [item["result"]["verdicts"] for item in results if "verdicts" in item["result"]]
    assert len(answers) == 2 and answers[0] == answers[1]
    assert all(verdict["ok"] for verdict in answers[0].values())


def test_a_host_that_nothing_identifies_is_refused_alone(site: Site) -> None:
    inventory = yaml.safe_load((site.folder / "hosts.yml").read_text())
    del inventory["all"]["hosts"]["gpu002"]["gpufleet_serial"]
    (site.folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
    results = site.play({**HOLD, "ignore_errors": True}, WAIT, limit="gpu001,gpu002")
    verdicts = [item for item in results if "verdicts" in item["result"]][-1]["result"]["verdicts"]
    assert verdicts["gpu001"]["ok"] and "which machine this is" in verdicts["gpu002"]["reason"]


def test_a_host_without_a_scheduler_is_refused_beside_one_that_has_its_own(site: Site) -> None:
    inventory = yaml.safe_load((site.folder / "hosts.yml").read_text())
    shared, hosts = inventory["all"]["vars"], inventory["all"]["hosts"]
    own = {name: shared.pop(name) for name in ("gpufleet_scheduler", "gpufleet_scheduler_conf")}
    hosts["gpu001"].update(own, gpufleet_scheduler="none")
    (site.folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
    verdicts = site.play(WAIT, limit="gpu001,gpu002")[-1]["result"]["verdicts"]
    assert verdicts["gpu001"]["ok"] and "gpufleet_scheduler" in verdicts["gpu002"]["reason"]
    assert [(node, name) for node, name, data in site.events("evidence")] == [("gpu001", "not_in_scheduler")]


def test_what_the_play_says_is_for_each_host_of_the_batch(site: Site) -> None:
    inventory = yaml.safe_load((site.folder / "hosts.yml").read_text())
    shared = inventory["all"]["vars"]
    of_play = {name: shared.pop(name) for name in ("gpufleet_scheduler_conf", "gpufleet_ledger_url")}
    (site.folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
    results = site.play({**HOLD, "vars": of_play}, {**WAIT, "vars": of_play}, limit="gpu001,gpu002")
    assert all(verdict["ok"] for verdict in results[-1]["result"]["verdicts"].values())


def test_check_mode_writes_nothing_anywhere(site: Site, slurm: Any) -> None:
    before = slurm.show("gpu001")
    result = site.play(HOLD, check=True)[0]["result"]
    assert result["changed"] and result["after"]["state"] == "drained" and result["diff"]["after"] == result["after"]
    assert (slurm.show("gpu001")["State"], slurm.show("gpu001")["Reason"]) == (before["State"], before["Reason"])
    assert site.events("evidence") == [] and site.events("intent") == []
    site.play(HOLD)
    assert site.play(RESUME, check=True)[0]["result"]["changed"]
    assert slurm.state("gpu001") == "IDLE+DRAIN"


def test_the_first_door_is_the_module_itself(slurm: Any) -> None:
    """As it runs on a login node: an interpreter, the module's arguments, no ledger."""
    code = "from ansible_collections.gpufleet.baremetal.plugins.modules.scheduler_node import main; main()"
    args = {
        "scheduler": "slurm", "scheduler_conf": str(slurm.conf), "scheduler_node": "gpu001", "state": "held",
        "run_id": "run9", "why": "reimage",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": args}),
        env={**os.environ, "PYTHONPATH": str(CHECKOUT / "build" / "collections"), "_ANSIBLE_PROFILE": "legacy"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    result = json.loads(done.stdout)
    assert result["changed"] and result["reason"] == "gpufleet:run9:reimage", done.stderr
    assert slurm.state("gpu001") == "IDLE+DRAIN"
