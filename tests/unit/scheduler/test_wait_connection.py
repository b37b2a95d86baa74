# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a batch hands the driver of each host: every option of the port, and no secret of another scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.none.driver import NoScheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.registry import DRIVERS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.wait import scheduler_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

TASK = {"scheduler_conf": "/etc/conf", "scheduler_url": "https://one", "scheduler_jwt": "secret of one"}


class Noting(NoScheduler):
    NAME = "noting"
    opened: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__(params)
        self.opened.append({name: value for name, value in self.options.items() if name in TASK})


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DRIVERS, Noting.NAME, Noting)
    monkeypatch.setitem(names.OPTIONS, "scheduler_url", {"type": "str"})
    monkeypatch.setitem(names.OPTIONS, "scheduler_jwt", {"type": "str", "no_log": True})
    monkeypatch.setattr(Noting, "opened", [])


def opened(*nodes: dict[str, str]) -> list[dict[str, Any]]:
    hosts = [{"host": f"n{number}", **node} for number, node in enumerate(nodes)]
    waiting = {"until": "drained", "timeout": 1, "interval": 0.1, "completing_timeout": 1}
    result = scheduler_wait({"scheduler": "noting", **TASK, **waiting, "nodes": hosts}, Context())
    assert all(verdict["ok"] for verdict in result.data["verdicts"].values())
    return Noting.opened


def test_the_tasks_options_reach_the_driver_of_each_host_that_says_nothing_else() -> None:
    assert opened({}, {"scheduler_url": "https://one"}) == [TASK]


def test_a_host_of_another_scheduler_is_asked_there_and_without_the_secret_of_the_first() -> None:
    assert opened({}, {"scheduler_url": "https://two"}) == [
        TASK,
        {"scheduler_conf": "/etc/conf", "scheduler_url": "https://two", "scheduler_jwt": ""},
    ]


def test_a_path_of_a_host_is_read_as_the_module_reads_its_own() -> None:
    (found,) = opened({"scheduler_conf": "~/slurm.conf"})
    assert found["scheduler_conf"] == str(Path.home() / "slurm.conf")


def test_what_is_known_to_be_empty_of_a_host_is_not_the_tasks() -> None:
    assert opened({"scheduler_conf": "", "scheduler_url": ""}) == [
        {"scheduler_conf": "", "scheduler_url": "", "scheduler_jwt": ""}
    ]


def test_a_host_that_names_no_scheduler_is_refused_alone() -> None:
    waiting = {"until": "drained", "timeout": 1, "interval": 0.1, "completing_timeout": 1}
    nodes = [{"host": "aaa"}, {"host": "zzz", "scheduler": ""}, {"host": "mmm", "refused": "another run works on it"}]
    result = scheduler_wait({"scheduler": "noting", **TASK, **waiting, "nodes": nodes}, Context())
    verdicts = result.data["verdicts"]
    assert verdicts["aaa"]["ok"] and not verdicts["zzz"]["ok"]
    assert "gpufleet_scheduler" in verdicts["zzz"]["reason"]
    assert {host: verdicts[host]["kind"] for host in verdicts} == {"aaa": "", "zzz": "config", "mmm": "not_ours"}
    assert [event.node for event in result.events] == ["aaa"], "and no evidence permits a write to it"


def test_two_hosts_of_one_node_are_both_refused_and_neither_has_evidence() -> None:
    waiting = {"until": "drained", "timeout": 1, "interval": 0.1, "completing_timeout": 1}
    named = {"h1": "n1", "h2": "n1", "h3": "n2"}
    nodes = [{"host": host, "scheduler_node": name} for host, name in named.items()]
    nodes += [{"host": "h4", "scheduler_node": "n1", "scheduler_url": "https://two"}]
    result = scheduler_wait({"scheduler": "noting", **TASK, **waiting, "nodes": nodes}, Context())
    verdicts = result.data["verdicts"]
    assert [host for host, one in verdicts.items() if one["ok"]] == ["h3", "h4"], "another scheduler has its own n1"
    assert "also that of h2" in verdicts["h1"]["reason"] and "also that of h1" in verdicts["h2"]["reason"]
    assert [event.node for event in result.events] == ["h3", "h4"]
