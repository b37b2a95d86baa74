# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both doors of the gates, through ansible-playbook: a verdict is in the ledger whatever became of the module."""

from __future__ import annotations

import importlib
import json
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._gate import GateAction
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from contract.gate.case import Case
from contract.gate.cases import GATES
from suite import playbook

PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
pytestmark = pytest.mark.skipif(not PLAYBOOK.exists(), reason="ansible-playbook is not installed beside this Python")

XID79 = "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


class Site:
    """An inventory of local hosts with a ledger."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hosts: dict[str, dict[str, Any]] = {}
        self.ledger = folder / "ledger.sqlite"

    def host(self, name: str, **variables: Any) -> Path:
        home = self.folder / name
        home.mkdir()
        self.hosts[name] = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "gpufleet_serial": name,
            "dmi": made.dmi(home, name),
            "gpufleet_sku": "h100-sxm-8",
            **variables,
        }
        return home

    def play(self, task: dict[str, Any], *arguments: str, seconds: int = 120) -> dict[str, dict[str, Any]]:
        """Run one task on all hosts; the result of each host."""
        tasks = [{**task, "register": "found", "ignore_errors": True, "ignore_unreachable": True}]
        play = {**made.PLAY, "tasks": tasks}
        (self.folder / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
        inventory = {"all": {"hosts": self.hosts, "vars": {"gpufleet_ledger_url": f"sqlite:///{self.ledger}"}}}
        (self.folder / "inventory.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
        environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(made.CHECKOUT / "build" / "collections"),
            "ANSIBLE_STDOUT_CALLBACK": "gate_results",
            "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).with_name("callback")),
            "GATE_RESULTS": str(self.folder / "results"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "tmp"),
            "ANSIBLE_REMOTE_TEMP": str(self.folder / "remote"),
            "ANSIBLE_DEPRECATION_WARNINGS": "False",
        }
        command = ["-i", str(self.folder / "inventory.yml"), str(self.folder / "play.yml"), *arguments]
        done = playbook.run(command, env=environment, timeout=seconds, cwd=self.folder)
        lines = (self.folder / "results").read_text(encoding="utf-8").splitlines()
        (self.folder / "results").unlink()
        assert len(lines) == len(self.hosts), done.stdout + done.stderr
        return {line["host"]: line["result"] for line in map(json.loads, lines)}

    def events(self, kind: str = "verdict") -> list[tuple[str, str, dict[str, Any]]]:
        """Host, name and data of each event."""
        if not self.ledger.exists():
            return []
        with sqlite3.connect(self.ledger) as connection:
            rows = connection.execute(
                "SELECT n.name, e.name, e.data FROM events e JOIN nodes n USING (node_id)"
                " WHERE e.kind = ? ORDER BY e.id",
                (kind,),
            ).fetchall()
        return [(host, name, json.loads(data)) for host, name, data in rows]

    def add_event(self, ago: float, kind: str, name: str, data: dict[str, Any]) -> None:
        """Append one event to the history of every node that the ledger knows."""
        with sqlite3.connect(self.ledger) as connection:
            connection.execute(
                "INSERT INTO events (node_id, run_id, at, kind, name, data)"
                " SELECT node_id, 'r', strftime('%s', 'now') - ?, ?, ?, ? FROM nodes",
                (ago, kind, name, json.dumps(data)),
            )

    def verdicts(self) -> dict[str, str]:
        return {host: data["verdict"] for host, _name, data in self.events()}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def dcgm(site: Site, name: str, output: str, **variables: Any) -> None:
    how = {key: variables.pop(key) for key in ("rc", "body") if key in variables}
    home = site.host(name, **variables)
    site.hosts[name]["dcgmi"] = made.dcgmi(home, output, **how)


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
def test_each_gate_through_its_action_is_recorded_and_one_that_loads_the_gpus_is_permitted_first(
    site: Site, gate: Case
) -> None:
    module = f"gpufleet.baremetal.{gate.name}"
    for name, reason in (("asking", ""), ("forced", "a test of the test")):
        home = site.host(name, reason=reason)
        site.hosts[name]["healthy"] = options = gate.healthy(home)
    task = {module: {**{key: f"{{{{ healthy.{key} }}}}" for key in options}, "force_reason": "{{ reason }}"}}
    results = site.play(task)
    loads = _action(gate).LOADS
    told = results["forced"]["msg"]
    assert site.verdicts() == ({"forced": "pass"} if loads else {"asking": "pass", "forced": "pass"}), told
    assert {name for _host, name, _data in site.events()} == {gate.name}
    assert bool(site.events("intent")) is bool(site.events("outcome")) is loads
    if loads:
        assert results["asking"]["error"]["kind"] == "evidence_missing"
        assert results["forced"]["evidence"] == "forced:a test of the test"
        dry = site.play(task, "--check")
        assert {one["findings"][0]["id"] for one in dry.values()} == {"check_mode"}, "a dry run loads no GPU"
        assert site.verdicts() == {"forced": "pass"}


def _action(gate: Case) -> Any:
    home = f"ansible_collections.gpufleet.baremetal.plugins.action.{gate.name}"
    return importlib.import_module(home).ActionModule


@pytest.mark.parametrize("said", [{}, {"LOADS": None}, {"LOADS": 1}], ids=["nothing", "none", "a number"])
def test_a_gate_that_does_not_say_whether_it_loads_the_gpus_has_no_action(said: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="acme_gate does not say whether a run LOADS the GPUs"):
        type("ActionModule", (GateAction,), {"NAME": "acme_gate", "SPEC": {}, **said})


@pytest.mark.parametrize(
    ("gone", "word"),
    [
        ("asked", "what it was asked"),
        ("lacking", "what a claimed pass lacks"),
        ("own", "what it knows of a pass, so that a passport would sign the node's own words"),
    ],
)
def test_v2_a_gate_without_a_question_its_cells_or_its_own_words_has_no_action(gone: str, word: str) -> None:
    own = {name: lambda self, params, verdict: None for name in ("asked", "lacking", "own")}
    said = {"NAME": "acme_gate", "SPEC": {}, "LOADS": False, **{key: own[key] for key in own if key != gone}}
    with pytest.raises(TypeError, match=f"acme_gate does not say {word}: {gone}"):
        type("ActionModule", (GateAction,), said)


LOOK = {"gpufleet.baremetal.dcgm_gate": {"dcgmi": "{{ dcgmi }}", "level": 1}}


def test_every_host_gets_its_verdict_and_the_ledger_keeps_it(site: Site) -> None:
    healthy = made.text(made.dcgm4(["software"]))
    dcgm(site, "healthy", healthy)
    dcgm(site, "seven", made.text(made.dcgm4(["software"], gpus=7)))
    dcgm(site, "noise", "lorem ipsum")
    dcgm(site, "nosku", healthy, gpufleet_sku="x9")
    dcgm(site, "nopython", healthy, ansible_python_interpreter="/bin/false")
    dcgm(site, "missing", healthy)
    site.hosts["missing"]["dcgmi"] = "/nonexistent"
    dcgm(
        site,
        "unreachable",
        healthy,
        ansible_connection="ssh",
        ansible_host="127.0.0.1",
        ansible_port=1,
        ansible_timeout=5,
    )
    results = site.play(LOOK)
    assert site.verdicts() == {
        "healthy": "pass",
        "seven": "fail",
        "noise": "inconclusive",
        "nosku": "inconclusive",
        "nopython": "inconclusive",
        "missing": "inconclusive",
        "unreachable": "inconclusive",
    }
    failed = {name for name, result in results.items() if result.get("failed")}
    assert failed == {"seven", "noise", "nosku", "nopython", "missing"}
    assert results["unreachable"]["unreachable"] is True
    assert "7 of 8 GPUs: GPU 7 is missing" in results["seven"]["msg"]
    assert "x9.yaml" in results["nosku"]["msg"]
    assert results["healthy"]["profile"]["sku"] == "h100-sxm-8"
    assert not any(result.get("changed") for result in results.values())
    assert site.events("intent") == [], "a look takes no lease and announces nothing"


@pytest.mark.slow
def test_fail_on_never_and_a_profile_of_the_site(site: Site, tmp_path: Path) -> None:
    dcgm(site, "seven", made.text(made.dcgm4(["software"], gpus=7)), gpufleet_sku="test-sku")
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "test-sku.yaml").write_text(yaml.safe_dump(made.profile(7)), encoding="utf-8")
    task: dict[str, Any] = {**LOOK["gpufleet.baremetal.dcgm_gate"], "fail_on": "never"}
    results = site.play({"gpufleet.baremetal.dcgm_gate": task})
    assert results["seven"]["verdict"] == "inconclusive"
    assert not results["seven"].get("failed")
    task["profile_path"] = [str(tmp_path / "profiles")]
    assert site.play({"gpufleet.baremetal.dcgm_gate": task})["seven"]["verdict"] == "pass"
    task["profile"] = {"schema": 1}
    assert "'gpu' is a required property" in site.play({"gpufleet.baremetal.dcgm_gate": task})["seven"]["msg"]


@pytest.mark.slow
def test_a_stress_test_needs_evidence_and_check_mode_does_not_run_it(site: Site) -> None:
    dcgm(site, "node", made.text(made.dcgm4()))
    stress: dict[str, Any] = {"dcgmi": "{{ dcgmi }}", "level": 2}
    calls = site.folder / "node" / "dcgmi.calls"
    refused = site.play({"gpufleet.baremetal.dcgm_gate": stress})["node"]
    assert refused["failed"]
    assert refused["error"]["kind"] == "evidence_missing"
    dry = site.play({"gpufleet.baremetal.dcgm_gate": stress}, "--check", "--diff")["node"]
    assert (dry["verdict"], bool(dry.get("failed"))) == ("inconclusive", False)
    assert not calls.exists()
    assert site.events() == []
    forced = {**stress, "force_reason": "a test of the test"}
    result = site.play({"gpufleet.baremetal.dcgm_gate": forced})["node"]
    assert result["verdict"] == "pass"
    assert result["evidence"] == "forced:a test of the test"
    assert site.verdicts() == {"node": "pass"}
    assert len(site.events("outcome")) == 1


def test_t1_a_gate_under_which_the_lease_was_lost_leaves_no_pass(site: Site) -> None:
    """Another run worked on the node meanwhile: what was measured there is nobody's, and no older verdict stands."""
    take = f"""import sqlite3
with sqlite3.connect({str(site.ledger)!r}) as connection:
    connection.execute("UPDATE leases SET run_id = 'theirs', fencing = fencing + 1")
"""
    (site.folder / "take.py").write_text(take, encoding="utf-8")
    dcgm(site, "node", made.text(made.dcgm4()), body=f"{sys.executable} {site.folder}/take.py")
    stress = {"dcgmi": "{{ dcgmi }}", "level": 2, "force_reason": "a test of the test"}
    result = site.play({"gpufleet.baremetal.dcgm_gate": stress})["node"]
    assert (result["failed"], result["error"]["kind"]) == (True, "fenced"), result
    assert site.verdicts() == {"node": "inconclusive"}
    assert site.events()[0][2]["findings"][0]["id"] == "aborted"


@pytest.mark.slow
def test_a_task_that_runs_out_of_time_leaves_a_verdict(site: Site) -> None:
    dcgm(site, "node", "", body="sleep 30")
    result = site.play({**LOOK, "timeout": 3})["node"]
    assert result["failed"]
    assert site.verdicts() == {"node": "inconclusive"}
    assert site.events()[0][2]["findings"][0]["id"] == "aborted"


@pytest.mark.slow
def test_the_ledgers_url_never_reaches_the_node(site: Site) -> None:
    home = site.host("node")
    spy = made.program(
        home / "python",
        f'for word in "$@"; do [ -f "$word" ] && cat "$word" >> {home}/seen; done\nexec {sys.executable} "$@"',
    )
    site.hosts["node"].update(
        ansible_python_interpreter=spy, dcgmi=made.dcgmi(home, made.text(made.dcgm4(["software"])))
    )
    assert site.play(LOOK)["node"]["verdict"] == "pass"
    seen = (home / "seen").read_bytes()
    assert b"dcgm_gate" in seen
    assert b"ledger.sqlite" not in seen


def _kernel_log(site: Site, name: str, log: str, uptime: float = 1000.0) -> None:
    home = site.host(name)
    options = made.machine(home, log, uptime=uptime)
    site.hosts[name].update({key: value for key, value in options.items() if key.endswith("path")})


READ: dict[str, Any] = {
    "path": "{{ path }}",
    "uptime_path": "{{ uptime_path }}",
    "boot_id_path": "{{ boot_id_path }}",
    "pstore_path": "{{ pstore_path }}",
    "source": "kmsg",
}


def test_the_kernel_log_from_the_last_imaging_on(site: Site) -> None:
    _kernel_log(site, "quiet", made.kmsg("NVRM: loading"))
    _kernel_log(site, "faulty", made.kmsg(XID79))
    _kernel_log(site, "rotated", made.kmsg("late", start=500, seq=40))
    _kernel_log(site, "old", made.kmsg(XID79, start=10))
    task = {"gpufleet.baremetal.kernel_log_gate": READ}
    results = site.play(task)
    assert site.verdicts() == {"quiet": "pass", "faulty": "fail", "rotated": "inconclusive", "old": "fail"}
    assert "fallen off the bus (Xid 79)" in results["faulty"]["msg"]
    assert not results["quiet"].get("failed")
    # Imaged 400 s ago: what came before is of another life. Neither a validation that begins nor a provisioner that
    # is asked about a node it has deployed begins another.
    _kernel_log(site, "booting", made.kmsg(XID79, step=700))
    site.play(task)
    assert site.verdicts()["booting"] == "fail"
    site.add_event(400, "state", "imaging", {})
    site.add_event(1, "state", "validating", {})
    site.add_event(1, "outcome", "provisioner_node", {"before": {"state": "deployed"}, "after": {"state": "deployed"}})
    site.play(task)
    assert site.verdicts() == {"quiet": "pass", "faulty": "pass", "rotated": "pass", "old": "pass", "booting": "fail"}
    site.add_event(100, "outcome", "provisioner_node", {"before": {"state": "ready"}, "after": {"state": "deploying"}})
    site.play(task)
    assert site.verdicts()["booting"] == "pass"
    assert site.events("intent") == [], "reading takes no lease and announces nothing"


@pytest.mark.slow
def test_the_default_path_is_the_kernels_own(site: Site) -> None:
    """No option at all: /dev/kmsg, else the journal; on this machine that is a verdict of some kind, and an event."""
    site.host("node")
    result = site.play({"gpufleet.baremetal.kernel_log_gate": {"fail_on": "never"}})["node"]
    assert result["verdict"] in ("pass", "fail", "inconclusive")
    assert result["window"]["source"] in ("kmsg", "journal")
    assert site.verdicts() == {"node": result["verdict"]}


#: Answers of a machine whose root writes them himself, and the word with which each is turned away.
PASSED = {"gate": "dcgm_gate", "verdict": "pass", "checks": [], "findings": [], "remedy": "none", "schema": 1}
CELL = ("id", "entity", "measured", "wanted", "unit", "source")
FORGED: dict[str, tuple[dict[str, Any], str]] = {
    "a verdict of its neighbour": (
        {**PASSED, "events": [{"kind": "verdict", "name": "dcgm_gate", "node": "gpu002", "data": PASSED}]},
        "verdict dcgm_gate of gpu002",
    ),
    "proof that its neighbour is drained": (
        {**PASSED, "events": [{"kind": "evidence", "name": "drained", "node": "gpu002", "data": {}}]},
        "evidence drained",
    ),
    "proof that it is drained": (
        {**PASSED, "events": [{"kind": "evidence", "name": "drained", "node": "", "data": {}}]},
        "evidence drained",
    ),
    "another gate's verdict": (
        {**PASSED, "events": [{"kind": "verdict", "name": "image_verify", "node": "", "data": {"verdict": "pass"}}]},
        "verdict image_verify",
    ),
    "events that are none": ({**PASSED, "events": "all is well"}, "no list of events"),
    "an event without data": ({**PASSED, "events": [{"kind": "verdict"}]}, "an event of another shape"),
    "the word alone": ({"verdict": "pass", "events": []}, "not as it must be"),
    "a pass without a cell": ({**PASSED, "events": []}, "not as it must be"),
    "a pass with one cell of its own making": (
        {
            **PASSED,
            **dict(zip(("argv", "started", "ended"), ([], "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"))),
            "duration": 1.0,
            "checks": [{**dict.fromkeys(CELL, "x"), "verdict": "pass"}],
            "tool": {"name": "dcgmi", "version": "4.2.3"},
            "evidence_digest": "sha256:" + "0" * 64,
            "profile": "THE PROFILE",
            "events": [],
        },
        "it names 0 GPUs",
    ),
    "variables for the play": (
        {**PASSED, "events": [], "ansible_facts": {"gpufleet_serial": "another"}, "add_host": {"host_name": "new"}},
        "not as it must be",
    ),
}


def test_v2_a_node_writes_nobody_elses_history_and_no_verdict_of_its_own_making(site: Site) -> None:
    dcgm(site, "honest", made.text(made.dcgm4(["software"])))
    sent = site.play(LOOK)["honest"]["profile"]
    del site.hosts["honest"]
    (site.folder / "ledger.sqlite").unlink()
    for number, (answer, _word) in enumerate(FORGED.values(), 1):
        home = site.host(f"gpu{number:03}")
        known = {**answer, "profile": sent} if "profile" in answer else answer
        (home / "answer.json").write_text(json.dumps({**known, "changed": False}), encoding="utf-8")
        forger = made.program(home / "python", f"cat {home}/answer.json")
        site.hosts[f"gpu{number:03}"].update(ansible_python_interpreter=forger, dcgmi="/nonexistent")
    results = site.play(LOOK)
    assert set(site.verdicts().values()) == {"inconclusive"} and len(site.events()) == len(FORGED)
    assert site.events("evidence") == []
    for number, (name, (_answer, word)) in enumerate(FORGED.items(), 1):
        result = results[f"gpu{number:03}"]
        assert result["failed"] and result["findings"][0]["id"] == "forged" and word in result["msg"], (name, result)
        assert not {"ansible_facts", "add_host"} & set(result), name
