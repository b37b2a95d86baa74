# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Passports are refused for every single thing that does not fit, by name."""

from __future__ import annotations

import copy
import json
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.manifest import read_manifest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import utc
from passports import (
    GPUS,
    KEY,
    MACHINE,
    POLICY,
    SCHEMAS,
    STRANGER,
    UUID,
    evidence,
    issue,
    reasons,
    run,
    settings,
    stored,
    verdict,
)

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
    refused = settings if told.startswith("policy") else reasons
    assert told in refused(evidence=resigned(good, times(issued, expires)))


def test_it_must_still_live_as_long_as_is_asked_for(good: dict[str, Any]) -> None:
    found = resigned(good, times(-10, 100))
    assert run(evidence=found, valid_for=50)["valid"]
    assert "109 s more" in reasons(evidence=found, valid_for=109)
    # What is asked for longer than it lives, no node's passport is good for.
    assert "111 s more" in settings(evidence=found, valid_for=111)


def test_a_little_future_is_skew(good: dict[str, Any]) -> None:
    def change(statement: dict[str, Any]) -> None:
        statement["predicate"]["issued"] = utc(time.time() + 1.0)

    assert run(evidence=resigned(good, change))["valid"]


def test_an_unknown_key(good: dict[str, Any]) -> None:
    """The site says which are known: a key that was replaced while nodes were judged makes none of them faulty."""
    with pytest.raises(ConfigError) as caught:
        run(evidence=resigned(good, lambda statement: None, STRANGER))
    assert "unknown_key" in str(caught.value) and caught.value.do.startswith("keep its public key beside a new one")


def test_an_altered_passport(good: dict[str, Any]) -> None:
    found = evidence(stored=stored(copy.deepcopy(good)))
    payload = found["stored"]["envelope"]["payload"]
    found["stored"]["envelope"]["payload"] = payload[:40] + ("A" if payload[40] != "A" else "B") + payload[41:]
    assert "bad_signature" in reasons(evidence=found)


def test_a_weaker_policy(good: dict[str, Any]) -> None:
    found = evidence(stored=stored(good))
    more = {**POLICY, "required_gates": [*POLICY["required_gates"], "nvbandwidth"]}
    assert "the gate nvbandwidth is required" in settings(evidence=found, policy=more)
    assert "s old" in settings(evidence=found, policy={**POLICY, "max_gate_age": 5})
    assert "another profile" in settings(evidence=found, policy={**POLICY, "profile_digest": "sha256:q"})
    assert run(evidence=found, policy={**POLICY, "profile_digest": "sha256:p"})["valid"]
    assert "it lives" in settings(evidence=found, policy={**POLICY, "max_lifetime": 60})
    assert "wanted 1.5" in reasons(evidence=found, image={"name": "hpc", "version": "1.5"})
    assert "for name hpc, wanted other" in reasons(evidence=found, image={"name": "other"})
    assert "for sha256" in reasons(evidence=found, image={"name": "hpc", "sha256": "sha256:" + "d" * 64})


def judged_by(name: str, profile: Any) -> Any:
    def change(statement: dict[str, Any]) -> None:
        for gate in statement["predicate"]["gates"]:
            if gate["gate"] == name:
                gate["profile"] = profile

    return change


def test_v10_a_gate_without_a_profile_is_of_another_one(good: dict[str, Any]) -> None:
    strict = {**POLICY, "profile_digest": "sha256:p"}
    for name, known in (("dcgm_gate", {}), ("kernel_log_gate", {"digest": ""}), ("dcgm_gate", None)):
        found = resigned(good, judged_by(name, known))
        assert run(evidence=found)["valid"]
        assert f"{name} was judged by another profile: none" in reasons(evidence=found, policy=strict)


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
        (drop("predicate", "image", "manifest_sha256"), "image is not named"),
        (drop("predicate", "image", "name"), "image is not named"),
        (drop("predicate", "issued"), "issued or expires"),
        (lambda statement: statement["predicate"]["gates"].append(statement["predicate"]["gates"][0]), "comes twice"),
        (lambda statement: statement["predicate"]["gates"][1].update(checks=[]), "nothing was measured"),
        (lambda statement: statement["predicate"]["gates"][1].update(verdict="inconclusive"), "inconclusive"),
        (lambda statement: statement["predicate"]["gates"][1].update(verdict="fail"), "gate kernel_log_gate: fail"),
        (lambda statement: statement.update(subject=statement["subject"][:2]), "it names no GPU"),
        (lambda statement: statement["predicate"]["gates"][1].update(at="noise"), "its time cannot be read"),
        (lambda statement: statement["predicate"]["gates"][1].update(at="nan"), "its time cannot be read"),
        (lambda statement: statement["predicate"].update(expires="nan"), "issued or expires"),
        (lambda statement: statement["predicate"].update(expires="inf"), "issued or expires"),
        (lambda statement: statement["predicate"].update(issued="-inf"), "issued or expires"),
        (lambda statement: statement["predicate"]["gates"][1].update(at=utc(time.time() + 60)), "after the passport"),
        (lambda statement: statement["subject"][0].update(name="chassis-serial:GF0009"), "subject"),
        (lambda statement: statement["subject"].append(statement["subject"][0]), "subject"),
        (lambda statement: statement["subject"][0].update(digest=statement["subject"][1]["digest"]), "subject"),
        (lambda statement: statement["subject"][-1].update(name="gpu-uuid:GPU-new"), "subject"),
    ],
)
def test_v10_an_honest_signature_under_an_incomplete_statement(good: dict[str, Any], change: Any, told: str) -> None:
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
