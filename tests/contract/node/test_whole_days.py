# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook passports takes whole days and hours, and nothing else for seconds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
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
