# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""U2, U8: a policy that no node can meet, and what is neither yes nor no, are told before anything is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import ALL_GATES
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.registry import NEEDS
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_files as files
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_gates as gates
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_policy as policy
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_settings as settings
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._known_names import NUMBERS, PLAYBOOKS, SWITCHES
from contract.docs.blocks import blocks
from sound_site import SoundSite

#: Every look that needs no peer.
OF_THE_CONTROLLER = (settings.look, gates.look, files.ledger, files.keys, files.sku, policy.look)
ROOT = Path(__file__).resolve().parents[3]


def test_u2_what_the_look_at_policies_goes_by_is_what_the_roles_do() -> None:
    roles = {name.partition("_")[0] for name in policy.DEFAULTS}
    said: dict[str, Any] = {}
    for role in roles:
        said |= yaml.safe_load((ROOT / "roles" / role / "defaults" / "main.yml").read_text(encoding="utf-8"))
    assert {name: said[name] for name in policy.DEFAULTS} == dict(policy.DEFAULTS)
    of_role = yaml.safe_load((ROOT / "roles" / "gate" / "vars" / "main.yml").read_text(encoding="utf-8"))
    assert of_role["gate_plan"] == policy.DEFAULTS["gate_levels"] and of_role["gate_all_phases"] == [*gates.PHASES]
    assert set(NEEDS) == set(ALL_GATES)


def test_u2_a_gate_that_the_site_adds_meets_a_policy_that_requires_it(site: SoundSite) -> None:
    site.shared["gate_more"] = {"gpufleet.baremetal.gpu_bandwidth_gate": {}}
    for role in ("passport", "join"):
        site.shared[f"{role}_policy"] = {
            "required_gates": ["image_verify", "dcgm_gate", "gpu_bandwidth_gate", "gpu_state_gate"]
        }
    assert site.told(policy.look) == []
    site.shared["gate_gpu_state"] = False
    [cause] = site.told(policy.look)
    assert "requires gpu_state_gate" in cause["what"] and "passport_policy, join_policy" in cause["seen"]


@pytest.mark.parametrize(
    "given",
    [
        # What a policy asks of a gate counts where it requires that gate.
        {"required_gates": ["image_verify", "kernel_log_gate"], "gate_dcgm_level": 1},
        {"gate_dcgm_level": 2, "gate_more": {"gpufleet.baremetal.dcgm_gate": {"level": 4}}},
        {"passport_policy": '{"max_gate_age": 3600}'},
        # In a role of ours a gate of ours has a short name as well.
        {"required_gates": ["gpu_bandwidth_gate"], "gate_more": {"gpu_bandwidth_gate": {}}},
    ],
    ids=["not required", "asked by the site", "as text", "by its short name"],
)
def test_u2_a_policy_that_nodes_meet_is_not_told(site: SoundSite, given: dict[str, Any]) -> None:
    required = {"required_gates": given.pop("required_gates")} if "required_gates" in given else {}
    site.shared |= {**{f"{role}_policy": required for role in ("passport", "join") if required}, **given}
    assert site.told(policy.look) == []


def test_a_policy_that_requires_dcgm_is_met_by_nobody_where_dcgm_is_not_asked(site: SoundSite) -> None:
    """As for GPUs of AMD; the default policy is one of those."""
    site.shared |= {"gate_dcgm_level": 0, "gate_level": "readmit"}
    [cause] = site.told(policy.look)
    told = "it requires dcgm_gate, and nothing runs it (gate_more, gate_level readmit, gate_dcgm_level 0)"
    assert told in cause["what"] and "for more than" not in cause["what"]
    [group, _section] = blocks("docs/how-to/judge-amd-nodes.md")
    site.shared |= yaml.safe_load(group.text)
    told = site.told(*OF_THE_CONTROLLER)
    # The page says so: what is enough the site writes down itself.
    lacking = [cause["what"] for cause in told if cause["check"] == "sku"]
    assert [one.rpartition(" ")[2] for one in lacking] == ["network"] and len(told) == 1, told
    site.shared["gate_more"] = {}
    site.shared["passport_policy"] = site.shared["join_policy"] = {"required_gates": ["kernel_log_gate"]}
    assert site.told(*OF_THE_CONTROLLER) == [] and site.shared["gpufleet_sku"] == "mi300x-8"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"gate_more": {"gpufleet.baremetal.gpu_brun_gate": {}}}, ["gpu_brun_gate", "has no such gate"]),
        ({"gate_more": {"gpufleet.baremetal.gpu_burn_gate": {"comprae": "/x"}}}, ["gpu_burn_gate", "comprae"]),
        ({"gate_more": {"gpu_burn_gate": {"timeout": "long"}}}, ["gpu_burn_gate", "timeout"]),
        ({"gate_more": {"gpufleet.baremetal.training_gate": {}}}, ["training_gate", "command, log"]),
        ({"gate_more": {"gpufleet.baremetal.dcgm_gate": {"detached": True}}}, ["dcgm_gate", "detached"]),
        ({"gate_more": {"acme.gates.own": {"detached": "yes"}}}, ["acme.gates.own", "detached"]),
        ({"gate_more": {"gpu_burn_gate": ["tests"]}}, ["gpu_burn_gate", "no options"]),
        ({"gate_levels": {"full": {"more": ["acme.gates.own"]}}}, ["level full asks for acme.gates.own"]),
        ({"gate_levels": {"smokes": {}}}, ["gate_levels names smokes"]),
        ({"gate_levels": {"smoke": None}}, ["gate_levels says nothing of smoke"]),
        ({"gate_levels": {"smoke": {"dcgm_lvl": 1}}}, ["gate_levels.smoke has dcgm_lvl"]),
        ({"gate_levels": {"full": {"more": "acme.gates.own"}}}, ["gate_levels.full.more is acme.gates.own"]),
        ({"gate_levels": {"readmit": {"dcgm_level": 5}}}, ["gate_levels.readmit.dcgm_level is 5"]),
        ({"gate_phases": {"nv_link": []}}, ["gate_phases names nv_link"]),
    ],
)
def test_u2_what_the_role_gate_or_a_gate_of_it_would_not_take_is_told(
    site: SoundSite, given: dict[str, Any], words: list[str]
) -> None:
    """A batch is imaged for an hour before the role is asked."""
    site.shared |= given
    [cause] = site.told(gates.look)
    assert cause["check"] == "settings" and all(word in cause["what"] for word in words), cause


def test_u2_what_the_role_gate_takes_is_not_told(site: SoundSite) -> None:
    names = ("gpu_bandwidth", "pair", "storage")
    site.shared["gate_more"] = {f"gpufleet.baremetal.{name}_gate": None for name in names}
    site.shared["gate_more"] |= {"acme.gates.own": {"whatever": 1}, "gpufleet.baremetal.gate_outliers": {}}
    site.shared["gate_levels"] = {"smoke": {"dcgm_level": 0, "more": ["acme.gates.own"]}, "full": {}}
    assert site.told(gates.look) == []


def test_u2_what_the_gates_of_a_site_need_of_the_profile_is_told(site: SoundSite) -> None:
    """Without it each node of the batch ends as inconclusive, an hour later."""
    site.shared["gate_more"] = {f"gpufleet.baremetal.{name}_gate": {} for name in ("gpu_bandwidth", "storage")}
    [cause] = site.told(files.sku)
    assert "no section storage" in cause["what"] and cause["address"].endswith("h100-sxm-8.yaml"), cause
    site.shared["gate_level"] = "smoke"  # which runs neither
    assert site.told(files.sku) == []
    site.shared["gate_level"] = "full"
    site.shared["gate_more"] = {"gpu_bandwidth_gate": {"cases": ["no_such_case"]}}
    [cause] = site.told(files.sku)
    assert "no_such_case" in cause["what"], cause


@pytest.mark.parametrize("level", ["smoke", "readmit"])
def test_u2_a_level_that_asks_for_less_than_the_policy_is_told(site: SoundSite, level: str) -> None:
    burn = "gpufleet.baremetal.gpu_burn_gate"
    required = {"required_gates": ["dcgm_gate", "gpu_burn_gate"]}
    site.shared |= {"gate_level": level, "gate_more": {burn: {}}, "passport_policy": required, "join_policy": required}
    [cause] = site.told(policy.look)
    assert f"it asks dcgm_gate for more than gate_level {level}" in cause["what"]
    assert ("requires gpu_burn_gate, and nothing runs it" in cause["what"]) is (level == "smoke")
    site.shared["gate_levels"] = {level: {"dcgm_level": 3, "more": [burn]}}
    assert site.told(policy.look) == []


def test_u8_each_switch_of_a_playbook_is_one_that_is_looked_at() -> None:
    """What is neither yes nor no is read as no: of a renewal nothing would be renewed, and that called a success."""
    given = {name for names in PLAYBOOKS.values() for name in names}
    read = re.compile(r"\b([a-z][a-z0-9_]+) \| (?:default\([^)]*\) \| )?bool")
    books = " ".join(path.read_text(encoding="utf-8") for path in (ROOT / "playbooks").glob("*.yml"))
    assert set(read.findall(books)) & given - {"oob_ready_take_running"} == SWITCHES
    for name in SWITCHES:
        # The last ones are a yes to options of modules, and to playbooks and roles a silent no.
        for neither in ("ture", "y", "t", "true "):
            with pytest.raises(ConfigError, match="neither yes nor no"):
                settings.demand_heard({name: neither})
    settings.demand_heard(dict(zip(sorted(SWITCHES), (True, "no", "1", "{{ x }}", ""))))


def test_u8_each_number_of_a_playbook_is_looked_at_before_anything_is_written() -> None:
    """A filter reads ``2h`` as 0, and an option refuses it where its task comes: after a release."""
    given = {name for names in PLAYBOOKS.values() for name in names}
    books = " ".join(path.read_text(encoding="utf-8") for path in (ROOT / "playbooks").glob("*.yml"))
    read = set(re.findall(r"\b([a-z][a-z0-9_]+) \| (?:int|float)\b", books))
    read |= set(re.findall(r'(?:timeout|interval): "{{ ([a-z][a-z0-9_]+) }}"', books))
    guarded = {"passports_all_hours", "passports_days", "status_days"}  # with what is no number, a module refuses it
    assert read & given - guarded == NUMBERS
    for name in NUMBERS:
        for none in ("2m", "", "-1", "nan", "1 h", None, True, [3], "1_0"):
            with pytest.raises(ConfigError, match="no number") as told:
                settings.demand_heard({name: none})
            assert name in told.value.seen
        for number in (5, 0.3, "60", "0.5", "{{ x }}"):
            settings.demand_heard({name: number})


@pytest.mark.parametrize("said", ["y", "T", "ture"])
def test_u8_a_switch_of_a_role_that_is_neither_yes_nor_no_is_told(site: SoundSite, said: str) -> None:
    """It would switch the gate off."""
    site.shared["gate_gpu_state"] = said
    [cause] = site.told(settings.look)
    assert "gate_gpu_state" in cause["what"] and cause["hosts"] == ["gpu001", "gpu002", "gpu003"], cause
    site.shared["gate_gpu_state"] = "yes"
    assert site.told(settings.look) == []


def test_u2_a_policy_in_a_file_is_found_as_the_verbs_find_it_and_takes_the_place_of_the_variable(
    site: SoundSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["schema: 1", "required_gates: [image_verify, dcgm_gate, kernel_log_gate]"]
    (tmp_path / "policy.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.setenv("SITE_ETC", str(tmp_path))
    never = {"required_gates": ["gpu_burn_gate"]}
    for role in ("passport", "join"):
        site.shared |= {f"{role}_policy_file": "$SITE_ETC/policy.yml", f"{role}_policy": never}
    assert site.told(settings.look, policy.look) == []
