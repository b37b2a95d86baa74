# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role gate runs of what the site adds, in which order, and what it would not wait for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_fleet_status import Fleet
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from suite import playbook as playbooks

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("options", "refused"),
    [({"detached": True}, True), ({"detached": "yes"}, True), ({"detached": False}, False), (None, False)],
)
def test_a_gate_of_the_site_that_goes_on_by_itself_is_refused_before_anything_is_done(
    tmp_path: Path, options: Any, refused: bool
) -> None:
    fleet = Fleet(tmp_path)
    before = fleet.count()["events"]
    more = {"gpufleet.baremetal.kernel_log_gate": None, "gpufleet.baremetal.dcgm_gate": options}
    role = {"ansible.builtin.import_role": {"name": "gpufleet.baremetal.gate"}, "vars": {"gate_more": more}}
    fleet.play(role, ok=False, flags=("--limit", "fresh-imaging"))
    said = " ".join(fleet.output.replace("\\n", " ").split())
    told = "gate_more starts gpufleet.baremetal.dcgm_gate with detached" in said and "gate_wait" in said
    assert told is refused, fleet.output
    assert (fleet.count()["events"] == before) is refused, "validation begins where nothing is refused"


def _plan(settings: dict[str, Any], more: dict[str, str] | None = None) -> dict[str, Any]:
    """What the role makes of its settings, by its own variables and no task of it. more: of one of its tasks."""
    role = Path(__file__).resolve().parents[3] / "roles" / "gate"
    said: dict[str, Any] = dict(more or {})
    for name in ("defaults", "vars"):
        said |= yaml.safe_load((role / name / "main.yml").read_text(encoding="utf-8"))
    trusted = {name: trust_as_template(value) if isinstance(value, str) else value for name, value in said.items()}
    tags = {"ansible_run_tags": ["all"], "ansible_skip_tags": []}
    templar = Templar(DataLoader(), variables=trusted | tags | settings)
    asked = ("gate_asks_dcgm", "gate_in_order", "gate_part", "gate_asked")
    return {name: templar.template(trusted[name]) for name in (*asked, *(more or {}))}


OURS = "gpufleet.baremetal.{}_gate".format
MORE = {"acme.gates.own": {}, OURS("training"): {}, OURS("network"): None, OURS("gpu_burn"): {}, OURS("collective"): {}}
CHEAPEST_FIRST = [OURS("gpu_burn"), OURS("collective"), OURS("network"), OURS("training"), "acme.gates.own"]


@pytest.mark.parametrize(
    ("settings", "level", "order"),
    [
        ({}, 3, CHEAPEST_FIRST),
        ({"gate_dcgm_level": 4}, 4, CHEAPEST_FIRST),
        ({"gate_level": "readmit"}, 2, CHEAPEST_FIRST),
        ({"gate_level": "smoke", "gate_dcgm_level": 4}, 1, []),
        ({"gate_dcgm_level": 0}, 0, CHEAPEST_FIRST),
        ({"gate_level": "readmit", "gate_dcgm_level": 0}, 0, CHEAPEST_FIRST),
        # What a site says of a level counts over the shipped plan, and no level asks for more where it says nothing.
        ({"gate_level": "smoke", "gate_levels": {"smoke": {"more": ["acme.gates.own"]}}}, 1, ["acme.gates.own"]),
        ({"gate_level": "smoke", "gate_levels": {"readmit": {"dcgm_level": 1}}}, 1, []),
        ({"gate_level": "readmit", "gate_levels": {}}, 2, CHEAPEST_FIRST),
        ({"gate_level": "readmit", "gate_levels": {"readmit": {"dcgm_level": 0}}}, 0, CHEAPEST_FIRST),
        ({"gate_order": ["acme.gates.own"], "gate_more": {OURS("gpu_burn"): {}, "acme.gates.own": {}}}, 3, None),
    ],
)
def test_what_a_level_runs_and_in_which_order(settings: dict[str, Any], level: int, order: list[str] | None) -> None:
    found = _plan({"gate_more": MORE, **settings})
    assert int(found["gate_asks_dcgm"]) == level
    assert found["gate_in_order"] == (["acme.gates.own", OURS("gpu_burn")] if order is None else order)


@pytest.mark.parametrize(
    ("tags", "skipped", "phases", "order"),
    [
        (["all"], [], 6, CHEAPEST_FIRST),
        (["gpu"], [], 2, CHEAPEST_FIRST[:1]),
        (["fabric", "nvlink"], [], 3, CHEAPEST_FIRST[1:3]),
        (["end_to_end"], [], 2, CHEAPEST_FIRST[3:]),
        (["storage"], [], 2, []),
        (["preparation"], [], 1, []),
        (["all"], ["gpu", "end_to_end"], 4, CHEAPEST_FIRST[1:3]),
        (["nothing_of_ours"], [], 1, []),
    ],
)
def test_tags_choose_the_phases_and_a_part_is_told_as_one(
    tags: list[str], skipped: list[str], phases: int, order: list[str]
) -> None:
    found = _plan({"gate_more": MORE, "ansible_run_tags": tags, "ansible_skip_tags": skipped})
    assert found["gate_in_order"] == order and len(found["gate_asked"]) == phases
    assert found["gate_part"] is (phases < 6)


def test_a_phase_that_nobody_knows_is_refused_and_takes_no_gate_out_of_a_full_run() -> None:
    strange = {"gate_more": MORE, "gate_phases": {"nv_link": [OURS("collective")]}}
    found = _plan(strange)
    assert OURS("collective") in found["gate_in_order"] and found["gate_part"] is False
    told = {"when": "{{ gate_refused }}", "msg": "{{ gate_refusal }}"}
    for form in ("main.yml", "for_all.yml"):
        tasks = (made.CHECKOUT / "roles" / "gate" / "tasks" / form).read_text(encoding="utf-8")
        assert "gate_refused" in tasks and "gate_refusal" in tasks
    wrong: list[dict[str, Any]] = [{"smokes": {}}, {"smoke": {"dcgm_lvl": 1}}, {"smoke": None}]
    wrong += [{"readmit": {"dcgm_level": level}} for level in (5, -1, None, "two")]
    for levels in wrong:
        assert _plan({"gate_levels": levels}, told)["when"] is True, levels
        assert "gate_levels has " in _plan({"gate_levels": levels}, told)["msg"]
    for settings, refused in ((strange, True), ({"gate_more": MORE}, False), ({"gate_levels": {"full": {}}}, False)):
        assert _plan(settings, told)["when"] is refused
    said = _plan(strange, told)["msg"]
    assert "gate_phases names nv_link" in said and "preparation, gpu, nvlink" in said


def test_a_node_that_was_judged_in_part_ends_with_the_last_task_of_the_role() -> None:
    """Whatever comes after the role, its passport first, is not for it."""
    for form in ("main.yml", "for_all.yml"):
        tasks = (made.CHECKOUT / "roles" / "gate" / "tasks" / form).read_text(encoding="utf-8")
        assert yaml.safe_load(tasks)[-1]["ansible.builtin.import_tasks"] == "gates.yml"
    tasks = (made.CHECKOUT / "roles" / "gate" / "tasks" / "gates.yml").read_text(encoding="utf-8")
    last = yaml.safe_load(tasks)[-1]
    assert (last["ansible.builtin.meta"], last["when"]) == ("end_host", "gate_part | bool")
    assert _plan({"ansible_run_tags": ["storage"]})["gate_part"] is True
    assert _plan({"ansible_skip_tags": ["gpu"]})["gate_part"] is True and _plan({})["gate_part"] is False


@pytest.mark.parametrize("playbook", ["day0_bringup", "day2_recycle", "revalidate"])
def test_a_playbook_knows_its_phases_and_refuses_other_tags_before_anything_is_asked(playbook: str) -> None:
    plays = yaml.safe_load((made.CHECKOUT / "playbooks" / f"{playbook}.yml").read_text(encoding="utf-8"))
    assert all(play["tags"] == ["always"] for play in plays), "what comes before the gates is a part of each run"
    for play in plays[:1] if playbook == "day0_bringup" else plays[:-1] or plays:
        if playbook == "day0_bringup":  # where it says whom it is for, which costs nobody a task
            assert f"difference({['all', *_plan({})['gate_asked']]})" in play["hosts"]
            continue
        first = play["tasks"][0]
        [phases] = [value for name, value in first["vars"].items() if name.endswith("_phases")]
        assert "ansible.builtin.fail" in first and phases == _plan({})["gate_asked"]


def test_day_0_refuses_a_mistyped_tag_with_those_that_there_are(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("gpu001\n", encoding="utf-8")
    argv = ["gpufleet.baremetal.day0_bringup", "-i", str(tmp_path / "hosts"), "--tags", "fabrik"]
    done = playbooks.run(argv, dict(os.environ), timeout=60)
    assert done.returncode != 0 and "fabrik: one of these is no phase of the gates" in done.stdout + done.stderr
    assert "TASK" not in done.stdout
