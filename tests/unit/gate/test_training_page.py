# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sections ``training`` that their page shows are ones."""

from __future__ import annotations

import re

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.section import training_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

PAGE = made.CHECKOUT / "docs" / "how-to" / "judge-a-training.md"


@pytest.mark.skipif(not PAGE.is_file(), reason="this copy has no docs")
def test_the_sections_on_the_page_are_read_as_they_stand() -> None:
    found = {}
    for section in re.findall(r"```yaml\n(training:\n.*?)```", PAGE.read_text(encoding="utf-8"), re.S):
        profile = {**made.profile(), **yaml.safe_load(section)}
        profiles.check(profile, made.PROFILE_SCHEMA)
        for row in profile["training"]["runs"]:
            found[row["name"]] = training_of(wanted_of(profile), row["name"])
    assert list(found) == ["gpt", "by_keys", "by_pattern"]
    assert (found["gpt"].numbers[-1], found["gpt"].step_ms, found["gpt"].start_mark) == (
        200,
        None,
        "gpufleet run {run}",
    )
    words = found["by_pattern"].format.fields("step 7: loss 10.25, 512.5 ms")
    assert words == {"step": "7", "loss": "10.25", "time": "512.5"}
