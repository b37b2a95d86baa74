# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines, tools, images and passports that are not what they claim: none is admitted, and the message says why.

The tests tell one story on one rack, in order: the nodes are imaged, break, are validated again fault by fault, and
come back at the end.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import counts
import lab
import pytest
from first_day import in_service
from reset_button import boot_id, reset

OLD, NEW = lab.DECLARED, "2026.11.2"
NEW_IMAGE = ("-e", json.dumps({"gpufleet_image": lab.image(NEW)}))
IMAGES = lab.RACK / "ironic" / "http" / "images"


@pytest.fixture(scope="module", autouse=True)
def rack() -> None:
    in_service()


def state(node: str) -> tuple[str, str]:
    """Lifecycle state in the ledger, and the reason given."""
    rows = counts.ledger_rows(
        "SELECT events.name, data FROM events JOIN nodes USING (node_id)"
        f" WHERE nodes.name = '{node}' AND kind = 'state' ORDER BY id DESC LIMIT 1"
    )
    return str(rows[0][0]), str(json.loads(rows[0][1]).get("reason") or "")


def not_admitted(node: str) -> str:
    """The reason for which the node is quarantined, after a look at ledger and scheduler."""
    found, reason = state(node)
    assert found == "quarantined", (node, found, reason)
    held = lab.node_state(node)
    assert "DRAIN" in held["state"] and held["reason"].startswith("gpufleet:"), held
    return reason


def of_all(run: lab.Run, host: str, task: str) -> dict[str, Any]:
    """What a task that served all hosts says of this one last: its result, as of a task of its own."""
    told = [line["result"].get("verdicts", {}) for line in run.results if line["task"] == task]
    found = [verdicts[host] for verdicts in told if host in verdicts]
    assert found, f"{task!r} has served {host} never\n{run.tail()}"
    result: dict[str, Any] = found[-1].get("result", found[-1])
    return result


# -- the provisioner says active, and that proves nothing ----------------------------------------------------------


@pytest.fixture(scope="module")
def broken() -> lab.Run:
    """Day 2 to another image over four nodes, each broken in another way."""
    lab.fault("gpu001", "ignore_netboot")
    lab.fault("gpu002", "boots_old_image")
    lab.fault("gpu003", "gpu_missing")
    lab.fault("gpu004", "dcgm_missing")
    return lab.play("day2_recycle", *NEW_IMAGE)


def test_the_provisioner_says_active_of_all(broken: lab.Run) -> None:
    assert broken.rc == 2, broken.tail()
    for node in lab.NODES:
        assert of_all(broken, node, "Start the deploy")
        assert lab.ironic("GET", f"/nodes/{node}")["provision_state"] == "active"


@pytest.mark.parametrize("node, words", [("gpu001", OLD), ("gpu002", OLD)], ids=["ignores-netboot", "keeps-old-image"])
def test_a_node_that_runs_another_image_is_refused(broken: lab.Run, node: str, words: str) -> None:
    verdict = broken.of(node, "Prove that the declared image runs")
    assert verdict["verdict"] == "fail" and verdict["failed"], verdict
    reason = not_admitted(node)
    assert words in reason and NEW in reason, reason


def test_seven_of_eight_gpus_are_refused(broken: lab.Run) -> None:
    assert "7 of 8 GPUs" in not_admitted("gpu003")


def test_a_missing_dcgmi_is_refused(broken: lab.Run) -> None:
    assert "dcgmi" in not_admitted("gpu004")


def test_the_kernel_logs_own_path_was_read(broken: lab.Run) -> None:
    for node in ("gpu003", "gpu004"):
        verdict = broken.of(node, "Read the kernel log since the node was imaged")
        assert verdict["tool"]["name"] and "kmsg" in json.dumps(verdict["argv"]), verdict


# -- gates, fault by fault, on nodes that are held -----------------------------------------------------------------

# Of those whose own deployment is proven: on the others no gate is asked.
ROUNDS = {
    "first": ({"gpu003": "dcgm_killed", "gpu004": "dcgm_noise"}, NEW_IMAGE),
    "second": ({"gpu003": "dcgm_all_skip", "gpu004": "dcgm_hang"}, NEW_IMAGE),
    "third": ({"gpu003": "dcgm_exit0_failing"}, NEW_IMAGE),
}
WORDS = {
    "dcgm_killed": "signal",
    "dcgm_noise": "no diagnosis",
    "dcgm_all_skip": "kip",
    "dcgm_exit0_failing": "GPU",
    "dcgm_hang": "still running after",
}
Validated = tuple[dict[str, str], lab.Run]


@pytest.fixture(scope="module", params=list(ROUNDS))
def validated(request: pytest.FixtureRequest, broken: lab.Run) -> Validated:
    faults, image = ROUNDS[request.param]
    for node, name in faults.items():
        lab.fault(node, "none")
        lab.fault(node, name)
    limits = ("--limit", ",".join(faults), "-e", '{"gate_dcgm_timeout": 4}')
    return faults, lab.play("revalidate", *limits, *image)


def test_a_broken_diagnosis_never_admits(validated: Validated) -> None:
    faults, run = validated
    assert run.rc == 2, run.tail()
    for node, name in faults.items():
        verdict = run.refusal(node)
        assert verdict["verdict"] in ("fail", "inconclusive"), verdict
        assert verdict["gate"] == "dcgm_gate", verdict
        assert WORDS[name] in not_admitted(node), (name, not_admitted(node))


def test_a_hanging_diagnosis_ends_at_the_gates_deadline(validated: Validated) -> None:
    faults, run = validated
    assert run.seconds < 60 * lab.slowness(), (faults, run.seconds)


def test_none_of_them_can_be_readmitted(broken: lab.Run) -> None:
    """No round has left a passport behind that would do."""
    run = lab.play("readmit")
    assert run.rc == 2, run.tail()
    for node in lab.NODES:
        assert "passport" in run.failure(node), run.failure(node)
        assert "DRAIN" in lab.node_state(node)["state"]


# -- gates called directly -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mended(broken: lab.Run) -> None:
    for node in lab.NODES:
        lab.fault(node, "none")


def test_an_unknown_sku_never_passes(mended: None) -> None:
    calls = [("dcgm_gate", {"sku": "h100-sxm-9000"}), ("kernel_log_gate", {"sku": "h100-sxm-9000"})]
    for result in lab.verbs("gpu004", calls):
        assert result["failed"] and result["verdict"] == "inconclusive", result
        assert "h100-sxm-9000" in result["msg"]


def test_an_unreadable_or_rotated_log_is_inconclusive(mended: None) -> None:
    log = lab.kernel_log("gpu002")
    kept = log.read_bytes()
    missing = lab.verbs("gpu002", [("kernel_log_gate", {"source": "file", "path": "/var/log/nothing"})])[0]
    assert missing["failed"] and missing["verdict"] == "inconclusive", missing
    try:
        lines = kept.splitlines(keepends=True)
        lab.overwrite(log, b"".join(lines[len(lines) // 2 :]))
        rotated = lab.verbs("gpu002", [("kernel_log_gate", {"since": "boot"})])[0]
    finally:
        lab.overwrite(log, kept)
    assert rotated["failed"] and rotated["verdict"] == "inconclusive", rotated


def test_a_fatal_nvswitch_error_fails_the_gate(mended: None) -> None:
    lab.fault("gpu001", "sxid")
    written = lab.kernel_log("gpu001").read_text(encoding="utf-8")
    found = lab.verbs("gpu001", [("kernel_log_gate", {})])[0]
    lab.fault("gpu001", "none")
    told = (found.get("window"), written[-300:], found.get("msg"))
    assert found["verdict"] == "fail" and "SXid 20034" in found["msg"], told


def test_an_xid_after_the_gates_start_is_found_on_the_default_path(mended: None) -> None:
    clean = lab.verbs("gpu002", [("kernel_log_gate", {})])[0]
    assert clean["verdict"] == "pass", clean
    lab.fault("gpu002", "xid79")
    found = lab.verbs("gpu002", [("kernel_log_gate", {})])[0]
    lab.fault("gpu002", "none")
    assert found["verdict"] == "fail" and "Xid 79" in found["msg"], found


# -- a BMC that lies -----------------------------------------------------------------------------------------------


def test_a_bmc_that_answers_204_and_stays_off_fails(mended: None) -> None:
    drained = ("scheduler_wait", {"until": "drained", "timeout": 10})
    held, _drained, off = lab.verbs(
        "gpu002",
        [
            ("provisioner_node", {"state": "maintenance", "why": "a test"}),
            drained,
            ("redfish_power", {"state": "force_off"}),
        ],
    )
    assert not held.get("failed") and off["after"] == {"power": "off"}, (held, off)
    lab.fault("gpu002", "bmc_lies_power")
    lied = lab.verbs("gpu002", [("redfish_power", {"state": "on", "timeout": 6})])[0]
    lab.fault("gpu002", "none")
    assert lied["failed"] and lied["error"]["kind"] == "deadline", lied
    assert "stayed off" in lied["msg"], lied["msg"]
    assert counts.bmc_writes("gpu002")[-1]["status"] in (200, 202, 204)
    on, lifted = lab.verbs(
        "gpu002", [("redfish_power", {"state": "on"}), ("provisioner_node", {"state": "serviceable"})]
    )
    assert on["changed"] and not lifted.get("failed"), (on, lifted)


# -- images --------------------------------------------------------------------------------------------------------


def refused(image: dict[str, Any], *words: str) -> None:
    """The verb refuses the image, and so the playbook deploys nothing."""
    result = lab.verbs("gpu001", [("image_verify", {"mode": "artifact", "image": image})])[0]
    assert result["failed"] and result["verdict"] != "pass", result
    for word in words:
        assert word in result["msg"], result["msg"]


def test_other_bytes_behind_the_same_url_are_refused(mended: None) -> None:
    artifact = IMAGES / f"gpu-golden-{NEW}.tar.gz"
    kept = artifact.with_suffix(".kept")
    shutil.copy2(artifact, kept)
    boots = counts.network_boots("gpu001")  # others boot still, of what tests before this one did
    try:
        content = bytearray(artifact.read_bytes())
        content[len(content) // 2] ^= 1
        lab.overwrite(artifact, bytes(content))
        refused(lab.image(NEW), artifact.name, "sha256")
        run = lab.play("reimage", "--limit", "gpu001", *NEW_IMAGE)
    finally:
        lab.overwrite(artifact, kept.read_bytes())
        kept.unlink()
    assert run.rc == 2 and artifact.name in run.failure("gpu001"), run.tail()
    assert counts.network_boots("gpu001") == boots


def test_another_digest_than_the_declared_one_is_refused(mended: None) -> None:
    refused({**lab.image(NEW), "sha256": "0" * 64}, "declares another sha256")


def test_a_wrong_signer_is_refused(mended: None) -> None:
    image = lab.image(NEW)
    refused({**image, "signature_url": image["checksums_url"] + ".wrong_signer.asc"}, "sign")


# -- passports -----------------------------------------------------------------------------------------------------


def stored(node: str) -> dict[str, Any]:
    rows = counts.ledger_rows(
        f"SELECT envelope FROM passports JOIN nodes USING (node_id) WHERE name = '{node}' ORDER BY id DESC LIMIT 1"
    )
    envelope: dict[str, Any] = json.loads(rows[0][0])
    return envelope


def hand_in(node: str, envelope: dict[str, Any]) -> None:
    """Put a passport where join will look for this node's."""
    text = json.dumps(envelope)
    digest = "sha256:" + hashlib.sha256(base64.b64decode(envelope["payload"])).hexdigest()
    with sqlite3.connect(lab.RACK / "ledger.sqlite") as connection:
        connection.execute(
            "INSERT INTO passports (node_id, run_id, issued, expires, digest, envelope)"
            " SELECT node_id, 'test', ?, ?, ?, ? FROM nodes WHERE name = ?",
            (time.time(), time.time() + 9999, digest, text, node),
        )


PAIR = "gpu003,gpu004"
SHORT = {"passport_lifetime": "{{ (inventory_hostname == 'gpu003') | ternary(3, 7776000) }}"}


@pytest.fixture(scope="module")
def revalidated(mended: None) -> lab.Run:
    """gpu003 and gpu004 pass again; gpu003's passport soon expires."""
    run = lab.play("revalidate", "--limit", PAIR, *NEW_IMAGE, "-e", json.dumps(SHORT))
    assert run.rc == 0, run.tail()
    return run


def readmit_refused(node: str, *words: str, more: tuple[str, ...] = (), image: tuple[str, ...] = NEW_IMAGE) -> None:
    run = lab.play("readmit", "--limit", node, *image, *more)
    assert run.rc == 2, run.tail()
    for word in words:
        assert re.search(word, run.failure(node)), run.failure(node)
    assert "DRAIN" in lab.node_state(node)["state"]


def test_an_expired_passport_is_refused(revalidated: lab.Run) -> None:
    [(expires,)] = counts.ledger_rows("SELECT max(expires) FROM passports WHERE expires - issued < 60")
    lab.wait_for(lambda: time.time() > expires, 10, "the passport has expired")
    readmit_refused("gpu003", "expired")


def test_a_passport_of_another_node_is_refused(revalidated: lab.Run) -> None:
    hand_in("gpu003", stored("gpu004"))
    readmit_refused("gpu003", "another (machine|node)|GFRACK0004")


def test_an_unknown_key_is_refused(revalidated: lab.Run, tmp_path: Path) -> None:
    key, public = tmp_path / "key.pem", tmp_path / "public.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(key)], check=True)
    subprocess.run(["openssl", "pkey", "-in", str(key), "-pubout", "-out", str(public)], check=True)
    readmit_refused("gpu004", "key", more=("-e", json.dumps({"gpufleet_passport_public_keys": [str(public)]})))


def test_a_changed_passport_is_refused(revalidated: lab.Run) -> None:
    own = stored("gpu004")
    payload = base64.b64decode(own["payload"]).replace(b"2026", b"2027")
    hand_in("gpu004", {**own, "payload": base64.b64encode(payload).decode()})
    readmit_refused("gpu004", "signature")
    hand_in("gpu004", own)


def test_its_own_passport_admits_it(revalidated: lab.Run) -> None:
    run = lab.play("readmit", "--limit", "gpu004", *NEW_IMAGE)
    assert run.rc == 0, run.tail()
    assert lab.node_state("gpu004") == {"state": "IDLE", "reason": ""}
    assert state("gpu004")[0] == "admitted"


def test_an_image_that_drifted_is_found_and_replaced(revalidated: lab.Run) -> None:
    """gpu004 serves with another image than the inventory declares; so do others, which are out of the limit."""
    boots = {node: counts.network_boots(node) for node in lab.NODES}
    faults = lab.play("day2_recycle", "--limit", "gpu004", "-e", "day2_recycle_drift=false")
    assert faults.rc == 0 and counts.network_boots("gpu004") == boots["gpu004"], f"left to a roll-out: {faults.tail()}"
    run = lab.play("day2_recycle", "--limit", "gpu004")
    assert run.rc == 0, run.tail()
    assert lab.node_state("gpu004") == {"state": "IDLE", "reason": ""}
    assert {node: counts.network_boots(node) for node in lab.NODES} == {**boots, "gpu004": boots["gpu004"] + 1}


def test_c1_a_node_that_ignores_its_network_boot_is_not_admitted_on_the_image_that_it_had() -> None:
    """Name, version, manifest and a newer boot are as wanted: what it lacks is this deployment. The next run deploys
    anew, and does not wait for what went past it."""
    boots = counts.network_boots("gpu004")
    lab.fault("gpu004", "ignore_netboot")
    run = lab.play("day2_recycle", "--limit", "gpu004", "-e", '{"day2_recycle_all": true}')
    lab.fault("gpu004", "none")
    assert run.rc == 2, run.tail()
    verdict = run.of("gpu004", "Prove that the declared image runs")
    assert (verdict["verdict"], verdict["kind"]) == ("inconclusive", "unproven"), verdict
    assert [check["id"] for check in verdict["checks"] if check["verdict"] != "pass"] == ["deployment"]
    assert state("gpu004")[0] == "imaging" and "DRAIN" in lab.node_state("gpu004")["state"]
    assert counts.network_boots("gpu004") == boots
    again = lab.play("day2_recycle", "--limit", "gpu004")
    assert again.rc == 0, again.tail()
    assert lab.node_state("gpu004") == {"state": "IDLE", "reason": ""}
    assert counts.network_boots("gpu004") == boots + 1
    seen = json.loads(base64.b64decode(stored("gpu004")["payload"]))["predicate"]["deployment"]
    # Ironic keeps the boot entry over a rebuild: what boots by it is stateless, and was not booted so before.
    assert seen["proof"] == "network boot", seen
    assert seen["id"] == of_all(again, "gpu004", "Record that imaging begins")["deploy_id"]
    assert seen["id"] != of_all(run, "gpu004", "Record that imaging begins")["deploy_id"]


RENEW = ("--limit", "gpu004", "-e", '{"passports_renew": true, "passports_all": true, "passports_all_hours": 0}')


def test_c6_what_became_of_a_node_since_its_gates_is_seen_before_it_is_given_work() -> None:
    """Its passport is issued, and it is still held: a GPU is lost, the kernel tells of one, and it is booted anew."""
    killed = lab.play("passports", *RENEW, kill="end:Issue the passport")
    assert killed.rc == -9, killed.tail()
    lab.wait_for(lambda: not lab.orphans(), 60, "the orphans have noticed")
    lab.fault("gpu004", "gpu_missing")
    readmit_refused("gpu004", "GPUs: only the passport has", image=())
    lab.fault("gpu004", "none")
    reset("gpu004")
    readmit_refused("gpu004", "boot: its gates looked at the boot", image=())
    on = lab.play("passports", *RENEW)
    assert on.rc == 0, on.tail()
    assert lab.node_state("gpu004") == {"state": "IDLE", "reason": ""}
    assert json.loads(base64.b64decode(stored("gpu004")["payload"]))["predicate"]["boot_id"] == boot_id("gpu004")
