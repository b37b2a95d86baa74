# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes of a wave keep a renewal from the next one: those that it took, and that did not come through."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import make_token
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import PLAYBOOKS, Nodes, in_service
from contract.trust.conftest import Image
from contract.trust.test_renewals import begun

pytestmark = pytest.mark.slow

TAKEN = ["draining", "drained", "validating"]
HALTED = "began no further wave"


def renew(nodes: Nodes, serial: int, *, ok: bool = False) -> str:
    """The machine here stands for each node that SSH reaches; no image is declared, at which each of them ends."""
    for host in nodes.hosts.values():
        host.setdefault("ansible_connection", "local")
    return nodes.book("passports", "-e", "passports_renew=true", "-e", f"passports_serial={serial}", ok=ok)


def lasting(nodes: Nodes, name: str) -> None:
    """Its passport is not due."""
    with Ledger(nodes.url) as ledger:
        node = ledger.identify(name, aliases=[("serial", nodes.hosts[name]["gpufleet_serial"])])
        now = ledger.now()
        ledger.save_passport("r1", node, issued=now, expires=now + 7e6, digest="sha256:1", envelope={})


@pytest.mark.parametrize("left", ["foreign", "no ssh", "no bmc"])
def test_what_was_left_as_it_was_stops_no_renewal_behind_it(tmp_path: Path, left: str) -> None:
    """Two waves with one due node each, and the third is begun all the same."""
    with in_service(tmp_path, 5) as nodes:
        for name in ("gpu001", "gpu003"):
            if left == "foreign":
                nodes.scheduler(name, state="IDLE+DRAIN", reason="riser of bob", by="bob")
            nodes.hosts[name].update(
                {"no ssh": {"ansible_connection": "ssh"}, "no bmc": {"gpufleet_bmc_address": ""}}.get(left, {})
            )
        for name in ("gpu002", "gpu004"):
            lasting(nodes, name)
        told = renew(nodes, 2)
        assert [nodes.states(name) for name in nodes.hosts] == [[], [], [], [], TAKEN], told
        tried = int(left != "foreign")  # what somebody else holds is not even tried
        assert [len(nodes.events(name, "note")) for name in nodes.hosts] == [tried, 0, tried, 0, 1], told
        assert HALTED not in told


def test_two_waves_of_which_no_taken_node_came_through_are_the_last_ones(tmp_path: Path) -> None:
    with in_service(tmp_path, 3) as nodes:
        told = renew(nodes, 1)
        assert [nodes.states(name) for name in nodes.hosts] == [TAKEN, TAKEN, []], told
        assert (
            nodes.scheduler("gpu003") == "IDLE" and f"{HALTED} after 2 nodes" in told and "3 nodes: 1 admitted" in told
        )


def test_nodes_whose_rescue_fails_as_well_are_counted(tmp_path: Path) -> None:
    """Beside each of them is one that is not due, or Ansible itself would end there."""
    with in_service(tmp_path, 5) as nodes:
        for name in ("gpu002", "gpu004"):
            lasting(nodes, name)
        [play, report] = yaml.safe_load((PLAYBOOKS / "passports.yml").read_text(encoding="utf-8"))
        [block] = [one for one in play["tasks"] if "block" in one]
        block["rescue"].insert(0, {"name": "The rescue breaks", "ansible.builtin.fail": {"msg": "no ledger"}})
        for host in nodes.hosts.values():
            host["ansible_connection"] = "local"
        told = nodes.plays([play, report], "-e", "passports_renew=true", "-e", "passports_serial=2", ok=False)
        assert [nodes.states(name) for name in nodes.hosts] == [TAKEN, [], TAKEN, [], []], told


def test_a_node_that_came_through_lets_the_count_begin_anew(tmp_path: Path) -> None:
    """The proofs end well here, but where a node is called broken."""
    with in_service(tmp_path, 6) as nodes:
        [play, report] = yaml.safe_load((PLAYBOOKS / "passports.yml").read_text(encoding="utf-8"))
        [block] = [one for one in play["tasks"] if "block" in one]
        names = [one["name"] for one in block["block"]]
        proofs = slice(names.index("Prove the image and the machine"), names.index("Join the scheduler again") + 1)
        broken = {"ansible.builtin.fail": {"msg": "the image"}, "when": "broken | default(false)"}
        block["block"][proofs] = [broken]
        for name, host in nodes.hosts.items():
            host.update(ansible_connection="local", broken=name != "gpu002")
        told = nodes.plays([play, report], "-e", "passports_renew=true", "-e", "passports_serial=1", ok=False)
        assert [nodes.states(name) for name in nodes.hosts] == [*[TAKEN] * 4, [], []], told


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "silent"])
def test_of_what_an_earlier_run_took_only_what_is_quarantined_counts(tmp_path: Path, image: Image, seen: bool) -> None:
    """SSH reaches none of them; where their scheduler sees them, each night would end at the first two."""
    with in_service(tmp_path, 3) as nodes:
        nodes.shared["gpufleet_image"] = image.declared()
        begun(nodes, seen=seen)
        told = nodes.book("passports", "-e", "passports_renew=true", "-e", "passports_serial=1", ok=False)
        assert [nodes.states(name) for name in nodes.hosts] == ([[]] * 3 if seen else [["quarantined"]] * 2 + [[]]), (
            told
        )
        assert [len(nodes.events(name, "note")) for name in nodes.hosts] == ([1] * 3 if seen else [0] * 3)


def test_a_node_that_a_person_keeps_in_its_renewal_is_left_alone(tmp_path: Path) -> None:
    token, about = make_token("r1", "disk swap", "keep"), {"reason": "passport renewal", "playbook": "passports"}
    with in_service(tmp_path) as nodes:
        with Ledger(nodes.url) as ledger:
            node = ledger.identify("gpu001", aliases=[("serial", "SN0001")])
            hold = Event("hold", "taken", {"hold_token": token, "scheduler_node": "gpu001"})
            ledger.append("r1", [(node, event) for event in (Event("state", "draining", about), hold)])
        nodes.scheduler("gpu001", state="IDLE+DRAIN", reason=token, by="root")
        before = nodes.scheduler("gpu001")
        told = renew(nodes, 1, ok=True)
        assert "kept by a person: disk swap" in told and nodes.scheduler("gpu001") == before
        assert nodes.events("gpu001", "note") == [] and nodes.states("gpu001") == [] and not nodes.bmcs["gpu001"].paths
