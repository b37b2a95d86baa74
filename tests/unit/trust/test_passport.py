# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Passports are issued on evidence alone, and refused for every single thing that is missing, by name."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, TrustError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import quarantines
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse
from passports import (
    BMC,
    DAY,
    KEY,
    MACHINE,
    POLICY,
    SCHEMAS,
    STRANGER,
    UUID,
    check,
    evidence,
    issue,
    reasons,
    run,
    settings,
    stored,
    verdict,
)

# -- issue -------------------------------------------------------------------------------------------------------------


def test_issued_and_verified(key: str) -> None:
    result = issue(key, image={"name": "hpc", "version": "1.4", "sha256": "a" * 64})
    assert result["changed"] and result["valid"] and result["asked"] == ["issue a passport"]
    [event] = result["events"]
    assert (event["kind"], event["name"]) == ("passport", "issued")
    assert event["data"]["digest"] == result["passport"]["digest"]
    checked = run(evidence=evidence(stored=stored(result)))
    assert checked["valid"] and not checked["changed"] and checked["machine_checked"]
    assert checked["passport"]["gates"]["dcgm_gate"] == "pass"
    assert checked["passport"]["subject"][0] == "chassis-serial:GF0001"


def test_it_is_what_its_schema_says(key: str) -> None:
    result = issue(key, firmware=[{"name": "BIOS", "version": "1"}], attestation={"tpm": "pass"})
    statement, _key = dsse.verify(result["envelope"], {dsse.keyid(KEY.public_key()): KEY.public_key()})
    schema = json.loads((SCHEMAS / "passport-v1.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(statement)
    assert statement["predicate"]["issuer"] == {"run": "run-1", "controller": "ctl"}
    gate = {gate["gate"]: gate for gate in statement["predicate"]["gates"]}["dcgm_gate"]
    assert gate["profile"]["digest"] == "sha256:p" and gate["checks"] and gate["event"] == 14


def test_twice_with_nothing_new_keeps_it(key: str) -> None:
    first = issue(key)
    again = issue(key, evidence=evidence(stored=stored(first)))
    assert not again["changed"] and again["events"] == [] and again["asked"] == []
    assert again["passport"]["digest"] == first["passport"]["digest"]


def test_a_kept_passport_outlives_its_gates_freshness(key: str) -> None:
    first = issue(key)
    old = evidence(stored=stored(first))
    for event in old["verdicts"]:
        event["at"] -= 3 * DAY
    assert not issue(key, evidence=old)["changed"]


@pytest.mark.parametrize(
    ("bmc", "told"),
    [
        ({"serial": "GF0999", "uuid": "9ac00000-0000-4000-8000-000000000099"}, "serial: the BMC says GF0999"),
        (None, "nothing proves that BMC and node are one machine"),
    ],
)
def test_v2_a_passport_is_not_kept_where_the_bmc_is_not_this_machines(key: str, bmc: Any, told: str) -> None:
    first = issue(key)
    assert told in reasons(state="issued", key_path=key, evidence=evidence(stored=stored(first)), bmc_identity=bmc)


def test_v2_a_passport_is_not_kept_where_a_later_look_settled_nothing(key: str) -> None:
    """Neither of a required gate, nor where image_verify has since seen another machine, or no clock."""
    found = evidence(stored=stored(issue(key)), last_event=20)
    given = {"state": "issued", "key_path": key, "bmc_identity": BMC}
    late = verdict(20, "dcgm_gate", "inconclusive", ago=5.0)
    history = {"verdicts": [*found["verdicts"][:2], late], "history": [*found["verdicts"], late]}
    assert "gate dcgm_gate: inconclusive (event 20)" in reasons(evidence={**found, **history}, **given)
    other = verdict(20, "image_verify", ago=5.0, identity={**MACHINE, "serial": "GF0999"})
    history = {"verdicts": [*found["verdicts"][1:], other], "history": [*found["verdicts"], other]}
    assert "GF0999" in reasons(evidence={**found, **history}, **given)


@pytest.mark.parametrize(
    "change",
    [
        {"identity": {**MACHINE, "gpu_uuids": MACHINE["gpu_uuids"][1:]}},
        {"firmware": [{"name": "BIOS", "version": "2"}]},
        {"policy": {**POLICY, "max_lifetime": 1000}, "lifetime": 900},
    ],
)
def test_something_new_makes_a_new_one(key: str, change: dict[str, Any]) -> None:
    found = evidence(stored=stored(issue(key)))
    if "identity" in change:
        found["verdicts"][0]["data"]["identity"] = change["identity"]
    assert issue(key, evidence=found, **change)["changed"]


def test_a_newer_gate_makes_a_new_one(key: str) -> None:
    found = evidence(stored=stored(issue(key)))
    found["verdicts"][2] = verdict(20, "dcgm_gate")
    assert issue(key, evidence={**found, "last_event": 20})["changed"]


def test_check_mode_issues_nothing(key: str, tmp_path: Path) -> None:
    result = issue(key, check_mode=True, path=str(tmp_path / "out.json"))
    assert result["changed"] and result["events"] == [] and result["asked"] == [] and "envelope" not in result
    assert not (tmp_path / "out.json").exists()


def test_a_copy_in_a_file(key: str, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    first = issue(key, path=str(path))
    assert json.loads(path.read_text()) == first["envelope"]
    assert not issue(key, path=str(path), evidence=evidence(stored=stored(first)))["changed"]
    assert run(path=str(path), identity=None)["machine_checked"] is False
    path.rename(tmp_path / "kept.json")
    path.symlink_to("kept.json")
    for check_mode in (True, False):
        with pytest.raises(ConfigError, match="the passport would take the place of a link"):
            issue(key, path=str(path), check_mode=check_mode)


@pytest.mark.parametrize("name", ["image_verify", "dcgm_gate", "kernel_log_gate"])
@pytest.mark.parametrize("outcome", ["missing", "fail", "inconclusive", "before the imaging", "too old"])
def test_each_required_gate_must_have_passed_since(key: str, name: str, outcome: str) -> None:
    found = evidence()
    gates = {event["name"]: event for event in found["verdicts"]}
    if outcome == "missing":
        found["verdicts"].remove(gates[name])
    elif outcome == "before the imaging":
        gates[name]["id"] = 9
    elif outcome == "too old":
        gates[name]["at"] -= 2 * DAY
    else:
        gates[name]["data"]["verdict"] = outcome
    refused = reasons if outcome in ("fail", "inconclusive") else settings  # what nobody looked at is no node's fault
    told = refused(state="issued", key_path=key, bmc_identity=BMC, evidence=found)
    assert f"gate {name}" in told


def test_a_failed_gate_stands_against_it_also_where_it_is_not_required(key: str) -> None:
    found = evidence()
    found["verdicts"].append(verdict(15, "fabric_gate", "fail"))
    assert "gate fabric_gate: fail" in reasons(state="issued", key_path=key, bmc_identity=BMC, evidence=found)
    found["verdicts"][-1] = verdict(15, "fabric_gate", "inconclusive")
    assert issue(key, evidence=found)["passport"]["gates"]["fabric_gate"] == "inconclusive"


def test_a_policy_may_ask_for_more(key: str) -> None:
    policy = {**POLICY, "required_gates": ["image_verify", "nvbandwidth"]}
    told = settings(state="issued", key_path=key, bmc_identity=BMC, evidence=evidence(), policy=policy)
    assert told == "gate nvbandwidth: no verdict since the node was imaged"


@pytest.mark.parametrize(
    "image,told",
    [
        ({"name": "other"}, "name hpc runs, wanted other"),
        ({"version": "1.5"}, "version 1.4 runs, wanted 1.5"),
        ({"sha256": "sha256:" + "d" * 64}, "sha256"),
    ],
)
def test_the_wanted_image_runs(key: str, image: dict[str, Any], told: str) -> None:
    assert told in reasons(state="issued", key_path=key, bmc_identity=BMC, evidence=evidence(), image=image)


def without(name: str) -> dict[str, Any]:
    found = evidence()
    found["verdicts"] = [event for event in found["verdicts"] if event["name"] != name]
    return found


@pytest.mark.parametrize(
    ("bmc", "told"),
    [
        (None, "BMC"),
        ({}, "BMC"),
        ({"serial": "GF0002"}, "the BMC says GF0002"),
        ({"serial": "GF0001", "uuid": UUID.replace("1", "2")}, "system_uuid"),
        ({"manufacturer": "ACME"}, "neither serial nor system UUID"),
    ],
)
def test_bmc_and_node_must_be_known_to_be_one(key: str, bmc: Any, told: str) -> None:
    assert told in reasons(state="issued", key_path=key, evidence=evidence(), bmc_identity=bmc)


def test_one_identity_in_common_is_enough(key: str) -> None:
    assert issue(key, bmc_identity={"serial": "GF0001"})["changed"]


def test_n4_an_equal_uuid_outweighs_the_serial_of_a_board(key: str) -> None:
    assert issue(key, bmc_identity={"serial": "CN7016", "uuid": UUID})["changed"]


def test_the_clock_must_have_been_compared(key: str) -> None:
    found = evidence()
    found["verdicts"][0]["data"]["checks"] = [check("something")]
    assert "clock" in reasons(state="issued", key_path=key, bmc_identity=BMC, evidence=found)


def test_the_machine_of_the_image_is_this_one(key: str) -> None:
    found = evidence()
    found["verdicts"][0]["data"]["identity"] = {**MACHINE, "gpu_uuids": ["GPU-swapped"], "gpu_problem": ""}
    assert "GPU-swapped" in reasons(state="issued", key_path=key, bmc_identity=BMC, evidence=found)


@pytest.mark.parametrize("gpus", [{"gpu_uuids": []}, {"gpu_uuids": [], "gpu_problem": "nvidia-smi hangs"}])
def test_without_gpus_only_where_the_policy_says_so(key: str, gpus: dict[str, Any]) -> None:
    found = evidence()
    found["verdicts"][0]["data"]["identity"] = {**MACHINE, "gpu_uuids": [], "gpu_problem": ""}
    bare = {**MACHINE, **gpus}
    assert "which GPUs" in reasons(state="issued", key_path=key, bmc_identity=BMC, evidence=found, identity=bare)
    allowed = {**POLICY, "require_gpus": False}
    assert issue(key, evidence=found, identity={**MACHINE, "gpu_uuids": []}, policy=allowed)["changed"]


def test_no_lifetime_beyond_the_policy(key: str) -> None:
    """What the site has set does not fit together: that is no node's fault, which would be quarantined for it."""
    good = stored(issue(key, lifetime=8640))
    for lifetime in (0, -5, 7776001):
        for found in (evidence(), evidence(stored=good), evidence(verdicts=[])):
            with pytest.raises(ConfigError, match=f"a lifetime of {lifetime} s, allowed are 7776000 s") as caught:
                issue(key, evidence=found, lifetime=lifetime)
            assert not quarantines(caught.value.as_result()) and quarantines(TrustError("x").as_result())
    assert issue(key, lifetime=7776000)["changed"]


def test_v9_a_profile_that_nobody_has_is_no_nodes_fault(key: str) -> None:
    """Nor is a node judged without it, whatever may speak against that."""
    unknown = "which profile is in force is not known"
    for found in (evidence(profile_problem=unknown), evidence(profile_problem=unknown, verdicts=[])):
        with pytest.raises(ConfigError, match=f"policy: {unknown}"):
            issue(key, evidence=found)


def test_v9_a_passport_names_its_image_whatever_the_policy_asks(key: str) -> None:
    """A policy without image_verify, and nobody has looked at the image."""
    policy = {**POLICY, "required_gates": ["dcgm_gate", "kernel_log_gate"]}
    none = evidence(verdicts=evidence()["verdicts"][1:])
    for image in (None, {"name": "hpc"}):
        told = settings(state="issued", key_path=key, bmc_identity=BMC, evidence=none, policy=policy, image=image)
        assert told.startswith("image: no verdict of image_verify says what runs; deployment: no look has proven")
    assert issue(key, policy=policy)["changed"]


def test_without_the_ledger_nothing_is_issued(key: str) -> None:
    for nothing in (None, {}):
        with pytest.raises(ConfigError, match="only the controller has"):
            run(state="issued", key_path=key, evidence=nothing)
    with pytest.raises(ConfigError, match="missing: key_path"):
        run(state="issued", evidence=evidence())


def test_one_that_is_about_to_expire_is_issued_anew(key: str) -> None:
    first = issue(key, lifetime=100)
    found = evidence(stored=stored(first))
    assert not issue(key, evidence=found, lifetime=100, valid_for=50)["changed"]
    assert issue(key, evidence=found, lifetime=100, valid_for=200)["changed"]


@pytest.mark.parametrize(
    "told", [{"serial": "", "system_uuid": ""}, {"serial": "To be filled by O.E.M.", "system_uuid": ""}]
)
def test_t1_a_node_that_does_not_say_who_it_is_gets_none(key: str, told: dict[str, Any]) -> None:
    """Nor is it called faulty: root alone may read either, and as whom it is asked is the site's to set."""
    silent = {**MACHINE, **told}
    found = settings(state="issued", key_path=key, evidence=evidence(), bmc_identity=BMC, identity=silent)
    assert "the node tells neither serial nor system UUID" in found and "ansible_become" in found
    known = evidence(stored=stored(issue(key)))
    assert "ansible_become" in settings(evidence=known, identity=silent)
    assert "this machine has GF0999" in reasons(evidence=known, identity={**silent, "serial": "GF0999"})


def test_t1_a_question_that_nobody_answered_says_nothing_of_the_gpus(key: str) -> None:
    """sudo refuses, or the shell was killed: anybody could have said which boot it is."""
    problem = "nvidia-smi ended with 1"
    unheard = {**MACHINE, "serial": "", "system_uuid": "", "boot_id": "", "gpu_uuids": [], "gpu_problem": problem}
    known = evidence(stored=stored(issue(key)))
    assert "ansible_become" in settings(evidence=known, identity=unheard, same_boot=True)
    given = {"state": "issued", "key_path": key, "evidence": evidence(), "bmc_identity": BMC}
    assert "ansible_become" in settings(**given, identity=unheard)
    assert problem in reasons(**given, identity={**unheard, "boot_id": "boot-1"})


def test_t1_who_tells_no_name_hides_no_gpu_behind_that(key: str) -> None:
    """Which GPUs there are anybody may read: one that was lost or swapped is the node's fault all the same."""
    known = evidence(stored=stored(issue(key)))
    silent = {**MACHINE, "serial": "", "system_uuid": ""}
    lost = {**silent, "gpu_uuids": [], "gpu_problem": "No devices were found"}
    swapped = {**silent, "gpu_uuids": ["GPU-99999999-9999-9999-9999-999999999999"]}
    for machine in (lost, swapped):
        assert "GPUs" in reasons(evidence=known, identity=machine)
    assert "which GPUs the node has is unknown" in reasons(
        state="issued", key_path=key, evidence=evidence(), bmc_identity=BMC, identity=lost
    )


def test_t1_an_image_whose_manifest_nobody_signed_gets_none(key: str) -> None:
    found = evidence()
    del found["verdicts"][0]["data"]["image"]["manifest_sha256"]
    told = reasons(state="issued", key_path=key, evidence=found, bmc_identity=BMC)
    assert "does not name the signed manifest" in told


def test_nothing_is_signed_that_a_later_look_would_refuse(key: str) -> None:
    with pytest.raises(ConfigError, match="another profile: sha256:p"):
        issue(key, policy={**POLICY, "profile_digest": "sha256:other"})
    assert issue(key, policy={**POLICY, "profile_digest": "sha256:p"})["valid"]
    unmeasured = evidence()
    unmeasured["verdicts"][2]["data"]["checks"] = []
    with pytest.raises(TrustError, match="dcgm_gate: nothing was measured"):
        issue(key, evidence=unmeasured)


@pytest.mark.parametrize(
    "change", [{"issued": "2026-13-41T99:00:00Z"}, {"expires": "2026-02-30T00:00:00Z"}, {"last_event": "x"}]
)
def test_a_signed_time_or_number_that_is_none_is_a_reason(key: str, change: dict[str, Any]) -> None:
    good = issue(key)
    statement = dsse.verify(good["envelope"], {dsse.keyid(KEY.public_key()): KEY.public_key()})[0]
    statement["predicate"].update(change)
    told = reasons(evidence=evidence(stored={**stored(good), "envelope": dsse.sign(statement, KEY)}))
    assert "cannot be read" in told


# -- export ------------------------------------------------------------------------------------------------------------


def test_u7_a_passport_becomes_a_file_that_verifies_by_itself(key: str, tmp_path: Path) -> None:
    held = evidence(stored=stored(issue(key)))
    folder = tmp_path / "new" / "passports"
    preview = run(check_mode=True, state="exported", path=f"{folder}/", evidence=held)
    assert preview["changed"] and not folder.exists()
    first = run(state="exported", path=f"{folder}/", evidence=held)
    path = folder / "gpu001.passport.json"
    assert first["changed"] and first["valid"] and first["path"] == str(path) and path.stat().st_mode & 0o777 == 0o600
    again = run(state="exported", path=str(folder), evidence=held)
    assert not again["changed"] and again["before"] == again["after"]
    assert run(state="verified", path=str(path), identity=None)["valid"]


def test_u7_one_that_admits_nothing_any_more_is_exported_and_called_so(key: str, tmp_path: Path) -> None:
    quarantined = {"id": 99, "at": time.time()}
    held = evidence(stored=stored(issue(key)), quarantined=quarantined)
    told = run(state="exported", path=str(tmp_path / "p.json"), evidence=held)
    assert not told["valid"] and "quarantined after its passport was issued" in told["reasons"][0]
    assert (tmp_path / "p.json").is_file()


@pytest.mark.parametrize(
    "wrong,told",
    [
        ({"evidence": evidence()}, "no passport of this node"),
        ({"path": None}, "path"),
        ({"public_keys": []}, "public_keys"),
        ({"path": "/proc/nowhere/p.json"}, "cannot be written"),
    ],
)
def test_u7_what_cannot_be_exported(key: str, tmp_path: Path, wrong: dict[str, Any], told: str) -> None:
    held = evidence(stored=stored(issue(key)))
    given = {"state": "exported", "path": str(tmp_path / "p.json"), "evidence": held, **wrong}
    with pytest.raises((ConfigError, TrustError), match=told):
        run(**given)
    assert not (tmp_path / "p.json").exists()


def test_u7_a_strangers_passport_is_not_handed_on(key: str, tmp_path: Path) -> None:
    envelope = dsse.sign({"a": 1}, STRANGER)
    held = evidence(stored={"envelope": envelope, "digest": "x", "issued": 0.0, "expires": 0.0})
    with pytest.raises(TrustError, match="unknown key"):
        run(state="exported", path=str(tmp_path / "p.json"), evidence=held)
    assert list(tmp_path.iterdir()) == [Path(key)]


@pytest.mark.parametrize("name", ["../gpu001", ".hidden", "a/b", "", "gpu\n1"])
def test_u7_a_hosts_name_leads_to_no_other_folder(key: str, tmp_path: Path, name: str) -> None:
    held = evidence(stored=stored(issue(key)), node={"id": "n-1", "name": name})
    with pytest.raises(ConfigError, match="no name of a file"):
        run(state="exported", path=f"{tmp_path}/out/", evidence=held)
    assert not (tmp_path / "out").exists()
