# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section ``cpu_memory`` that its page shows is one, and the schema knows what a gate cannot read."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.section import section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate import stress

PAGE = made.CHECKOUT / "docs" / "how-to" / "judge-cpus-and-memory.md"


@pytest.mark.skipif(not PAGE.is_file(), reason="this copy has no docs")
def test_the_section_on_the_page_is_read_as_it_stands() -> None:
    [section] = re.findall(r"```yaml\n(cpu_memory:\n.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    profile = {**made.profile(), **yaml.safe_load(section)}
    profiles.check(profile, made.PROFILE_SCHEMA)
    found = section_of(wanted_of(profile))
    assert (
        found.tests == ["cpu_all", "cpu_speed", "health", "linpack", "memory_fill"] and len(found.machine.entities) == 8
    )


WHOLE: dict[str, Any] = {"seconds": 1}


@pytest.mark.parametrize(
    "wrong",
    [
        *(
            {"minimum": 0},
            {"version": None},
            {"minimum": None},
            {"stressor": "fork"},
            {"name": "health"},
            {"source": ""},
        ),
        *({"seconds": 0}, {"method": "a b"}, {"memory_percent": 50}),
        *({"stressor": "vm", "memory_percent": None}, {"stressor": "vm", "memory_percent": 96}),
    ],
)
def test_the_schema_refuses_what_cannot_be_loaded(wrong: dict[str, Any]) -> None:
    good = stress.profile(stress.load(**WHOLE), stress.load("fill", "vm", **WHOLE))
    profiles.check(good, made.PROFILE_SCHEMA)
    with pytest.raises(ConfigError):
        profiles.check(stress.profile(stress.load(**{**WHOLE, **wrong})), made.PROFILE_SCHEMA)


@pytest.mark.parametrize("name", ["cpu_threads", "cpu_sockets", "memory_gib", "memory_controllers", "corrected_errors"])
def test_the_schema_refuses_half_a_machine(name: str) -> None:
    for value in (None, -1):
        with pytest.raises(ConfigError):
            profiles.check(stress.profile(**{name: value}), made.PROFILE_SCHEMA)
