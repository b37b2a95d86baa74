# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section ``soak`` that the page on soaks shows is one, and the schema knows what a gate cannot read."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.section import plan_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

PAGE = made.CHECKOUT / "docs" / "how-to" / "soak.md"
pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="this copy has no docs")


def section() -> dict[str, Any]:
    [text] = re.findall(r"```yaml\n(soak:\n.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    return dict(yaml.safe_load(text)["soak"])


def test_the_section_on_the_page_is_read_as_it_stands() -> None:
    profile = {**made.profile(), "soak": section()}
    profiles.check(profile, made.PROFILE_SCHEMA)
    found = plan_of(wanted_of(profile))
    assert (found.interval, found.gap, found.interruptions) == (30.0, 300.0, 1)
    assert [(one.cell, one.wanted, one.unit) for one in found.limits] == [
        ("temperature.max", 88.0, "C"),
        ("power.mean", 500.0, "W"),
    ]
    assert found.limits[0].keeps(88) and not found.limits[0].keeps(88.5)
    assert found.limits[1].keeps(500) and not found.limits[1].keeps(499.9)


@pytest.mark.parametrize(
    "wrong",
    [{"interval_seconds": 0}, {"interval_seconds": 601}, {"interruptions": -1}, {"source": ""}, {"limits": [{}]}],
)
def test_the_schema_refuses_what_nobody_can_soak_by(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        profiles.check({**made.profile(), "soak": {**section(), **wrong}}, made.PROFILE_SCHEMA)
