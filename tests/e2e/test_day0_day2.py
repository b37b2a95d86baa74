# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a rack on Ironic: day 0, day 0 again, a fault, day 2, the fault lifted, day 2 again.

The tests of this file tell one story and run in order, on one rack; each reads the world (Slurm, the BMCs' own
records, the ledger's file), not only what a playbook said.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess

import counts
import lab
import pytest
from contract.docs.blocks import BROKEN, ON_THE_RACK, RACK, README, WEEK
from first_day import FirstDay, first_day
from reader import COMMANDS, commands

#: Of all of them, however new they are.
RENEW = json.dumps({"passports_renew": True, "passports_all": True, "passports_all_hours": 0})


@pytest.fixture(scope="module")
def day(undisturbed: FirstDay, tmp_path_factory: pytest.TempPathFactory) -> FirstDay:
    """The rack as that day 0 has left it; a new one where others have had it since."""
    if undisturbed.rack == lab.RACKS.seen:
        return undisturbed
    return first_day(tmp_path_factory.mktemp("first_day"))


@pytest.fixture(scope="module")
def first_run(day: FirstDay) -> lab.Run:
    return day.run


def counters() -> dict[str, object]:
    """Whatever a write would move, at BMC, provisioner, scheduler and ledger, and how the nodes stand."""
    return {**counts.counters(), "nodes": {node: lab.node_state(node) for node in lab.NODES}}


def test_u2_readmes_preflight_finds_nothing_wrong_with_its_files(day: FirstDay) -> None:
    """On a new rack, of which neither Ironic nor the ledger knows anything."""
    assert day.preflight.rc == 0, day.preflight.tail()
    assert "Preflight: 4 nodes" in day.preflight.output, day.preflight.tail()


def test_check_mode_of_day0_on_a_new_rack_sends_no_write(day: FirstDay) -> None:
    before, after = ({**world} for world in day.rehearsed)
    # Slurm itself finds by and by that nobody answers there.
    assert not [one for one in after.pop("slurm").values() if "DRAIN" in one["state"] or "gpufleet" in one["reason"]]
    del before["slurm"]
    assert after == before
    assert "unexpected" not in day.rehearsal.output, day.rehearsal.tail()


def test_q5_check_mode_of_day0_on_a_new_rack_foretells_the_way_that_each_node_went(day: FirstDay) -> None:
    """Nodes that Ironic does not know, of which none has ever run anything."""
    assert day.rehearsal.rc == 0, day.rehearsal.tail()
    assert "a run would bring 4 into service" in " ".join(day.rehearsal.output.split())
    told = dict(re.findall(r"(gpu\d+): discovered \(new to ironic\) -> (.*)", day.rehearsal.output))
    assert all(f"imaging (gpu-golden {lab.DECLARED})" in way for way in told.values()), told
    ways = {node: re.findall(r"(\w+)(?: \(.*?\))?(?: -> |$)", way.strip()) for node, way in told.items()}
    assert ways == day.done["states"], day.rehearsal.tail()


def test_day0_admits_every_node(first_run: lab.Run) -> None:
    assert first_run.rc == 0, first_run.tail()
    for node in lab.NODES:
        assert lab.node_state(node)["state"] == "IDLE", lab.node_state(node)


def test_each_node_booted_once_from_the_network(first_run: lab.Run) -> None:
    assert {node: counts.network_boots(node) for node in lab.NODES} == dict.fromkeys(lab.NODES, 1)


def test_a_job_runs_on_all_four(first_run: lab.Run) -> None:
    assert sorted(lab.slurm("srun", "-N4", "hostname").split()) == list(lab.NODES)


def test_day0_spends_at_most_22_host_tasks_a_node_and_20_more_for_all(first_run: lab.Run) -> None:
    assert set(first_run.tasks["hosts"]) >= set(lab.NODES)
    *others, carrier = sorted(one["tasks"] for one in first_run.tasks["hosts"].values())
    assert max(others) <= 22 and carrier <= 42, first_run.tasks


def test_the_summary_fits_a_terminal_and_names_each_node(first_run: lab.Run) -> None:
    summary = first_run.output.partition("Day 0: 4 nodes")[2].splitlines()[1:5]
    assert [line.split()[0] for line in summary] == list(lab.NODES)
    assert all("admitted" in line and "passport until" in line for line in summary), summary


def test_anybody_can_verify_the_passports_with_openssl_alone(first_run: lab.Run, tmp_path_factory: object) -> None:
    import base64
    from pathlib import Path

    folder = Path(str(lab.CHECKOUT / "build" / "e2e"))
    rows = counts.ledger_rows("SELECT envelope FROM passports")
    assert len(rows) == 4
    for (text,) in rows:
        envelope = json.loads(text)
        payload = base64.b64decode(envelope["payload"])
        kind = envelope["payloadType"].encode()
        signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
        (folder / "signed").write_bytes(signed)
        (folder / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
        key = str(lab.RACK / "keys" / "passport_ed25519.pub.pem")
        verify = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", key, "-rawin"]
        files = ["-in", str(folder / "signed"), "-sigfile", str(folder / "sig")]
        done = subprocess.run([*verify, *files], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_certificate_bundle_in_the_environment_changes_nothing(first_run: lab.Run) -> None:
    """Day 0 ran with two that hold no certificate; here is a verb with one that is not there."""
    assert first_run.rc == 0, first_run.tail()
    found = lab.verbs("gpu001", [("bmc_info", {})], env={"REQUESTS_CA_BUNDLE": "/nonexistent.pem"})
    assert found[0]["identity"]["serial"] == "GFRACK0001"


def test_an_event_log_is_read_where_a_bmc_has_one(first_run: lab.Run) -> None:
    """sushy-tools has none, which is an error and no empty log; ipmi_sim has one."""
    assert first_run.rc == 0, first_run.tail()
    [without], [found] = (lab.verbs(node, [("bmc_log", {})]) for node in ("gpu001", "gpu004"))
    assert without["failed"] and "no system event log" in without["msg"], without
    assert found["log"]["kind"] == "sel" and found["unread"] == [], found


def test_day0_again_changes_nothing_and_takes_a_quarter_of_the_time(first_run: lab.Run) -> None:
    before = counters()
    second = lab.play("day0_bringup")
    assert second.rc == 0, second.tail()
    assert counters() == before
    # None but the one that asks for all has any task, and none of them is told as failed.
    assert [row["changed"] for row in second.recap().values()] == [0], second.tail()
    assert second.seconds <= first_run.seconds / 4, (second.seconds, first_run.seconds)


def test_day2_spends_at_most_4_host_tasks_a_healthy_node(first_run: lab.Run) -> None:
    run = lab.play("day2_recycle")
    assert run.rc == 0, run.tail()
    *others, carrier = sorted(one["tasks"] for one in run.tasks["hosts"].values())
    assert len(others) == 3 and max(others) <= 4 and carrier <= 24, run.tasks


def test_check_mode_sends_no_write(first_run: lab.Run) -> None:
    before = counters()
    assert lab.play("day2_recycle", "--check", "--diff", "-e", '{"day2_recycle_all": true}').rc == 0
    assert counters() == before


def test_u4_readmes_status_and_day2_find_a_healthy_rack_and_touch_nobody(day: FirstDay) -> None:
    *_before, status, day2 = commands(README, COMMANDS)
    before = counters()
    shown, run = day.reader.types(status), day.reader.types(day2)
    assert shown.rc == 0 and "4 admitted" in shown.output, shown.tail()
    assert run.rc == 0, run.tail()
    assert counters() == before


@pytest.mark.parametrize("page", [page for page in ON_THE_RACK if page[0] != README])
def test_what_a_how_to_prints_for_the_first_day_is_what_was_typed(page: tuple[str, int]) -> None:
    """Or is typed below, when a node has broken."""
    typed = [(README, COMMANDS), (RACK, 5), (BROKEN, 1), *((WEEK, number) for number in range(3))]
    assert set(commands(*page)) <= {line for one in typed for line in commands(*one)}


def test_u9_what_the_first_week_prints_goes_well_and_touches_nobody_who_serves(day: FirstDay) -> None:
    before = counters()
    typed = set(commands(README, COMMANDS))
    here = [line for number in range(3) for line in commands(WEEK, number) if line not in typed]
    ended = {line: day.reader.types(line) for line in here}
    assert {line: run.rc for line, run in ended.items()} == dict.fromkeys(here, 0), "".join(map(str, ended.values()))
    [told] = [run.output for line, run in ended.items() if "history" in line]
    assert "gpu001" in told and "admitted" in told, told
    assert counters() == before


@pytest.fixture(scope="module")
def faulty(day: FirstDay) -> lab.Run:
    """Day 2 as the how-to prints it, with an Xid 79 on gpu003 while a job runs there."""
    lab.slurm("sbatch", "--parsable", "-w", "gpu003", "--output=/dev/null", "--wrap", "sleep 12; touch /tmp/finished")
    lab.wait_for(lambda: lab.node_state("gpu003")["state"] in ("MIXED", "ALLOCATED"), 20, "the job runs")
    lab.fault("gpu003", "xid79")
    [day2] = commands(RACK, 5)
    return day.reader.types(day2)


def test_the_faulty_node_alone_is_quarantined(faulty: lab.Run) -> None:
    assert faulty.rc == 2, faulty.tail()
    held = lab.node_state("gpu003")
    assert "DRAIN" in held["state"], held
    assert held["reason"].startswith("gpufleet:") and "quarantined" in held["reason"], held
    assert "79" in held["reason"], held
    for node in ("gpu001", "gpu002", "gpu004"):
        assert lab.node_state(node)["state"] == "IDLE"
        assert counts.network_boots(node) == 1


def test_the_running_job_finished_first(faulty: lab.Run) -> None:
    jobs = lab.slurm("scontrol", "-o", "show", "job")
    job = [line for line in jobs.splitlines() if "BatchHost=gpu003" in line]
    assert job and all("JobState=COMPLETED" in line for line in job), jobs


def test_it_was_reimaged_and_failed_the_gate_all_the_same(faulty: lab.Run) -> None:
    assert counts.network_boots("gpu003") == 2


def test_the_summary_names_reason_remedy_and_the_next_command(faulty: lab.Run) -> None:
    summary = faulty.output.partition("Day 2: 4 nodes")[2]
    assert "3 admitted, 1 quarantined" in summary
    part = summary.partition("gpu003")[2].partition("gpu004")[0]
    assert "Xid 79" in part and "remedy:" in part and "day2_recycle" in part, part


def test_h2_what_needs_a_part_is_left_to_people(faulty: lab.Run) -> None:
    """A person has seen that the GPU must be replaced; until then no run images the node again."""
    asked = {"state": "quarantined", "reason": "GPU 3 is broken", "remedy": "rma"}
    lab.verbs("gpu003", [("ledger_event", asked)])
    before = counters()
    run = lab.play("day2_recycle", "--limit", "gpu003")
    assert run.rc == 2 and "no run is the remedy rma" in run.failure("gpu003"), run.tail()
    assert "-e day2_recycle_all=true" in run.failure("gpu003"), run.tail()
    assert counters() == before


def test_day2_readmits_it_once_the_fault_is_lifted(faulty: lab.Run) -> None:
    lab.fault("gpu003", "none")
    assert lab.play("day2_recycle", "--limit", "gpu003", "-e", "day2_recycle_all=true").rc == 0, "as it was told"
    run = lab.play("day2_recycle")
    assert run.rc == 0, run.tail()
    assert lab.node_state("gpu003") == {"state": "IDLE", "reason": ""}
    assert counts.network_boots("gpu003") == 3
    assert {node: counts.network_boots(node) for node in ("gpu001", "gpu002", "gpu004")} == {
        "gpu001": 1,
        "gpu002": 1,
        "gpu004": 1,
    }


@pytest.fixture(scope="module")
def renewed(faulty: lab.Run) -> lab.Run:
    """The passport of gpu002 is renewed; the first run is killed in the midst of it, and day 2 leaves it alone."""
    options = ("--limit", "gpu002", "-e", RENEW)
    lab.play("passports", *options, kill="end:Prove that the declared image runs")
    assert "DRAIN" in lab.node_state("gpu002")["state"]
    left = lab.play("day2_recycle", "--limit", "gpu002")
    assert left.rc == 2 and "gpufleet.baremetal.passports" in left.failure("gpu002"), left.tail()
    return lab.play("passports", *options)


def test_q6_a_passport_is_renewed_without_imaging(renewed: lab.Run) -> None:
    assert renewed.rc == 0, renewed.tail()
    assert lab.node_state("gpu002") == {"state": "IDLE", "reason": ""}
    assert counts.network_boots("gpu002") == 1
    rows = counts.ledger_rows("SELECT count(*) FROM passports JOIN nodes USING (node_id) WHERE nodes.name = 'gpu002'")
    assert rows == [(2,)]
    of_it = "JOIN nodes USING (node_id) WHERE nodes.name = 'gpu002'"
    begins = f"SELECT max(id) FROM events {of_it} AND kind = 'state' AND events.name = 'validating'"
    [(validating,)] = counts.ledger_rows(begins)
    [(newest,)] = counts.ledger_rows(f"SELECT envelope FROM passports {of_it} ORDER BY issued DESC LIMIT 1")
    gates = json.loads(base64.b64decode(json.loads(newest)["payload"]))["predicate"]["gates"]
    looked = {gate["gate"]: gate["event"] for gate in gates}
    assert min(looked["kernel_log_gate"], looked["dcgm_gate"]) > validating, "each gate has looked again"


def test_q6_a_renewal_leaves_alone_what_is_not_due_and_what_others_drained(renewed: lab.Run) -> None:
    assert lab.play("drain", "--limit", "gpu004").rc == 0
    before = counters()
    run = lab.play("passports", "-e", "passports_renew=true")
    assert run.rc == 0, run.tail()
    assert counters() == before
    assert "DRAIN" in lab.node_state("gpu004")["state"]
    assert lab.play("readmit", "--limit", "gpu004").rc == 0


def test_h2_what_a_person_keeps_no_run_touches_until_it_is_given_back(renewed: lab.Run) -> None:
    why = ("-e", "maintenance=on", "-e", json.dumps({"maintenance_why": "disk swap, ticket 4711"}))
    assert lab.play("maintenance", "--limit", "gpu004", "-e", "maintenance=on").rc != 0, "nobody says why"
    assert "DRAIN" not in lab.node_state("gpu004")["state"]
    kept = lab.play("maintenance", "--limit", "gpu004", *why)
    assert kept.rc == 0 and "maintenance=off" in kept.output, kept.tail()
    reason = lab.node_state("gpu004")["reason"]
    assert "+keep:disk swap, ticket 4711" in reason
    before = counters()
    for playbook, more, good in (
        ("day2_recycle", ("-e", "day2_recycle_all=true"), True),
        ("maintenance", why, True),
        ("reimage", (), False),
        ("readmit", (), False),
    ):
        run = lab.play(playbook, "--limit", "gpu004", *more)
        assert (run.rc == 0) == good, (playbook, run.tail())
        assert counters() == before and lab.node_state("gpu004")["reason"] == reason, playbook
    given = lab.play("maintenance", "--limit", "gpu004", "-e", "maintenance=off", "-e", "maintenance_readmit=true")
    assert given.rc == 0 and "IDLE" in lab.node_state("gpu004")["state"], given.tail()
    again = lab.play("maintenance", "--limit", "gpu004", "-e", "maintenance=off")
    assert again.rc == 0 and "DRAIN" not in lab.node_state("gpu004")["state"], "nobody keeps it: nothing is to be done"


def test_q6_a_renewal_of_all_nodes_renews_none_twice(renewed: lab.Run) -> None:
    before = counters()
    run = lab.play("passports", "--limit", "gpu002", "-e", '{"passports_renew": true, "passports_all": true}')
    assert run.rc == 0, run.tail()
    assert counters() == before


def test_u7_passports_become_files_that_verify_by_themselves(renewed: lab.Run) -> None:
    folder = lab.CHECKOUT / "build" / "e2e" / "passports"
    shutil.rmtree(folder, ignore_errors=True)
    run = lab.play("passports", "-e", f"passports_write_to={folder}")
    assert run.rc == 0, run.tail()
    assert sorted(path.name for path in folder.iterdir()) == [f"{node}.passport.json" for node in lab.NODES]
    key = str(lab.RACK / "keys" / "passport_ed25519.pub.pem")
    told = lab.adhoc("gpu002", "node_passport", {"path": str(folder / "gpu002.passport.json"), "public_keys": [key]})
    assert told["valid"] and not told["machine_checked"]


def test_x3_a_node_that_answers_nobody_in_its_renewal_is_one_for_day_2(renewed: lab.Run, day: FirstDay) -> None:
    """Each further renewal would end at it, and day 2 leaves alone what a renewal goes on with. It is run
    as the how-to on a quarantined node prints it."""
    lab.play("passports", "--limit", "gpu003", "-e", RENEW, kill="end:Prove that the declared image runs")
    assert "DRAIN" in lab.node_state("gpu003")["state"]
    lab.kill_sshd("gpu003", "slurmd")
    lab.wait_for(lambda: re.search(r"\*|NOT_RESPONDING", lab.node_state("gpu003")["state"]), 90, "Slurm misses gpu003")
    run = lab.play("passports", "--limit", "gpu003", "-e", RENEW)
    assert run.rc == 2 and "quarantined: The node does not answer over SSH" in run.output, run.tail()
    assert "DRAIN" in lab.node_state("gpu003")["state"]
    [day2] = commands(BROKEN, 1)
    again = day.reader.types(day2)
    assert again.rc == 0, again.tail()
    assert lab.node_state("gpu003") == {"state": "IDLE", "reason": ""}
