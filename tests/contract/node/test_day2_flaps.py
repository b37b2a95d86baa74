# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that served, and failed, as often as its site lets it is held and drained, and gets no image any more.

So it is of none that a roll-out or a person took out of service, nor of one whose recycle never came to its image.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import Nodes, in_service
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_day2_attempt import plays

pytestmark = pytest.mark.slow

_FOUND = {"verdict": "fail", "findings": [{"id": "xid:79", "entity": "GPU 3", "remedy": "reset_gpu", "text": "XID 79"}]}
_OTHER = {"verdict": "fail", "findings": [{"id": "other_image", "entity": "node", "text": "it runs another image"}]}
_SERVES = "day2_fleet.nodes[inventory_hostname].state in ['admitted', 'unserved']"


def failing(*, until: str = "") -> list[dict[str, Any]]:
    """Whatever looks at one that serves finds what the inventory says of it. `until`: before that task it is killed."""
    found = plays()
    facts = {"day2_kernel_log": "{{ found_log | default({}) }}", "day2_image": "{{ found_image | default({}) }}"}
    look = {"name": "Look at nodes in service", "ansible.builtin.set_fact": facts, "when": _SERVES}
    for play in found[1:2]:
        names = [one["name"] for one in play["tasks"]]
        play["tasks"].insert(names.index("Leave alone what could not be looked at"), look)
        [block] = [one for one in play["tasks"] if one["name"] == "Recycle one batch"]
        steps = [one["name"] for one in block["block"]]
        block["block"] = block["block"][: steps.index(until) if until else None]
    return found


@contextlib.contextmanager
def serving(folder: Path, **recycled: int) -> Iterator[Nodes]:
    """Nodes in service, that were recycled so often before, each for a failure."""
    with in_service(folder, len(recycled)) as nodes:
        sha = "0" * 64
        nodes.shared["gpufleet_image"] = {"name": "hpc", "version": "1", "sha256": sha, "url": "http://127.0.0.1:9/"}
        nodes.shared["gpufleet_provisioner"] = "maas"
        nodes.shared["gpufleet_provisioner_url"] = "http://127.0.0.1:9/MAAS"
        nodes.shared["gpufleet_provisioner_api_key"] = "a:b:c"
        tried = Event("attempt", "reimage", {"reason": "XID 79", "failed": True, "asked": False})
        once = [tried, Event("state", "imaging"), Event("state", "admitted")]
        with Ledger(nodes.url) as ledger:
            for name, times in recycled.items():
                ledger.append("r1", [(nodes.node_id(name), event) for event in once * times])
        yield nodes


def tried(nodes: Nodes, name: str) -> list[tuple[bool, bool]]:
    return [(told["failed"], told["asked"]) for _name, told in nodes.events(name, "attempt")]


def quarantine(nodes: Nodes, name: str) -> dict[str, Any]:
    [data] = [data for state, data in nodes.events(name, "state") if state == "quarantined"]
    return data


def test_h2_a_node_that_fails_again_and_again_is_held_and_left_to_a_person(tmp_path: Path) -> None:
    with serving(tmp_path, gpu001=3, gpu002=3, gpu003=2, gpu004=3, gpu005=3) as nodes:
        for name in ("gpu001", "gpu002", "gpu003", "gpu004"):
            nodes.hosts[name]["found_log"] = _FOUND
        nodes.hosts["gpu002"]["gpufleet_flap_recycles"] = 9
        nodes.hosts["gpu004"]["gpufleet_flap_days"] = 0.000001
        nodes.hosts["gpu005"]["found_image"] = _OTHER
        nodes.plays(failing(), ok=False)
        assert nodes.states("gpu001")[-1] == "quarantined" and "imaging" not in nodes.states("gpu001")
        assert nodes.events("gpu001", "attempt") == [] and nodes.scheduler("gpu001").startswith("IDLE+DRAIN")
        for name in ("gpu002", "gpu003", "gpu004"):
            assert "imaging" in nodes.states(name) and tried(nodes, name) == [(True, False)], name
        assert "imaging" in nodes.states("gpu005") and tried(nodes, "gpu005") == [(False, False)], "a roll-out"
        data = quarantine(nodes, "gpu001")
        assert data["remedy"] == "field_diag" and "3 recycles within 30 days" in data["reason"], data
        assert "XID 79" in data["reason"]


def test_h2_who_was_taken_out_for_no_failure_of_its_own_is_recycled_by_the_next_run(tmp_path: Path) -> None:
    """gpu001: its first recycle was killed before its image, and one is the limit. gpu002: a roll-out was. gpu003: a
    person drained it. gpu004 has failed, and the run was killed before it could say so."""
    with serving(tmp_path, gpu001=0, gpu002=3, gpu003=3, gpu004=3) as nodes:
        nodes.book("drain", "--limit", "gpu003", ok=True)
        for name in ("gpu001", "gpu004"):
            nodes.hosts[name]["found_log"] = _FOUND
        nodes.hosts["gpu001"]["gpufleet_flap_recycles"] = 1
        nodes.hosts["gpu004"]["gpufleet_flap_recycles"] = 9
        nodes.hosts["gpu002"]["found_image"] = _OTHER
        nodes.plays(failing(until="Reimage the node"), ok=False)
        assert {tuple(nodes.states(f"gpu00{one}")) for one in (1, 2, 3, 4)} == {("draining", "drained")}
        del nodes.hosts["gpu004"]["gpufleet_flap_recycles"]
        nodes.plays(failing(), ok=False)
        for name, failed in (("gpu001", True), ("gpu002", False), ("gpu003", False)):
            assert "imaging" in nodes.states(name) and tried(nodes, name) == [(failed, False)] * 2, name
        data = quarantine(nodes, "gpu004")
        assert data["remedy"] == "field_diag" and "imaging" not in nodes.states("gpu004")
        assert "3 recycles within 30 days, and it failed again: XID 79" in data["reason"], data


def test_h2_a_person_asks_for_what_flapped_out_of_its_quarantine(tmp_path: Path) -> None:
    with serving(tmp_path, gpu001=3, gpu002=3) as nodes:
        nodes.hosts["gpu001"]["found_log"] = _FOUND
        nodes.plays(failing(), ok=False)
        assert quarantine(nodes, "gpu001")["remedy"] == "field_diag" and nodes.states("gpu002") == []
        nodes.plays(failing(), ok=False)
        assert tried(nodes, "gpu001") == [], "nobody has asked"
        nodes.plays(failing(), "-e", "day2_recycle_all=true", ok=False)
        assert tried(nodes, "gpu001") == [(True, True)] and tried(nodes, "gpu002") == [(False, False)]
        assert "imaging" in nodes.states("gpu001") and "imaging" in nodes.states("gpu002")
