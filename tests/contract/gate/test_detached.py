# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gates that go on by themselves: started on each node, watched by one task, collected by each host."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._history import evidence
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from suite import playbook

pytestmark = pytest.mark.slow
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
CALLBACKS = Path(__file__).with_name("callback")
BOOT_ID = "3f0d4c4e-0a9e-4f7c-8f0e-2f6f4b1d9a51"
HEALTHY = made.text(made.dcgm4())


class Site:
    """Local hosts, each with a dcgmi, a boot id and a folder for jobs of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hosts: dict[str, dict[str, Any]] = {}
        self.of_play: dict[str, Any] = {}

    def host(self, name: str, body: str = "", output: str = HEALTHY, **variables: Any) -> Path:
        (home := self.folder / name).mkdir()
        (home / "boot_id").write_text(f"{BOOT_ID}\n", encoding="ascii")
        run = f'if [ "$1" = diag ]; then echo $$ > {home}/diag.pid; {body or ":"}; fi'
        self.hosts[name] = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "gpufleet_serial": made.serial_of(name),
            "gpufleet_sku": "test-sku",
            **made.known_by(home, made.serial_of(name)),
            "dcgmi": made.dcgmi(home, output, body=run),
            **variables,
        }
        return home

    def begin(self, *tasks: Mapping[str, Any]) -> subprocess.Popen[str]:
        """A run that can be killed: the program itself."""
        return subprocess.Popen(
            [str(PLAYBOOK), "-i", "hosts.yml", "play.yml"],
            cwd=self.folder,
            env=self._written(tasks),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _written(self, tasks: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """The files of a run; returns its environment."""
        (self.folder / "profiles").mkdir(exist_ok=True)
        (self.folder / "profiles" / "test-sku.yaml").write_text(yaml.safe_dump(made.profile()), encoding="utf-8")
        play = {**made.PLAY, "strategy": "linear", "tasks": list(tasks), "vars": self.of_play}
        shared = {"gpufleet_ledger_url": f"sqlite:///{self.folder / 'ledger.sqlite'}"}
        (self.folder / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
        inventory = {"all": {"hosts": self.hosts, "vars": shared}}
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
        environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(made.CHECKOUT / "build" / "collections"),
            "ANSIBLE_STDOUT_CALLBACK": "gate_results",
            "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
            "GATE_RESULTS": str(self.folder / "results"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "tmp"),
            "ANSIBLE_REMOTE_TEMP": str(self.folder / "remote"),
            "GPUFLEET_PROFILE_PATH": str(self.folder / "profiles"),
        }
        (self.folder / "results").unlink(missing_ok=True)
        return environment

    def play(self, *tasks: Mapping[str, Any], flags: tuple[str, ...] = ()) -> dict[str, list[dict[str, Any]]]:
        """The results of each host, in the order of the tasks."""
        done = playbook.run(["-i", "hosts.yml", "play.yml", *flags], cwd=self.folder, env=self._written(tasks))
        self.output = done.stdout + done.stderr
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in self.hosts}
        assert (self.folder / "results").exists(), self.output
        for line in (self.folder / "results").read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            found[one["host"]].append(one["result"])
        return found

    def diagnoses(self, name: str) -> int:
        """How often dcgmi was asked for a diagnosis."""
        path = self.folder / name / "dcgmi.calls"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return sum(1 for line in lines if line.startswith("diag"))

    def verdicts(self, name: str) -> list[dict[str, Any]]:
        """The verdicts of a host in the ledger, without the place that each has there."""
        with sqlite3.connect(self.folder / "ledger.sqlite") as ledger:
            rows = ledger.execute(
                "SELECT e.data FROM events e JOIN nodes n USING (node_id)"
                " WHERE n.name = ? AND e.kind = 'verdict' AND e.name = 'dcgm_gate' ORDER BY e.id",
                (name,),
            ).fetchall()
        found: list[dict[str, Any]] = [json.loads(data) for (data,) in rows]
        assert all(isinstance(one.pop("after_event"), int) for one in found)
        assert all(isinstance(one.pop("looked_at"), float) for one in found)
        return found


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


VALIDATING = {"gpufleet.baremetal.ledger_event": {"state": "validating", "force_reason": "a test"}}
START: dict[str, Any] = {
    "gpufleet.baremetal.dcgm_gate": {
        "dcgmi": "{{ dcgmi }}",
        "level": 2,
        "detached": True,
        "state_dir": "{{ home }}/jobs",
        "boot_id_path": "{{ home }}/boot_id",
        "pci_path": "{{ home }}",
        "timeout": 60,
        "busy_timeout": 0,
        "force_reason": "a test of the test",
    },
    "register": "started",
}
WAIT: dict[str, Any] = {
    "gpufleet.baremetal.gate_wait": {"after": "started", "interval": 0.3, "grace": 2},
    "run_once": True,
    "register": "diagnosed",
}
COLLECT = {"gpufleet.baremetal.dcgm_gate": {"collect": "diagnosed"}, "ignore_errors": True}
ALL = (VALIDATING, START, WAIT, COLLECT)


def start(**options: Any) -> dict[str, Any]:
    return {**START, "gpufleet.baremetal.dcgm_gate": {**START["gpufleet.baremetal.dcgm_gate"], **options}}


def wait(**options: Any) -> dict[str, Any]:
    return {**WAIT, "gpufleet.baremetal.gate_wait": {**WAIT["gpufleet.baremetal.gate_wait"], **options}}


def shell(command: str) -> dict[str, Any]:
    return {"ansible.builtin.shell": command}


def until(condition: Any, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_one_task_watches_five_nodes_and_each_gets_its_verdict(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        site.host(f"node{number}", body="sleep 2")
    site.host("seven", output=made.text(made.dcgm4(gpus=7)))
    if os.geteuid() == 0:  # su then asks for no password
        monkeypatch.setenv("ANSIBLE_BECOME_ALLOW_SAME_USER", "true")
        site.hosts["node0"].update(ansible_become=True, ansible_become_method="su")
    found = site.play(*ALL)
    for name in ("node0", "node1", "node2", "node3"):
        begun, last = found[name][1], found[name][-1]
        assert "verdict" not in begun and not begun["changed"] and not begun["joined"], begun
        assert last["verdict"] == "pass" and not last.get("failed"), last
        assert [one["verdict"] for one in site.verdicts(name)] == ["pass"]
        # What a result calls asked is what was asked of peers; what the gate was asked is the ledger's to tell.
        told = {key: value for key, value in site.verdicts(name)[0].items() if key != "asked"}
        assert {key: last[key] for key in told} == told
        assert site.diagnoses(name) == 1
    bad = found["seven"][-1]
    assert bad["failed"] and bad["verdict"] == "fail" and bad["remedy"] != "none" and bad["findings"], bad
    assert "7 of 8 GPUs" in bad["msg"]
    (watched,) = [one for results in found.values() for one in results if "verdicts" in one]
    assert {name: one["ok"] for name, one in watched["verdicts"].items()} == {
        name: name != "seven" for name in site.hosts
    }
    assert all(one["event"] > 0 for one in watched["verdicts"].values())
    folder = site.folder / "node0" / "jobs"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())


def test_what_a_detached_gate_says_is_what_an_attached_one_says(site: Site) -> None:
    site.host("node")
    attached = {key: value for key, value in START["gpufleet.baremetal.dcgm_gate"].items() if key != "detached"}
    site.play({"gpufleet.baremetal.dcgm_gate": attached}, *ALL)
    first, second = site.verdicts("node")
    for one in (first, second):
        assert one.pop("started") <= one.pop("ended") and one.pop("duration") >= 0
    assert first == second


#: The result of the host's job appears whole, at its end.
_RESULT = "until ls {{ home }}/jobs/*.json; do sleep 0.1; done"
FATES: Mapping[str, tuple[str, str]] = {
    "killed": ("kill -9 $(sed 's/.*\"pid\": \\([0-9]*\\).*/\\1/' {{ home }}/jobs/*.job)", "died"),
    "rebooted": ("echo another > {{ home }}/boot_id", "rebooted"),
    "tampered": (_RESULT + '; sed -i \'s/"fail"/"pass"/\' {{ home }}/jobs/*.json', "unreadable"),
    "cut": (_RESULT + "; truncate -s 100 {{ home }}/jobs/*.json", "unreadable"),
    "exchanged": (_RESULT + '; sed -i \'s/"job": "dcgm/"job": "dcgx/\' {{ home }}/jobs/*.json', "unreadable"),
    "lost": ("rm -r {{ home }}/jobs; kill -9 {{ started.pid }}", "died"),
}


def test_whatever_befalls_a_job_it_is_no_pass(site: Site) -> None:
    bad = made.failing(made.dcgm4(), "memory", 3, made.fault("GPU 3 has a row remap failure", 80))
    for name, (act, _id) in FATES.items():
        late = act.startswith(_RESULT)
        site.host(
            name, body="sleep 1" if late else "sleep 20", output=made.text(bad) if name == "tampered" else HEALTHY
        )
        site.hosts[name]["act"] = act
    site.host("untouched", act="true")
    found = site.play(VALIDATING, START, shell("{{ act }}"), WAIT, COLLECT)
    for name, (_act, id) in FATES.items():
        last = found[name][-1]
        assert last["failed"] and last["verdict"] == "inconclusive", (name, last)
        assert last["findings"][0]["id"] == id, (name, last["findings"])
        assert [one["verdict"] for one in site.verdicts(name)] == ["inconclusive"]
    assert found["untouched"][-1]["verdict"] == "pass"
    until(lambda: not _lives(site.folder / "killed" / "diag.pid"))
    again = site.play(START, WAIT, COLLECT)
    for name in ("killed", "rebooted", "tampered"):
        assert again[name][0]["joined"] and again[name][-1]["verdict"] == "inconclusive", "to run again is no way out"


def _lives(pid_file: Path) -> bool:
    stat = Path(f"/proc/{int(pid_file.read_text())}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] not in "ZX"


def test_a_diagnosis_that_hangs_ends_at_its_own_limit_and_a_late_one_at_the_waits(site: Site) -> None:
    site.host("hangs", body="sleep 600", first=_RESULT)
    site.host("late", body="sleep 60", limit=120, first="true")
    limited = start(timeout="{{ limit | default(2) }}")
    found = site.play(VALIDATING, limited, shell("{{ first }}"), wait(timeout=1), COLLECT)
    assert found["hangs"][-1]["verdict"] == "inconclusive"
    assert found["hangs"][-1]["findings"][0]["id"] != "late"
    assert found["late"][-1]["findings"][0]["id"] == "late"
    assert not _lives(site.folder / "hangs" / "diag.pid")
    os.kill(found["late"][1]["pid"], signal.SIGKILL)


def test_a_second_start_joins_and_an_ended_job_is_not_run_again(site: Site) -> None:
    site.host("node", body="sleep 2")
    first = site.play(VALIDATING, START)["node"][1]
    second, watched, last = site.play(START, WAIT, COLLECT)["node"]
    assert second["joined"] and not first["joined"]
    assert {key: second[key] for key in ("job", "pid", "pid_start")} == {
        key: first[key] for key in ("job", "pid", "pid_start")
    }
    assert watched["verdicts"]["node"]["ok"] and last["verdict"] == "pass"
    # What was announced yesterday of this validation, which goes on, is not what is found again today.
    with sqlite3.connect(site.folder / "ledger.sqlite") as ledger:
        announced = (
            "INSERT INTO events (node_id, run_id, at, kind, name, data) SELECT node_id, 'r', ?, 'intent', ?, '{}'"
        )
        ledger.execute(f"{announced} FROM nodes", (time.time() - 90_000.0, "dcgm_gate"))
    third = site.play(START, WAIT, COLLECT)["node"]
    assert third[0]["joined"] and third[-1]["verdict"] == "pass" and time.time() - third[0]["looked_at"] < 3600.0
    assert site.diagnoses("node") == 1
    # Another question, and another validation, are other jobs.
    assert not site.play(start(tests=["memory"]), WAIT)["node"][0]["joined"]
    again = {"gpufleet.baremetal.ledger_event": {"state": "quarantined", "reason": "x", "remedy": "retest"}}
    assert not site.play(again, VALIDATING, START, WAIT)["node"][2]["joined"]
    assert site.diagnoses("node") == 3
    # An answer of yesterday says little of today.
    for path in (site.folder / "node" / "jobs").glob("*.json"):
        content = json.loads(path.read_text(encoding="utf-8"))
        content["verdict"]["ended"] = "2026-01-01T00:00:00Z"
        path.write_text(json.dumps(content), encoding="utf-8")
    assert not site.play(START, WAIT)["node"][0]["joined"]


def test_a_killed_controller_goes_on_with_the_same_diagnosis(site: Site) -> None:
    site.host("node", body="sleep 5")
    run = site.begin(*ALL)
    results = site.folder / "results"
    # The wait comes next.
    until(lambda: results.exists() and len(results.read_text(encoding="utf-8").splitlines()) >= 2)
    until(lambda: site.diagnoses("node") == 1)
    run.kill()
    run.communicate(timeout=60)
    begun, watched, last = site.play(START, WAIT, COLLECT)["node"]
    assert begun["joined"] and watched["verdicts"]["node"]["ok"] and last["verdict"] == "pass"
    assert site.diagnoses("node") == 1
    assert [one["verdict"] for one in site.verdicts("node")] == ["pass"]


def test_nodes_that_fall_silent_are_inconclusive_and_the_others_go_on(site: Site) -> None:
    """One refuses the connection, one takes it and never says a word."""
    for name in ("well", "dead", "mute"):
        site.host(name, body="sleep 1")
    with socket.create_server(("127.0.0.1", 0)) as mute:
        site.hosts["dead"]["port"], site.hosts["mute"]["port"] = 1, mute.getsockname()[1]
        fallen = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": "{{ port }}"}
        gone = {"ansible.builtin.set_fact": fallen, "when": "port is defined"}
        found = site.play(VALIDATING, START, gone, wait(look_timeout=1), COLLECT)
    assert found["well"][-1]["verdict"] == "pass"
    # Nobody waited for the one that hangs: it was given up after its second, or found to hang still.
    for name, words in (("dead", ("port 1",)), ("mute", ("did not answer within 1 s", "still hangs"))):
        last = found[name][-1]
        assert last["failed"] and last["findings"][0]["id"] == "unreachable", last
        assert any(one in last["msg"] for one in words), last
        assert [one["verdict"] for one in site.verdicts(name)] == ["inconclusive"]


def test_without_evidence_nothing_is_started(site: Site) -> None:
    site.host("node")
    task = {**START["gpufleet.baremetal.dcgm_gate"]}
    del task["force_reason"]
    refused = site.play(VALIDATING, {**START, "gpufleet.baremetal.dcgm_gate": task})["node"][-1]
    assert refused["error"]["kind"] == "evidence_missing"
    assert site.diagnoses("node") == 0 and not (site.folder / "node" / "jobs").exists()


def test_a_folder_that_others_can_write_to_is_refused(site: Site) -> None:
    home = site.host("node")
    (home / "jobs").mkdir()
    (home / "jobs").chmod(0o777)
    refused = site.play(VALIDATING, START)["node"][-1]
    assert refused["failed"] and refused["verdict"] == "inconclusive" and "not ours alone" in refused["msg"]
    assert site.diagnoses("node") == 0


def test_check_mode_starts_nothing_and_fails_nobody(site: Site) -> None:
    home = site.host("node")
    found = site.play(*ALL, flags=("--check", "--diff"))["node"]
    assert len(found) == 4 and not any(one.get("failed") for one in found), found
    assert found[-1]["verdict"] == "inconclusive"
    assert not (home / "jobs").exists() and site.diagnoses("node") == 0
    assert not (site.folder / "ledger.sqlite").exists() or site.verdicts("node") == []


def test_a_job_needs_something_to_belong_to(site: Site) -> None:
    site.host("node")
    assert "validating" in site.play(START)["node"][-1]["msg"]
    assert site.play(start(job="by-hand"), WAIT, COLLECT)["node"][-1]["verdict"] == "pass"
    assert (site.folder / "node" / "jobs" / "by-hand.json").exists()


def test_a_node_on_which_another_run_works_is_left_to_it(site: Site) -> None:
    """Between the start and the wait its lease went to a run that is alive, on another machine."""
    for name in ("ours", "theirs"):
        site.host(name)
    site.play(VALIDATING)
    taken = (
        "UPDATE leases SET run_id = 'theirs', host = 'elsewhere', boot_id = 'x', fencing = fencing + 1,"
        " expires = strftime('%s', 'now') + 600 WHERE node_id = (SELECT node_id FROM nodes WHERE name = 'theirs')"
    )
    path = str(site.folder / "ledger.sqlite")
    code = f"import sqlite3; c = sqlite3.connect({path!r}); c.execute({taken!r}); c.commit()"
    steal = {"ansible.builtin.command": {"argv": [sys.executable, "-c", code]}, "run_once": True}
    found = site.play(START, steal, WAIT, COLLECT)
    assert found["ours"][-1]["verdict"] == "pass"
    assert found["theirs"][-1]["failed"] and "verdict" not in found["theirs"][-1], found["theirs"][-1]
    assert found["theirs"][-1]["error"]["kind"] == "not_ours"
    assert site.verdicts("theirs") == []


IMAGING = {"gpufleet.baremetal.ledger_event": {"state": "imaging", "force_reason": "a test"}}


def admitting(site: Site, name: str) -> list[str]:
    """What a passport of this host may rest on."""
    with Ledger(f"sqlite:///{site.folder / 'ledger.sqlite'}") as ledger:
        node = ledger.identify(name, aliases=[("serial", made.serial_of(name))])
        return [event["data"]["verdict"] for event in evidence(ledger, node)["verdicts"]]


def test_c3_a_job_that_began_before_the_node_was_imaged_admits_nothing_whenever_it_is_waited_for(site: Site) -> None:
    """Also where a second run finds it again, which asks anew and begins nothing."""
    site.host("node0")
    found = site.play(IMAGING, VALIDATING, START, START, WAIT, COLLECT)["node0"]
    assert [found[2]["joined"], found[3]["joined"]] == [False, True] and found[-1]["verdict"] == "pass", found
    assert not {"after_event", "looked_at"} & set(found[-1]) and admitting(site, "node0") == ["pass"]
    # The gate is no verb of the provisioner, which alone may order another image without a state of the lifecycle.
    ordered = Event("intent", "provisioner_node", {"options": {"state": "deployed"}})
    with Ledger(f"sqlite:///{site.folder / 'ledger.sqlite'}") as ledger:
        ledger.append("run", [(ledger.identify("node0", aliases=[("serial", made.serial_of("node0"))]), ordered)])
    found = site.play(START, WAIT, COLLECT)["node0"]
    assert found[0]["joined"] and found[-1]["verdict"] == "pass", found
    assert len(site.verdicts("node0")) == 2 and admitting(site, "node0") == []
