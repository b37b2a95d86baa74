# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles quarantine and join, and the mark at the provisioner: by ansible-playbook, against the server of MAAS."""

from __future__ import annotations

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
    told = nodes.plays(play(JOIN), "--limit", "gpu001", "--start-at-task", "Lift our hold", ok=True)
    assert maas_site.machine("gpu001").description == "" and not maas_site.machine("gpu001").locked, told
    assert nodes.states("gpu001")[-1] == "admitted" and maas_site.machine("gpu002").locked
    asked = len(maas_site.server.asked)
    nodes.plays(
        play(JOIN), "--limit", "gpu001", "--start-at-task", "Lift the mark of quarantine at the provisioner", ok=False
    )
    assert len(maas_site.server.asked) == asked, "of one that is marked no more nobody is asked"


def test_what_the_provisioner_refuses_is_told_with_the_finding_and_keeps_no_quarantine_from_the_ledger(
    maas_site: Any, nodes: Nodes
) -> None:
    maas_site.machine("gpu001").locked = True
    nodes.plays(play(QUARANTINE), "--limit", "gpu001", ok=True)
    [*_before, (state, data)] = nodes.events("gpu001", "state")
    assert state == "quarantined" and "; not marked at its provisioner: " in data["reason"], data
    assert "locked by somebody else" in data["reason"] and maas_site.machine("gpu001").description == ""


def test_unless_a_site_asks_for_it_its_provisioner_is_left_out(maas_site: Any, nodes: Nodes) -> None:
    del nodes.shared["quarantine_at_provisioner"]
    asked = len(maas_site.server.asked)
    nodes.plays(play(QUARANTINE), "--limit", "gpu001", ok=True)
    assert nodes.states("gpu001") == ["quarantined"] and len(maas_site.server.asked) == asked
