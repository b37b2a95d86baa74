# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A policy in a file, in a task's option, and in a passport; what it leaves out is the strict default."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import ALL_GATES, OUTLIERS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse, policy, question
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import utc
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._in_force import (
    OWN_PROFILES,
    POLICY_SCHEMA,
    policy_of,
    profile_of,
)
from contract.docs.blocks import blocks, pages
from passports import ASKED, BMC, KEY, POLICY, evidence, issue, settings, stored, verdict

ROOT = Path(__file__).resolve().parents[3]
BY_SKU = {"sku": "h100", "digest": "sha256:p"}
DIGEST = "sha256:" + "a" * 64
WHOLE: dict[str, Any] = {
    "schema": 1,
    "required_gates": ["image_verify", "dcgm_gate"],
    "gates": {"dcgm_gate": {"level": 4, "tests": ["memory"], "max_age": 3600}},
    "profiles": {"h100-sxm-8": DIGEST},
}


def written(folder: Path, content: Any) -> str:
    path = folder / "policy.yml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


def on_pages() -> list[Any]:
    """Each policy that a page tells a reader to write; a driver's that is yet to be written names its own gate."""
    found = []
    for page in pages():
        for block in blocks(page) if page != "docs/how-to/write-a-gate-driver.md" else ():
            told = yaml.safe_load(block.text) if block.language == "yaml" and "_policy:" in block.text else {}
            found += [pytest.param(one, id=f"{block}-{name}") for name, one in told.items() if name.endswith("_policy")]
    return found


@pytest.mark.parametrize("told", on_pages())
def test_a_policy_of_a_page_is_one(told: dict[str, Any]) -> None:
    policy.check(told, Path(POLICY_SCHEMA))
    with pytest.raises(ConfigError):
        policy.check({**told, "required_gates": [*told["required_gates"], "no_gate"]}, Path(POLICY_SCHEMA))


def test_the_pages_have_policies() -> None:
    assert len(on_pages()) >= 10


def test_v1_a_policy_in_a_file_over_a_strict_default(tmp_path: Path) -> None:
    found, problem = policy_of({"policy_file": written(tmp_path, WHOLE), "sku": "h100-sxm-8"})
    assert found["required_gates"] == WHOLE["required_gates"] and found["max_gate_age"] == 86400
    others = {"kernel_log_gate": {"window": "imaging"}, "soak_gate": {"level": 24}}
    assert found["gates"] == {"dcgm_gate": WHOLE["gates"]["dcgm_gate"], **others}
    assert (found["profile_digest"], problem) == (DIGEST, "")
    assert policy.greatest_age(found, "dcgm_gate") == 3600 and policy.greatest_age(found, "image_verify") == 86400
    strict, problem = policy_of({"policy": {}, "sku": "h100-sxm-8"})
    assert strict["gates"] == {"dcgm_gate": {"level": 3}, **others}
    assert strict["profile_digest"].startswith("sha256:") and not problem
    assert "SKU is not known" in policy_of({"policy": {}})[1]
    assert "has no profile" in policy_of({"policy": {}, "sku": "h100-sxm-9000"})[1]


LITTLE = {
    "dcgm_gate": (14, {**ASKED["dcgm_gate"], "level": 1, "tests": ["software"]}),
    "kernel_log_gate": (13, {**ASKED["kernel_log_gate"], "window": utc(time.time() - 10)}),
}


@pytest.mark.parametrize(
    ("gate", "asked"),
    [
        ("dcgm_gate", {"max_age": 43200}),
        ("dcgm_gate", {"tests": ["software"]}),
        ("dcgm_gate", {}),
        ("dcgm_gate", None),
        ("kernel_log_gate", {"max_age": 3600}),
        ("kernel_log_gate", {}),
    ],
)
def test_v9_a_policy_that_tightens_one_key_keeps_the_rest_of_the_gates_question(
    key: str, tmp_path: Path, gate: str, asked: Any
) -> None:
    """A diagnosis of level 1 and the last ten seconds of the log prove nothing, whatever else the policy adds."""
    gates = {} if asked is None else {gate: asked}
    known, (number, little) = evidence(), LITTLE[gate]
    weak = verdict(number, gate, asked=little, profile=BY_SKU)
    known["verdicts"] = [*(event for event in known["verdicts"] if event["name"] != gate), weak]
    in_file = policy_of({"policy_file": written(tmp_path, {"schema": 1, "gates": gates}), "sku": "h100-sxm-8"})[0]
    in_task = policy_of({"policy": {**POLICY, "gates": gates}, "sku": "h100-sxm-8"})[0]
    for found in (in_file, in_task):
        assert found["gates"][gate] == {**policy.LEAST[gate], **(asked or {})}
        mine = {**found, "profile_digest": "sha256:p"}
        told = settings(state="issued", key_path=key, bmc_identity=BMC, evidence=known, policy=mine)
        assert f"gate {gate}: pass, which proves too little" in told
        assert issue(key, policy=mine)["changed"]


def test_v9_what_a_policy_says_of_a_gate_itself_counts() -> None:
    assert policy.least({"gates": {"dcgm_gate": {"level": 2, "tests": None}}})["dcgm_gate"] == {"level": 2}
    assert policy.least({"gates": {"own_gate": {"level": 1}}})["own_gate"] == {"level": 1}
    by_name = {"gates": {"dcgm_gate": {"level": 0, "tests": ["memory"]}}}
    found = policy_of({"policy": by_name, "sku": "h100-sxm-8"})[0]
    assert not question.weaker({"level": 0, "tests": ["memory"]}, policy.least(found)["dcgm_gate"])


def test_v9_a_littleof_no_gate_is_an_error_that_names_its_place(tmp_path: Path) -> None:
    content = "schema: 1\ngates:\n  dcgm_gate: {level: 4}\n  dcgm: {level: 4}\n"
    with pytest.raises(
        ConfigError, match=r"policy\.yml:4: gates\.dcgm: not a gate of the collection \(collective_gate"
    ):
        policy_of({"policy_file": written(tmp_path, content), "sku": "h100-sxm-8"})
    with pytest.raises(ConfigError, match=r"the option policy is none: gates\.kernel_log: not"):
        policy_of({"policy": {"gates": {"kernel_log": {"window": "boot"}}}, "sku": "h100-sxm-8"})
    some = {"required_gates": ["image_verify"], "gates": {"dcgm_gate": {"level": 1}, "image_artifact": {}}}
    assert policy_of({"policy": some, "sku": "h100-sxm-8"})[0]["gates"]["dcgm_gate"] == {"level": 1}


def test_a_policy_asks_for_hours_of_a_soak_and_for_a_test_between_nodes_by_its_name() -> None:
    least = {"soak_gate": {"level": 600}, "network_gate": {"tests": ["speed.wire"]}, "dcgm_gate": {"level": 4}}
    assert policy_of({"policy": {"gates": least}, "sku": "h100-sxm-8"})[0]["gates"].items() >= least.items()
    for gates, word in (
        ({"dcgm_gate": {"level": 5}}, "maximum of 4"),
        ({"soak_gate": {"level": 601}}, "maximum of 600"),
    ):
        with pytest.raises(ConfigError, match=word):
            policy_of({"policy": {"gates": gates}, "sku": "h100-sxm-8"})


@pytest.mark.parametrize("name", ["dcgm", "kernel_log", "nvbandwidth", "image_artifact"])
def test_v9_a_required_gate_that_no_node_can_pass_is_an_error_that_names_its_place(tmp_path: Path, name: str) -> None:
    """Mistyped it would quarantine node after node; what looks at no node passes for none."""
    gates = ", ".join(sorted([*ALL_GATES, OUTLIERS, "image_verify"]))
    told = f"required_gates: {name}: not a gate of the collection ({gates})"
    content = f"schema: 1\nrequired_gates:\n  - image_verify\n  - {name}\n"
    for given in (
        {"policy_file": written(tmp_path, content)},
        {"policy": {"required_gates": ["image_verify", name], "gates": {"dcgm_gate": {}}}},
    ):
        with pytest.raises(ConfigError) as caught:
            policy_of({**given, "sku": "h100-sxm-8"})
        assert told in str(caught.value)
        assert "policy.yml:2: " in str(caught.value) or "the option policy" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({**WHOLE, "gates": {"dcgm_gate": {"level": 9}}}, "gates.dcgm_gate.level"),
        ({**WHOLE, "gates": {"dcgm_gate": {"levle": 3}}}, "levle"),
        ({**WHOLE, "max_gate_age": 0}, "max_gate_age"),
        ({**WHOLE, "profiles": {"h100-sxm-8": "sha256:short"}}, "profiles.h100-sxm-8"),
        ({**WHOLE, "required_gates": []}, "required_gates"),
        ({**WHOLE, "gates": {"kernel_log_gate": {"window": "10"}}}, "gates.kernel_log_gate.window"),
        ({"required_gates": ["x"]}, "schema"),
        ("schema: 1\nschema: 1\n", "policy.yml:2: the key schema stands twice"),
        ("[1", "policy.yml:1: no valid YAML"),
        ("- 1", "policy.yml:1: a policy is a mapping"),
        ("", "policy.yml:1: a policy is a mapping"),
    ],
)
def test_v1_a_bad_policy_is_an_error_that_names_file_and_key(tmp_path: Path, content: Any, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        policy_of({"policy_file": written(tmp_path, content), "sku": "h100-sxm-8"})
    assert "policy.yml" in str(caught.value) and told in str(caught.value)
    with pytest.raises(ConfigError, match=r"gates\.dcgm_gate\.level"):
        policy_of({"policy": {"gates": {"dcgm_gate": {"level": 9}}}, "sku": "h100-sxm-8"})
    with pytest.raises(ConfigError, match="cannot be read"):
        policy_of({"policy_file": str(tmp_path / "none.yml")})
    assert POLICY_SCHEMA.is_file()


def test_v9_the_pages_example_issues_a_passport_with_the_settings_beside_it(key: str, tmp_path: Path) -> None:
    page = (ROOT / "docs/reference/passport.md").read_text(encoding="utf-8")
    example, beside = (block.partition("```")[0] for block in page.split("```yaml\n")[-2:])
    settings = yaml.safe_load(beside)
    shipped = {
        **yaml.safe_load((ROOT / "roles/passport/defaults/main.yml").read_text(encoding="utf-8")),
        **yaml.safe_load((ROOT / "roles/gate/defaults/main.yml").read_text(encoding="utf-8")),
    }
    assert {name for name in settings if name in shipped} == {*settings} - {"join_policy_file"}
    for name in ("passport_lifetime", "gate_dcgm_level"):
        assert f"{settings[name]} # as shipped {shipped[name]}" in beside
    found, problem = policy_of({"policy_file": written(tmp_path, example), "sku": "h100-sxm-8"})
    assert not problem and found["profile_digest"] == profile_of({"sku": "h100-sxm-8"}).digest

    def given(level: int, lifetime: int) -> dict[str, Any]:
        judged = {"sku": "h100-sxm-8", "digest": found["profile_digest"]}
        asked = {**ASKED["dcgm_gate"], "level": level, "tests": ["memory", "memtest", "software"]}
        looks = [
            verdict(
                13, "kernel_log_gate", asked={**ASKED["kernel_log_gate"], "profile": judged["digest"]}, profile=judged
            ),
            verdict(14, "dcgm_gate", asked={**asked, "profile": judged["digest"]}, profile=judged),
        ]
        return {"evidence": evidence(verdicts=[evidence()["verdicts"][0], *looks]), "lifetime": lifetime}

    assert issue(key, policy=found, **given(settings["gate_dcgm_level"], settings["passport_lifetime"]))["changed"]
    with pytest.raises(ConfigError, match="passport_lifetime"):
        issue(key, policy=found, **given(settings["gate_dcgm_level"], shipped["passport_lifetime"]))


def test_v9_the_page_tells_how_to_get_a_profiles_digest() -> None:
    page = (ROOT / "docs/reference/passport.md").read_text(encoding="utf-8")
    program = page.partition("$ python3 -c '")[2].partition("'")[0]
    path = OWN_PROFILES / "h100-sxm-8.yaml"
    told = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == profile_of({"sku": "h100-sxm-8"}).digest


# -- the policy of a passport ------------------------------------------------------------------------------------------


def test_v9_a_passport_keeps_the_policy_by_which_the_ledger_judges_failures(key: str) -> None:
    """A failure of an older release, which does not say what it was asked, is answered by what the site asks."""
    site = {**POLICY, "gates": {"dcgm_gate": {"level": 2}}, "profile_digest": "sha256:p"}
    old = verdict(13, "dcgm_gate", "fail", asked=None, profile=BY_SKU)
    passed = verdict(14, "dcgm_gate", asked={**ASKED["dcgm_gate"], "level": 2}, profile=BY_SKU)
    found = evidence()
    known = {**found, "verdicts": [*found["verdicts"][:2], passed]}
    known["history"] = [*found["verdicts"][:2], old, passed]

    def standing(by: dict[str, Any]) -> list[int]:
        in_force, least = str(by.get("profile_digest") or ""), policy.least(by)
        left = question.standing(known["history"], imaged=None, in_force=in_force, least=least)
        return [event["id"] for event in left]

    kept = policy.of_passport(stored(issue(key, evidence=known, policy=site)))
    assert kept["gates"]["dcgm_gate"] == {"level": 2} and kept["gates"]["kernel_log_gate"] == {"window": "imaging"}
    assert kept["profile_digest"] == "sha256:p"
    assert standing(kept) == [] and standing(policy.of_passport(None)) == [13]
    known["history"] = [*found["verdicts"][:2], old, found["verdicts"][2]]
    assert standing(policy.of_passport(None)) == [] and standing(policy.of_nobody("dcgm_gate")) == [13]


@pytest.mark.parametrize(
    ("predicate", "digest"),
    [
        ({"policy": {"profile_digest": None}, "gates": [{"profile": {"digest": "a"}}, {"profile": None}, {}]}, "a"),
        ({"policy": None, "gates": [{"profile": {"digest": "a"}}, {"profile": {"digest": "b"}}]}, ""),
        ({"policy": {"profile_digest": "c"}, "gates": [{"profile": {"digest": "a"}}]}, "c"),
        ({}, ""),
    ],
)
def test_v9_a_passport_of_before_names_the_profile_by_its_gates(predicate: dict[str, Any], digest: str) -> None:
    envelope = dsse.sign({"predicate": predicate}, KEY)
    assert policy.of_passport({"envelope": envelope}) == {"gates": policy.LEAST, "profile_digest": digest}
