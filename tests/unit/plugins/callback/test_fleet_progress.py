# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a person sees of a run, event by event."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible.module_utils._internal._messages import ErrorSummary, Event, EventChain
from ansible_collections.gpufleet.baremetal.plugins.callback import fleet_progress
from ansible_collections.gpufleet.baremetal.plugins.callback.fleet_progress import (
    CallbackModule,
    Stage,
    Waiting,
    cut,
    duration_text,
    harmless_told,
    message_of,
    names_text,
    rate_text,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._pace import LONGEST_PAUSE, Progress


class Screen:
    """Takes the place of Ansible's Display."""

    verbosity = 0

    def __init__(self):
        self.lines = []

    def display(self, text, **_kwargs):
        self.lines.append(text)

    def _warning(self, _warning):
        raise AssertionError("no warning was given")


def role_task(role="gpufleet.baremetal.gate", name="Run the gate", action="gpufleet.baremetal.dcgm_gate", **more):
    owner = SimpleNamespace(get_name=lambda: role) if role else None
    full = f"{role} : {name}" if role else name
    return SimpleNamespace(
        name=name,
        action=action,
        _role=owner,
        get_name=lambda: full,
        delegate_to=None,
        **{"ignore_unreachable": False, "run_once": False, "args": {}, **more},
    )


def result(name, task, changed=False, **values):
    return SimpleNamespace(
        host=SimpleNamespace(get_name=lambda: name),
        task=task,
        result=values,
        warnings=[],
        deprecations=[],
        exception=None,
        is_changed=lambda: changed,
    )


class Stats:
    def __init__(self, **hosts):
        self.processed = hosts

    def summarize(self, host):
        zeros = dict.fromkeys(("ok", "failures", "unreachable", "changed", "skipped", "rescued", "ignored"), 0)
        return {**zeros, **self.processed[host]}


@pytest.fixture
def progress():
    callback = CallbackModule()
    callback._display = Screen()
    callback._plugin_options = {"width": 80, "first_after": 0}
    return callback


def lines(callback):
    return callback._display.lines


def test_a_stage_is_one_line_with_the_worst_outcome_of_each_host(progress):
    task = role_task()
    progress.v2_playbook_on_task_start(task, False)
    progress.v2_runner_on_ok(result("gpu001", task))
    progress.v2_runner_on_ok(result("gpu001", task, changed=True))
    progress.v2_runner_on_ok(result("gpu002", task))
    progress.v2_playbook_on_task_start(role_task("gpufleet.baremetal.join"), False)
    assert len(lines(progress)) == 1
    assert lines(progress)[0].split()[:5] == ["gate", "1", "ok,", "1", "changed"]


@pytest.mark.parametrize(("failed", "shown"), [(True, 2), (False, 0)])
def test_what_a_play_does_beside_its_roles_is_shown_if_it_fails(progress, failed, shown):
    task = role_task(None)
    progress.v2_playbook_on_task_start(task, False)
    progress.v2_runner_on_ok(result("gpu001", task))
    if failed:
        progress.v2_runner_on_failed(result("gpu002", task, msg="no"))
    progress.end_stage()
    assert len(lines(progress)) == shown


def test_tasks_of_one_role_are_one_stage(progress):
    for name in ("First", "Second"):
        task = role_task(name=name)
        progress.v2_playbook_on_task_start(task, False)
        progress.v2_runner_on_ok(result("gpu001", task))
    assert lines(progress) == []


def test_a_stage_that_everybody_skipped_is_silent(progress):
    task = role_task()
    progress.v2_playbook_on_task_start(task, False)
    progress.v2_runner_on_skipped(result("gpu001", task))
    progress.end_stage()
    assert lines(progress) == []


def test_a_failure_is_told_at_once_and_whole(progress):
    task = role_task()
    message = "Xid 79 on GPU 5: " + "fallen off the bus " * 10 + "remedy: power_cycle"
    progress.v2_playbook_on_task_start(task, False)
    progress.v2_runner_on_failed(result("gpu003", task, msg=message))
    shown = " ".join(" ".join(lines(progress)).split())
    assert shown == f"gpu003 failed: Run the gate: {message}"
    assert all(len(line) <= 80 for line in lines(progress))


def test_the_table_has_a_line_a_host_and_the_reason_of_each_failure(progress):
    task = role_task()
    progress.v2_playbook_on_task_start(task, False)
    progress.v2_runner_on_ok(result("gpu001", task, changed=True))
    progress.v2_runner_on_failed(result("gpu003", task, msg="seven of eight GPUs"))
    progress.v2_playbook_on_stats(Stats(gpu001={"ok": 1, "changed": 1}, gpu003={"failures": 1}))
    table = lines(progress)[-5:]
    assert table[1].split() == ["gpu001", "changed", "1", "1", "0", "gate"]
    assert table[2].split() == ["gpu003", "failed", "0", "0", "1", "gate"]
    assert "seven of eight GPUs" in table[3]
    assert progress.stopped.is_set()


def test_the_last_stage_is_a_role_unless_the_play_itself_failed(progress):
    for name in ("gpu001", "gpu002"):
        task = role_task()
        progress.v2_playbook_on_task_start(task, False)
        progress.v2_runner_on_ok(result(name, task))
    report = role_task(None, "Report")
    progress.v2_playbook_on_task_start(report, False)
    progress.v2_runner_on_ok(result("gpu001", report))
    progress.v2_runner_on_failed(result("gpu002", report, msg="no"))
    assert progress.last_stage == {"gpu001": "gate", "gpu002": "play"}


def test_an_ignored_failure_fails_nobody(progress):
    task = role_task()
    progress.v2_playbook_on_task_start(task, False)
    progress.v2_runner_on_failed(result("gpu001", task, msg="no"), ignore_errors=True)
    assert progress.stage.outcomes == {"gpu001": "ok"}
    assert lines(progress) == []


def test_a_debug_message_is_shown_whole(progress):
    task = role_task(None, "Summary", "ansible.builtin.debug")
    progress.v2_playbook_on_task_start(task, False)
    progress.v2_runner_on_ok(result("gpu001", task, msg=["four nodes", "x" * 200]))
    assert lines(progress) == ["  four nodes", "  " + "x" * 200]


def test_the_wait_names_who_is_waited_for_and_speaks_less_with_time():
    waiting = Waiting(5.0)
    waiting.begin("Wait for the deploy", now=100.0)
    assert waiting.line(now=200.0) is None, "nobody has begun"
    waiting.hosts = frozenset({"gpu002", "gpu001"})
    assert waiting.line(now=104.9) is None
    assert waiting.line(now=105.0) == "... 5.0 s: Wait for the deploy: gpu001 gpu002"
    spoken = [second for second in range(106, 500) if waiting.line(now=float(second))]
    pauses = [later - earlier for earlier, later in zip(spoken, spoken[1:])]
    assert pauses == sorted(pauses)
    assert max(pauses) <= LONGEST_PAUSE


@pytest.mark.parametrize(
    ("count", "seconds", "told"),
    [
        (1000, 40.0, "25 a second"),
        (10, 40.0, "15 a minute"),
        (2, 5400.0, "1 an hour"),
        (1, 7200.0, "less than one an hour"),
        (3, 0.0, "3 a second"),
    ],
)
def test_a_rate_is_told_by_the_unit_in_which_one_ends(count, seconds, told):
    assert rate_text(count, seconds) == told


@pytest.mark.parametrize(
    ("fleet", "forks", "told"),
    [
        (10, 5, "4 done, 8 a minute, waiting for gpu0004 gpu0005 gpu0006 gpu0007 gpu0008"),
        (1000, 50, "900 done, 30 a second, waiting for gpu0900 gpu0901 gpu0902 gpu0903 gpu0904 gpu0905 and 44 more"),
    ],
)
def test_a_long_task_says_how_many_have_ended_how_fast_and_who_is_waited_for(progress, fleet, forks, told):
    task = role_task()
    progress.v2_playbook_on_task_start(task, False)
    progress.waiting.first_after, progress.waiting.since, progress.waiting.due = 5.0, 100.0, 105.0
    ended = 4 if fleet == 10 else 900
    for number in range(ended + forks):
        progress.v2_runner_on_start(SimpleNamespace(get_name=lambda number=number: f"gpu{number:04}"), task)
        if number < ended:
            progress.v2_runner_on_ok(result(f"gpu{number:04}", task))
    line = progress.waiting.line(now=130.0)
    assert line == f"... 30.0 s: Run the gate: {told}"
    assert progress.waiting.line(now=130.1) is None


def test_a_new_task_begins_to_count_anew(progress):
    task = role_task()
    progress.v2_playbook_on_task_start(task, False)
    progress.v2_runner_on_ok(result("gpu001", task))
    progress.v2_playbook_on_task_start(role_task(name="Next"), False)
    assert progress.waiting.ended == 0


def test_the_rate_of_a_run_is_told_where_it_has_one(progress):
    progress.started -= 60
    progress.v2_playbook_on_stats(Stats(**{f"gpu{number:03}": {"ok": 1} for number in range(120)}))
    assert lines(progress)[-1].split()[-3:] == ["2", "a", "second"] and "120 hosts in 1 min" in lines(progress)[-1]
    progress.v2_playbook_on_stats(Stats(gpu001={"ok": 1}))
    assert lines(progress)[-1].strip().startswith("1 host in 1 min")


def test_no_report_where_none_is_wanted():
    waiting = Waiting(0)
    waiting.begin("Wait", now=0.0)
    waiting.hosts = frozenset({"gpu001"})
    assert waiting.line(now=1000.0) is None


def test_a_host_that_has_answered_is_not_waited_for(progress):
    task = role_task()
    progress.v2_playbook_on_task_start(task, False)
    for name in ("gpu001", "gpu002"):
        progress.v2_runner_on_start(SimpleNamespace(get_name=lambda name=name: name), task)
    progress.v2_runner_on_ok(result("gpu001", task))
    assert progress.waiting.hosts == {"gpu002"}


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ({"msg": "wrong password"}, "wrong password"),
        ({"results": [{"msg": "fine"}, {"msg": "bad", "failed": True}], "msg": "One or more items failed"}, "bad"),
        ({}, "no message"),
    ],
)
def test_the_message_is_what_failed(values, wanted):
    assert message_of(values) == wanted


BATCH = {"run_once": True, "args": {"batch": True, "state": "on"}}


def served(**hosts):
    return {name: {"ok": how != "failed", "changed": how == "changed"} for name, how in hosts.items()}


def test_what_a_task_for_all_has_done_counts_for_each_host_and_not_for_the_one_that_ran_it(progress):
    task = role_task(**BATCH)
    progress.v2_playbook_on_task_start(task, False)
    verdicts = served(gpu001="ok", gpu002="changed", gpu003="changed", gpu004="failed")
    progress.v2_runner_on_ok(result("gpu001", task, changed=True, verdicts=verdicts))
    read = role_task(name="Read its verdict")
    progress.v2_playbook_on_task_start(read, False)
    for name in ("gpu001", "gpu002", "gpu003"):
        progress.v2_runner_on_ok(result(name, read))
    progress.v2_runner_on_failed(result("gpu004", read, msg="its BMC is away"))
    progress.end_stage()
    assert lines(progress)[-1].split()[:7] == ["gate", "1", "ok,", "2", "changed,", "1", "failed"]
    core = {"gpu001": {"ok": 2, "changed": 1}, "gpu002": {"ok": 1}, "gpu003": {"ok": 1}, "gpu004": {"failures": 1}}
    progress.v2_playbook_on_stats(Stats(**core))
    table = [line.split()[:5] for line in lines(progress) if line.split()[:1] and line.split()[0] in core]
    assert table[-4:] == [
        ["gpu001", "ok", "2", "0", "0"],
        ["gpu002", "changed", "2", "1", "0"],
        ["gpu003", "changed", "2", "1", "0"],
        ["gpu004", "failed", "0", "0", "1"],
    ]


@pytest.mark.parametrize(("batch", "told"), [(True, None), (False, "... 30.0 s: Run the gate: one task for all hosts")])
def test_of_one_task_for_all_no_line_says_that_it_waits_for_one_of_them(progress, batch, told):
    """With batch it tells by itself how many it has served."""
    task = role_task(run_once=True, args={"batch": batch})
    progress.v2_playbook_on_task_start(task, False)
    progress.waiting.first_after, progress.waiting.since, progress.waiting.due = 5.0, 100.0, 105.0
    progress.v2_runner_on_start(SimpleNamespace(get_name=lambda: "gpu001"), task)
    assert progress.waiting.line(now=130.0) == told


def test_a_batch_is_told_in_a_line_that_fits_with_those_that_it_has_waited_for_longest():
    batch = Progress(1000, now=0.0)
    at_work = [f"gpu{number:03}" for number in range(900, 932)]
    assert batch.line(900, at_work, 4.9, 79) == ""
    told = "900 of 1000 done, 30 a second, waits for gpu900 gpu901 ..."
    assert batch.line(900, at_work, 30.0, len(told)) == told
    assert batch.line(901, at_work, 44.9, 79) == "", "the longer it takes, the seldomer"
    assert batch.line(0, ["n" * 70], 46.0, 79) == "0 of 1000 done"
    assert batch.line(999, ["gpu9"], 120.0, 79) == "999 of 1000 done, 8 a second, waits for gpu9"
    assert batch.line(1000, [], 900.0, 79) == ""


def test_texts_are_short():
    assert names_text(f"gpu{number:03}" for number in range(8)).endswith("gpu005 and 2 more")
    assert duration_text(3.14) == "3.1 s"
    assert duration_text(125) == "2 min 05 s"
    assert cut("x" * 100, 20) == "x" * 17 + "..."


def test_the_worst_outcome_of_a_host_stays():
    stage = Stage("gate", 0.0)
    for outcome in ("ok", "failed", "changed", "skipped"):
        stage.add("gpu001", outcome)
    assert stage.counts() == [("failed", 1)]


@pytest.mark.parametrize(("word", "outcome"), [("failures", "failed"), ("unreachable", "unreachable")])
def test_t1_a_host_that_was_lost_counts_as_failed_and_says_why(progress, word, outcome):
    progress.failures["gpu002"] = "Run the gate: no route to host"
    progress.v2_playbook_on_stats(Stats(gpu001={"ok": 2}, gpu002={"ok": 1, word: 1}))
    [row] = [line for line in lines(progress) if line.strip().startswith("gpu002")]
    assert row.split()[1:5] == [outcome, "1", "0", "1"]
    assert any("no route to host" in line for line in lines(progress))


HOSTILE = "\x1b[2J\x1b]0;owned\x07 \x9b31m \u202e ok\rfailed"


@pytest.mark.parametrize("verbosity", [0, 1])
def test_s3_the_terminal_acts_on_nothing_that_a_node_wrote(progress, verbosity, capfd):
    """In no message, no name, no difference and no line of a wait; the colours are the display's own."""
    progress._display.verbosity = verbosity
    task, debug = role_task(name=HOSTILE), role_task(action="ansible.builtin.debug")
    progress.v2_playbook_on_task_start(task, False)
    progress.v2_runner_on_ok(result(f"gpu001{HOSTILE}", task, changed=True, stdout=HOSTILE))
    progress.v2_runner_on_ok(result("gpu001", debug, msg=HOSTILE))
    progress.v2_runner_on_ok(result("gpu001", debug, msg=[HOSTILE]))
    progress.v2_runner_on_failed(result("gpu002", task, msg=HOSTILE))
    progress.v2_runner_on_failed(result("gpu003", task, results=[{"msg": HOSTILE, "failed": True}]))
    differs = [{"before": HOSTILE, "after": "x"}, {"prepared": HOSTILE}]
    found = result("gpu001", task, diff=differs)
    found.result["changed"] = True
    progress.v2_on_file_diff(found)
    assert r"\x1b[2J" in lines(progress)[-1]
    failed = {"ok": 0, "changed": 0, "failures": 1, "unreachable": 0}
    progress.v2_playbook_on_stats(Stats(gpu002={**failed}, gpu003={**failed}))
    text = "\n".join(lines(progress))
    assert r"\x1b[2J" in text
    assert not [char for char in "\x1b\x07\x9b\u202e\r" if char in text]


def test_s3_nor_on_a_cause_of_an_error_however_deep():
    """tests/contract/test_callbacks.py has those that a module sends in a run."""
    deep = Event(msg=HOSTILE, help_text=HOSTILE, formatted_source_context=HOSTILE, formatted_traceback=HOSTILE)
    chain = EventChain(msg_reason=HOSTILE, traceback_reason=HOSTILE, event=deep)
    told = harmless_told(ErrorSummary(event=Event(msg="fell\nover", chain=chain, events=(deep, deep))))
    chained, deepest = told.event.chain, told.event.chain.event
    assert told.event.msg == "fell\nover" and chained.follow and told.event.events == (deepest, deepest)
    texts = [chained.msg_reason, chained.traceback_reason]
    texts += [deepest.msg, deepest.help_text, deepest.formatted_source_context, deepest.formatted_traceback]
    assert all(text.isprintable() and text.startswith(r"\x1b[2J") for text in texts), texts


def test_s3_nor_on_the_name_of_what_is_waited_for(progress, monkeypatch):
    written = []
    monkeypatch.setattr(fleet_progress.os, "write", lambda handle, line: written.append(line.decode()))
    progress.waiting = Waiting(0.001)
    progress.waiting.begin(HOSTILE, 0.0)
    progress.waiting.hosts = frozenset({HOSTILE})
    monkeypatch.setattr(fleet_progress, "TICK", 0.01)
    monkeypatch.setattr(progress.stopped, "wait", lambda tick: bool(written))
    progress.watch()
    assert written and r"\x1b[2J" in written[0] and "\x1b" not in written[0] and "\r" not in written[0]
