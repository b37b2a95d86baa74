# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section ``storage`` that the page on drives shows is one, and the schema knows what a gate cannot read."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.section import section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate import nvme

PAGE = made.CHECKOUT / "docs" / "how-to" / "judge-drives.md"


@pytest.mark.skipif(not PAGE.is_file(), reason="this copy has no docs")
def test_the_section_on_the_page_is_read_as_it_stands() -> None:
    [section] = re.findall(r"```yaml\n(storage:\n.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    profile = {**made.profile(), **yaml.safe_load(section)}
    profiles.check(profile, made.PROFILE_SCHEMA)
    found = section_of(wanted_of(profile))
    assert [(one.name, one.count, one.size) for one in found.drives] == [("boot", 1, 960.0), ("data", 8, 3840.0)]
    assert found.tests == ["data_random", "data_read", "health"]
    assert found.entities(found.speeds[0]) == [f"data {number}" for number in range(8)]


@pytest.mark.parametrize(
    "wrong",
    [{"minimum": 0}, {"over": "some"}, {"pattern": "trim"}, {"name": "health"}, {"source": ""}, {"seconds": 0}],
)
def test_the_schema_refuses_what_cannot_be_measured(wrong: dict[str, Any]) -> None:
    profiles.check(nvme.profile(nvme.speed()), made.PROFILE_SCHEMA)
    with pytest.raises(ConfigError):
        profiles.check(nvme.profile(nvme.speed(**wrong)), made.PROFILE_SCHEMA)
    with pytest.raises(ConfigError):
        profiles.check(nvme.profile(drives=[{**nvme.kind("data", 1, 3840), "count": 0}]), made.PROFILE_SCHEMA)
