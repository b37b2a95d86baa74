# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mistake in the site's settings quarantines no node, and admits none; what a node lacks is its own all the same."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import quarantines
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from passports import (
    ASKED,
    BMC,
    POLICY,
    PUBLIC,
    STRANGER,
    evidence,
    issue,
    reasons,
    run,
    settings,
    stored,
    verdict,
)

BY_SKU = {"sku": "h100", "digest": "sha256:p"}


def refused(key: str, told: Any = settings, **params: Any) -> str:
    given = {"state": "issued", "key_path": key, "bmc_identity": BMC, "evidence": evidence(), **params}
    return str(told(**given))


def asked(number: int, gate: str, **question: Any) -> dict[str, Any]:
    """All that the roles ask, but for one gate, which passed what it was asked."""
    kept = [event for event in evidence()["verdicts"] if event["name"] != gate]
    return evidence(verdicts=[*kept, verdict(number, gate, asked={**ASKED[gate], **question}, profile=BY_SKU)])


def test_v9_a_setting_is_told_as_one_for_which_no_node_is_quarantined(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        issue(key, evidence=asked(14, "dcgm_gate", level=2))
    assert not quarantines(caught.value.as_result())
    told = str(caught.value)
    assert "dcgm_gate: pass, which proves too little: level 2, wanted 3 (gates.dcgm_gate of the policy)" in told
    assert "gate_dcgm_level" in caught.value.do


@pytest.mark.parametrize(
    ("found", "policy", "told"),
    [
        (asked(14, "dcgm_gate", level=2), {}, "level 2, wanted 3"),
        (asked(14, "dcgm_gate", level=0, tests=["pcie"]), {}, "level none, wanted 3"),
        (evidence(), {"gates": {"dcgm_gate": {"tests": ["eud"]}}}, "wanted eud"),
        (asked(13, "kernel_log_gate", window="boot"), {}, "window boot, wanted imaging"),
        (evidence(), {"profile_digest": "sha256:q"}, "judged by another profile: sha256:p"),
        (evidence(), {"max_gate_age": 5}, "allowed are 5 s"),
        (evidence(), {"gates": {"kernel_log_gate": {"max_age": 5}}}, "gate kernel_log_gate: its pass is"),
    ],
)
def test_v9_a_policy_that_asks_more_than_the_site_does_is_no_nodes_fault(
    key: str, found: dict[str, Any], policy: dict[str, Any], told: str
) -> None:
    given = {"evidence": found, "policy": {**POLICY, **policy}}
    assert told in refused(key, **given)
    # What speaks against the node as well makes it the node's.
    bad = verdict(20, "fabric_gate", "fail")
    both = {**found, "verdicts": [*found["verdicts"], bad]}
    assert "fabric_gate" in refused(key, reasons, **{**given, "evidence": both})
    assert "BMC says GF0999" in refused(key, reasons, **given, bmc_identity={"serial": "GF0999"})


@pytest.mark.parametrize("gate", ["image_verify", "dcgm_gate", "kernel_log_gate"])
def test_v9_a_gate_that_nobody_ran_is_no_nodes_fault(key: str, gate: str) -> None:
    """Also where another gate was asked too little; where one failed, the node is at fault all the same."""
    kept = [event for event in evidence()["verdicts"] if event["name"] != gate]
    found = evidence(verdicts=kept)
    told = refused(key, evidence=found, policy={**POLICY, "gates": {"dcgm_gate": {"level": 4}}})
    assert f"gate {gate}: no verdict since the node was imaged" in told
    assert not issue(key, evidence=found, fail=False)["valid"]
    other = "fabric_gate"
    bad = evidence(verdicts=[*kept, verdict(20, other, "fail")])
    assert f"gate {other}: fail" in refused(key, reasons, evidence=bad)


@pytest.mark.parametrize("gate", ["image_verify", "dcgm_gate", "kernel_log_gate"])
@pytest.mark.parametrize("word", ["fail", "inconclusive"])
def test_v9_a_node_that_lacks_the_pass_of_a_gate_is_untrusted(key: str, gate: str, word: str) -> None:
    """Also where the gate was asked less than the policy asks, and where an earlier look passed too little."""
    kept = [event for event in evidence()["verdicts"] if event["name"] != gate]
    weak = verdict(15, gate, asked={"level": 1, "tests": [], "window": "boot"}, profile=BY_SKU)
    rows = [verdict(16, gate, word, asked={"level": 1, "window": "boot"}, profile=BY_SKU)]
    for history in (rows, [weak, *rows]):
        assert f"gate {gate}: " in refused(key, reasons, evidence=evidence(verdicts=[*kept, *history]))


@pytest.mark.parametrize("lacks", ["asked", "profile"])
def test_v9_a_pass_that_does_not_say_what_it_was_asked_is_excused_by_no_setting(key: str, lacks: str) -> None:
    silent = asked(14, "dcgm_gate")
    silent["verdicts"][-1]["data"][lacks] = None
    told = refused(key, reasons, evidence=silent, policy={**POLICY, "profile_digest": "sha256:p"})
    assert "dcgm_gate: pass, which proves too little" in told
    given = {"policy": {**POLICY, "gates": {"dcgm_gate": {"level": 0}}}}
    if lacks == "profile":
        strict = {**POLICY, "profile_digest": "sha256:p"}
        weak = evidence(stored=stored(issue(key, evidence=silent, **given)))
        assert "judged by another profile: none" in reasons(evidence=weak, policy=strict)


def test_v9_a_passport_of_a_weaker_policy_and_a_profile_that_nobody_has_are_no_nodes_fault(key: str) -> None:
    """As where the policy of the role passport is another than that of the role join."""
    level2 = {**POLICY, "gates": {"dcgm_gate": {"level": 2}}}
    weak = evidence(stored=stored(issue(key, evidence=asked(14, "dcgm_gate", level=2), policy=level2)))
    assert run(evidence=weak, policy=level2)["valid"]
    assert "dcgm_gate answers too little: level 2, wanted 3" in settings(evidence=weak)
    soft = run(evidence=weak, fail=False)
    assert not soft["valid"] and [type(reason) for reason in soft["reasons"]] == [str]
    unknown = {**weak, "profile_problem": "which profile is in force is not known"}
    assert "which profile" in settings(evidence=unknown, policy=level2)
    assert "missing" in reasons(evidence={**unknown, "stored": None}, policy=level2)
    later = {**unknown, "quarantined": {"id": 99, "at": 0.0}}
    assert "quarantined after" in reasons(evidence=later, policy=level2)


def test_v10_what_nobody_could_verify_is_not_signed(key: str) -> None:
    """The public key of another site, or of before the key was changed: no look would let the passport pass."""
    other = STRANGER.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    first = issue(key)
    for found in (evidence(), evidence(stored=stored(first))):
        for check_mode in (False, True):
            with pytest.raises(ConfigError, match="is not among the public keys") as caught:
                issue(key, evidence=found, public_keys=[other], check_mode=check_mode)
        assert "gpufleet_passport_public_keys" in str(caught.value) and key in str(caught.value)
    for known in ([PUBLIC, other], [other + PUBLIC], []):
        assert issue(key, public_keys=known)["valid"]
