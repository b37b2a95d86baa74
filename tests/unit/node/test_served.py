# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ledger calls admitted, and its scheduler does not serve, is not told as admitted."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import RENEWAL, status
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.served import NEVER_SERVED, Seen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.summary import report
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event

PLAYBOOKS = Path(__file__).resolve().parents[3] / "playbooks"
SERVES = Seen(True, "free", "IDLE")
ALICE = {"text": "memtest", "author": "alice", "kind": "", "form": "drain"}


def ours(why: str, kind: str = "") -> Seen:
    return Seen(False, "ours", "IDLE+DRAIN", holds=[{"text": f"gpufleet:r9{kind}:{why}", "author": "root", "kind": ""}])


def told(ledger: Ledger, seen: Seen | None, state: str = "admitted") -> dict[str, Any]:
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])
    ledger.append("r1", [(node, Event("state", state, {"reason": "r"}))])
    ledger.save_passport("r1", node, issued=ledger.now(), expires=ledger.now() + 9e6, digest="sha256:1", envelope={})
    return status(ledger, {"n1": node}, "r2", seen={"n1": seen} if seen else {})["n1"]


def test_c2_a_node_that_its_scheduler_serves_is_admitted(ledger: Ledger) -> None:
    for seen, served in ((SERVES, "yes"), (None, "")):
        one = told(ledger, seen)
        assert (one["state"], one["recorded"], one["served"], one["next"]) == ("admitted", "admitted", served, "")


def test_c2_what_a_run_held_and_never_recorded_is_the_next_runs_work(ledger: Ledger) -> None:
    one = told(ledger, ours("GPU 3: Xid 79"))
    assert (one["state"], one["recorded"], one["renewing"]) == ("draining", "admitted", False)
    assert "GPU 3: Xid 79" in one["reason"] and ".day2_recycle " in one["next"] and "hold_why" not in one
    for why in (RENEWAL, f"{RENEWAL}: yearly, ticket 12", f"{RENEWAL} : Not responding"):
        renewal = told(ledger, ours(why))
        assert renewal["renewing"] and ".passports " in renewal["next"], why
    assert not any("1 admitted" in line for line in report("Fleet", {"n1": one}))


@pytest.mark.parametrize("noted", [True, False])
def test_c2_a_renewals_hold_is_one_where_the_scheduler_wrote_over_it(ledger: Ledger, noted: bool) -> None:
    """Killed right after the hold, or between it and the note of it."""
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])
    over = Seen(False, "ours", "DOWN", holds=[{"text": "Not responding", "author": "slurm", "kind": ""}])
    for why, renewal in ((f"{RENEWAL}: ticket 12", True), ("GPU 3: Xid 79", False)):
        told(ledger, SERVES)
        events = [Event("hold", "released", {}), Event("intent", "scheduler_node", {"options": {"why": why}})]
        events += [Event("hold", "taken", {"hold_token": f"gpufleet:r9:{why}"})] if noted else []
        ledger.append("r9", [(node, event) for event in events])
        one = status(ledger, {"n1": node}, seen={"n1": over})["n1"]
        assert one["renewing"] is renewal and "Not responding" in one["reason"], one
    [hold] = [one for one in _tasks("passports") if "hold_why" in one.get("vars", {})]
    assert hold["vars"]["hold_why"].startswith(RENEWAL), "whatever passports_reason is"


def _tasks(name: str) -> list[dict[str, Any]]:
    plays = yaml.safe_load((PLAYBOOKS / f"{name}.yml").read_text(encoding="utf-8"))
    return [task for play in plays for one in play["tasks"] for task in one.get("block", [])]


def test_c2_who_works_for_somebody_else_is_told_as_a_stranger(ledger: Ledger) -> None:
    """By the scheduler, or by a verb that was refused and noted it; a playbook asks that, and no command's text."""
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])
    stranger = replace(SERVES, stranger=True)
    for seen, is_one in ((stranger, True), (SERVES, False), (None, False)):
        assert status(ledger, {"n1": node}, seen={"n1": seen} if seen else {})["n1"]["stranger"] is is_one
    for playbook, is_one in (("adopt", True), ("passports", False)):
        ledger.append("r1", [(node, Event("note", "stopped", {"reason": "x", "playbook": playbook}))])
        assert status(ledger, {"n1": node})["n1"]["stranger"] is is_one
    ledger.append("r1", [(node, Event("note", "stopped", {"reason": "only a node in service is adopted"}))])
    one = status(ledger, {"n1": node})["n1"]
    assert not one["stranger"] and ".day0_bringup " in one["next"], one


def test_c2_a_persons_hold_is_shown_as_theirs(ledger: Ledger) -> None:
    one = told(ledger, Seen(False, "foreign", "IDLE+DRAIN", "memtest", holds=[ALICE]))
    assert (one["state"], one["held_by"], one["next"]) == ("unserved", "foreign", "")
    assert "somebody else" in one["reason"] and "'memtest' set by alice" in one["reason"]


def test_c2_a_node_that_the_scheduler_itself_took_out_is_not_admitted(ledger: Ledger) -> None:
    for owner in ("scheduler", "free"):
        one = told(ledger, Seen(False, owner, "DOWN+NOT_RESPONDING", "Not responding"))
        assert one["state"] == "unserved" and "DOWN+NOT_RESPONDING, Not responding" in one["reason"]
        assert one["next"].endswith("--limit n1 -e day2_recycle_all=true")


def test_c2_of_a_scheduler_that_does_not_answer_nobody_says_admitted(ledger: Ledger) -> None:
    one = told(ledger, Seen(problem="slurmctld does not answer. look at it"))
    assert (one["state"], one["recorded"], one["served"]) == ("unknown", "admitted", "unknown")
    assert one["stopped"].startswith("unknown to the scheduler: slurmctld does not answer")
    assert "unknown to the scheduler" in " ".join(report("Fleet", {"n1": one}))
    drained = told(ledger, Seen(problem="slurmctld does not answer"), "drained")
    assert (drained["state"], drained["stopped"]) == ("drained", ""), "it is what it is, whatever the scheduler says"
    assert drained["unheard"] == "slurmctld does not answer; then run again" and one["unheard"] == ""
    line = "unknown to the scheduler: slurmctld does not answer"
    assert line in " ".join(report("Fleet", {"n1": drained})), "and whether a person holds it nobody can tell"
    assert told(ledger, SERVES, "drained")["unheard"] == told(ledger, None, "drained")["unheard"] == ""
    for state in sorted(NEVER_SERVED):
        assert told(ledger, Seen(problem="slurmctld does not answer"), state)["unheard"] == "", "its scheduler need not"


def test_c2_what_this_run_has_admitted_is_looked_at_again_and_not_run_again(ledger: Ledger) -> None:
    """Day 2 of all nodes, run again since its report met a slurmctld that was just started, images all of them anew."""
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])
    ledger.append("r7", [(node, Event("state", "admitted", {}))])
    lost = {"n1": Seen(problem="slurm has not heard of it lately (UNKNOWN): wait a minute")}
    own, other = (status(ledger, {"n1": node}, run, seen=lost)["n1"] for run in ("r7", "r8"))
    assert own["next"] == "ansible-playbook gpufleet.baremetal.status -i INVENTORY --limit n1"
    assert "this run has admitted it" in own["stopped"] and "run again" not in own["stopped"]
    assert other["next"] == "" and other["stopped"].endswith("then run again") and other["state"] == "unknown"


def test_c2_what_serves_though_the_ledger_has_it_out_of_service_is_told(ledger: Ledger) -> None:
    assert "its scheduler has it in service all the same" in " ".join(
        report("Fleet", {"n1": told(ledger, SERVES, "quarantined")})
    )
    stopped = {**told(ledger, SERVES, "validating"), "stopped": "the ledger refused a statement"}
    assert "its scheduler has it in service all the same" in " ".join(report("Fleet", {"n1": stopped}))
    assert "all the same" not in " ".join(report("Fleet", {"n1": told(ledger, SERVES)}))


@pytest.mark.parametrize("state", ["admitted", "draining"])
def test_c2_a_keep_is_what_the_scheduler_has_of_it(ledger: Ledger, state: str) -> None:
    """Told to the ledger or not: the run may have been killed in between, and a person may have lifted it since."""
    kept = Seen(False, "foreign", "IDLE+DRAIN", holds=[{"text": "gpufleet:r9+keep:disk swap", "kind": "keep"}])
    assert told(ledger, kept, state)["kept"] == "disk swap"
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])
    ledger.append("r9", [(node, Event("hold", "taken", {"hold_token": "gpufleet:r9+keep:disk swap"}))])
    assert told(ledger, SERVES, state)["kept"] == ""
    overwritten = {"text": "gres/gpu count too low", "kind": "keep"}
    assert told(ledger, replace(kept, holds=[overwritten]), state)["kept"] == "disk swap", (
        "whose it is the ledger knows"
    )
    assert told(ledger, replace(kept, holds=[ALICE]), state)["kept"] == "disk swap", "they have made it theirs"
    assert told(ledger, Seen(problem="away"), state)["kept"] == "disk swap"
    assert "maintenance=off" in told(ledger, replace(kept, holds=[overwritten]), state)["next"]


def test_c3_a_run_that_works_on_a_node_is_told_unless_it_is_dead(ledger: Ledger) -> None:
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])
    here = this_run(os.getpid())
    dead = replace(here, run_id="killed", pid=2**22 + 7)
    elsewhere = replace(dead, run_id="container", host="other#1")
    for holder, busy in ((dead, False), (elsewhere, True)):
        with ledger.transaction() as conn:
            conn.exec_driver_sql("DELETE FROM leases")
            lease.take_in(conn, ledger, node, holder, node="n1")
        one = status(ledger, {"n1": node}, here.run_id, seen={"n1": ours("x")}, asker=here)["n1"]
        assert (one["busy"], one["lease"]) == (busy, "container" if busy else ""), holder
    assert not status(ledger, {"n1": node}, "container", asker=here)["n1"]["busy"], "its own"


@pytest.mark.parametrize("name", ["day0_bringup", "day2_recycle", "passports"])
def test_c3_each_run_that_waits_for_its_turn_holds_by_what_it_saw(name: str) -> None:
    plays = yaml.safe_load((PLAYBOOKS / f"{name}.yml").read_text(encoding="utf-8"))
    tasks = [one for play in plays for one in play["tasks"]]
    [block] = [one["block"] for one in tasks if "rescue" in one and "import_role" in str(one)]
    roles = [one for one in block if one.get("ansible.builtin.import_role", {}).get("name", "").endswith(".hold")]
    assert [one["vars"]["hold_status"].endswith("_node }}") for one in roles] == [True]
    [task] = yaml.safe_load((PLAYBOOKS.parent / "roles/hold/tasks/main.yml").read_text(encoding="utf-8"))
    assert task["gpufleet.baremetal.scheduler_node"]["seen_event"] == "{{ hold_status.event | default(omit) }}"
