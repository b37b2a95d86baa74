# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site says to its provisioner's driver (``enroll_driver``) is said with each look and each order, not to enrol
alone: whose a node may be, by which loader it boots and what its kernel is told would else be unknown to all others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.action.provisioner_wait import _read
from ansible_collections.gpufleet.baremetal.plugins.action.provisioner_wait import _said_to_driver as said_to_driver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import of_batch
from calls import lead

ROOT = Path(__file__).resolve().parents[3]
VERB = "gpufleet.baremetal.provisioner_node"
FILES = sorted((*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/*.yml")))


def tasks(found: Any) -> Iterator[dict[str, Any]]:
    """All of a file, those in blocks as well."""
    for one in found if isinstance(found, list) else [found] if isinstance(found, dict) else ():
        if isinstance(one, dict):
            yield one
            for key in ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks"):
                yield from tasks(one.get(key))


CALLS = [
    pytest.param(task[VERB], id=f"{path.relative_to(ROOT)}: {task['name']}")
    for path in FILES
    for task in tasks(yaml.safe_load(path.read_text(encoding="utf-8")))
    if VERB in task
]


#: What roles name for a task that serves all.
ROLE_VARS = {
    name: value
    for path in ROOT.glob("roles/*/vars/main.yml")
    for name, value in yaml.safe_load(path.read_text(encoding="utf-8")).items()
}


def test_there_are_calls_to_be_looked_at() -> None:
    assert len(CALLS) >= 8


@pytest.mark.parametrize("given", CALLS)
def test_each_call_is_given_what_the_site_says_to_its_driver(given: dict[str, Any]) -> None:
    """Over a batch by a variable of each host: the words of one host are none of another's."""
    said = given.get("driver", "")
    if given.get("batch"):
        named = given["each"]["driver"]
        said = "{{ enroll_driver }}" if named == "enroll_driver" else ROLE_VARS[named]
    assert re.sub(r" \| default\({}(, true)?\)", "", said) == "{{ enroll_driver }}", given


@pytest.mark.parametrize(
    ("of_hosts", "owners"),
    [
        ([["ours", "lab"], ["lab", "other"]], ["lab"]),
        ([["ours"], ["lab"]], None),
        ([["ours"], None], None),
        ([["ours"]], ["ours"]),
        ([], None),
    ],
)
def test_no_host_lends_another_whose_nodes_it_may_have(of_hosts: list[Any], owners: list[str] | None) -> None:
    nodes = [{"host": "n", "driver": {"maas": {} if one is None else {"owners": one}}} for one in of_hosts]
    told = said_to_driver({"provisioner": "maas", "driver": {}, "nodes": nodes})
    assert told["driver"] == ({} if owners is None else {"maas": {"owners": owners}})
    assert told["nodes"] == nodes


def test_what_the_task_says_to_the_driver_stands_for_all() -> None:
    nodes = [{"host": "n1", "driver": {"maas": {"pool": "a"}}}, {"host": "n2"}]
    told = said_to_driver({"provisioner": "maas", "driver": {"pool": "b"}, "nodes": nodes})
    assert told == {"provisioner": "maas", "driver": {"pool": "b"}, "nodes": [{"host": "n1"}, {"host": "n2"}]}


@pytest.mark.parametrize("text", ['{"maas": {"owners": ["ours"]}}', {"maas": {"owners": ["ours"]}}])
def test_a_host_says_it_as_text_too_and_what_cannot_be_read_ends_nobody_elses_wait(text: Any) -> None:
    nodes = [_read({"host": "n", "driver": text}), _read({"host": "n2"})]
    assert nodes == [{"host": "n", "driver": {"maas": {"owners": ["ours"]}}}, {"host": "n2"}]
    letters = [_read({"host": "n", "driver": {"maas": {"owners": "ours"}}})]
    assert not said_to_driver({"provisioner": "maas", "driver": {}, "nodes": letters})["driver"], "an owner a letter"
    bad = [_read({"host": "n", "driver": "owners"}), nodes[0]]
    told = said_to_driver({"provisioner": "maas", "driver": {}, "nodes": bad})
    assert told["nodes"] == bad and told["driver"] == {"maas": {"owners": ["ours"]}}, "its trouble is no neighbour's"
    told = said_to_driver({"provisioner": "maas", "driver": {}, "nodes": bad[:1]})
    assert not told["driver"], "of whom nothing can be read, nothing is lent"


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ({"secure_erase": True, "pxe": {"args": "quiet"}}, "secure_erase beside pxe"),
        ({"maas": {"pool": "gpu"}, "irnoic": {"owners": ["lab"]}}, "irnoic beside maas"),
        ({"maas": {}, "zone": "b", 7: "x"}, "7, zone beside maas"),
    ],
)
def test_what_stands_beside_the_parts_of_provisioners_is_refused_and_dropped_by_nobody(
    said: dict[Any, Any], seen: str, maas_site: Any
) -> None:
    """A flat setting of the one that is left would be lost, and its disks be erased in another way than was said."""
    options = maas_site.new()
    maas_site.faults.forget()
    with pytest.raises(ConfigError, match="beside the parts of provisioners") as told:
        lead({**options, "driver": said}, "ready")
    assert told.value.seen == seen and maas_site.faults.writes == []
    node = _read({"host": "n", "driver": said})
    assert not said_to_driver({"provisioner": "maas", "driver": {}, "nodes": [node]})["driver"], "nothing of it is lent"
    assert of_batch(node, {}, "maas", ()).unread is not None, "it has its verdict by that"
