# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a person wants to see of a run over a fleet: the stage, what went wrong, and that it still moves."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet_progress
type: stdout
short_description: Show a run over many nodes stage by stage
version_added: 0.1.0
description:
  - Shows one line a stage, which is a role, with how many hosts ended it how and how long it took. What a play does
    beside its roles has a line only if it fails or takes long.
  - A failed host is reported at once, with the whole message of the task that failed.
  - While a task takes longer than a few seconds, a line says how many hosts have ended it, at what rate, and which
    ones it waits for. A task that serves all hosts at once (C(batch)) says that itself, with any callback, and counts
    for each host that it has served.
  - At the end there is one line a host, and the rate of the whole run.
  - With C(-v) each result is shown as well, and with C(--diff) each difference.
options:
  first_after:
    description: Seconds after which a task that still runs is reported for the first time. V(0) reports none.
    type: float
    default: 5
    env:
      - name: GPUFLEET_PROGRESS_FIRST_AFTER
    ini:
      - section: callback_fleet_progress
        key: first_after
  width:
    description: Columns of a line. V(0) takes what the terminal has, or 120 where there is none.
    type: int
    default: 0
    env:
      - name: GPUFLEET_PROGRESS_WIDTH
    ini:
      - section: callback_fleet_progress
        key: width
author:
  - gpufleet.baremetal contributors (@gpufleet)
requirements:
  - set as the callback for standard output (C(stdout_callback = gpufleet.baremetal.fleet_progress) in C(ansible.cfg))
"""

import dataclasses
import os
import shutil
import textwrap
import threading
import time
import typing as t
from collections import Counter

from ansible import constants as C
from ansible.errors import AnsibleError
from ansible.plugins.callback import CallbackBase
from ansible_collections.gpufleet.baremetal.plugins.module_utils._pace import (
    duration_text,
    pause,
    rate_text,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._pace import names_text as first_names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._text import harmless, harmless_all

if t.TYPE_CHECKING:
    from ansible.executor.stats import AggregateStats
    from ansible.executor.task_result import CallbackTaskResult
    from ansible.inventory.host import Host
    from ansible.playbook.play import Play
    from ansible.playbook.task import Task

# From worst to best: a host that failed once in a stage has failed the stage.
OUTCOMES = ("unreachable", "failed", "changed", "ok", "skipped")
FAILURES = ("unreachable", "failed")
COLORS = {
    "unreachable": C.COLOR_UNREACHABLE,
    "failed": C.COLOR_ERROR,
    "changed": C.COLOR_CHANGED,
    "ok": C.COLOR_OK,
    "skipped": C.COLOR_SKIP,
}
NO_TERMINAL_WIDTH = 120
# The stage of tasks that are of no role: a play's own bookkeeping, worth a line only if it fails or takes long.
BETWEEN = "play"
WORTH_A_LINE = 2.0
TICK = 0.5
STDOUT = 1
#: As in the documentation above.
DEFAULTS = {"first_after": "5", "width": "0"}


def names_text(names: t.Iterable[str]) -> str:
    """The first few names and how many more there are."""
    return first_names(sorted(names))


def cut(line: str, width: int) -> str:
    """A line of at most `width` columns."""
    return line if len(line) <= width else line[: max(width - 3, 1)] + "..."


def one_line(text: str) -> str:
    return " ".join(text.split())


def stage_of(task: Task) -> str:
    """The role's short name; tasks of a play itself have none."""
    role = getattr(task, "_role", None)
    return str(role.get_name()).rsplit(".", 1)[-1] if role else BETWEEN


def is_batch(task: Task) -> bool:
    """Does this one task serve all hosts?"""
    args = task.args if isinstance(task.args, dict) else {}
    return task.run_once is True and str(args.get("batch", "")).lower() in ("true", "yes", "on", "1")


def message_of(result: t.Mapping[str, t.Any]) -> str:
    """What a person reads first in a failed result: the message of the task, or those of its failed items."""
    items = [item for item in result.get("results", []) if isinstance(item, dict) and item.get("msg")]
    # ansible-core 2.21 gives callbacks no `failed` for an item, but still its exception
    marks = ("failed", "unreachable", "exception")
    failed = [str(item["msg"]) for item in items if any(item.get(mark) for mark in marks)]
    return "; ".join(failed) or str(result.get("msg") or result.get("reason") or "no message")


def harmless_told(told: t.Any) -> t.Any:
    """A task's warning or error with each text harmless: ansible-core has it as a record of texts and such records."""
    if dataclasses.is_dataclass(told) and not isinstance(told, type):
        parts = {one.name: harmless_told(getattr(told, one.name)) for one in dataclasses.fields(told)}
        return dataclasses.replace(told, **parts)
    if isinstance(told, tuple):
        return tuple(map(harmless_told, told))
    return harmless(told) if isinstance(told, str) else told


class Stage:
    """What became of each host in one stage."""

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.started = now
        self.outcomes: dict[str, str] = {}

    def add(self, host: str, outcome: str) -> None:
        before = self.outcomes.get(host, OUTCOMES[-1])
        self.outcomes[host] = min(before, outcome, key=OUTCOMES.index)

    def counts(self) -> list[tuple[str, int]]:
        found = list(self.outcomes.values())
        return [(name, found.count(name)) for name in reversed(OUTCOMES) if name in found]


class Waiting:
    """The task that runs now, and when to speak of it next."""

    def __init__(self, first_after: float) -> None:
        self.first_after = first_after
        self.name = ""
        self.since = 0.0
        self.due = 0.0
        self.hosts: frozenset[str] = frozenset()
        self.ended = 0
        #: One task does it for all hosts, of which the one that runs it is no other than the rest.
        self.for_all = False

    def begin(self, name: str, now: float, for_all: bool = False) -> None:
        self.name, self.since, self.due, self.hosts, self.ended = name, now, now + self.first_after, frozenset(), 0
        self.for_all = for_all

    def line(self, now: float) -> t.Optional[str]:
        """The line that is due, if one is. It replaces whole values only, as another thread reads them."""
        hosts = self.hosts
        if not hosts or not self.first_after or now < self.due:
            return None
        age = now - self.since
        self.due = now + pause(age, self.first_after)
        ended = self.ended
        if self.for_all:
            return f"... {duration_text(age)}: {self.name}: one task for all hosts"
        done = f"{ended} done, {rate_text(ended, age)}, waiting for " if ended else ""
        return f"... {duration_text(age)}: {self.name}: {done}{names_text(hosts)}"


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "gpufleet.baremetal.fleet_progress"

    def __init__(self, *args: t.Any, **kwargs: t.Any) -> None:
        super().__init__(*args, **kwargs)
        self.stage: t.Optional[Stage] = None
        self.last_stage: dict[str, str] = {}
        self.failures: dict[str, str] = {}
        self.started = time.monotonic()
        self.waiting = Waiting(0)
        self.stopped = threading.Event()
        #: The task that runs now tells of its hosts itself.
        self.tells = False
        #: What tasks for all hosts have done for each, beside what Ansible counts.
        self.for_others: Counter[tuple[str, str]] = Counter()

    def option(self, name: str) -> str:
        """An automation controller runs this class as a part of its own callback (C(ORIGINAL_STDOUT_CALLBACK)). With
        ansible-runner before 2.4.3 that has another name, under which ansible-core knows no option of ours."""
        try:
            return str(self.get_option(name))
        except (AnsibleError, KeyError):
            return os.environ.get(f"GPUFLEET_PROGRESS_{name.upper()}") or DEFAULTS[name]

    # ---- writing

    @property
    def width(self) -> int:
        return int(self.option("width")) or shutil.get_terminal_size((NO_TERMINAL_WIDTH, 24)).columns

    def say(self, text: str, color: t.Optional[str] = None, indent: int = 0) -> None:
        self.show(" " * indent + cut(harmless(text), self.width - indent), color)

    def show(self, text: str, color: t.Optional[str] = None) -> None:
        """The one way to the screen: whatever a node or a peer wrote, the terminal acts on nothing of it."""
        self._display.display(harmless(text), color=color)

    def watch(self) -> None:
        """Speaks while nothing happens. It writes past Display, whose lock a forked worker could inherit taken."""
        while not self.stopped.wait(TICK):
            line = self.waiting.line(time.monotonic())
            if line:
                os.write(STDOUT, f"  {cut(harmless(line), self.width - 2)}\n".encode())

    # ---- plays, stages and tasks

    def v2_playbook_on_start(self, playbook: t.Any) -> None:
        self.waiting = Waiting(float(self.option("first_after")))
        if self.waiting.first_after:
            threading.Thread(target=self.watch, name="fleet_progress", daemon=True).start()

    def v2_playbook_on_play_start(self, play: Play) -> None:
        self.end_stage()
        check = " (check mode: nothing is written)" if play.check_mode else ""
        self.say("")
        self.say(f"{play.get_name().strip() or 'Play'}{check}", color=C.COLOR_HIGHLIGHT)

    def v2_playbook_on_no_hosts_matched(self) -> None:
        self.say("no host matches", color=C.COLOR_SKIP, indent=2)

    def v2_playbook_on_no_hosts_remaining(self) -> None:
        self.say("no host is left in this play", color=C.COLOR_ERROR, indent=2)

    def v2_playbook_on_task_start(self, task: Task, is_conditional: bool) -> None:
        name = stage_of(task)
        if self.stage is None or self.stage.name != name:
            self.end_stage()
            self.stage = Stage(name, time.monotonic())
        # What serves all hosts tells of them itself.
        self.tells = is_batch(task)
        self.waiting.begin(task.name or task.action, time.monotonic(), for_all=task.run_once is True)

    def v2_playbook_on_handler_task_start(self, task: Task) -> None:
        self.v2_playbook_on_task_start(task, False)

    def v2_runner_on_start(self, host: Host, task: Task) -> None:
        if not self.tells:
            self.waiting.hosts = self.waiting.hosts | {host.get_name()}

    def end_stage(self) -> None:
        """The line of the stage that ends; what only skipped its tasks was no stage for anybody."""
        stage, self.stage = self.stage, None
        self.waiting.hosts = frozenset()
        if stage is None or not set(stage.outcomes.values()) - {"skipped"}:
            return
        counts = ", ".join(f"{number} {name}" for name, number in stage.counts())
        worst = min(stage.outcomes.values(), key=OUTCOMES.index)
        took = time.monotonic() - stage.started
        if stage.name != BETWEEN or worst in FAILURES or took >= WORTH_A_LINE:
            self.say(f"{stage.name:<14}{counts:<40}{duration_text(took):>12}", color=COLORS[worst], indent=2)

    # ---- results

    def ended(self, result: CallbackTaskResult, outcome: str) -> None:
        host = result.host.get_name()
        self.waiting.hosts = self.waiting.hosts - {host}
        self.waiting.ended += 1
        for one, its in self.of_all(result, outcome).items() if outcome in ("ok", "changed") else [(host, outcome)]:
            self.count(one, its)
        if self._display.verbosity and result.task.action not in C._ACTION_DEBUG:
            text = f"{outcome}: [{self.host_label(result)}] {result.task.get_name()}"
            self.show(f"{text} => {self._dump_results(result.result)}", COLORS[outcome])

    def of_all(self, result: CallbackTaskResult, outcome: str) -> dict[str, str]:
        """By host, what one task has done for all of them; else what it has done for its own. Who has a bad verdict
        fails in the task that reads it, if that is a failure there."""
        host = result.host.get_name()
        verdicts = result.result.get("verdicts")
        if not is_batch(result.task) or not isinstance(verdicts, dict):
            return {host: outcome}
        good = {str(one): its for one, its in verdicts.items() if isinstance(its, dict) and its.get("ok")}
        found = {one: "changed" if its.get("changed") else "ok" for one, its in good.items()}
        # Its table at the end counts the task once, as that of the host that ran it.
        self.for_others.update(("ok", one) for one in found if one != host)
        self.for_others.update(("changed", one) for one, its in found.items() if its == "changed")
        self.for_others.subtract([("changed", host)] if outcome == "changed" else [])
        return found

    def count(self, host: str, outcome: str) -> None:
        if self.stage is None:
            return
        self.stage.add(host, outcome)
        if outcome != "skipped" and (self.stage.name != BETWEEN or outcome in FAILURES):
            self.last_stage[host] = self.stage.name

    def show_warnings(self, result: CallbackTaskResult) -> None:
        """As Ansible shows them, which colours them itself. An exception's own display, with its source lines, is for
        those who ask for more than its message."""
        for warning in result.warnings:
            self._display._warning(harmless_told(warning))
        for deprecation in result.deprecations:
            self._display._deprecated(harmless_told(deprecation))
        if self._display.verbosity and result.exception:
            self._display._error(harmless_told(result.exception), stderr=False)

    def v2_runner_on_ok(self, result: CallbackTaskResult) -> None:
        self.show_warnings(result)
        self.ended(result, "changed" if result.is_changed() else "ok")
        if result.task.action in C._ACTION_DEBUG:
            self.show_debug(result.result)

    def show_debug(self, result: t.Mapping[str, t.Any]) -> None:
        """A debug task is there to be read, so it is shown whole."""
        for item in result.get("results", [result]):
            shown = item.get("msg")
            for line in shown if isinstance(shown, list) else str(shown or "").splitlines():
                self.show(f"  {line}")

    def v2_runner_on_skipped(self, result: CallbackTaskResult) -> None:
        self.show_warnings(result)
        self.ended(result, "skipped")

    def v2_runner_on_failed(self, result: CallbackTaskResult, ignore_errors: bool = False) -> None:
        self.fell(result, "failed", ignore_errors)

    def v2_runner_on_unreachable(self, result: CallbackTaskResult) -> None:
        self.fell(result, "unreachable", bool(result.task.ignore_unreachable))

    def fell(self, result: CallbackTaskResult, outcome: str, ignored: bool) -> None:
        self.show_warnings(result)
        self.ended(result, "ok" if ignored else outcome)
        if ignored:
            return
        host = result.host.get_name()
        self.failures[host] = one_line(f"{result.task.name or result.task.action}: {message_of(result.result)}")
        # Whole, since nothing else shows it: only the table at the end cuts it short.
        text = harmless(f"{host}  {outcome}: {self.failures[host]}")
        for line in textwrap.wrap(text, self.width, initial_indent=" " * 4, subsequent_indent=" " * 8):
            self.show(line, COLORS[outcome])

    def v2_on_file_diff(self, result: CallbackTaskResult) -> None:
        for item in result.result.get("results", [result.result]):
            if isinstance(item, dict) and item.get("diff") and item.get("changed"):
                self.show(f"{result.host.get_name()}: {result.task.name}")
                # Ansible colours it itself, so it is made harmless before.
                self._display.display(self._get_diff(harmless_all(item["diff"])))

    # ---- the end

    def v2_playbook_on_stats(self, stats: AggregateStats) -> None:
        self.stopped.set()
        self.end_stage()
        hosts = sorted({*stats.processed, *(host for _how, host in self.for_others)})
        if not hosts:
            return
        self.say("")
        wide = max(len("host"), *map(len, hosts))
        self.say(f"{'host':<{wide}}  {'result':<11} {'ok':>4} {'changed':>7} {'failed':>6}  last stage", indent=2)
        for host in hosts:
            self.host_line(host, wide, stats.summarize(host))
        number = f"{len(hosts)} host{'s' if len(hosts) != 1 else ''}"
        took = time.monotonic() - self.started
        rate = f", {rate_text(len(hosts), took)}" if len(hosts) > 1 else ""
        self.say(f"{number} in {duration_text(took)}{rate}", indent=2)

    def host_line(self, host: str, wide: int, sums: t.Mapping[str, int]) -> None:
        bad = sums["failures"] + sums["unreachable"]
        good, changed = (sums[name] + self.for_others[name, host] for name in ("ok", "changed"))
        found = {"unreachable": sums["unreachable"], "failed": sums["failures"], "changed": changed}
        outcome = next((name for name in OUTCOMES if found.get(name)), "ok")
        numbers = f"{good:>4} {changed:>7} {bad:>6}"
        line = f"{host:<{wide}}  {outcome:<11} {numbers}  {self.last_stage.get(host, '')}"
        self.say(line, color=COLORS[outcome], indent=2)
        if bad:
            self.say(self.failures.get(host, ""), color=COLORS[outcome], indent=wide + 4)
