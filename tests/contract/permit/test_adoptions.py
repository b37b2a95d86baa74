# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch is adopted by what its scheduler says when that is recorded, however long its looks over SSH took."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import ledger_event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from contract.permit.rig import Controller

pytestmark = pytest.mark.slow

Make = Callable[..., Controller]
PROVEN = {"verdict": "pass", "checks": [{"id": "machine", "verdict": "pass"}], "findings": []}
SHOW = ("scontrol", "--all", "-o", "show", "node")
HOSTS = ("gpu001", "gpu002", "gpu003")


def looked_at(site: Controller, host: str) -> dict[str, Any]:
    """By all verbs of the playbook adopt; what they told."""
    scheduler = site.run("scheduler_node", host, state="present")
    with site._node_of(host) as (ledger, node):
        ledger.append(this_run(os.getpid()).run_id, [(node, Event("verdict", "image_verify", PROVEN))])
    return {"scheduler": scheduler, "machine": PROVEN, "name": {"stdout": host}, "looks": [PROVEN]}


def adopt(site: Controller, host: str, proof: dict[str, Any]) -> dict[str, Any]:
    return site.run("ledger_event", host, action=ledger_event.ActionModule, state="admitted", adoption=proof)


def test_j7_a_batch_is_not_refused_for_having_been_slow_and_asked_for_once(controller: Make) -> None:
    site = controller(*HOSTS, known=False)
    proofs = {host: looked_at(site, host) for host in HOSTS}
    site.later(3600)
    looks = len(site.asked(*SHOW))
    for host in HOSTS:
        assert adopt(site, host, proofs[host]).get("changed"), host
        assert site.events("state", host) == ["admitted"]
    assert len(site.asked(*SHOW)) == looks + 1


def test_j7_what_was_adopted_is_adopted_once_more_until_a_run_has_imaged_it(controller: Make) -> None:
    """Its provisioner tells since that it changed, as after a servicing: what it tells now is recorded."""
    site = controller(known=False)
    proof = looked_at(site, "gpu001")
    for stamp in ("s1", "s2"):
        record = {"before": {"state": "deployed"}, "provisioner_id": "u1", "agrees": ["serial"], "stamp": stamp}
        assert adopt(site, "gpu001", {**proof, "provisioner": record}).get("changed"), stamp
        assert json.loads(site.data("state")[-1])["provisioner_stamp"] == stamp
    assert site.events("state") == ["admitted", "admitted"]
    for state in ("imaging", "admitted"):
        site.tells("gpu001", "state", state)
    told = adopt(site, "gpu001", proof)
    assert told.get("failed") and "day2_recycle goes on" in told["msg"], told


def test_j7_who_was_taken_out_of_service_since_the_look_is_not_adopted(controller: Make) -> None:
    site = controller(known=False)
    proof = looked_at(site, "gpu001")
    site.later(100)
    site.node(state="IDLE+DRAIN", reason="riser swap", by="carol")
    told = adopt(site, "gpu001", proof)
    assert told.get("failed") and "in service now" in told["msg"] and site.events("state") == [], told
    site.away()
    site.later(300)
    told = adopt(site, "gpu001", proof)
    assert told.get("failed") and "Unable to contact" in told["msg"] and site.events("state") == [], told


@pytest.mark.parametrize(
    ("own", "row", "other", "one"),
    [
        ("x.a", "x", "x.a", False),
        ("x.a", "x", "x.b", False),
        ("x", "x.a", "x.b", False),
        ("x", "x", "x.b", True),
        ("x.a", "x", "y.a", True),
    ],
)
def test_r5_a_machine_that_its_scheduler_may_have_as_another_node_is_not_adopted(
    controller: Make, own: str, row: str, other: str, one: bool
) -> None:
    """Unless a person says that the site has named them so."""
    serves = {"state": "IDLE", "reason": "", "by": ""}
    site = controller(known=False, nodes={row: serves, other: serves})
    site.hosts["gpu001"]["gpufleet_scheduler_node"] = row
    proof = {**looked_at(site, "gpu001"), "name": {"stdout": own}}
    proof["scheduler"] = site.run("scheduler_node", state="present", called=f"{own}\n")
    assert proof["scheduler"]["rather"] == ("" if one else other), proof
    told = adopt(site, "gpu001", proof)
    if not one:
        assert told.get("failed") and f"{row}, which has {other} beside it" in told["msg"], told
        assert site.events("state") == []
        told = adopt(site, "gpu001", {**proof, "other_name": True})
    assert told.get("changed") and site.events("state") == ["admitted"], told
