# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section ``gpu_burn`` that its page shows is one."""

from __future__ import annotations

import re

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.section import burns_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

PAGE = made.CHECKOUT / "docs" / "how-to" / "burn-gpus-in.md"


@pytest.mark.skipif(not PAGE.is_file(), reason="this copy has no docs")
def test_the_section_on_the_page_is_read_as_it_stands() -> None:
    [section] = re.findall(r"```yaml\n(gpu_burn:\n.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    profile = {**made.profile(), **yaml.safe_load(section)}
    profiles.check(profile, made.PROFILE_SCHEMA)
    [burn] = burns_of(wanted_of(profile))
    assert (burn.name, burn.seconds, burn.unit) == ("burn", 1800, "Gflop/s, gpu-burn tensor, 90 % of memory")
