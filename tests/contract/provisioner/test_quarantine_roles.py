# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles quarantine and join, and the mark at the provisioner: by ansible-playbook, against the server of MAAS."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import Nodes, in_service
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_not_admitted import resumed
from maas_server.store import Machine

pytestmark = pytest.mark.slow
VERDICT = {"verdict": "fail", "findings": [{"id": "xid_79", "text": "Xid 79", "remedy": "power_cycle"}]}
FAILED = {"failed": True, "msg": "Xid 79", "remedy": "power_cycle", **VERDICT}
QUARANTINE = {
    "block": [{"ansible.builtin.fail": {"msg": "Xid 79"}}],
    "rescue": [
        {
            "ansible.builtin.import_role": {"name": "gpufleet.baremetal.quarantine"},
            "vars": {"quarantine_result": FAILED},
        }
    ],
}
JOIN = {
    "ansible.builtin.import_role": {"name": "gpufleet.baremetal.join"},
    "vars": {"join_passport": {"passport": {"digest": "sha256:1"}}, "join_timeout": 20, "join_interval": 0.5},
}
LIFT = "Lift the mark of quarantine at the provisioner"


def play(*tasks: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"hosts": "all", "gather_facts": False, "tasks": list(tasks)}]


@pytest.fixture
def nodes(maas_site: Any, tmp_path: Path) -> Iterator[Nodes]:
    """Two that MAAS has deployed for us, and our ledger knows."""
    with in_service(tmp_path, 2) as found:
        found.shared.update({f"gpufleet_{key}": value for key, value in maas_site.connection().items()})
        for number, name in enumerate(found.hosts, 1):
            maas_site.server.store.machines[f"abcde{number}"] = Machine(
                f"abcde{number}",
                name,
                status=6,
                owner=maas_site.server.config.users[0].name,
                power_state="on",
                osystem="custom",
                distro_series="gold-1",
                annotations={"gpufleet-deploy-id": f"d-{name}", "gpufleet-name": "gold"},
                hardware={"system_serial": found.hosts[name]["gpufleet_serial"]},
            )
        found.shared["quarantine_at_provisioner"] = True
        yield found
        for number in (1, 2):
            maas_site.server.store.machines.pop(f"abcde{number}", None)


def test_a_quarantined_node_is_marked_at_its_provisioner_until_it_is_admitted_again(
    maas_site: Any, nodes: Nodes
) -> None:
    told = nodes.plays(play(QUARANTINE), ok=True)
    for number, name in enumerate(nodes.hosts, 1):
        machine = maas_site.machine(name)
        assert machine.system_id == f"abcde{number}" and machine.locked, told
        assert "+quarantine:Xid 79; remedy: power_cycle (by " in machine.description, machine.description
        assert nodes.states(name) == ["quarantined"]
        [*_others, (word, data)] = nodes.events(name, "maintenance")
        assert word == "held" and data["hold_token"] == machine.description.strip()
    resumed(nodes)
    nodes.options["scheduler_node"] = {"force_reason": "its gates are not played here"}
    told = nodes.plays(play(JOIN), "--limit", "gpu001", "--start-at-task", LIFT, ok=True)
    assert maas_site.machine("gpu001").description == "" and not maas_site.machine("gpu001").locked, told
    assert nodes.states("gpu001")[-1] == "admitted" and maas_site.machine("gpu002").locked
    asked = len(maas_site.server.asked)
    nodes.plays(play(JOIN), "--limit", "gpu001", "--start-at-task", LIFT, ok=True)
    assert len(maas_site.server.asked) == asked, "of one that is marked no more nobody is asked"


def test_one_worker_marks_all_nodes_that_failed_together(maas_site: Any, nodes: Nodes) -> None:
    """It has both at work: the provisioner answers no write before there is one for the other."""
    both = threading.Barrier(2)

    def together(asked: Any) -> None:
        if asked.is_write and len(met) < 2:
            met.append(both.wait(timeout=20))

    met: list[int] = []
    maas_site.server.intercept = together
    nodes.settings["ANSIBLE_FORKS"] = "1"
    try:
        nodes.plays(play(QUARANTINE), ok=True)
    finally:
        maas_site.server.intercept = None
    assert sorted(met) == [0, 1], nodes.output[-3000:]


def test_a_node_that_was_given_back_meanwhile_is_not_marked_with_the_next_that_fails(
    maas_site: Any, nodes: Nodes
) -> None:
    first = {"when": "inventory_hostname == 'gpu001'"}
    given_back = [
        {"ansible.builtin.set_fact": {"given_back": True}, **first},
        {
            "gpufleet.baremetal.provisioner_node": {"batch": True, "after": ["given_back"], "state": "readmitted"},
            "run_once": True,
        },
    ]
    fails_later = {**QUARANTINE, "when": "given_back is not defined"}
    nodes.plays([*play({**QUARANTINE, **first}), *play(*given_back, fails_later)], ok=True)
    assert maas_site.machine("gpu001").description == "" and not maas_site.machine("gpu001").locked
    assert maas_site.machine("gpu002").locked


def test_the_ledger_knows_before_the_provisioner_and_no_work_comes_before_the_mark_is_gone(
    maas_site: Any, nodes: Nodes
) -> None:
    """A provisioner that is away is waited for, and its node would stay unrecorded, or at work unadmitted."""
    seen: list[tuple[list[str], str]] = []
    maas_site.server.intercept = lambda _asked: seen.append((nodes.states("gpu001"), nodes.scheduler("gpu001")))
    try:
        nodes.plays(play(QUARANTINE), "--limit", "gpu001", ok=True)
        assert seen and all(states == ["quarantined"] for states, _scheduler in seen), seen
        resumed(nodes)
        nodes.options["scheduler_node"] = {"force_reason": "its gates are not played here"}
        seen.clear()
        nodes.plays(play(JOIN), "--limit", "gpu001", "--start-at-task", LIFT, ok=True)
    finally:
        maas_site.server.intercept = None
    assert seen and all("DRAIN gpufleet:" in scheduler for _states, scheduler in seen), seen
    assert nodes.states("gpu001")[-1] == "admitted" and "DRAIN" not in nodes.scheduler("gpu001")


def test_a_site_without_a_provisioner_admits_its_nodes(nodes: Nodes) -> None:
    for name in [one for one in nodes.shared if one.startswith("gpufleet_provisioner")]:
        del nodes.shared[name]
    nodes.plays(play(QUARANTINE), "--limit", "gpu001", ok=True)
    resumed(nodes)
    nodes.options["scheduler_node"] = {"force_reason": "its gates are not played here"}
    nodes.plays(play(JOIN), "--limit", "gpu001", "--start-at-task", LIFT, ok=True)
    assert nodes.states("gpu001")[-1] == "admitted"


def test_a_node_whose_mark_cannot_be_lifted_is_given_no_work(maas_site: Any, nodes: Nodes) -> None:
    nodes.plays(play(QUARANTINE), "--limit", "gpu001", ok=True)
    resumed(nodes)
    nodes.options["scheduler_node"] = {"force_reason": "its gates are not played here"}
    maas_site.machine("gpu001").description = "gpufleet:another-site+quarantine:theirs"
    told = nodes.plays(play(JOIN), "--limit", "gpu001", "--start-at-task", LIFT, ok=False)
    assert "Its mark of quarantine stays at its provisioner" in told and "another-site" in told, told
    assert "DRAIN gpufleet:" in nodes.scheduler("gpu001") and "admitted" not in nodes.states("gpu001")


def test_what_the_provisioner_refuses_is_told_with_the_finding_and_keeps_no_quarantine_from_the_ledger(
    maas_site: Any, nodes: Nodes
) -> None:
    maas_site.machine("gpu001").locked = True
    nodes.plays(play(QUARANTINE), "--limit", "gpu001", ok=True)
    assert nodes.states("gpu001") == ["quarantined"]
    [data] = [data for name, data in nodes.events("gpu001", "note") if name == "unmarked"]
    assert data["reason"].startswith("Xid 79; not marked at its provisioner: "), data
    assert "locked by somebody else" in data["reason"] and maas_site.machine("gpu001").description == ""


def test_unless_a_site_asks_for_it_its_provisioner_is_left_out(maas_site: Any, nodes: Nodes) -> None:
    del nodes.shared["quarantine_at_provisioner"]
    asked = len(maas_site.server.asked)
    nodes.plays(play(QUARANTINE), "--limit", "gpu001", ok=True)
    assert nodes.states("gpu001") == ["quarantined"] and len(maas_site.server.asked) == asked
