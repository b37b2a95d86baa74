# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that are not what the list says, dead ones, and one whose clock is off, in a batch with healthy ones.

The tests tell one story on one rack, in order. It ends with network boots that the collection itself orders of a BMC,
past the provisioner, and with a job in a partition that Slurm hides.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import counts
import lab
import listed
import pytest

OTHER = "GFRACK9999"
SKU = "h100-sxm-9000"
BOOTED = ("gpu002", "gpu004")  # one Redfish BMC, one IPMI BMC


@pytest.fixture(scope="module", autouse=True)
def rack() -> None:
    lab.new_rack()


def summary_of(run: lab.Run, node: str) -> str:
    """What the closing report says of a node, on one line."""
    part = run.output.partition(": 4 nodes")[2] or run.output.partition("nodes")[2]
    text = part.partition(f"\n  {node} ")[2].partition("\n  gpu00")[0].partition("\nTASK")[0]
    return " ".join(text.split())


def not_admitted(node: str) -> None:
    states = counts.events_of("state")[node]
    assert not states or states[-1] != "admitted", states
    assert lab.node_state(node)["state"] != "IDLE"


# -- day 0 over a batch that is not what the list says -------------------------------------------------------------


@pytest.fixture(scope="module")
def batch() -> lab.Run:
    """gpu001 and gpu004 tell another serial, by Redfish and IPMI; gpu003's BMC is dead; gpu002 is as it should be."""
    lab.fault("gpu001", "bmc_other_serial", f"serial={OTHER}")
    lab.fault("gpu004", "bmc_other_serial", f"serial={OTHER}")
    lab.kill_bmc("gpu003")
    return lab.play("day0_bringup")


@pytest.mark.parametrize("node, own", [("gpu001", "GFRACK0001"), ("gpu004", "GFRACK0004")], ids=["redfish", "ipmi"])
def test_t1_another_machines_serial_is_refused_before_any_write(batch: lab.Run, node: str, own: str) -> None:
    assert batch.rc == 2, batch.tail()
    assert OTHER in batch.failure(node) and own in batch.failure(node), batch.failure(node)
    told = counts.counters()
    assert not told["bmc"][node] and not told["slurm"][node] and not told["states"][node], told
    assert not [line for line in told["provisioner"] if node in line], told["provisioner"]
    assert node not in [known["name"] for known in lab.ironic("GET", "/nodes")["nodes"]]


def test_t2_a_dead_node_is_reported_and_stops_nobody(batch: lab.Run) -> None:
    assert "127.77.0.13" in batch.failure("gpu003"), batch.failure("gpu003")
    assert "127.77.0.13" in summary_of(batch, "gpu003"), batch.tail()
    assert lab.node_state("gpu002") == {"state": "IDLE", "reason": ""}
    assert counts.events_of("state")["gpu002"][-1] == "admitted"
    assert "admitted" in summary_of(batch, "gpu002"), batch.tail()
    for node in ("gpu001", "gpu003", "gpu004"):
        not_admitted(node)


@pytest.fixture(scope="module")
def mended(batch: lab.Run) -> lab.Run:
    """The serials are right and the BMC answers; now gpu003 takes its image and never comes up, and gpu004 fails to
    come up once, as while a boot server is away."""
    lab.fault("gpu001", "none")
    lab.fault("gpu004", "none")
    lab.revive_bmc("gpu003")
    for node in ("gpu003", "gpu004"):
        lab.fault(node, "ignore_netboot")
    lifts = threading.Thread(target=lifted_when_it_hangs, args=("gpu004",))
    lifts.start()
    run = lab.play("day0_bringup", "-e", '{"deploy_boot_timeout": 15}')
    lifts.join()
    return run


def lifted_when_it_hangs(node: str) -> None:
    console = lab.RACK / "nodes" / node / "console.log"
    lab.wait_for(lambda: console.exists() and "no bootable device" in console.read_text(encoding="utf-8"), 300, node)
    lab.fault(node, "none")


def test_t2_a_node_that_never_comes_up_is_quarantined_and_the_others_are_admitted(mended: lab.Run) -> None:
    assert mended.rc == 2, mended.tail()
    for node in ("gpu001", "gpu002", "gpu004"):
        assert lab.node_state(node) == {"state": "IDLE", "reason": ""}, mended.tail()
    assert counts.network_boots("gpu004") == 1, "its second deployment is the one that came up"
    assert counts.events_of("state")["gpu003"][-1] == "quarantined"
    held = lab.node_state("gpu003")
    assert "DRAIN" in held["state"] and "does not answer" in held["reason"], held
    assert "does not answer" in summary_of(mended, "gpu003"), mended.tail()
    assert counts.slurm_writes("gpu002") == ["DRAINED", "IDLE"], "the node that was in service was touched"


# -- a clock, and an unknown kind of machine -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def late(mended: lab.Run) -> lab.Run:
    """Day 2: gpu003 is mended, gpu001's clock is an hour off."""
    lab.fault("gpu003", "none")
    lab.fault("gpu001", "clock_off", "seconds=3600")
    return lab.play("day2_recycle")


def test_a_clock_that_is_off_is_found_and_refused(late: lab.Run) -> None:
    assert late.rc == 2, late.tail()
    for task in ("Compare the running image with the declared one", "Prove that the declared image runs"):
        verdict = late.of("gpu001", task)
        assert verdict["verdict"] == "fail", verdict
        [check] = [check for check in verdict["checks"] if check["id"] == "clock"]
        assert check["verdict"] == "fail" and 3500 < check["measured"][0] < 3700, check
    not_admitted("gpu001")
    assert "clock" in lab.node_state("gpu001")["reason"]
    assert lab.node_state("gpu003") == {"state": "IDLE", "reason": ""}


def test_t2_an_unknown_sku_is_inconclusive_and_admits_nobody(late: lab.Run) -> None:
    lab.fault("gpu001", "none")
    passports = counts.counters()["passports"]["gpu001"]
    run = lab.play("revalidate", "--limit", "gpu001", "-e", json.dumps({"gpufleet_sku": SKU}))
    assert run.rc == 2, run.tail()
    refusal = run.refusal("gpu001")
    assert refusal["verdict"] == "inconclusive" and SKU in refusal["msg"], refusal
    not_admitted("gpu001")
    assert "clock" in lab.node_state("gpu001")["reason"], (
        "what a setting keeps from being asked quarantines nobody anew"
    )
    assert counts.counters()["passports"]["gpu001"] == passports
    refused = lab.play("readmit", "--limit", "gpu001")
    assert refused.rc == 2 and "passport" in refused.failure("gpu001"), refused.tail()


# -- a network boot that we order ourselves ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ours(mended: lab.Run) -> None:
    """gpu002 and gpu004 are ours alone: drained, and in maintenance under our token."""
    calls = [
        ("provisioner_node", {"state": "maintenance", "why": "a network boot"}),
        ("scheduler_node", {"state": "held", "why": "a network boot"}),
        ("scheduler_wait", {"until": "drained", "timeout": 60}),
    ]
    for node, results in lab.verbs_on(BOOTED, calls).items():
        assert not any(result.get("failed") for result in results), results
        assert results[-1]["verdicts"][node]["ok"], results


RESTART: dict[str, Any] = {"power": "restart", "prove": "boot", "timeout": 120}
DRAINED = ("scheduler_wait", {"until": "drained", "timeout": 60})


def network_boot(hosts: tuple[str, ...], options: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {node: results[1] for node, results in lab.verbs_on(hosts, [DRAINED, ("pxe_boot", options)]).items()}


def test_t1_a_network_boot_is_ordered_of_the_bmc_and_proven_by_the_node(ours: None) -> None:
    before = {node: (counts.network_boots(node), len(counts.bmc_writes(node))) for node in BOOTED}
    for node, result in network_boot(BOOTED, RESTART).items():
        assert not result.get("failed"), result
        assert (result["proof"], result["verdict"], result["changed"]) == ("boot", "pass", True), result
        boots, writes = before[node]
        assert counts.network_boots(node) == boots + 1
        written = counts.bmc_writes(node)[writes:]
        assert written, "the BMC was sent nothing"
    orders = [json.loads(line["body"]) for line in counts.bmc_writes("gpu002")[before["gpu002"][1] :]]
    assert {"BootSourceOverrideTarget", "BootSourceOverrideEnabled"} <= set(orders[1].get("Boot", {})), orders
    assert [order.get("ResetType") for order in (orders[0], orders[-1])] == ["ForceOff", "On"], orders
    paths = [line["path"] for line in counts.bmc_writes("gpu004")[before["gpu004"][1] :]]
    assert set(paths) == {"chassis/boot", "chassis/power"}, paths


def test_t1_a_boot_from_the_disk_or_over_another_port_proves_nothing(ours: None) -> None:
    lab.fault("gpu002", "boots_other_port")
    lab.fault("gpu004", "ignore_netboot")
    found = network_boot(BOOTED, RESTART)
    for node in BOOTED:
        lab.fault(node, "none")
        assert found[node]["failed"] and found[node]["error"]["kind"] == "not_proven", found[node]
        assert "did not boot from the network" in found[node]["msg"], found[node]["msg"]
    assert "52-54-00-fe-ed-01" in found["gpu002"]["msg"] and "52:54:00:77:00:02" in found["gpu002"]["msg"]
    assert "no BOOTIF" in found["gpu004"]["msg"], found["gpu004"]["msg"]


def test_t1_what_the_bmc_shows_is_enough_where_nothing_else_is_asked(ours: None) -> None:
    result = network_boot(("gpu002",), {"power": "none", "prove": "readback"})["gpu002"]
    assert (result["proof"], result["after"]["boot"]["target"]) == ("readback", "pxe"), result
    boots = counts.network_boots("gpu002")
    result = network_boot(("gpu002",), {**RESTART, "prove": "auto"})["gpu002"]
    assert result["proof"] == "readback" and result["verdict"] == "pass", result
    lab.wait_for(lambda: counts.network_boots("gpu002") == boots + 1, 60, "gpu002 has booted from the network")


def test_t1_given_back_they_serve_again(ours: None) -> None:
    calls = [
        ("provisioner_node", {"state": "serviceable"}),
        ("node_wait", {"timeout": 60}),
        ("scheduler_node", {"state": "resumed", "force_reason": "a test"}),
    ]
    for node, results in lab.verbs_on(BOOTED, calls).items():
        assert not any(result.get("failed") for result in results), results
        lab.wait_for(lambda node=node: lab.node_state(node) == {"state": "IDLE", "reason": ""}, 60, f"{node} is idle")


# -- a job where nobody looks --------------------------------------------------------------------------------------


AS_NOBODY = """#!/bin/sh
# Whoever asks is nobody; whoever writes is root, as with a rule of sudo for "scontrol update" alone.
case "$(basename "$0") $*" in
  *" update "*) exec /usr/bin/scontrol "$@" ;;
  *) exec setpriv --reuid=65534 --regid=65534 --clear-groups "/usr/bin/$(basename "$0")" "$@" ;;
esac
"""


@pytest.fixture
def without_rights(tmp_path: Path) -> dict[str, str]:
    """Slurm's commands for a user to whom Slurm does not show everything: from root and SlurmUser it hides nothing."""
    for name in ("scontrol", "squeue"):
        command = tmp_path / name
        command.write_text(AS_NOBODY, encoding="utf-8")
        command.chmod(0o755)
    return {"PATH": f"{tmp_path}:{listed.path()}"}


def shown(env: dict[str, str], *options: str) -> str:
    argv = [shutil.which("squeue", path=env["PATH"]) or "", *options, "-h", "-o", "%i|%T"]
    settings = {**env, "SLURM_CONF": str(lab.RACK / "slurm" / "slurm.conf")}
    return subprocess.run(argv, env=settings, capture_output=True, text=True, check=True).stdout


def test_t1_a_job_in_a_hidden_partition_keeps_the_node(mended: lab.Run, without_rights: dict[str, str]) -> None:
    """squeue shows it to those alone who ask for all; it is suspended, so the node's own state tells nothing of it."""
    lab.slurm("scontrol", "create", "PartitionName=hidden", "Nodes=gpu002", "Hidden=YES", "State=UP", "MaxTime=1:00:00")
    wrap = ("--output=/dev/null", "--wrap", "exec sleep 300")
    job = lab.slurm("sbatch", "--parsable", "-p", "hidden", "-w", "gpu002", *wrap).strip()
    back = [
        ("provisioner_node", {"state": "serviceable"}),
        ("scheduler_node", {"state": "resumed", "force_reason": "a test"}),
    ]
    try:
        lab.wait_for(lambda: lab.node_state("gpu002")["state"] in ("MIXED", "ALLOCATED"), 30, "the job runs")
        lab.slurm("scontrol", "suspend", job)
        lab.wait_for(lambda: lab.node_state("gpu002")["state"] == "IDLE", 30, "the job is suspended")
        assert shown(without_rights) == "" and shown(without_rights, "--all") == f"{job}|SUSPENDED\n"
        writes = len(counts.bmc_writes("gpu002"))
        _ours, held, waited, off = lab.verbs(
            "gpu002",
            [
                ("provisioner_node", {"state": "maintenance", "why": "a test"}),
                ("scheduler_node", {"state": "held"}),
                ("scheduler_wait", {"until": "drained", "timeout": 2, "interval": 1}),
                ("redfish_power", {"state": "force_off"}),
            ],
            env=without_rights,
        )
        assert held["state"] == "draining" and job in held["jobs"], held
        verdict = waited["verdicts"]["gpu002"]
        assert not verdict["ok"] and job in verdict["jobs"], verdict
        assert off["failed"] and off["error"]["kind"] == "evidence_missing", off
        assert len(counts.bmc_writes("gpu002")) == writes, off
    finally:
        lab.slurm("scancel", job)
        lab.wait_for(lambda: job not in lab.slurm("squeue", "--all", "-h", "-o", "%i").split(), 30, "the job has ended")
        lab.slurm("scontrol", "delete", "PartitionName=hidden")
    assert not any(result.get("failed") for result in lab.verbs("gpu002", back))
