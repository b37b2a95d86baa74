# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What belongs to somebody else is reported and left alone, by the playbooks and by each verb called directly.

The tests tell one story on one rack, in order. What counts is what reached the BMCs, the provisioner and Slurm.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import counts
import lab
import pytest
from counts import world
from first_day import in_service

ALL = ("-e", '{"day2_recycle_all": true}')
CHECK = ("--check", "--diff")
IRONIC_REASON = "carol: swaps the riser"
OTHER_SITE = "gpufleet:other-site-1:quarantined: Xid 79"


@pytest.fixture(scope="module", autouse=True)
def rack() -> None:
    in_service()


def refused(result: dict[str, Any], kind: str, *words: str) -> None:
    assert result.get("failed"), result
    assert result["error"]["kind"] == kind, result["error"]
    assert not result["changed"], result
    for word in words:
        assert word in result["msg"], result["msg"]


def redeploy(deploy_id: str = "another") -> tuple[str, dict[str, Any]]:
    return "provisioner_node", {"state": "deployed", "image": lab.image("2026.11.1"), "deploy_id": deploy_id}


def published() -> dict[str, Any]:
    """The image with the digest that the rack's web server tells."""
    (sums,) = lab.RACK.rglob("SHA256SUMS")
    lines = [line.split() for line in sums.read_text(encoding="ascii").splitlines()]
    named = {name.lstrip("*"): digest for digest, name in lines}
    return {**lab.image("2026.11.1"), "sha256": named["gpu-golden-2026.11.1.tar.gz"]}


def verified() -> tuple[str, dict[str, Any]]:
    """Without it a deploy is refused for its image, before anything else is asked."""
    return "image_verify", {"mode": "artifact", "image": lab.image("2026.11.1")}


FLEET_VERBS: list[tuple[str, dict[str, Any]]] = [
    ("fleet_status", {}),
    *(
        ("fleet_plan", {"state": state, "reason": "a test", "by": "alice"})
        for state in ("planned", "begun", "paused", "resumed")
    ),
]
#: Gates whose sections sites write: the rack's profiles know no floors of theirs.
BY_THE_SITE: list[tuple[str, dict[str, Any]]] = [
    *((f"{gate}_gate", {"fail_on": "never"}) for gate in ("cpu_memory", "gpu_burn", "network", "soak", "storage")),
    ("training_gate", {"fail_on": "never", "command": ["/bin/false"]}),
]
POWER_VERBS: list[tuple[str, dict[str, Any]]] = [
    *(("redfish_power", {"state": state}) for state in ("off", "force_off", "graceful", "cycle", "reset")),
    ("pxe_boot", {"power": "restart"}),
]


# -- check mode ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("playbook", ["day2_recycle", "drain", "reimage", "revalidate", "readmit"])
def test_check_mode_of_every_playbook_sends_no_write(playbook: str) -> None:
    before = world()
    run = lab.play(playbook, *CHECK, "--limit", "gpu001,gpu004", *ALL)
    assert world() == before
    assert "unexpected" not in run.output, run.tail()
    # Stages refuse a node in service.
    assert run.rc == 0 or playbook in ("reimage", "revalidate"), run.tail()


def delivered(path: Path) -> Path:
    path.write_text("name,serial,bmc_address,mac\ngpu901,SN901,192.0.2.9,02:00:00:00:09:01\n", encoding="utf-8")
    return path


BY_WHAT_IS_REGISTERED: list[tuple[str, dict[str, Any]]] = [
    *(("dcgm_gate", {"level": 3, "detached": True}), ("gate_wait", {"after": "call0"})),
    *(("dcgm_gate", {"collect": "call1"}), ("host_verdict", {"of": {"call0": ""}})),
]


def test_check_mode_of_every_verb_sends_no_write(tmp_path: Path) -> None:
    delivery = delivered(tmp_path / "delivery.csv")
    bmc = lab.verbs("gpu001", [("bmc_info", {})])[0]["identity"]
    before = world()
    calls = [
        *BY_WHAT_IS_REGISTERED,
        *((name, {}) for name in ("bmc_info", "bmc_log")),
        *POWER_VERBS,
        ("redfish_power", {"state": "on"}),
        *(("pxe_boot", {"target": "pxe", "power": power}) for power in ("none", "on")),
        *(("provisioner_node", {"state": state}) for state in ("enrolled", "ready", "released")),
        *(("provisioner_node", {"state": state}) for state in ("maintenance", "serviceable")),
        redeploy(),
        *(("provisioner_wait", {"until": until}) for until in ("ready", "deployed", "released")),
        *(("scheduler_node", {"state": state}) for state in ("held", "resumed", "present")),
        *(("scheduler_wait", {"until": until}) for until in ("drained", "idle")),
        *(("dcgm_gate", {"level": level}) for level in (1, 3)),
        *(("kernel_log_gate", {}), *BY_THE_SITE, ("pair_gate", {"fail_on": "never"})),
        *((f"{gate}_gate", {}) for gate in ("gpu_state", "gpu_bandwidth", "collective")),
        *(("image_verify", {"mode": mode, "image": lab.image("2026.11.1")}) for mode in ("artifact", "node")),
        ("node_passport", {"state": "issued", "image": lab.image("2026.11.1"), "bmc_identity": bmc}),
        ("node_passport", {"state": "verified", "image": lab.image("2026.11.1")}),
        ("ledger_event", {"name": "a note"}),
        ("ledger_event", {"state": "quarantined", "reason": "a test"}),
        *(("node_wait", {}), ("node_identity", {}), ("gate_idle", {"queue": "verify"})),
        ("node_identity", {"state": "replaced", "part": "board", "reason": "a test", "force_reason": "a test"}),
        *FLEET_VERBS,
        *(("node_history", {}), ("ledger_store", {"state": "verified"})),
        ("preflight", {"stop": False}),
        ("fleet_report", {"path": str(tmp_path / "report.html")}),
        *(("provisioner_info", {}), ("topology_info", {}), ("gate_outliers", {"batch": True})),
        ("topology_file", {"reconfigure": False, "topologies": [{"units": {"leaf1": list(lab.NODES)}}]}),
        ("provisioner_image", {"image": published()}),
        *(("hardware_verify", {}), ("gate_profile", {"state": "seen"})),
        *(("node_evidence", {}), ("evidence_bundle", {"folder": str(tmp_path / "evidence")})),
        ("servers_import", {"path": str(delivery), "dest": str(tmp_path / "servers.csv")}),
    ]
    results = lab.verbs("gpu001", calls, *CHECK)
    assert world() == before
    assert list(tmp_path.iterdir()) == [delivery]
    assert {name for name, _args in calls} == {path.stem for path in modules()}
    broken = [(call, result["msg"]) for call, result in zip(calls, results) if result.get("failed")]
    assert not [call for call, said in broken if "no system event log" not in said], broken


def modules() -> list[Path]:
    return sorted((lab.CHECKOUT / "plugins" / "modules").glob("*.py"))


# -- held by somebody else -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def foreign() -> dict[str, Any]:
    """gpu001: drained by alice. gpu002: in maintenance at Ironic. gpu003: quarantined by another controller."""
    hold = ("scontrol", "update", "state=drain")
    boots = counts.network_boots("gpu004")
    lab.slurm(*hold, "nodename=gpu001", "reason=alice: memtest")
    lab.ironic("PUT", "/nodes/gpu002/maintenance", {"reason": IRONIC_REASON})
    lab.slurm(*hold, "nodename=gpu003", f"reason={OTHER_SITE}")
    return {**world("gpu001", "gpu002", "gpu003"), "boots of gpu004": boots}


@pytest.fixture(scope="module")
def recycled(foreign: dict[str, Any]) -> lab.Run:
    return lab.play("day2_recycle", *ALL)


def test_day2_leaves_three_foreign_nodes_and_recycles_the_fourth(foreign: dict[str, Any], recycled: lab.Run) -> None:
    assert recycled.rc == 2, recycled.tail()
    boots = foreign["boots of gpu004"]
    assert {**world("gpu001", "gpu002", "gpu003"), "boots of gpu004": boots} == foreign
    assert counts.network_boots("gpu004") == boots + 1
    assert lab.node_state("gpu004") == {"state": "IDLE", "reason": ""}


def test_day2_says_whose_they_are(recycled: lab.Run) -> None:
    assert "alice: memtest" in recycled.failure("gpu001")
    assert IRONIC_REASON in recycled.failure("gpu002")
    assert "other-site-1" in recycled.failure("gpu003")


def test_foreign_maintenance_stays_as_it_was(recycled: lab.Run) -> None:
    node = lab.ironic("GET", "/nodes/gpu002")
    assert (node["maintenance"], node["maintenance_reason"]) == (True, IRONIC_REASON)
    assert node["provision_state"] == "active"


def test_the_summary_tells_of_the_foreign_nodes(recycled: lab.Run) -> None:
    summary = recycled.output.partition("Day 2: 4 nodes")[2]
    rows = {line.split()[0]: line for line in summary.splitlines() if line.strip().startswith("gpu00")}
    assert set(rows) >= set(lab.NODES), summary
    for node, words in {"gpu001": "alice: memtest", "gpu002": "carol", "gpu003": "other-site-1"}.items():
        part = summary.partition(f"\n  {node} ")[2].partition("\n  gpu00")[0]
        assert words in " ".join(part.split()), summary
        assert "day2_recycle" in part, summary


@pytest.mark.parametrize(
    "node, reason", [("gpu001", "alice: memtest"), ("gpu003", "other-site-1")], ids=["alice", "another-site"]
)
def test_each_verb_leaves_a_foreign_drain_alone(recycled: lab.Run, node: str, reason: str) -> None:
    before = world(node), len(counts.provisioner_writes())
    calls = [
        verified(),
        ("scheduler_node", {"state": "held", "why": "mine now"}),
        ("scheduler_node", {"state": "resumed"}),
        ("scheduler_wait", {"until": "drained", "timeout": 5}),
        *POWER_VERBS,
        redeploy(),
        ("provisioner_node", {"state": "released"}),
        ("dcgm_gate", {"level": 3}),
    ]
    _verified, held, resumed, waited, *rest = lab.verbs(node, calls)
    refused(held, "not_ours", reason)
    refused(resumed, "not_ours", reason)
    assert not waited["verdicts"][node]["ok"] and reason in waited["verdicts"][node]["reason"], waited
    for result in rest[: len(POWER_VERBS)]:
        refused(result, "not_ours", "provisioner")
    for result in rest[len(POWER_VERBS) :]:
        refused(result, "evidence_missing", reason)
    assert (world(node), len(counts.provisioner_writes())) == before


def test_each_verb_leaves_a_foreign_maintenance_alone(recycled: lab.Run) -> None:
    before = world("gpu002"), len(counts.provisioner_writes())
    states = ("enrolled", "ready", "released", "maintenance", "serviceable")
    calls = [redeploy(), *(("provisioner_node", {"state": state}) for state in states)]
    for result in lab.verbs("gpu002", calls):
        refused(result, "not_ours", IRONIC_REASON)
    for result in lab.verbs("gpu002", POWER_VERBS):
        refused(result, "not_ours")
    assert (world("gpu002"), len(counts.provisioner_writes())) == before


def test_maintenance_under_another_controllers_token_is_foreign(recycled: lab.Run) -> None:
    """The form of the token proves nothing: the run in it must be one of ours."""
    lab.ironic("PUT", "/nodes/gpu002/maintenance", {"reason": OTHER_SITE})
    before = world("gpu002"), len(counts.provisioner_writes())
    states = ("released", "maintenance", "serviceable")
    for result in lab.verbs("gpu002", [redeploy(), *(("provisioner_node", {"state": state}) for state in states)]):
        refused(result, "not_ours", "other-site-1")
    for result in lab.verbs("gpu002", POWER_VERBS):
        refused(result, "not_ours")
    assert (world("gpu002"), len(counts.provisioner_writes())) == before


# -- a job runs ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def busy(recycled: lab.Run) -> str:
    """gpu001 with a job; it was held, drained and resumed by us a moment before."""
    lab.slurm("scontrol", "update", "nodename=gpu001", "state=resume")
    lab.ironic("DELETE", "/nodes/gpu002/maintenance")
    lab.slurm("scontrol", "update", "nodename=gpu003", "state=resume")
    held = [("scheduler_node", {"state": "held"}), ("scheduler_wait", {"until": "drained", "timeout": 30})]
    taken, drained, resumed = lab.verbs(
        "gpu001", [*held, ("scheduler_node", {"state": "resumed", "force_reason": "a test"})]
    )
    assert drained["verdicts"]["gpu001"]["ok"], (taken, drained)
    assert not resumed.get("failed"), resumed
    return job_on("gpu001")


def job_on(node: str) -> str:
    wrap = ("--output=/dev/null", "--wrap", "sleep 300")
    number = lab.slurm("sbatch", "--parsable", "-w", node, *wrap).strip()
    lab.wait_for(lambda: lab.node_state(node)["state"] in ("MIXED", "ALLOCATED"), 20, "the job runs")
    return number


HIT_WORK = [*POWER_VERBS, ("dcgm_gate", {"level": 3}), ("dcgm_gate", {"level": 3, "detached": True})]


def none_hits_work(node: str, seen: str) -> None:
    for result in lab.verbs(node, HIT_WORK):
        refused(result, "evidence_missing", seen)


def test_without_its_provisioners_maintenance_power_is_not_ours(busy: str) -> None:
    before = world("gpu001"), len(counts.provisioner_writes())
    calls = [*POWER_VERBS, redeploy(), ("provisioner_node", {"state": "released"}), ("dcgm_gate", {"level": 3})]
    results = lab.verbs("gpu001", [verified(), *calls])[1:]
    for result in results[: len(POWER_VERBS)]:
        refused(result, "not_ours", "ironic")
    for result in results[len(POWER_VERBS) :]:
        refused(result, "evidence_missing", "in_service")
    assert (world("gpu001"), len(counts.provisioner_writes())) == before


def test_a_node_with_a_job_is_never_powered_off(busy: str) -> None:
    """The hold was lifted again, which voids the proof of having been drained, however fresh that is."""
    assert not lab.verbs("gpu001", [("provisioner_node", {"state": "maintenance", "why": "a test"})])[0].get("failed")
    before = world("gpu001")
    none_hits_work("gpu001", "in_service")
    assert world("gpu001") == before


def test_stale_evidence_is_none(busy: str) -> None:
    before = world("gpu001")
    lab.ledger_insert("gpu001", "evidence", "drained", {"reason": "gpufleet:old:held"}, age=61)
    none_hits_work("gpu001", "s old")
    assert world("gpu001") == before


def test_a_held_node_whose_job_still_runs_is_not_drained(busy: str) -> None:
    before = world("gpu001")["bmc"]
    held, waited, off = lab.verbs(
        "gpu001",
        [
            ("scheduler_node", {"state": "held"}),
            ("scheduler_wait", {"until": "drained", "timeout": 2, "interval": 1}),
            ("redfish_power", {"state": "force_off"}),
        ],
    )
    assert held["state"] == "draining", held
    assert not waited["verdicts"]["gpu001"]["ok"] and busy in waited["verdicts"]["gpu001"]["jobs"], waited
    refused(off, "evidence_missing", "not_drained")
    assert world("gpu001")["bmc"] == before
    assert f"JobId={busy} " in lab.slurm("scontrol", "-o", "show", "job", busy)
    assert "JobState=RUNNING" in lab.slurm("scontrol", "-o", "show", "job", busy)


def test_a_force_reason_is_obeyed_and_recorded(busy: str) -> None:
    lab.slurm("scancel", busy)
    why = "the operator stands beside it"
    off, on = lab.verbs(
        "gpu001",
        [
            ("redfish_power", {"state": "force_off", "force_reason": why}),
            ("redfish_power", {"state": "on"}),
        ],
    )
    assert off["changed"] and off["after"] == {"power": "off"}, off
    assert on["changed"] and on["after"] == {"power": "on"}, on
    notes = [json.loads(row[0]) for row in counts.ledger_rows("SELECT data FROM events WHERE name = 'forced'")]
    assert [note["reason"] for note in notes] == [why], notes
    back = [("provisioner_node", {"state": "serviceable"}), ("node_wait", {"timeout": 30})]
    lifted, booted, resumed = lab.verbs(
        "gpu001", [*back, ("scheduler_node", {"state": "resumed", "force_reason": "a test"})]
    )
    assert not any(result.get("failed") for result in (lifted, booted, resumed)), (lifted, booted, resumed)


# -- two runs, and a dead node -------------------------------------------------------------------------------------


Runs = tuple[lab.Run, lab.Run, str, dict[str, int]]


@pytest.fixture(scope="module")
def two_runs(busy: str) -> Runs:
    """The first run waits for a job on gpu002 when a second one comes; gpu003's BMC is dead, and gpu001's sshd."""
    job = job_on("gpu002")
    lab.kill_bmc("gpu003")
    lab.kill_sshd("gpu001")
    boots = {node: counts.network_boots(node) for node in lab.NODES}
    first = lab.started("day2_recycle", *ALL, label="first")
    lab.wait_for(lambda: draining("gpu002"), 300, "the first run waits")
    holder = str(counts.ledger_rows(HOLDER.format("gpu002"))[0][0])
    second = lab.play("day2_recycle", "--limit", "gpu002", *ALL)
    lab.slurm("scancel", job)
    return first.end(), second, holder, boots


HOLDER = "SELECT run_id FROM leases JOIN nodes USING (node_id) WHERE name = '{}'"


def draining(node: str) -> bool:
    rows = counts.ledger_rows(
        f"SELECT events.name FROM events JOIN nodes USING (node_id) WHERE nodes.name = '{node}'"
        " AND kind = 'state' ORDER BY id DESC LIMIT 1"
    )
    return rows == [("draining",)]


def test_the_second_run_stops_and_names_the_first(two_runs: Runs) -> None:
    _first, second, holder, _boots = two_runs
    assert second.rc == 2, second.tail()
    assert holder in second.failure("gpu002"), second.failure("gpu002")


def test_the_first_run_goes_on_to_its_end(two_runs: Runs) -> None:
    first, _second, _holder, boots = two_runs
    assert lab.node_state("gpu002") == {"state": "IDLE", "reason": ""}, first.tail()
    assert counts.network_boots("gpu002") == boots["gpu002"] + 1


def test_a_dead_bmc_does_not_stop_the_batch(two_runs: Runs) -> None:
    first, _second, _holder, boots = two_runs
    assert first.rc == 2
    for node in ("gpu001", "gpu002", "gpu004"):
        assert lab.node_state(node) == {"state": "IDLE", "reason": ""}, first.tail()
    assert counts.network_boots("gpu003") == boots["gpu003"]
    assert "127.77.0.13" in first.failure("gpu003")


def test_a_node_without_ssh_comes_back_with_its_image(two_runs: Runs) -> None:
    _first, _second, _holder, boots = two_runs
    assert counts.network_boots("gpu001") == boots["gpu001"] + 1
