# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A passport by the policy that the page on soaks shows: a soak takes days, and was begun before the newest boot."""

from __future__ import annotations

import re
import time
from typing import Any

import passports
import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.grounds import grounds
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_policy as preflight
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

DAY = 86400.0
PAGE = made.CHECKOUT / "docs" / "how-to" / "soak.md"
pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="this copy has no docs")


def policy() -> dict[str, Any]:
    [text] = re.findall(r"```yaml\n(passport_policy:.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    return dict(yaml.safe_load(text)["passport_policy"])


def soaked(number: int, *, ago: float, gpus: list[str]) -> dict[str, Any]:
    """The pass of a soak of two days that began so many seconds ago."""
    cells = [{**passports.check("uuid", uuid), "entity": f"GPU {at}"} for at, uuid in enumerate(gpus)]
    told = {"asked": {"level": 48, "tests": ["burn"], "profile": "sha256:p"}, "checks": cells}
    return passports.verdict(number, "soak_gate", ago=ago, profile={"sku": "h100", "digest": "sha256:p"}, **told)


def test_a_shorter_soak_than_the_policy_asks_for_is_none_and_by_itself_it_asks_for_a_day() -> None:
    known = {"now": time.time(), **_told(before_the_boot())}
    for gates, short in (({"soak_gate": {"level": 72}}, "72"), ({"soak_gate": {"level": 48}}, ""), ({}, "")):
        found = grounds(known, {**passports.POLICY, **policy(), "gates": gates})
        assert [short in one for one in found.reasons] == [True] * bool(short), found
    known["verdicts"] = [event for event in known["verdicts"] if event["name"] != "soak_gate"]
    hour = {**soaked(11, ago=2 * DAY, gpus=passports.GPUS)}
    hour["data"]["asked"]["level"] = 1
    known["history"] = [hour if event["id"] == 11 else event for event in known["history"]]
    assert "wanted 24" in str(grounds(known, {**passports.POLICY, **policy(), "gates": {}}).reasons)


def before_the_boot(*, ago: float = 2 * DAY, gpus: list[str] = passports.GPUS) -> dict[str, Any]:
    """The node was imaged, soaked, booted once more, and validated."""
    known = passports.evidence(imaged={"id": 9, "at": time.time() - 30 * DAY})
    known["verdicts"].insert(0, soaked(11, ago=ago, gpus=gpus))
    return known


def test_a_node_meets_the_policy_on_the_page_also_after_its_next_boot(key: str) -> None:
    mine = {**passports.POLICY, **policy()}
    told = passports.issue(key, policy=mine, evidence=before_the_boot())
    assert told["valid"], told
    judged = passports.run(evidence={**before_the_boot(), "stored": passports.stored(told)}, policy=mine)
    assert judged["valid"] and "soak_gate" in told["passport"]["gates"]


@pytest.mark.parametrize(
    ("ago", "old"),
    [(16 * DAY - 900, False), (16 * DAY + 900, True)],
    ids=["ended two weeks ago at most", "longer ago"],
)
def test_the_age_of_a_soak_counts_from_its_end(ago: float, old: bool) -> None:
    found = grounds({"now": time.time(), **_told(before_the_boot(ago=ago))}, {**passports.POLICY, **policy()})
    assert [*found.reasons] == [] and ["soak_gate" in one for one in found.aged] == [True] * old


def test_a_soak_of_other_gpus_is_none_of_this_boot() -> None:
    other = [*passports.GPUS[1:], "GPU-swapped"]
    found = grounds({"now": time.time(), **_told(before_the_boot(gpus=other))}, {**passports.POLICY, **policy()})
    assert ["soak_gate" in one and one.startswith("boot: ") for one in found.reasons] == [True]


def test_the_policy_on_the_page_is_one_that_nodes_can_meet() -> None:
    asked = {"required_gates": policy()["required_gates"], "gates": {}}
    assert preflight._of_gates(asked, dict(preflight.DEFAULTS)) == []
    assert preflight._of_gates({**asked, "required_gates": ["network_gate"]}, dict(preflight.DEFAULTS)) != []


def _told(known: dict[str, Any]) -> dict[str, Any]:
    return {**known, "history": known["verdicts"]}
