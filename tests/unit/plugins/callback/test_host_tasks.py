# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The count of host-tasks, fed with the events of a run."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from ansible_collections.gpufleet.baremetal.plugins.callback.host_tasks import CallbackModule, write_json
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError


def task(action="ansible.builtin.command", role=None, implicit=False):
    owner = SimpleNamespace(get_name=lambda: role) if role else None
    return SimpleNamespace(action=action, implicit=implicit, _role=owner)


def host(name):
    return SimpleNamespace(get_name=lambda: name)


def skipped(name, of):
    return SimpleNamespace(host=host(name), task=of)


def counter(path=None):
    callback = CallbackModule()
    callback._plugin_options = {"path": path}
    return callback


def test_every_started_task_counts_for_its_host():
    callback = counter()
    for name in ("gpu001", "gpu001", "gpu002"):
        callback.v2_runner_on_start(host(name), task())
    report = callback.report()
    assert report["total"] == 3
    assert report["most"] == 2
    assert report["hosts"]["gpu002"]["tasks"] == 1


def test_skipped_implicit_and_argument_specs_are_counted_and_told_apart():
    callback = counter()
    gathering = task("ansible.builtin.setup", implicit=True)
    conditional = task()
    for one in (gathering, conditional, task("ansible.builtin.validate_argument_spec", role="gpufleet.baremetal.gate")):
        callback.v2_runner_on_start(host("gpu001"), one)
    callback.v2_runner_on_skipped(skipped("gpu001", conditional))
    found = callback.report()["hosts"]["gpu001"]
    assert (found["tasks"], found["skipped"], found["implicit"], found["argument_specs"]) == (3, 1, 1, 1)
    assert found["by_role"] == {"": 2, "gpufleet.baremetal.gate": 1}


def test_a_skipped_meta_task_started_no_worker():
    callback = counter()
    callback.v2_runner_on_start(host("gpu001"), task())
    callback.v2_runner_on_skipped(skipped("gpu001", task("meta")))
    callback.v2_runner_on_skipped(skipped("gpu009", task("meta")))
    report = callback.report()
    assert report["hosts"]["gpu001"]["skipped"] == 0
    assert "gpu009" not in report["hosts"]


def test_implicit_tasks_are_asked_for():
    assert counter().wants_implicit_tasks


def test_the_report_is_written_where_it_is_wanted_and_nowhere_else(tmp_path):
    path = tmp_path / "deep" / "host_tasks.json"
    callback = counter(str(path))
    callback.v2_runner_on_start(host("gpu001"), task())
    callback.v2_playbook_on_stats(SimpleNamespace())
    assert json.loads(path.read_text(encoding="utf-8")) == callback.report()
    counter().v2_playbook_on_stats(SimpleNamespace())
    assert [entry.name for entry in path.parent.iterdir()] == ["host_tasks.json"]


def test_it_takes_the_place_of_nothing_that_is_no_file(tmp_path):
    path = tmp_path / "host_tasks.json"
    path.symlink_to("kept.json")
    with pytest.raises(ConfigError, match="the count of host-tasks would take the place of a link"):
        write_json(str(path), {"schema": 1})
    assert path.is_symlink() and not (tmp_path / "kept.json").exists()


def test_a_second_report_replaces_the_first(tmp_path):
    path = tmp_path / "host_tasks.json"
    write_json(str(path), {"schema": 1})
    write_json(str(path), {"schema": 2})
    assert json.loads(path.read_text(encoding="utf-8")) == {"schema": 2}
