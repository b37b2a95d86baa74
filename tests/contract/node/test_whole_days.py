# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook passports takes whole days and hours, and nothing else for seconds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_fleet_status import Fleet

pytestmark = pytest.mark.slow


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


@pytest.mark.parametrize("hours", ["2d", 2.0, "+2"])
def test_q6_a_number_of_hours_that_is_none_is_refused(fleet: Fleet, hours: object) -> None:
    given = {"passports_renew": True, "passports_all": True, "passports_all_hours": hours}
    before = fleet.count()
    fleet.book("gpufleet.baremetal.passports", "-e", json.dumps(given), ok=False)
    assert "issued_within" in fleet.output and f"{hours} hours" in fleet.output and fleet.count() == before


@pytest.mark.parametrize("days", ["60d", 30.0, " 60", -5, "+60", "1_0"])
@pytest.mark.parametrize("renew", [False, True])
def test_q6_a_number_of_days_that_is_none_is_refused_and_not_taken_for_seconds(
    fleet: Fleet, days: object, renew: bool
) -> None:
    given = {"passports_days": days, "passports_renew": renew}
    fleet.book("gpufleet.baremetal.passports", "-e", json.dumps(given), ok=False)
    assert "expire_within" in fleet.output and f"{days} days" in fleet.output


@pytest.mark.parametrize("given", [{"passports_days": 90}, {"passports_days": 15, "passport_lifetime": 1296000}])
@pytest.mark.parametrize("renew", [False, True])
def test_q6_more_days_than_a_passport_lives_are_refused(fleet: Fleet, given: dict[str, int], renew: bool) -> None:
    before = fleet.count()
    fleet.book("gpufleet.baremetal.passports", "-e", json.dumps({**given, "passports_renew": renew}), ok=False)
    said = " ".join(fleet.output.replace("\\n", " ").split())
    assert f"passports_days is {given['passports_days']}" in said and "passport_lifetime" in said, fleet.output
    assert fleet.count() == before
    fewer = {**given, "passports_days": given["passports_days"] - 1}
    fleet.book("gpufleet.baremetal.passports", "--limit", "admitted", "-e", json.dumps(fewer))


def test_q6_the_playbook_takes_a_passports_life_from_the_role() -> None:
    root = Path(__file__).resolve().parents[3]
    life = yaml.safe_load((root / "roles/passport/defaults/main.yml").read_text(encoding="utf-8"))["passport_lifetime"]
    text = (root / "playbooks/passports.yml").read_text(encoding="utf-8")
    assert text.count(f"attribute='passport_lifetime', default={life})") == text.count("'passport_lifetime'") == 2
