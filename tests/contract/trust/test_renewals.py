# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What renewals and day 2 make of nodes that cannot be reached: what hits all of them takes none out of service."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import make_token
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import Nodes, in_service
from contract.trust.conftest import Image
from fake_bmc.tls import Authority

pytestmark = pytest.mark.slow

#: As slurmctld writes of a node that does not answer it.
MISSED = {"state": "DOWN+NOT_RESPONDING", "reason": "Not responding", "by": "slurm"}
RENEW = ("-e", "passports_renew=true")


def test_l5_a_bmc_whose_certificate_was_renewed_leaves_its_node_in_service(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tls")
    with in_service(tmp_path, context=authority.server_context("127.0.0.1")) as nodes:
        nodes.shared["gpufleet_bmc_tls_fingerprint"] = "0" * 64
        told = nodes.book("passports", *RENEW, ok=False)
        assert nodes.states("gpu001") == [] and nodes.scheduler("gpu001") == "IDLE", told
        [(name, data)] = nodes.events("gpu001", "note")
        assert name == "stopped" and "another certificate" in data["reason"] and not nodes.bmcs["gpu001"].paths


def test_l3_nodes_that_nobody_reaches_over_ssh_stay_in_service_where_their_scheduler_sees_them(tmp_path: Path) -> None:
    """A dead bastion, before anything was held for the renewal."""
    with in_service(tmp_path, 2) as nodes:
        told = nodes.book("passports", *RENEW, ok=False)
        for name in nodes.hosts:
            assert nodes.states(name) == [] and nodes.scheduler(name) == "IDLE", told
            [(note, data)] = nodes.events(name, "note")
            assert note == "stopped" and "cannot be reached over SSH" in data["reason"], data
        assert "Passports: 2 nodes: 2 admitted; stopped at 2" in told
        assert "next: ansible-playbook gpufleet.baremetal.passports" in told


def test_l3_a_python_that_is_not_there_takes_no_node_out_of_service(tmp_path: Path) -> None:
    """A setting of all of them: the gates are modules, and each would be called the node's own failure."""
    with in_service(tmp_path, 2) as nodes:
        nodes.shared.update(ansible_connection="local", ansible_python_interpreter="/nonexistent/python3")
        told = nodes.book("passports", *RENEW, ok=False)
        for name in nodes.hosts:
            assert nodes.states(name) == [] and nodes.scheduler(name) == "IDLE", told
            [(note, data)] = nodes.events(name, "note")
            assert note == "stopped" and "/nonexistent/python3" in data["reason"], data


def test_q5_a_renewal_in_check_mode_takes_nothing_out_of_service_and_notes_nothing(tmp_path: Path) -> None:
    """Its way is foretold, as far as the gates, of a node that it would take; and told of one that nobody reaches."""
    with in_service(tmp_path, 2) as nodes:
        nodes.hosts["gpu001"]["ansible_connection"] = "local"
        before = nodes.ledger.read_bytes()
        told = nodes.book("passports", *RENEW, "--check", ok=False)
        assert "Record that validation begins" in told and "cannot be reached over SSH, and was left in service" in told
        for name, bmc in nodes.bmcs.items():
            assert nodes.scheduler(name) == "IDLE" and not bmc.writes, told
        calls = json.loads(nodes.world.read_text(encoding="utf-8"))["calls"]
        assert calls and not [call for call in calls if "update" in call], calls
        assert nodes.ledger.read_bytes() == before, "not an event, nor a lease"


@pytest.mark.parametrize("asked", ["due", "all"])
def test_j7_what_nothing_proves_to_be_imaged_is_told_before_it_is_held(tmp_path: Path, asked: str) -> None:
    """As a version of before left it, which noted no deployments: all gates would pass, and nobody sign."""
    with in_service(tmp_path) as nodes:
        with Ledger(nodes.url) as ledger:
            node = ledger.identify("gpu001", aliases=[("serial", nodes.hosts["gpu001"]["gpufleet_serial"])])
            ledger.append("r1", [(node, Event("state", state)) for state in ("imaging", "admitted")])
            if asked == "all":  # as long as a new passport lasts that has held for two days
                issued = ledger.now() - 2 * 86400
                ledger.save_passport("r1", node, issued=issued, expires=issued + 7e6, digest="sha256:1", envelope={})
        told = nodes.book("passports", *RENEW, *(["-e", "passports_all=true"] if asked == "all" else []), ok=False)
        assert nodes.states("gpu001") == [] and nodes.scheduler("gpu001") == "IDLE", told
        [(note, data)] = nodes.events("gpu001", "note")
        assert note == "stopped" and "left as it was: deployment: nothing tells by which one" in data["reason"], data
        assert not nodes.bmcs["gpu001"].paths
        assert "next: ansible-playbook gpufleet.baremetal.day2_recycle" in told and "day2_recycle_all=true" in told


def test_r5_a_neighbour_that_answers_at_a_nodes_address_is_told_before_anything_is_held(
    tmp_path: Path, image: Image
) -> None:
    """A wrong ansible_host: it answers the ping as well, and the node itself works."""
    with in_service(tmp_path, 2) as nodes:
        nodes.shared["gpufleet_image"] = image.declared()
        dmi = tmp_path / "dmi"
        dmi.mkdir()
        (dmi / "product_serial").write_text("SN0002\n", encoding="utf-8")
        (dmi / "product_uuid").write_text("5ac00000-0000-4000-8000-000000000002\n", encoding="utf-8")
        del nodes.hosts["gpu002"]
        nodes.hosts["gpu001"]["ansible_connection"] = "local"
        nodes.options["image_verify"] = {"dmi_path": str(dmi)}
        told = nodes.book("passports", *RENEW, ok=False)
        assert nodes.states("gpu001") == [] and nodes.scheduler("gpu001") == "IDLE", told
        [(note, data)] = nodes.events("gpu001", "note")
        assert note == "stopped" and "not the one behind this node's BMC" in data["reason"], data


@pytest.mark.parametrize("how", ["due", "begun", "as text", "drained", "validating"])
def test_l4_a_node_whose_image_is_another_one_than_declared_is_told_before_it_is_held(tmp_path: Path, how: str) -> None:
    """The site declared a newer image and images later: no gate would find what is declared, on a healthy node. Nor
    does one that a person gives back after a disk swap, who has it validated."""
    stage = how in ("drained", "validating")  # by itself: the second one was killed under its gates
    with in_service(tmp_path) as nodes:
        declared = {"name": "hpc", "version": "1.5", "sha256": "sha256:" + "AB" * 32}
        nodes.shared["gpufleet_image"] = json.dumps(declared) if how == "as text" else declared
        predicate = {"image": {"name": "hpc", "version": "1.4", "sha256": "ab" * 32, "manifest_sha256": "c" * 64}}
        payload = base64.b64encode(json.dumps({"predicate": predicate}).encode()).decode()
        with Ledger(nodes.url) as ledger:
            node = ledger.identify("gpu001", aliases=[("serial", nodes.hosts["gpu001"]["gpufleet_serial"])])
            ledger.append("r1", [(node, Event("state", "admitted"))])
            envelope, now = {"payloadType": dsse.PAYLOAD_TYPE, "payload": payload}, ledger.now()
            issued = now if stage else now - 9e6
            ledger.save_passport("r1", node, issued=issued, expires=now + 60, digest="sha256:1", envelope=envelope)
            if stage:
                token = make_token("r1", "disk swap")
                held = Event("hold", "taken", {"hold_token": token, "scheduler_node": "gpu001"})
                ledger.append("r1", [(node, one) for one in (held, Event("state", "drained"), Event("state", how))])
                nodes.scheduler("gpu001", state="IDLE+DRAIN", reason=token, by="root")
        if how == "begun":
            begun(nodes, seen=True)
        before = nodes.scheduler("gpu001"), len(nodes.states("gpu001"))
        told = nodes.book("revalidate" if stage else "passports", *RENEW, ok=False)
        assert (nodes.scheduler("gpu001"), len(nodes.states("gpu001"))) == before, told
        [(note, data)] = nodes.events("gpu001", "note")
        assert note == "stopped" and "image: its version is 1.4, declared is 1.5" in data["reason"], data
        assert "quarantined" not in nodes.states("gpu001")
        assert "sha256" not in data["reason"], "one digest in two spellings is one"
        assert not nodes.bmcs["gpu001"].paths
        if not stage:  # it shows no report
            assert "next: ansible-playbook gpufleet.baremetal.day2_recycle" in told and "day2_recycle_all=true" in told


def begun(nodes: Nodes, *, seen: bool) -> None:
    """A renewal was ended under its gates, and since then nobody reaches its nodes."""
    token, about = make_token("r1", "passport renewal"), {"reason": "passport renewal", "playbook": "passports"}
    with Ledger(nodes.url) as ledger:
        for name, host in nodes.hosts.items():
            node = ledger.identify(name, aliases=[("serial", host["gpufleet_serial"])])
            hold = Event("hold", "taken", {"hold_token": token, "scheduler_node": name})
            states = [Event("state", state, about) for state in ("draining", "drained", "validating")]
            ledger.append("r1", [(node, event) for event in (hold, *states)])
            state = "IDLE+DRAIN" if seen else "DOWN+DRAIN+NOT_RESPONDING"
            nodes.scheduler(name, state=state, reason=token, by="root")


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "silent"])
def test_l3_a_renewal_that_goes_on_quarantines_only_what_answers_nobody(
    tmp_path: Path, image: Image, seen: bool
) -> None:
    with in_service(tmp_path, 2) as nodes:
        nodes.shared["gpufleet_image"] = image.declared()
        begun(nodes, seen=seen)
        told = nodes.book("passports", *RENEW, ok=False)
        for name in nodes.hosts:
            assert nodes.states(name) == ([] if seen else ["quarantined"]), told
            assert "DRAIN" in nodes.scheduler(name) and bool(nodes.events(name, "note")) is seen
        if seen:
            assert "its scheduler sees it answer" in told
            assert "next: ansible-playbook gpufleet.baremetal.passports" in told
        else:
            assert "quarantined: The node does not answer over SSH, nor its scheduler" in told
            assert "next: ansible-playbook gpufleet.baremetal.day2_recycle" in told


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "silent"])
def test_l3_day_2_takes_only_what_answers_neither_ssh_nor_its_scheduler(
    tmp_path: Path, image: Image, seen: bool
) -> None:
    with in_service(tmp_path, 2) as nodes:
        nodes.shared["gpufleet_image"] = image.declared()
        for name in nodes.hosts:
            nodes.scheduler(name, **({} if seen else MISSED))
        told = nodes.book("day2_recycle", ok=False)
        for name in nodes.hosts:
            assert ("draining" in nodes.states(name)) is not seen, told
            assert ("DRAIN" in nodes.scheduler(name)) is not seen
            assert not seen or "Connection refused" in nodes.events(name, "note")[0][1]["reason"]
