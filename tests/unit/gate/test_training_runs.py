# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate over a program that stands in for a trainer, and over the log that a job has left."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import NotOurs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.gate import training_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import children, uptime
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate import trained
from ansible_collections.gpufleet.baremetal.tests.unit.gate.test_cpu_memory import Refusing
from ansible_collections.gpufleet.baremetal.tests.unit.gate.test_process import eventually_gone
from ansible_collections.gpufleet.baremetal.tests.unit.gate.trained import ECC, line, log, row


def asked(params: dict[str, Any], **options: Any) -> dict[str, Any]:
    return dict(training_gate({**params, **options}, Context()).data)


def said(found: dict[str, Any]) -> tuple[str, str, str]:
    return found["verdict"], found["remedy"], "; ".join(finding["text"] for finding in found["findings"])


# -- a run -------------------------------------------------------------------------------------------------------------


def test_a_good_node_passes(tmp_path: Path) -> None:
    params = trained.params(tmp_path)
    found = asked(params, command=[*params["command"], "--steps", "12 of them"])
    assert found["verdict"] == "pass", found["msg"]
    assert (tmp_path / "calls").read_text(encoding="utf-8") == "--steps 12 of them\n", "no shell has parted its words"
    measured = {one["id"]: (one["measured"], one["wanted"], one["unit"], one["source"]) for one in found["checks"]}
    assert measured["gpt.step_time"] == (5.0, 8.0, "ms a step, megatron, 1 node", "written for tests")
    assert measured["gpt.steps"][:2] == (12, 12) and found["tool"]["name"] == "reference training"


def test_what_is_logged_as_an_error_is_a_part_of_the_log(tmp_path: Path) -> None:
    """Python's own logging prints there, and so do launchers."""
    found = asked(trained.params(tmp_path, "", cries=log()))
    assert found["verdict"] == "pass", found["msg"]
    found = asked(trained.params(tmp_path, cries="CUDA error: uncorrectable ECC error encountered\n"))
    assert said(found)[:2] == ("fail", "reset_gpu")
    assert asked(trained.params(tmp_path, cries=log()))["verdict"] == "inconclusive", "each step is told twice"


@pytest.mark.parametrize(
    ("how", "options", "verdict", "word"),
    [
        ({"body": "sleep 60"}, {"timeout": 1}, "inconclusive", "was still running after 1 s"),
        ({"body": "exec yes iteration"}, {}, "inconclusive", "printed without an end"),
        ({"body": "kill -9 $$"}, {}, "inconclusive", "was ended by signal 9"),
        ({"body": "echo 'torchrun: not found' >&2; exit 127"}, {}, "inconclusive", "that is not there"),
        ({"rc": 1}, {}, "inconclusive", "ended with exit status 1"),
        ({"text": log(ms=9.5)}, {}, "fail", "9.5 ms a step, wanted 8"),
        ({"text": log({5: line(5, "nan")}), "rc": 1}, {}, "fail", "step 5 are no number"),
        ({"text": log(without=[11, 12])}, {}, "inconclusive", "step 11 is missing"),
        ({"text": log(ms=7000)}, {}, "inconclusive", "its steps took 84.0 s"),
        ({}, {"command": ["/nonexistent/train"]}, "inconclusive", "is not installed"),
        ({}, {"profile": made.profile()}, "inconclusive", "has no section training"),
        ({}, {"profile": None}, "inconclusive", "profile"),
        ({}, {"test": "moe"}, "inconclusive", "moe"),
        ({}, {"command": []}, "inconclusive", "run or read"),
        ({}, {"log": "/some/log"}, "inconclusive", "run or read"),
        ({}, {"command": ["train", "x" * 1001]}, "inconclusive", "too long to be told"),
        ({}, {"command": ["train"] * 101}, "inconclusive", "too long to be told"),
    ],
)
def test_a_trainer_that_does_something_else(
    how: dict[str, Any], options: dict[str, Any], verdict: str, word: str, tmp_path: Path
) -> None:
    found = asked(trained.params(tmp_path, **how), **options)
    assert found["verdict"] == verdict and word in said(found)[2], found["msg"]


def test_gpus_that_the_kernel_does_not_know_are_no_pass(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    found = asked(trained.params(tmp_path), pci_path=str(tmp_path / "none"))
    assert found["verdict"] == "inconclusive" and "the kernel knows 0 GPUs" in found["msg"]


#: A worker in a session of its own, as launchers start them, with a child in a session of its own.
LEAVES = """import os, sys, time
def apart(name, then):
    if not os.fork():
        os.setsid()
        open(name, "w").write(str(os.getpid()))
        for out in (0, 1, 2):
            os.close(out)
        then()
        time.sleep(600)
folder = sys.argv[1]
apart(folder + "/worker", lambda: apart(folder + "/child", lambda: None))
while not os.path.exists(folder + "/child") or not open(folder + "/child").read():
    time.sleep(0.01)
"""


@pytest.mark.parametrize("end", ["", "exit 1", "sleep 60"])
def test_nothing_is_left_of_a_training_in_whatever_session_it_is(end: str, tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text(LEAVES, encoding="utf-8")
    before = set(children(os.getpid()))
    body = f"{sys.executable} {tmp_path}/leaves.py {tmp_path}\n{end}"
    found = asked(trained.params(tmp_path, body=body), timeout=3 if "sleep" in end else 20)
    assert found["verdict"] == ("inconclusive" if end else "pass"), found["msg"]
    for name in ("worker", "child"):
        assert eventually_gone(int((tmp_path / name).read_text(encoding="utf-8"))), name
    assert set(children(os.getpid())) <= before, "nor a zombie of it"


def test_a_process_that_was_there_before_is_none_of_it(tmp_path: Path) -> None:
    other = os.posix_spawn("/bin/sleep", ["sleep", "600"], {})
    try:
        assert asked(trained.params(tmp_path))["verdict"] == "pass"
        assert os.waitpid(other, os.WNOHANG) == (0, 0), "it lives"
    finally:
        os.kill(other, 9)
        os.waitpid(other, 0)


def test_a_run_knows_its_own_name_and_an_old_log_does_not(tmp_path: Path) -> None:
    profile = trained.profile(row(start_mark="gpufleet run {run}"))
    mine = 'echo "gpufleet run $GPUFLEET_RUN_ID"'
    assert asked(trained.params(tmp_path, body=mine), profile=profile)["verdict"] == "pass"
    for body in ("", "echo 'gpufleet run 0123456789abcdef0123456789abcdef'", f"cat {tmp_path}/train.out; {mine}"):
        found = asked(trained.params(tmp_path, body=body), profile=profile)
        assert found["verdict"] == "inconclusive" and "the mark of this run" in said(found)[2], body


def test_check_mode_trains_nothing_and_reads_a_log(tmp_path: Path) -> None:
    dry = training_gate(trained.params(tmp_path), Context(check_mode=True)).data
    assert dry["findings"][0]["id"] == "check_mode" and not (tmp_path / "calls").exists()
    assert training_gate(trained.left(tmp_path), Context(check_mode=True)).data["verdict"] == "pass"


def test_a_run_is_asked_for_as_what_may_hit_running_work_and_a_look_at_a_log_is_not(tmp_path: Path) -> None:
    with pytest.raises(NotOurs, match="run .*/train"):
        training_gate(trained.params(tmp_path), Context(lifeline=Refusing()))
    assert not (tmp_path / "calls").exists()
    assert training_gate(trained.left(tmp_path), Context(lifeline=Refusing())).data["verdict"] == "pass"


def test_secrets_of_a_command_are_in_no_verdict(tmp_path: Path) -> None:
    params = trained.params(tmp_path)
    ctx = Context()
    result = training_gate({**params, "command": [*params["command"], "--api-key", "hunter2", "--x"]}, ctx).as_dict(ctx)
    assert "hunter2" in (tmp_path / "calls").read_text(encoding="utf-8") and "hunter2" not in str(result)


# -- a log that a job has left -----------------------------------------------------------------------------------------


def test_the_log_of_a_good_node_passes(tmp_path: Path) -> None:
    found = asked(trained.left(tmp_path))
    assert found["verdict"] == "pass", found["msg"]
    assert found["argv"] == [str(tmp_path / "train.log")]


Spoils = Callable[[Path], object]


def _aged(seconds: Callable[[], float]) -> Spoils:
    return lambda path: os.utime(path, (seconds(), seconds()))


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("spoil", "options", "remedy", "word"),
    [
        (_aged(lambda: time.time() - uptime() - 60), {"max_age": 10**9}, "retest", "before this boot"),
        (_aged(lambda: time.time() - 30), {"max_age": 20}, "retest", "30 s ago, and may be 20 s old"),
        (_aged(lambda: time.time() + 60), {}, "remediate_config", "in the future"),
        (lambda path: path.chmod(0o666), {}, "remediate_config", "anybody may write it"),
        (lambda path: path.unlink(), {}, "remediate_config", "No such file"),
        (_pipe, {}, "remediate_config", "is no file"),
        (lambda path: path, {"node_names": ["gpu00"]}, "remediate_config", "does not name this node (gpu00)"),
        (lambda path: path, {"node_names": ["gpu0011"]}, "remediate_config", "does not name this node"),
        (lambda path: path, {"node_names": ["other"]}, "remediate_config", "let the job print that name"),
        (lambda path: path.write_bytes(b"gpu001\n" + b"x\n" * (9 << 20)), {}, "remediate_config", "larger than 16 MiB"),
    ],
)
def test_a_log_of_whatever_else_is_no_pass(
    spoil: Spoils, options: dict[str, Any], remedy: str, word: str, tmp_path: Path
) -> None:
    params = trained.left(tmp_path)
    spoil(tmp_path / "train.log")
    found = asked(params, **options)
    assert found["verdict"] == "inconclusive" and word in said(found)[2], found["msg"]
    assert remedy in {finding["remedy"] for finding in found["findings"]}


def test_a_stale_log_condemns_nobody(tmp_path: Path) -> None:
    bad = trained.left(tmp_path, log({5: line(5, "nan")}, first=["CUDA error: uncorrectable ECC error encountered"]))
    assert asked(bad)["verdict"] == "fail"
    os.utime(bad["log"], (1, 1))
    found = asked(bad)
    assert said(found)[:2] == ("inconclusive", "retest"), found["msg"]


def test_the_name_of_the_machine_is_the_kernels(tmp_path: Path) -> None:
    own = os.uname().nodename.partition(".")[0]
    named = own not in ("", "localhost", "(none)")
    for node, verdict in ((own, "pass" if named else "inconclusive"), ("xgpu" + own, "inconclusive")):
        assert asked(trained.left(tmp_path, node=node), node_names=None)["verdict"] == verdict, node


def test_which_job_a_log_is_of_is_said_by_its_mark(tmp_path: Path) -> None:
    profile = trained.profile(row(start_mark="job {run} begins"))
    text = f"job 4710 begins\n{log({5: line(5, 'nan')})}job 4711 begins\n{log()}"
    params = {**trained.left(tmp_path, text), "profile": profile}
    assert asked(params, run_id="4711")["verdict"] == "pass"
    earlier = {**params, "log": trained.left(tmp_path, log(last=[ECC]) + f"job 4711 begins\n{log()}")["log"]}
    assert asked(earlier, run_id="4711")["verdict"] == "pass", "what an earlier job met is told by the kernel's log"
    params = {**trained.left(tmp_path, text), "profile": profile}
    for run_id, word in (("4710", "told twice"), ("4712", "does not stand in it"), ("", "the option run_id is empty")):
        found = asked(params, run_id=run_id)
        assert found["verdict"] == "inconclusive" and word in said(found)[2], found["msg"]


def test_a_log_that_is_written_on_is_none(tmp_path: Path) -> None:
    """Its last step is there, and its end is not."""
    found = asked(trained.left(tmp_path, log(last=["saving checkpoint"])))
    assert found["verdict"] == "inconclusive" and "does not tell its end" in said(found)[2]


def test_evidence_is_what_was_read(tmp_path: Path) -> None:
    one = asked(trained.left(tmp_path))["evidence_digest"]
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", one) and one == asked(trained.left(tmp_path))["evidence_digest"]
    assert one != asked(trained.left(tmp_path, log(ms=5.1)))["evidence_digest"]
