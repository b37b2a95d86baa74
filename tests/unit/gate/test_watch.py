# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the wait for detached gates believes: real files, real processes, and the very command that nodes are asked."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.claimed import asked as asked_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.claimed import lacking, own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.job import UNWRITTEN
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.watch import command, gate_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import process_start
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import now_utc
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

#: When the job of a test began; a test that runs minutes after the file was read has a job of its own time.
STARTED = now_utc()
PROFILE = {"sku": "test-sku", "digest": "sha256:" + "0" * 64}


@pytest.fixture(autouse=True)
def begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.STARTED", now_utc())


def verdict_of(word: str = "pass", profile: Mapping[str, str] | None = None) -> dict[str, Any]:
    return made.claimed(word, profile=profile or PROFILE, started=STARTED)


class Node:
    """A node's folder of jobs, a worker that lives, and a shell to look at them with."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.folder = folder / name
        self.folder.mkdir()
        self.boot = self.folder / "boot_id"
        self.boot.write_text("boot-1\n", encoding="ascii")
        self.worker = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
        self.told: dict[str, Any] = {
            "host": name,
            "gate": "dcgm_gate",
            "job": "job-1",
            "boot_id": "boot-1",
            "pid": self.worker.pid,
            "pid_start": process_start(self.worker.pid),
            "limit": 60.0,
            "started": STARTED,
            "profile": PROFILE,
            "question": made.asked(),
            "state_dir": str(self.folder),
            "boot_id_path": str(self.boot),
        }
        self.silent = ""

    def answers(self, verdict: Optional[Mapping[str, Any]], **head: Any) -> None:
        about = {"schema": 1, "gate": "dcgm_gate", "job": "job-1", "boot_id": "boot-1", **head}
        (self.folder / "job-1.json").write_text(json.dumps({**about, "verdict": verdict}), encoding="utf-8")

    def look(self) -> tuple[str, str]:
        if self.silent:
            return "", self.silent
        done = subprocess.run(["sh", "-c", command(self.told)], capture_output=True, text=True, check=False)
        return done.stdout, ""

    def stop(self) -> None:
        self.worker.kill()
        self.worker.communicate()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str], Node]]:
    nodes: list[Node] = []

    def one(name: str) -> Node:
        nodes.append(Node(tmp_path, name))
        return nodes[-1]

    yield one
    for node in nodes:
        node.stop()


class Losing(Lifeline):
    """Tells of the loss of n1 at this look, counted from 1; else only when it is asked at the end."""

    def __init__(self, look: int = 0) -> None:
        self.looks = 0
        self._at = look

    def lost(self) -> Mapping[str, str]:
        self.looks += 1
        return self.confirm() if self.looks == self._at else {}

    def confirm(self) -> Mapping[str, str]:
        return {"n1": "another run works on it"}


def wait(
    *nodes: Node,
    timeout: Optional[float] = None,
    grace: float = 0.3,
    check: bool = False,
    line: Optional[Lifeline] = None,
) -> dict[str, Any]:
    by_name = {node.name: node for node in nodes}
    asked: list[str] = []

    def look(waiting: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
        asked.extend(str(told["host"]) for told in waiting)
        return {str(told["host"]): by_name[str(told["host"])].look() for told in waiting}

    params = {
        "gate": "dcgm_gate", "nodes": [node.told for node in nodes], "timeout": timeout, "interval": 0.05,
        "grace": grace, "look": look, "lacking": lacking, "own": own, "asked_of": asked_of,
    }  # fmt: skip
    result = gate_wait(params, Context(check_mode=check, lifeline=line))
    assert {event.node for event in result.events} == {
        host for host, one in result.data["verdicts"].items() if one["verdict"]
    }
    return {"asked": asked, **result.data["verdicts"]}


def finding(one: Mapping[str, Any], remedy: str = "retest") -> str:
    assert (one["ok"], one["verdict"], one["remedy"]) == (False, "inconclusive", remedy), one
    return str(one["findings"][0]["id"])


@pytest.mark.parametrize("word", ["pass", "fail", "inconclusive"])
def test_t1_each_node_gets_its_own_verdict(make: Callable[[str], Node], word: str) -> None:
    node, other = make("n1"), make("n2")
    node.answers(verdict_of(word))
    other.answers(verdict_of("pass"))
    found = wait(node, other)
    assert (found["n1"]["ok"], found["n1"]["verdict"]) == (word == "pass", word)
    assert found["n2"]["ok"] is True
    assert bool(found["n1"]["reason"]) == (word != "pass")


def test_t1_a_verdict_beside_another_boot_is_none(make: Callable[[str], Node]) -> None:
    node = make("n1")
    node.answers(verdict_of())
    node.boot.write_text("boot-2\n", encoding="ascii")
    assert finding(wait(node)["n1"]) == "rebooted"


def test_t1_a_failure_that_was_written_before_the_reboot_is_one(make: Callable[[str], Node]) -> None:
    node = make("n1")
    node.answers(verdict_of("fail"))
    node.boot.write_text("boot-2\n", encoding="ascii")
    assert wait(node)["n1"]["verdict"] == "fail"
    node.answers(verdict_of("fail"), boot_id="boot-0")
    assert finding(wait(node)["n1"]) == "rebooted"


@pytest.mark.parametrize(
    "head", [{"job": "job-2"}, {"boot_id": "boot-0"}, {"gate": "other_gate"}], ids=["job", "boot", "gate"]
)
def test_t1_a_file_of_another_job_boot_or_gate_is_none(make: Callable[[str], Node], head: dict[str, str]) -> None:
    node = make("n1")
    node.answers(verdict_of(), **head)
    assert finding(wait(node)["n1"]) == "unreadable"


@pytest.mark.parametrize(
    "verdict",
    [
        None,
        {**verdict_of("fail"), "verdict": "pass"},
        verdict_of(profile={"sku": "test-sku", "digest": "sha256:" + "1" * 64}),
        {"verdict": "pass"},
    ],
    ids=["none", "better than its cells", "another profile", "half"],
)
def test_t1_what_a_nodes_file_says_is_checked_before_it_is_believed(make: Callable[[str], Node], verdict: Any) -> None:
    node = make("n1")
    node.answers(verdict)
    assert finding(wait(node)["n1"]) == "unreadable"


def test_v4_a_verdict_that_the_node_could_not_write_is_told_as_that(make: Callable[[str], Node]) -> None:
    node = make("n1")
    head = {"schema": 1, "gate": "dcgm_gate", "job": "job-1", "boot_id": "boot-1"}
    told = json.dumps({**head, UNWRITTEN: "No space left on device"})
    (node.folder / "job-1.json").write_text(told, encoding="utf-8")
    node.stop()
    found = wait(node, timeout=30)["n1"]
    assert finding(found, "remediate_config") == "unwritten"
    assert "No space left on device; make room in" in found["reason"] and str(node.folder) in found["reason"]
    (node.folder / "job-1.json").write_text(told.replace("job-1", "job-2"), encoding="utf-8")
    assert finding(wait(node, timeout=30)["n1"]) == "unreadable"


@pytest.mark.parametrize("word", [None, 0, ["full"], {"pass": True}])
def test_v4_what_is_no_word_of_the_disk_is_no_answer(make: Callable[[str], Node], word: Any) -> None:
    node = make("n1")
    node.answers(None, **{UNWRITTEN: word})
    assert finding(wait(node, timeout=30)["n1"]) == "unreadable"


def test_t1_a_worker_that_is_gone_proves_nothing(make: Callable[[str], Node]) -> None:
    node = make("n1")
    node.stop()
    assert finding(wait(node, timeout=30)["n1"]) == "died"


def test_t1_another_process_with_the_workers_number_is_not_the_worker(make: Callable[[str], Node]) -> None:
    node = make("n1")
    node.told["pid_start"] -= 1
    assert finding(wait(node, timeout=30)["n1"]) == "died"


def test_t1_a_worker_that_nobody_has_collected_is_gone(make: Callable[[str], Node]) -> None:
    node = make("n1")
    node.worker.kill()
    end = time.monotonic() + 10
    while process_start(node.worker.pid):
        assert time.monotonic() < end, "a zombie has no start"
    assert finding(wait(node, timeout=30)["n1"]) == "died"


def test_t1_a_job_that_says_nothing_is_late_at_the_waits_end(make: Callable[[str], Node]) -> None:
    begun = time.monotonic()
    assert finding(wait(make("n1"), timeout=0.5)["n1"]) == "late"
    assert time.monotonic() - begun < 20


def test_t1_a_node_that_never_answers_holds_nobody(make: Callable[[str], Node]) -> None:
    node, other = make("n1"), make("n2")
    node.silent = "no route to host"
    other.answers(verdict_of())
    begun = time.monotonic()
    found = wait(node, other, timeout=600)
    assert time.monotonic() - begun < 20
    assert finding(found["n1"]) == "unreachable" and "no route to host" in found["n1"]["reason"]
    assert found["n2"]["ok"]


def test_t1_a_node_of_another_run_is_neither_asked_nor_judged(make: Callable[[str], Node]) -> None:
    node, other = make("n1"), make("n2")
    for one in (node, other):
        one.answers(verdict_of())
    node.told["refused"] = "another run works on this node"
    found = wait(node, other)
    assert found["asked"] == ["n2"]
    assert (found["n1"]["ok"], found["n1"]["verdict"]) == (False, "")
    assert found["n1"]["reason"] == "another run works on this node"


@pytest.mark.parametrize("key", ["job", "boot_id", "pid", "pid_start", "profile"])
def test_t1_a_node_for_which_no_job_was_started_is_told(make: Callable[[str], Node], key: str) -> None:
    node = make("n1")
    del node.told[key]
    found = wait(node)
    assert finding(found["n1"]) == "no_job" and found["asked"] == []


def test_t1_check_mode_waits_for_nothing(make: Callable[[str], Node]) -> None:
    found = wait(make("n1"), check=True)
    assert finding(found["n1"]) == "check_mode" and found["asked"] == []


@pytest.mark.parametrize("look", [0, 2])
def test_t1_a_verdict_that_came_before_the_lease_was_lost_is_none(make: Callable[[str], Node], look: int) -> None:
    node, other = make("n1"), make("n2")
    node.answers(verdict_of())  # at the first look; the other's answer comes never
    found = wait(node, other, timeout=0.3, line=Losing(look))
    refused = {"ok": False, "verdict": "", "seconds": 0.0, "reason": "another run works on it", "kind": "not_ours"}
    assert found["n1"] == refused
    assert finding(found["n2"]) == "late"
