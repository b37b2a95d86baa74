# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node a swap is of, where a verb has asked for the new machine before, or what is typed is a neighbour's."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from contract.ledger.test_swaps import GPU, MAC, MAC2, OLD, Ask, ask, in_service, known, rows, state

__all__ = ["ask"]
MAC9 = "52:54:00:00:00:09"
NEW = {"gpufleet_serial": "NEW0001", "gpufleet_boot_mac": MAC9}
NEIGHBOUR = {"gpufleet_serial": "OLD0002", "gpufleet_boot_mac": MAC2}
KEPT = Event("hold", "taken", {"hold_token": "gpufleet:r0+keep:disk"})


def asked_before(ledger: Ledger) -> str:
    """What any verb does with a host whose row names another machine: bmc_info as well, before it confirms that."""
    node = ledger.identify("gpu001", aliases=[("serial", "NEW0001"), ("mac", MAC9)])
    ledger.confirm(node, [("serial", "NEW0001")], "bmc")
    return node


@pytest.mark.parametrize("untouched", [False, True])
def test_y1_a_board_is_swapped_in_the_node_that_had_the_old_one(ledger: Ledger, ask: Ask, untouched: bool) -> None:
    """The BMC was asked first, and with that a node began for a serial and a MAC that nobody knew."""
    node = ledger.identify("gpu001", aliases=[("serial", "OLD0001"), ("mac", MAC)]) if untouched else in_service(ledger)
    ledger.append("r0", [(node, KEPT), (node, Event("state", "enrolled" if untouched else "draining"))])
    fresh = asked_before(ledger)
    assert any(f"was node {node} as well" in one for one in ask(NEW)["differences"])
    foreseen = ask(NEW, check_mode=True, state="replaced", part="board")
    done = ask(NEW, state="replaced", part="board")
    assert done["changed"] and foreseen["node_id"] == done["node_id"] == node != fresh, done
    assert known(ledger, node) == {"serial": "NEW0001", "mac": MAC9} and known(ledger, fresh) == {}
    assert state(ledger, node) == ("enrolled" if untouched else "quarantined")
    assert foreseen["after"] == done["after"] and f"gpu001 {fresh}" in done["after"]
    assert ledger.latest([node], "hold")[node]["data"] == KEPT.data
    assert ledger.identify("gpu001", aliases=[("serial", "NEW0001"), ("mac", MAC9)], create=False) == node
    before = rows(ledger)
    assert not ask(NEW, state="replaced", part="board")["changed"] and rows(ledger) == before


def test_y1_whether_a_node_that_was_imaged_since_is_the_old_one_a_person_says(ledger: Ledger, ask: Ask) -> None:
    node, fresh = in_service(ledger), asked_before(ledger)
    ledger.append("r1", [(fresh, Event("state", "imaging", {"deploy_id": "d2"}))])
    before = rows(ledger)
    told = ask(NEW, state="replaced", part="board")["msg"]
    assert "several nodes" in told and node in told and fresh in told and rows(ledger) == before


BOARD, CHASSIS = {"state": "replaced", "part": "board"}, {"state": "replaced", "part": "chassis"}
MOVED = {"state": "moved", "kind": "mac", "value": MAC2}
RETIRED = {"state": "retired", "kind": "mac", "value": MAC2}
SERIAL = {"state": "retired", "kind": "serial", "value": "old0002"}


@pytest.mark.parametrize("now", ["admitted", "draining"])
@pytest.mark.parametrize(
    ("said", "args"),
    [
        (NEW, {**BOARD, "was": "OLD0002"}),
        (NEW, {**CHASSIS, "was": "OLD0002"}),
        ({**NEW, "gpufleet_boot_mac": MAC2}, BOARD),
        ({**OLD, "gpufleet_serial": "OLD0002"}, CHASSIS),
        (OLD, MOVED),
        (OLD, RETIRED),
        (OLD, SERIAL),
    ],
)
def test_y2_a_typo_takes_nothing_from_a_neighbour(
    ledger: Ledger, ask: Ask, said: dict[str, str], args: dict[str, Any], now: str
) -> None:
    """Its row is older than its name in the ledger in one of the cases: who says it now is asked."""
    node, other = in_service(ledger), in_service(ledger, "renamed" if now == "draining" else "gpu002", "OLD0002", MAC2)
    ledger.append("r1", [(other, Event("state", now))])
    bmc = {"identity": {"serial": said["gpufleet_serial"]}, "machine": {"agrees": ["serial"], "contradicts": []}}
    before = rows(ledger)
    for dry in (True, False):
        done = ask(said, hostvars={"gpu002": NEIGHBOUR}, check_mode=dry, bmc=bmc, **args)
        assert "two hosts of the inventory" in done["msg"] and "gpu002 says" in done["msg"], done
        assert "identity_was" in done["msg"] and "the row of the other host" in done["msg"]
    assert rows(ledger) == before and (state(ledger, node), state(ledger, other)) == ("admitted", now)


@pytest.mark.parametrize("args", [{**BOARD, "was": "OLD0002"}, MOVED, RETIRED])
def test_y2_a_tenants_node_is_changed_by_no_swap_of_another_host(
    ledger: Ledger, ask: Ask, args: dict[str, Any]
) -> None:
    """Its row has been corrected, or says its serial alone; it is theirs all the same."""
    in_service(ledger)
    in_service(ledger, "gpu002", "OLD0002", MAC2)
    theirs = {"gpufleet_serial": "" if "was" in args else "OLD0002", "gpufleet_tenant": "acme"}
    said = NEW if "was" in args else OLD
    before = rows(ledger)
    done = ask(said, hostvars={"gpu002": theirs}, **args)
    assert done["error"]["kind"] == "not_ours" and "acme" in done["msg"] and rows(ledger) == before
    assert ask(said, hostvars={"gpu002": {**theirs, "gpufleet_for_tenant": "acme"}}, **args)["changed"]


def test_y2_a_serial_that_a_neighbour_has_rightly_can_be_taken_off_this_hosts_node(ledger: Ledger, ask: Ask) -> None:
    """The wrong row was confirmed by a BMC under a wrong address, and both have been corrected."""
    node = ledger.identify("gpu001", aliases=[("serial", "OLD0002"), ("mac", MAC)])
    ledger.confirm(node, [("serial", "OLD0002")], "bmc")
    assert ask(OLD, hostvars={"gpu002": NEIGHBOUR}, **SERIAL)["changed"] and known(ledger, node) == {"mac": MAC}


def test_y2_a_board_that_serves_in_another_host_now_is_no_longer_this_ones(ledger: Ledger, ask: Ask) -> None:
    node = in_service(ledger)
    now = {"gpufleet_serial": "OLD0001", "gpufleet_boot_mac": MAC2}
    assert "two hosts" in ask(NEW, hostvars={"gpu002": now}, **CHASSIS)["msg"]
    assert ask(NEW, hostvars={"gpu002": now}, **BOARD)["changed"] and known(ledger, node)["serial"] == "NEW0001"


def test_y2_a_chassis_that_served_elsewhere_is_judged_anew_at_its_place(ledger: Ledger, ask: Ask) -> None:
    old, came = in_service(ledger), in_service(ledger, "gpu002", "OLD0002", MAC2)
    done = ask(NEIGHBOUR, hostvars={"gpu002": {"gpufleet_serial": "NEW0002"}}, **CHASSIS)
    assert (done["node_id"], done["retired_node"]) == (came, old), done
    assert (state(ledger, old), state(ledger, came)) == ("retired", "quarantined")


def passport(ledger: Ledger, node: str, at: float, *gpus: str) -> None:
    pairs = [f"chassis-serial:{node}", *(f"gpu-uuid:{gpu}" for gpu in gpus)]
    subject = [
        {"name": one, "digest": {"sha256": hashlib.sha256(one.partition(":")[2].encode()).hexdigest()}} for one in pairs
    ]
    payload = base64.b64encode(json.dumps({"subject": subject, "predicate": {}}).encode()).decode()
    envelope = {"payloadType": "application/vnd.in-toto+json", "payload": payload}
    ledger.save_passport("r0", node, issued=at, expires=at + 9999, digest="d", envelope=envelope)


def test_y6_a_gpu_that_moved_came_from_where_it_was_measured_last(ledger: Ledger, ask: Ask) -> None:
    node, other, third = (in_service(ledger, f"gpu00{n}", f"OLD000{n}", f"52:54:00:00:00:0{n}") for n in (1, 2, 3))
    now = ledger.now()
    passport(ledger, third, now - 30, GPU)
    passport(ledger, other, now - 20, GPU, "GPU-00000000-0000-4000-8000-000000000002")
    passport(ledger, node, now - 10, GPU)  # it has been judged since with that one
    moved = {"state": "moved", "kind": "gpu", "value": GPU}
    done = ask(OLD, **moved)
    assert (done["from_node"], done["node_id"]) == (other, node), done
    assert [state(ledger, one) for one in (node, other, third)] == ["quarantined", "quarantined", "admitted"]
    assert ledger.history(other, kinds=("identity",))[-1]["data"]["to"] == node
    before = rows(ledger)
    assert not ask(OLD, **moved)["changed"] and rows(ledger) == before
    # It went on to another machine, unsaid, and was measured there: it came back from that one.
    passport(ledger, third, ledger.now() + 10, GPU)
    assert ask(OLD, **moved)["from_node"] == third and state(ledger, third) == "quarantined"


def test_y6_a_gpu_that_a_newer_passport_of_that_machine_does_not_name_was_no_longer_there(
    ledger: Ledger, ask: Ask
) -> None:
    in_service(ledger)
    other = in_service(ledger, "gpu002", "OLD0002", MAC2)
    passport(ledger, other, ledger.now() - 20, GPU)
    passport(ledger, other, ledger.now() - 10)
    moved = {"state": "moved", "kind": "gpu", "value": GPU}
    assert "in no machine" in ask(OLD, **moved)["msg"]
    done = ask(OLD, **moved, force_reason="it lay on the shelf since")
    assert done["changed"] and done["from_node"] == "" and state(ledger, other) == "admitted"
