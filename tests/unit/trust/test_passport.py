# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Passports: issued on evidence alone, and refused for every single thing that does not fit, by name."""

from __future__ import annotations

import copy
import json
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError, TrustError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.artifact import read_manifest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.judgement import utc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.passport import node_passport
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.specs import NODE_PASSPORT, POLICY_OPTIONS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

SCHEMAS = Path(__file__).resolve().parents[3] / "docs" / "reference" / "schemas"
KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
STRANGER = Ed25519PrivateKey.from_private_bytes(b"s" * 32)
PUBLIC = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
UUID = "5ac00000-0000-4000-8000-000000000001"
GPUS = [f"GPU-{number}" for number in range(8)]
MACHINE: dict[str, Any] = {"serial": "GF0001", "system_uuid": UUID, "gpu_uuids": GPUS}
IMAGE = {"name": "hpc", "version": "1.4", "sha256": "a" * 64, "manifest_sha256": "b" * 64, "signer": "F" * 40}
POLICY: dict[str, Any] = {name: option.get("default") for name, option in POLICY_OPTIONS.items()}
DEFAULTS = {name: option.get("default") for name, option in NODE_PASSPORT.items()}
DAY = 86400.0


def check(name: str, measured: Any = "x", verdict: str = "pass") -> dict[str, Any]:
    return {
        "id": name, "entity": "node", "measured": measured, "wanted": measured, "unit": "", "source": "s",
        "verdict": verdict,
    }  # fmt: skip


def verdict(number: int, name: str, outcome: str = "pass", *, ago: float = 60.0, **data: Any) -> dict[str, Any]:
    at = time.time() - ago
    checks = [check("something", 1, outcome)]
    if name == "image_verify":
        checks.append(check("clock", [0.0, 0.1]))
        data = {"image": IMAGE, "identity": {**MACHINE, "gpu_problem": ""}, "mode": "node", **data}
    if name == "node_identity":
        checks = [check("serial", "GF0001"), check("system_uuid", UUID)]
    return {
        "id": number,
        "name": name,
        "kind": "verdict",
        "at": at,
        "data": {
            "schema": 1, "gate": name, "verdict": outcome, "checks": checks, "findings": [], "argv": [name],
            "tool": {"name": name, "version": "1"}, "started": utc(at - 1), "ended": utc(at),
            "evidence_digest": "sha256:" + "c" * 64, **data,
        },
    }  # fmt: skip


def evidence(**other: Any) -> dict[str, Any]:
    found = {
        "node": {"id": "n-1", "name": "gpu001"},
        "run": "run-1",
        "controller": "ctl",
        "verdicts": [
            verdict(11, "node_identity"),
            verdict(12, "image_verify"),
            verdict(13, "kernel_log_gate"),
            verdict(14, "dcgm_gate", profile={"sku": "h100", "digest": "sha256:p", "path": ""}),
        ],
        "imaged": {"id": 10, "at": time.time() - 100},
        "quarantined": None,
        "stored": None,
        "last_event": 14,
    }
    return {**found, **other}


@pytest.fixture
def key(tmp_path: Path) -> str:
    path = tmp_path / "key.pem"
    path.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    path.chmod(0o600)
    return str(path)


def run(check_mode: bool = False, **params: Any) -> dict[str, Any]:
    ctx = Context(node="gpu001", check_mode=check_mode)
    given = {**DEFAULTS, "policy": POLICY, "identity": MACHINE, "public_keys": [PUBLIC], **params}
    return node_passport(given, ctx).as_dict(ctx)


def issue(key: str, **params: Any) -> dict[str, Any]:
    return run(**{"state": "issued", "key_path": key, "evidence": evidence(), **params})


def stored(result: dict[str, Any]) -> dict[str, Any]:
    return {"envelope": result["envelope"], "digest": result["passport"]["digest"], "issued": 0.0, "expires": 0.0}


def reasons(**params: Any) -> str:
    with pytest.raises(TrustError) as caught:
        run(**params)
    assert caught.value.details["valid"] is False
    for reason in caught.value.details["reasons"]:
        assert reason in str(caught.value)
    return "; ".join(caught.value.details["reasons"])


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
        found["verdicts"][1]["data"]["identity"] = change["identity"]
    assert issue(key, evidence=found, **change)["changed"]


def test_a_newer_gate_makes_a_new_one(key: str) -> None:
    found = evidence(stored=stored(issue(key)))
    found["verdicts"][3] = verdict(20, "dcgm_gate")
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
    told = reasons(state="issued", key_path=key, evidence=found)
    assert f"gate {name}" in told


def test_a_failed_gate_stands_against_it_also_where_it_is_not_required(key: str) -> None:
    found = evidence()
    found["verdicts"].append(verdict(15, "fabric_gate", "fail"))
    assert "gate fabric_gate: fail" in reasons(state="issued", key_path=key, evidence=found)
    found["verdicts"][-1] = verdict(15, "fabric_gate", "inconclusive")
    assert issue(key, evidence=found)["passport"]["gates"]["fabric_gate"] == "inconclusive"


def test_a_policy_may_ask_for_more(key: str) -> None:
    policy = {**POLICY, "required_gates": ["image_verify", "nvbandwidth"]}
    assert "gate nvbandwidth" in reasons(state="issued", key_path=key, evidence=evidence(), policy=policy)


@pytest.mark.parametrize(
    "image,told",
    [
        ({"name": "other"}, "name hpc runs, wanted other"),
        ({"version": "1.5"}, "version 1.4 runs, wanted 1.5"),
        ({"sha256": "sha256:" + "d" * 64}, "sha256"),
    ],
)
def test_the_wanted_image_runs(key: str, image: dict[str, Any], told: str) -> None:
    assert told in reasons(state="issued", key_path=key, evidence=evidence(), image=image)


def without(name: str) -> dict[str, Any]:
    found = evidence()
    found["verdicts"] = [event for event in found["verdicts"] if event["name"] != name]
    return found


def test_bmc_and_node_must_be_known_to_be_one(key: str) -> None:
    unproven = without("node_identity")
    assert "BMC and node" in reasons(state="issued", key_path=key, evidence=unproven)
    assert issue(key, evidence=unproven, bmc_identity={"serial": "GF0001"})["changed"]
    wrong = {"serial": "GF0002", "uuid": UUID}
    assert "the BMC says GF0002" in reasons(state="issued", key_path=key, evidence=evidence(), bmc_identity=wrong)
    failed = evidence()
    failed["verdicts"][0]["data"]["verdict"] = "fail"
    assert "BMC and node" in reasons(state="issued", key_path=key, evidence=failed)
    another = evidence()
    another["verdicts"][0]["data"]["checks"] = [check("serial", "GF0009")]
    assert "BMC and node" in reasons(state="issued", key_path=key, evidence=another)


def test_the_clock_must_have_been_compared(key: str) -> None:
    found = evidence()
    found["verdicts"][1]["data"]["checks"] = [check("something")]
    assert "clock" in reasons(state="issued", key_path=key, evidence=found)


def test_the_machine_of_the_image_is_this_one(key: str) -> None:
    found = evidence()
    found["verdicts"][1]["data"]["identity"] = {**MACHINE, "gpu_uuids": ["GPU-swapped"], "gpu_problem": ""}
    assert "GPU-swapped" in reasons(state="issued", key_path=key, evidence=found)


@pytest.mark.parametrize("gpus", [{"gpu_uuids": []}, {"gpu_uuids": [], "gpu_problem": "nvidia-smi hangs"}])
def test_without_gpus_only_where_the_policy_says_so(key: str, gpus: dict[str, Any]) -> None:
    found = evidence()
    found["verdicts"][1]["data"]["identity"] = {**MACHINE, "gpu_uuids": [], "gpu_problem": ""}
    bare = {**MACHINE, **gpus}
    assert "which GPUs" in reasons(state="issued", key_path=key, evidence=found, identity=bare)
    allowed = {**POLICY, "require_gpus": False}
    assert issue(key, evidence=found, identity={**MACHINE, "gpu_uuids": []}, policy=allowed)["changed"]


def test_no_lifetime_beyond_the_policy(key: str) -> None:
    for lifetime in (0, -5, 8000000):
        assert "lifetime" in reasons(state="issued", key_path=key, evidence=evidence(), lifetime=lifetime)


def test_without_the_ledger_nothing_is_issued(key: str) -> None:
    with pytest.raises(ConfigError, match="only the controller has"):
        run(state="issued", key_path=key, evidence=None)
    with pytest.raises(ConfigError, match="missing: key_path"):
        run(state="issued", evidence=evidence())


# -- verify ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def good(key: str) -> dict[str, Any]:
    return issue(key)


def test_none_at_all() -> None:
    assert "missing" in reasons(evidence=evidence())
    soft = run(evidence=evidence(), fail=False)
    assert soft["valid"] is False and soft["reasons"] and soft["passport"] == {}
    with pytest.raises(ConfigError, match="public_keys"):
        run(evidence=evidence(), public_keys=[])


def test_another_machines_passport(good: dict[str, Any]) -> None:
    other = {**MACHINE, "serial": "GF0002", "system_uuid": UUID[:-1] + "2"}
    told = reasons(evidence=evidence(stored=stored(good)), identity=other)
    assert "the passport is one of serial GF0001, this machine has GF0002" in told


def test_a_swapped_gpu(good: dict[str, Any]) -> None:
    gpus = [*GPUS[1:], "GPU-new"]
    told = reasons(evidence=evidence(stored=stored(good)), identity={**MACHINE, "gpu_uuids": gpus})
    assert "only the passport has GPU-0" in told and "only this machine has GPU-new" in told


def resigned(good: dict[str, Any], change: Any, key: Any = KEY) -> dict[str, Any]:
    """The same passport, honestly signed, with another content."""
    statement = copy.deepcopy(dsse.verify(good["envelope"], {dsse.keyid(KEY.public_key()): KEY.public_key()})[0])
    change(statement)
    return evidence(stored={**stored(good), "envelope": dsse.sign(statement, key)})


def times(issued: float, expires: float) -> Any:
    def change(statement: dict[str, Any]) -> None:
        statement["predicate"].update(issued=utc(time.time() + issued), expires=utc(time.time() + expires))

    return change


@pytest.mark.parametrize(
    "issued,expires,told",
    [
        (-1000, -1, "expired: it was good until"),
        (60, 1000, "future: it was issued at"),
        (-10, 8000000, "policy: it lives"),
    ],
)
def test_out_of_its_time(good: dict[str, Any], issued: float, expires: float, told: str) -> None:
    assert told in reasons(evidence=resigned(good, times(issued, expires)))


def test_a_little_future_is_skew(good: dict[str, Any]) -> None:
    def change(statement: dict[str, Any]) -> None:
        statement["predicate"]["issued"] = utc(time.time() + 1.0)

    assert run(evidence=resigned(good, change))["valid"]


def test_an_unknown_key(good: dict[str, Any]) -> None:
    assert "unknown_key" in reasons(evidence=resigned(good, lambda statement: None, STRANGER))


def test_an_altered_passport(good: dict[str, Any]) -> None:
    found = evidence(stored=stored(copy.deepcopy(good)))
    payload = found["stored"]["envelope"]["payload"]
    found["stored"]["envelope"]["payload"] = payload[:40] + ("A" if payload[40] != "A" else "B") + payload[41:]
    assert "bad_signature" in reasons(evidence=found)


def test_a_weaker_policy(good: dict[str, Any]) -> None:
    found = evidence(stored=stored(good))
    more = {**POLICY, "required_gates": [*POLICY["required_gates"], "nvbandwidth"]}
    assert "the gate nvbandwidth is required" in reasons(evidence=found, policy=more)
    assert "s old" in reasons(evidence=found, policy={**POLICY, "max_gate_age": 5})
    assert "another profile" in reasons(evidence=found, policy={**POLICY, "profile_digest": "sha256:q"})
    assert run(evidence=found, policy={**POLICY, "profile_digest": "sha256:p"})["valid"]
    assert "it lives" in reasons(evidence=found, policy={**POLICY, "max_lifetime": 60})
    assert "wanted 1.5" in reasons(evidence=found, image={"name": "hpc", "version": "1.5"})


def drop(*path: Any) -> Any:
    def change(statement: dict[str, Any]) -> None:
        at: Any = statement
        for step in path[:-1]:
            at = at[step]
        del at[path[-1]]

    return change


@pytest.mark.parametrize(
    "change,told",
    [
        (drop("_type"), "type"),
        (drop("predicateType"), "type"),
        (drop("predicate"), "predicate"),
        (drop("predicate", "schema"), "predicate"),
        (drop("subject"), "subject"),
        (drop("subject", 0, "digest"), "subject"),
        (drop("predicate", "gates"), "gate is incomplete"),
        (drop("predicate", "gates", 0, "checks"), "gate is incomplete"),
        (drop("predicate", "gates", 1, "evidence_digest"), "gate is incomplete"),
        (drop("predicate", "image"), "image is not named"),
        (drop("predicate", "issued"), "issued or expires"),
        (lambda statement: statement["predicate"]["gates"].append(statement["predicate"]["gates"][0]), "comes twice"),
        (lambda statement: statement["predicate"]["gates"][1].update(checks=[]), "nothing was measured"),
        (lambda statement: statement["predicate"]["gates"][1].update(verdict="inconclusive"), "inconclusive"),
        (lambda statement: statement["predicate"]["gates"][1].update(at="noise"), "its time cannot be read"),
        (lambda statement: statement["subject"][0].update(name="chassis-serial:GF0009"), "subject"),
        (lambda statement: statement["subject"].append(statement["subject"][0]), "subject"),
    ],
)
def test_an_honest_signature_under_an_incomplete_statement(good: dict[str, Any], change: Any, told: str) -> None:
    assert told in reasons(evidence=resigned(good, change))


@pytest.mark.parametrize(
    "later,told",
    [
        ({"imaged": {"id": 20, "at": 0.0}}, "imaged after"),
        ({"quarantined": {"id": 20, "at": 0.0}}, "quarantined after"),
        ({"verdicts": [verdict(20, "kernel_log_gate", "fail")]}, "kernel_log_gate failed after"),
    ],
)
def test_what_the_ledger_knows_since(good: dict[str, Any], later: dict[str, Any], told: str) -> None:
    assert told in reasons(evidence=evidence(stored=stored(good), **later))


def test_a_file_is_a_document_of_its_own(good: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(good["envelope"]))
    assert run(path=str(path), identity=None, evidence=None)["valid"]
    assert "this machine has GF0002" in reasons(path=str(path), identity={**MACHINE, "serial": "GF0002"}, evidence=None)
    path.write_text("[]")
    assert "malformed" in reasons(path=str(path), identity=None, evidence=None)
    with pytest.raises(ConfigError, match="cannot be read"):
        run(path=str(tmp_path / "nowhere"), identity=None, evidence=None)


def test_the_pages_example_of_a_manifest_is_one() -> None:
    page = (SCHEMAS.parent / "node-manifest.md").read_text(encoding="utf-8")
    example = json.loads(page.partition("```json\n")[2].partition("```")[0])
    schema = json.loads((SCHEMAS / "node-manifest-v1.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(example)
    assert read_manifest(json.dumps(example))["driver"] == "590.48.01"
    for missing in schema["required"]:
        rest = {key: value for key, value in example.items() if key != missing}
        with pytest.raises(BadAnswer):
            read_manifest(json.dumps(rest))
