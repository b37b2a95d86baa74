# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a node stands, read from a ledger with a history: what is over is not told as if it were now."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.climbed import CLIMBS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import RENEWAL, of_tenant, status
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.served import Seen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.summary import report, standing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._soaking import soaking

PLAYBOOK = Path(__file__).resolve().parents[3] / "playbooks" / "passports.yml"
ADOPT = PLAYBOOK.with_name("adopt.yml")
STOPPED = ("note", "stopped", {"reason": "the BMC is silent"})


def told(ledger: Ledger, *events: tuple[str, str, dict[str, Any]], run: str = "r1", asks: str = "r2") -> dict[str, Any]:
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])
    for event in events:
        ledger.append(run, [(node, Event(*event))])
    return status(ledger, {"n1": node}, asks)["n1"]


def test_t1_a_lease_is_told_as_long_as_it_lasts(ledger: Ledger) -> None:
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])
    holder = this_run(os.getpid())
    with ledger.transaction() as conn:
        lease.take_in(conn, ledger, node, holder, node="n1")
    assert told(ledger)["lease"] == holder.run_id
    with ledger.transaction() as conn:
        conn.exec_driver_sql("UPDATE leases SET expires = 1")
    assert told(ledger)["lease"] == ""


def test_t1_a_hold_is_told_until_it_is_lifted(ledger: Ledger) -> None:
    token = {"hold_token": "gpufleet:r1:work"}
    assert told(ledger, ("hold", "taken", token))["hold"] == "gpufleet:r1:work"
    assert told(ledger, ("hold", "released", token))["hold"] == ""


def test_t1_a_stop_is_told_until_the_node_goes_on(ledger: Ledger) -> None:
    assert told(ledger, ("state", "enrolled", {}), STOPPED)["stopped"] == "the BMC is silent"
    assert told(ledger, ("state", "imaging", {}))["stopped"] == ""


#: What becomes of a node beside its state: it is held anew, bound to another scheduler, or is another machine.
TURNS = (
    ("hold", "taken", {"hold_token": "gpufleet:r2+keep:disk swap"}),
    ("hold", "released", {"hold_token": "gpufleet:r2+keep:disk swap"}),
    ("named", "scheduler_node", {"scheduler_node": "n1", "was_of": "slurm alpha"}),
    ("identity", "replaced", {"part": "board"}),
)


@pytest.mark.parametrize("turn", TURNS, ids=[f"{kind} {name}" for kind, name, _data in TURNS])
def test_h2_what_has_become_of_a_node_since_ends_a_stop(ledger: Ledger, turn: tuple[str, str, dict[str, Any]]) -> None:
    """A move that was ordered is not ordered again, nor is a maintenance told as refused that was given since."""
    assert told(ledger, ("state", "draining", {}), turn, STOPPED)["stopped"] == "the BMC is silent", "it came before"
    assert told(ledger, turn)["stopped"] == ""
    assert told(ledger, STOPPED)["stopped"] == "the BMC is silent"


def test_h2_whose_a_node_is_goes_before_what_met_a_run_there(ledger: Ledger) -> None:
    """Whoever reads of a slurmctld that was away must not take the node from under a person's hands."""
    refused = ("note", "stopped", {"reason": "slurmctld is away"})
    one = told(ledger, ("state", "drained", {"reason": "disk swap"}), TURNS[0], refused)
    assert standing(one) == "kept by a person: disk swap; stopped: slurmctld is away"
    theirs = of_tenant(told(ledger, TURNS[1], refused), "blue", "blue")
    assert standing(theirs) == "of the tenant blue, and left alone (disk swap); stopped: slurmctld is away"
    assert standing(told(ledger)) == "slurmctld is away", "nobody's"


def test_u10_the_next_command_names_the_tenant_also_to_a_run_that_has(ledger: Ledger) -> None:
    one = told(ledger, ("state", "drained", {}))
    named = f"{AGAIN.format('day2_recycle')} -e gpufleet_for_tenant=blue"
    for stranger in ("blue", ""):
        theirs = of_tenant(one, "blue", stranger)
        assert (theirs["tenant"], theirs["next"]) == (stranger, named), "typed as it stands, it is not refused"
    assert of_tenant(one, "", "")["next"] == AGAIN.format("day2_recycle")
    assert of_tenant({**one, "next": ""}, "blue", "")["next"] == ""


def test_t1_a_stop_of_a_node_in_service_is_told_to_its_own_run_alone(ledger: Ledger) -> None:
    assert told(ledger, ("state", "admitted", {}), STOPPED, asks="r2")["stopped"] == ""
    assert told(ledger, asks="r1")["stopped"] == "the BMC is silent"


def test_u7_what_was_said_last_of_a_machines_parts_is_told(ledger: Ledger) -> None:
    assert told(ledger, ("verdict", "image_verify", {"verdict": "fail"}))["hardware"] == ""
    for verdict in ("inconclusive", "pass", "fail"):
        assert told(ledger, ("verdict", "hardware_verify", {"verdict": verdict}))["hardware"] == verdict


AGAIN = "ansible-playbook gpufleet.baremetal.{} -i INVENTORY --limit n1"
RENEW = AGAIN.format("passports") + " -e passports_renew=true"


def test_h2_who_keeps_a_node_is_told_with_the_way_to_give_it_back(ledger: Ledger) -> None:
    kept = {"hold_token": "gpufleet:r1+keep:disk swap, ticket 4711 (until friday)"}
    one = told(ledger, ("state", "draining", {"reason": "disk swap"}), ("hold", "taken", kept))
    assert one["kept"] == "disk swap, ticket 4711 (until friday)"
    assert one["next"] == AGAIN.format("maintenance") + " -e maintenance=off"
    assert any("kept by a person: disk swap, ticket 4711" in line for line in report("Fleet", {"n1": one}))
    assert told(ledger, ("hold", "taken", {"hold_token": "gpufleet:r1:keep"}))["kept"] == ""


ALL = AGAIN.format("day2_recycle") + " -e day2_recycle_all=true"


@pytest.mark.parametrize("remedy", ["rma", "field_diag", "reseat", "fabric", "one_of_a_newer_release"])
def test_h2_a_remedy_that_no_recycle_can_be_is_left_to_people(ledger: Ledger, remedy: str) -> None:
    one = told(ledger, ("state", "quarantined", {"reason": "row remap failure", "remedy": remedy}))
    assert remedy in one["left"] and one["next"] == ALL
    assert any(f"left: no run is the remedy {remedy}" in line for line in report("Fleet", {"n1": one}))


def quarantined_again(
    ledger: Ledger, remedy: str, finding: str, entity: str, *, verdict: str = "fail"
) -> dict[str, Any]:
    """One more recycle that ended in quarantine, and why."""
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])
    ledger.record_attempt("r1", node, "reimage", finding)
    found = {"verdict": verdict, "findings": [{"id": finding, "entity": entity, "remedy": remedy, "text": "words"}]}
    told(ledger, ("verdict", "kernel_log_gate", found))
    return told(ledger, ("state", "quarantined", {"reason": "words", "remedy": remedy}))


@pytest.mark.parametrize("remedy", list(CLIMBS))
def test_h2_what_comes_back_after_its_remedy_needs_more(ledger: Ledger, remedy: str) -> None:
    once, twice, _source = CLIMBS[remedy]
    seen = [quarantined_again(ledger, remedy, "xid:95", "GPU 3") for _times in range(3)]
    assert [one["remedy"] for one in seen] == [remedy, once, twice] and twice == "rma"
    assert seen[2]["left"] == "no run is the remedy rma: apply it first (xid:95 of GPU 3 came back after 2 recycles)"
    told(ledger, ("state", "admitted", {}))
    assert quarantined_again(ledger, remedy, "xid:95", "GPU 3")["remedy"] == remedy, "it served again meanwhile"


@pytest.mark.parametrize(
    ("finding", "entity", "verdict"),
    [("xid:95", "GPU 4", "fail"), ("xid:48", "GPU 3", "fail"), ("xid:95", "GPU 3", "inconclusive")],
)
def test_h2_another_finding_or_another_part_did_not_come_back(
    ledger: Ledger, finding: str, entity: str, verdict: str
) -> None:
    quarantined_again(ledger, "reset_gpu", "xid:95", "GPU 3")
    assert quarantined_again(ledger, "reset_gpu", finding, entity, verdict=verdict)["remedy"] == "reset_gpu"


def test_h2_a_failed_row_remap_is_an_rma_at_once_and_stays_one(ledger: Ledger) -> None:
    for _times in range(3):
        one = quarantined_again(ledger, "rma", "row_remap", "GPU 3")
        assert (one["remedy"], one["left"]) == ("rma", "no run is the remedy rma: apply it first")


@pytest.mark.parametrize("remedy", ["reset_gpu", "power_cycle", "reimage", ""])
def test_h2_a_quarantine_is_taken_up_while_its_remedys_budget_lasts(ledger: Ledger, remedy: str) -> None:
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])
    quarantine = ("state", "quarantined", {"reason": "Xid 79", "remedy": remedy})
    for attempts in range(3):
        one = told(ledger, quarantine)
        assert (one["attempts"], bool(one["left"])) == (attempts, attempts == 2)
        assert one["next"] == (ALL if one["left"] else AGAIN.format("day2_recycle"))
        ledger.record_attempt("r1", node, "reimage", "Xid 79")
    assert f"2 recycles did not bring it back, and {remedy or 'reimage'} is due" in one["left"]
    told(ledger, ("state", "admitted", {}))
    for _killed in range(3):
        ledger.record_attempt("r1", node, "reimage", "a new image")
        assert told(ledger, ("state", "imaging", {}))["attempts"] == 0, "what a service stopped, or a kill"
    told(ledger, ("state", "admitted", {}))
    again = told(ledger, quarantine)
    assert (again["attempts"], again["left"]) == (0, ""), "what brought it back has ended the count"


def test_v9_a_renewal_that_stopped_goes_on_as_one(ledger: Ledger) -> None:
    """Recycling would image the node. What others began with it is not the renewal's to end."""
    renewal, other = {"reason": RENEWAL}, {"reason": "a new image"}
    told(ledger, ("state", "imaging", {}), ("state", "admitted", {}))
    for state in ("draining", "drained", "validating"):
        assert told(ledger, ("state", state, renewal))["next"] == RENEW
        stopped = told(ledger, STOPPED)
        assert stopped["stopped"] and stopped["next"] == RENEW and stopped["renewing"]
        taken = told(ledger, ("state", state, other))
        assert taken["next"] == AGAIN.format("day2_recycle") and not taken["renewing"]
    for state in ("imaging", "wiping", "quarantined"):
        imaged = told(ledger, ("state", state, renewal))
        assert imaged["next"] == AGAIN.format("day2_recycle") and not imaged["renewing"]


def test_w8_a_renewal_is_known_by_its_playbook_whatever_its_reason(ledger: Ledger) -> None:
    told(ledger, ("state", "admitted", {}))
    for state in ("draining", "drained", "validating"):
        found = told(ledger, ("state", state, {"reason": "the key was changed", "playbook": "passports"}))
        assert found["next"] == RENEW and found["renewing"]


def test_w8_a_renewal_that_stopped_before_its_first_state_is_no_case_for_day_2(ledger: Ledger) -> None:
    """The node is in service, and day 2 would image it for an answer that it does not get."""
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])
    times = {"issued": ledger.now(), "expires": ledger.now() + 9e6}
    ledger.save_passport("r1", node, digest="sha256:1", envelope={}, **times)
    told(ledger, ("state", "admitted", {}))
    stopped = ("note", "stopped", {"reason": "the BMC is silent", "playbook": "passports"})
    found = told(ledger, stopped, asks="r1")
    assert found["stopped"] and not found["passport_due"] and found["next"] == RENEW + " -e passports_all=true"
    assert told(ledger, STOPPED, asks="r1")["next"] == AGAIN.format("day2_recycle"), "of day 2 itself"


@pytest.mark.parametrize(("days", "more"), [(30, " -e passports_days=30"), (29.5, " -e passports_days=30"), (14, "")])
def test_x8_the_command_for_a_due_passport_finds_it_due(ledger: Ledger, days: float, more: str) -> None:
    """Told without the days of the list, it would ask for its own, find the node not due and leave it alone."""
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])
    ends = ledger.now() + (days - 1) * 86400
    ledger.save_passport("r1", node, digest="sha256:1", envelope={}, issued=ledger.now(), expires=ends)
    told(ledger, ("state", "admitted", {}))
    found = status(ledger, {"n1": node}, expire_within=days * 86400)["n1"]
    assert found["passport_due"] and found["next"] == RENEW + more


def test_v9_a_passport_is_new_for_as_long_as_is_asked(ledger: Ledger) -> None:
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])

    def fresh(within: float) -> bool:
        return bool(status(ledger, {"n1": node}, "r1", issued_within=within)["n1"]["passport_fresh"])

    assert not fresh(1000.0), "none at all"
    for ago in (5000.0, 500.0):  # the newest counts
        ledger.save_passport(
            "r1", node, issued=ledger.now() - ago, expires=ledger.now() + 9999, digest="sha256:1", envelope={}
        )
    assert [fresh(within) for within in (0.0, 400.0, 600.0)] == [False, False, True]


def test_what_a_person_has_burned_in_is_no_case_for_day_2(ledger: Ledger) -> None:
    """Its GPUs may be under load for days yet, and the run that began it may be gone."""
    told(ledger, ("state", "admitted", {}))
    data = {"reason": "two weeks of it", "playbook": "burn_in"}
    for state in ("draining", "drained"):
        assert "burned in" in told(ledger, ("state", state, data))["left"]
    assert "readmit" in told(ledger, ("state", "drained", data))["next"]
    assert told(ledger, ("state", "drained", {"reason": "burn-in"}))["left"] == "", "known by its playbook alone"
    assert told(ledger, ("state", "quarantined", {**data, "remedy": "reimage"}))["left"] == ""


@pytest.mark.parametrize("state", ["drained", "quarantined"])
def test_what_may_soak_is_left_alone_whatever_state_it_was_in_before(ledger: Ledger, state: str) -> None:
    """A recycle would cut off days of it; burn_in records no state of a node that was out of service already."""
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])

    def one(*events: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
        ledger.append("r1", [(node, Event(*event)) for event in events])
        return status(ledger, {"n1": node}, soaking=soaking(ledger, [node]))["n1"]

    assert one(("state", "admitted", {}), ("state", state, {"reason": "x", "remedy": "reimage"}))["left"] == ""
    found = one(("intent", "soak_gate", {}))
    assert "may soak" in found["left"] and "burn_in" in found["next"]
    silent = {"tool": {"name": "soak_gate"}, "findings": [{"id": "unreachable", "text": "x"}]}
    assert "may soak" in one(("verdict", "soak_gate", silent))["left"]
    assert one(("verdict", "soak_gate", {"tool": {"name": "soak"}, "findings": []}))["left"] == ""
    assert "may soak" in one(("intent", "soak_gate", {}))["left"]
    imaged = one(("state", "imaging", {}), ("state", state, {"reason": "x"}))
    assert imaged["left"] == "", "another system soaks nothing"


def burn_in() -> tuple[dict[str, Any], dict[str, Any]]:
    """The block that ends soaks, and the one after it, which takes nodes out of service."""
    play = yaml.safe_load(PLAYBOOK.with_name("burn_in.yml").read_text(encoding="utf-8"))[0]
    ends, block = [one for one in play["tasks"] if "block" in one and "rescue" in one or "burn_in_stop" in str(one)][1:]
    assert block["name"] == "Burn one batch in"
    return ends, block


def test_each_state_that_a_burn_in_records_names_it() -> None:
    block = burn_in()[1]
    events = [one["gpufleet.baremetal.ledger_event"] for one in block["block"] if one["name"].startswith("Record")]
    assert [(one["state"], one["data"]) for one in events] == [
        (state, {"playbook": "burn_in"}) for state in ("draining", "drained")
    ]


def test_a_soak_is_ended_before_anything_is_held() -> None:
    """Whoever ends it takes nothing out of service, and waits for no drain of a day."""
    ends, _block = burn_in()
    done = [next(iter(one.keys() - {"name", "register", "run_once"})) for one in ends["block"]]
    assert done == ["gpufleet.baremetal.soak_gate", "gpufleet.baremetal.gate_wait", "ansible.builtin.meta"]
    assert [one.keys() - {"name"} for one in ends["rescue"]] == [{"ansible.builtin.set_fact"}], "it holds nothing"


def test_v9_the_playbook_gives_the_reason_that_the_report_knows() -> None:
    [play] = [one for one in yaml.safe_load(PLAYBOOK.read_text(encoding="utf-8")) if "passports_reason" in one["vars"]]
    assert play["vars"]["passports_reason"] == RENEWAL


def test_w8_each_state_that_the_playbook_records_names_it() -> None:
    [play] = [one for one in yaml.safe_load(PLAYBOOK.read_text(encoding="utf-8")) if "passports_reason" in one["vars"]]
    [block] = [one for one in play["tasks"] if "block" in one]
    events = [one["gpufleet.baremetal.ledger_event"] for one in block["block"] if one["name"].startswith("Record")]
    assert [(one["state"], one["data"]) for one in events] == [
        (state, {"playbook": "passports"}) for state in ("draining", "drained", "validating")
    ]
    assert block["rescue"][0]["vars"] == {"quarantine_playbook": "passports"}


def test_j7_what_was_adopted_is_due_until_its_first_imaging(ledger: Ledger) -> None:
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])
    now = ledger.now()
    ledger.save_passport("r1", node, issued=now, expires=now + 9e6, digest="sha256:1", envelope={})
    one = told(ledger, ("state", "admitted", {"adopted": True}))
    assert one["adopted"] and one["admitted_before"] and not one["passport_due"], one
    assert one["next"] == AGAIN.format("day2_recycle") + " -e day2_recycle_all=true"
    assert "adopted: the gates" in " ".join(report("Fleet", {"n1": one}))
    found = {"adopted": True, "reason": "Xid 79 on GPU 3", "provisioner_record": "absent"}
    assert not one["unrecorded"]
    one = told(ledger, ("state", "admitted", found))
    shown = " ".join(" ".join(report("Fleet", {"n1": one})).split())
    assert one["next"] == ALL and "Xid 79" in shown, "what stood before day 2 looks it need not find again"
    assert one["unrecorded"] and "its provisioner has no record of it" in shown, one
    one = told(ledger, ("state", "draining", {}), ("state", "admitted", {}))
    assert one["adopted"] and not one["passport_due"] and one["next"] == ALL, "who readmits it images nothing"
    ledger.save_passport("r1", node, issued=now - 2, expires=now - 1, digest="sha256:2", envelope={})
    one = told(ledger, ("state", "admitted", {}))
    assert one["adopted"] and not one["passport_due"], "no renewal adds to what its passport says"
    ledger.save_passport("r1", node, issued=now, expires=now + 9e6, digest="sha256:3", envelope={})
    one = told(ledger, ("state", "imaging", {}), ("state", "admitted", {}))
    assert not one["adopted"] and not one["passport_due"] and one["next"] == "", one


BY_HAND = {"reason": "disk swap"}


@pytest.mark.parametrize("state", ["draining", "drained", "quarantined"])
def test_j7_no_run_images_of_its_own_accord_what_was_adopted_wherever_it_stands(ledger: Ledger, state: str) -> None:
    """A technician has kept and given it back: it was never ours to image, and is not now."""
    one = told(ledger, ("state", "admitted", {"adopted": True}), ("state", state, BY_HAND))
    assert one["adopted"] and "when it was adopted" in one["left"] and one["next"] == ALL, one
    node = one["node_id"]
    kept = Seen(False, "foreign", "IDLE+DRAIN", holds=[{"text": "gpufleet:r1+keep:disk swap", "kind": "keep"}])
    one = status(ledger, {"n1": node}, seen={"n1": kept})["n1"]
    assert one["left"] == "" and one["next"].endswith("maintenance=off"), one
    # Who resumed it in the scheduler itself has it in service as before: it is taken back as it is.
    one = status(ledger, {"n1": node}, seen={"n1": Seen(serves=True, owner="free")})["n1"]
    assert one["next"] == AGAIN.format("adopt") and "in service all the same" in " ".join(report("F", {"n1": one}))
    one = told(ledger, ("state", "imaging", {"deploy_id": "d1"}), ("state", "quarantined", BY_HAND))
    assert not one["adopted"] and not one["left"] and one["next"] == AGAIN.format("day2_recycle"), one


@pytest.mark.parametrize(
    ("events", "serves", "again"),
    [
        ([("state", "admitted", {"adopted": True})], True, True),
        ([("state", "admitted", {"adopted": True})], None, True),  # of no scheduler
        ([("state", "admitted", {"adopted": True})], False, None),
        ([("state", "admitted", {"adopted": True}), ("state", "drained", BY_HAND)], True, False),
        ([("state", "admitted", {})], True, None),
    ],
)
def test_j7_what_serves_as_adopted_is_adopted_once_more_on_a_word_alone(
    ledger: Ledger, events: Any, serves: bool | None, again: bool | None
) -> None:
    """again: does it take that word? None where no word takes it."""
    play = yaml.safe_load(ADOPT.read_text(encoding="utf-8"))[0]
    [task] = [one for one in play["tasks"] if one["name"] == "Leave out what the ledger knows already"]
    told(ledger, *events)
    seen = {} if serves is None else {"n1": Seen(serves, "free")}
    nodes = status(ledger, {"n1": ledger.identify("n1", aliases=[("serial", "GF0001")])}, seen=seen)
    env = jinja2.Environment(autoescape=True)
    env.filters["bool"] = bool
    left_out = env.compile_expression(task["when"])
    for word in (False, True):
        takes = again is not None and word >= again
        said = {"adopt_again": word, "adopt_fleet": {"nodes": nodes}, "inventory_hostname": "n1"}
        assert bool(left_out(said)) is not takes, (word, nodes)


def test_j7_a_hold_that_a_run_left_on_what_was_adopted_is_gone_on_with_on_request_alone(ledger: Ledger) -> None:
    node = told(ledger, ("state", "admitted", {"adopted": True}))["node_id"]
    ours = Seen(False, "ours", "IDLE+DRAIN", holds=[{"text": "gpufleet:r1:maintenance is over"}])
    one = status(ledger, {"n1": node}, seen={"n1": ours})["n1"]
    assert (one["state"], one["recorded"], one["adopted"]) == ("draining", "admitted", True)
    assert one["left"] and one["next"] == ALL, one
