# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event source without ansible-rulebook: what the rulebooks hand it, and when it ends."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import aiohttp
import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.desk import Desk
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.taken import Rules
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from unit.alerts.listener import HOSTS, RULEBOOKS, arguments, askers, listening, ruleset, spoken, written_by_another

#: Of a rulebook's variables those that are called otherwise than the option.
CALLED = {"host": "gpufleet_listen"}


@pytest.mark.parametrize("path", RULEBOOKS, ids=lambda path: path.stem)
def test_a_rulebook_that_is_told_nothing_has_the_sources_own_defaults(path: Path, source: ModuleType) -> None:
    options = yaml.safe_load(source.DOCUMENTATION)["options"]
    found = arguments(path, {})
    assert found["host"] == "127.0.0.1" and found["kinds"]
    own = {name: options[name].get("default") for name in found}
    labels = {"node_labels": []}  # none is the source's own
    for name in set(found) - {"port", "kinds"}:
        assert (found[name] or None) == (labels.get(name, own[name]) or None), name
    rules = Rules()
    assert all(getattr(rules, name) == own[name] for name in ("again_after", "lost_after", "oldest", "most", "per"))


@pytest.mark.parametrize("path", RULEBOOKS, ids=lambda path: path.stem)
def test_a_rulebook_hands_on_what_the_site_sets(path: Path, source: ModuleType) -> None:
    """An option that is lost is a door without TLS, and no word of it."""
    options = set(yaml.safe_load(source.DOCUMENTATION)["options"]) - {"kinds"}
    found = arguments(path, {CALLED.get(name, f"gpufleet_{name}"): f"of {name}" for name in options})
    assert {name: found[name] for name in options} == {name: f"of {name}" for name in options}


@pytest.mark.parametrize("path", RULEBOOKS, ids=lambda path: path.stem)
def test_a_look_launches_the_look_and_no_event_goes_into_a_job(path: Path) -> None:
    rules = {rule["condition"]: rule["action"]["run_job_template"] for rule in ruleset(path)["rules"]}
    assert len(rules) == 2
    for do in ("recycle", "look"):
        action = rules[f'event.gpufleet.do == "{do}"']
        assert f"gpufleet_template_{do} " in action["name"] and action["include_events"] is False
        assert action["job_args"] == {"limit": "{{ event.gpufleet.node }}"}


DOWN = {"event": "down", "nodes": HOSTS}


def handed_on(ledger: Ledger) -> list[tuple[str, bool]]:
    return [(alert["data"]["node"], alert["data"].get("handed_on", True)) for alert in ledger.of_all("alert")]


def test_what_lay_unread_when_it_was_ended_may_be_said_again(
    source: ModuleType, ledger: Ledger, served: None, tmp_path: Path, port: int
) -> None:
    args = listening(ledger, tmp_path, port)

    def say() -> None:
        with pytest.raises(aiohttp.ClientError):
            asyncio.run(spoken(port, DOWN))

    async def run() -> None:
        queue: asyncio.Queue[Any] = asyncio.Queue(1)
        tasks = [asyncio.create_task(source.main(queue, args)), asyncio.create_task(asyncio.to_thread(say))]
        while queue.empty():
            await asyncio.wait(tasks, timeout=0.05)

    asyncio.run(run())
    assert sorted(handed_on(ledger)) == sorted((host, handed) for host in HOSTS for handed in (True, False))


@pytest.mark.parametrize("times", [1, 3])
def test_what_the_ledger_took_while_the_source_was_ended_may_be_said_again(
    source: ModuleType, ledger: Ledger, served: None, tmp_path: Path, port: int, times: int
) -> None:
    """Another one writes into the ledger, so that its answer comes late."""
    args, message = listening(ledger, tmp_path, port), {"event": "down", "nodes": ["gpu001"]}
    before = askers()

    def say() -> None:
        with pytest.raises(aiohttp.ClientError):
            asyncio.run(spoken(port, message))

    async def run() -> None:
        tasks = [asyncio.create_task(source.main(asyncio.Queue(1), args)), asyncio.create_task(asyncio.to_thread(say))]
        await asyncio.wait(tasks, timeout=0.5)  # it listens
        with written_by_another(ledger):
            while not askers() - before:
                await asyncio.wait(tasks, timeout=0.05)
            await asyncio.sleep(0.2)
            for _time in range(times):
                for task in asyncio.all_tasks() - {asyncio.current_task()}:
                    task.cancel()
                await asyncio.sleep(0.05)

    asyncio.run(run())
    assert handed_on(ledger) == [("gpu001", True), ("gpu001", False)]
    [again], _broke = Desk(ledger.url).answers(this_run(os.getpid()), "slurm", message)
    assert not again.refused


def test_a_source_that_nobody_reads_ends_and_what_it_did_not_hand_on_may_be_said_again(
    source: ModuleType, ledger: Ledger, served: None, tmp_path: Path, port: int
) -> None:
    args = listening(ledger, tmp_path, port)
    heard: list[Any] = []
    answers: list[tuple[int, dict[str, Any]]] = []

    async def read(queue: asyncio.Queue[Any], number: int) -> None:
        for _one in range(number):
            heard.append((await queue.get())["gpufleet"]["node"])

    def say() -> None:
        """In a thread of its own: the source ends the loop that it runs in."""
        answers.append(asyncio.run(spoken(port, DOWN)))

    async def run(number: int, patience: float) -> None:
        source._PATIENCE = patience
        queue: asyncio.Queue[Any] = asyncio.Queue(1)
        running = asyncio.create_task(source.main(queue, args))
        running.add_done_callback(lambda task: task.cancelled() or task.exception())
        reading = asyncio.create_task(read(queue, number))
        await asyncio.to_thread(say)
        await asyncio.wait([reading], timeout=20)
        if patience < 1:  # it ends by itself, behind its answer
            await asyncio.wait([running], timeout=20)
        running.cancel()

    with pytest.raises(SystemExit):
        asyncio.run(run(1, 0.3))
    assert answers[0][0] == 503 and heard == ["gpu001"]
    asyncio.run(run(2, 10.0))
    assert answers[1][0] == 200 and heard == HOSTS, "the first was handed on, and is not once more"


def test_what_is_given_back_is_launched_by_no_late_reader(
    source: ModuleType, ledger: Ledger, served: None, tmp_path: Path, port: int
) -> None:
    """It is written into the ledger while the event lay in the queue."""
    args, message = listening(ledger, tmp_path, port), {"event": "down", "nodes": ["gpu001"]}
    heard: list[Any] = []
    codes: list[int] = []

    def say() -> None:
        codes.append(asyncio.run(spoken(port, message))[0])

    async def run(late: bool) -> None:
        queue: asyncio.Queue[Any] = asyncio.Queue(1)
        running = asyncio.create_task(source.main(queue, args))
        running.add_done_callback(lambda task: task.cancelled() or task.exception())
        saying = asyncio.create_task(asyncio.to_thread(say))
        while late and queue.empty():
            await asyncio.sleep(0.02)
        with written_by_another(ledger) if late else nullcontext():
            await asyncio.sleep(0.6 if late else 0)
            reading = asyncio.create_task(queue.get())
            await asyncio.wait([reading], timeout=0.3 if late else 10)
            heard.extend([reading.result()["gpufleet"]["node"]] if reading.done() else [])
        await asyncio.wait([saying], timeout=20)
        if late:  # it ends by itself, behind its answer
            await asyncio.wait([running], timeout=20)
        running.cancel()

    source._STARTS = 0.3
    with pytest.raises(SystemExit):
        asyncio.run(run(late=True))
    assert (codes, heard) == ([503], [])
    source._STARTS = 10.0
    asyncio.run(run(late=False))
    assert (codes, heard) == ([503, 200], ["gpu001"])


def test_what_another_source_has_in_the_queue_is_left_there(
    source: ModuleType, ledger: Ledger, served: None, tmp_path: Path, port: int
) -> None:
    """A ruleset has one queue for all its sources."""
    args, message = listening(ledger, tmp_path, port), {"event": "down", "nodes": ["gpu001"]}
    another = {"i": "of another source"}

    async def run() -> tuple[int, Any]:
        queue: asyncio.Queue[Any] = asyncio.Queue(1)
        running = asyncio.create_task(source.main(queue, args))
        saying = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(spoken(port, message))))
        await queue.get()
        queue.put_nowait(another)
        code, _told = await saying
        running.cancel()
        return code, queue.get_nowait()

    source._STARTS = 0.3
    assert asyncio.run(run()) == (200, another)


def answered(
    source: ModuleType, args: dict[str, Any], message: dict[str, Any], kind: str = "alertmanager", wanted: int = 200
) -> dict[str, Any]:
    """What a monitor is answered, by a source whose events are read."""

    async def speak() -> dict[str, Any]:
        queue: asyncio.Queue[Any] = asyncio.Queue(1)
        running = asyncio.create_task(source.main(queue, args))
        reading = asyncio.create_task(queue.get())
        code, told = await spoken(args["port"], message, kind=kind)
        for task in (reading, running):
            task.cancel()
        assert code == wanted
        return told

    return asyncio.run(speak())


@pytest.mark.parametrize(
    ("severity", "label", "level"),
    [
        ("critical", "none", "WARNING"),
        ("critical", "x", "WARNING"),
        ("critical", "Look ", "WARNING"),
        ("warning", "x", "INFO"),
        ("info", "none", "INFO"),
    ],
)
def test_a_label_that_silences_what_was_a_recycle_is_told_loudly(
    source: ModuleType, ledger: Ledger, tmp_path: Path, port: int, caplog: pytest.LogCaptureFixture,
    severity: str, label: str, level: str,
) -> None:  # fmt: skip
    """A series of a node may have it, where no rule sets it; what is no word for anything silences as well."""
    labels = {"alertname": "GpuXid", "severity": severity, "gpufleet": label, "instance": "gpu001"}
    with caplog.at_level("INFO"):
        answered(source, listening(ledger, tmp_path, port), {"alerts": [{"status": "firing", "labels": labels}]})
    assert [one.levelname for one in caplog.records if "nothing is launched" in one.getMessage()] == [level]


@pytest.mark.parametrize(("event", "level"), [("down", "WARNING"), ("up", "INFO")])
def test_a_recycle_that_is_refused_is_told_loudly_of_whom_has_no_labels_as_well(
    source: ModuleType, ledger: Ledger, tmp_path: Path, port: int, caplog: pytest.LogCaptureFixture,
    event: str, level: str,
) -> None:  # fmt: skip
    """Slurm says it but once."""
    with caplog.at_level("INFO"):
        answered(source, listening(ledger, tmp_path, port), {"event": event, "nodes": ["gpu009"]}, "slurm")
    assert [one.levelname for one in caplog.records if "nothing is launched" in one.getMessage()] == [level]


@pytest.mark.parametrize(("more", "code"), [(0, 200), (1, 413)])
def test_what_is_larger_than_a_monitors_message_is_not_read(
    source: ModuleType, ledger: Ledger, tmp_path: Path, port: int, more: int, code: int
) -> None:
    message = {"event": "down", "nodes": [], "more": ""}
    message["more"] = "x" * (2**20 - len(json.dumps(message)) + more)
    answered(source, listening(ledger, tmp_path, port), message, "slurm", code)


@pytest.mark.parametrize(("severity", "levels"), [("critical", ["WARNING"]), ("info", [])])
def test_a_label_that_has_a_look_launched_where_a_recycle_was_due_is_told_loudly(
    source: ModuleType, ledger: Ledger, served: None, tmp_path: Path, port: int, caplog: pytest.LogCaptureFixture,
    severity: str, levels: list[str],
) -> None:  # fmt: skip
    labels = {"alertname": "GpuXid", "severity": severity, "gpufleet": "look", "instance": "gpu001"}
    with caplog.at_level("INFO"):
        told = answered(source, listening(ledger, tmp_path, port), {"alerts": [{"status": "firing", "labels": labels}]})
    assert [(one["do"], one["refused"]) for one in told["answers"]] == [("look", "")]
    assert [one.levelname for one in caplog.records if "GpuXid" in one.getMessage()] == levels
