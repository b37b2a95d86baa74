# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section ``network`` that its page shows is one."""

from __future__ import annotations

import re

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.section import section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.speeds import speeds_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

PAGE = made.CHECKOUT / "docs" / "how-to" / "judge-ports.md"


@pytest.mark.skipif(not PAGE.is_file(), reason="this copy has no docs")
def test_the_section_on_the_page_is_read_as_it_stands() -> None:
    text = PAGE.read_text(encoding="utf-8")
    [section], [speeds] = (re.findall(rf"```yaml\n({key}:\n.*?)```", text, re.S) for key in ("network", "  speeds"))
    profile = {**made.profile(), **yaml.safe_load(section + speeds)}
    profiles.check(profile, made.PROFILE_SCHEMA)
    rails, store = section_of(wanted_of(profile))
    assert [one.minimum for one in speeds_of(wanted_of(profile), ["rail_write", "store_tcp"])] == [368.0, 90.0]
    assert (len(rails.ports), rails.lanes, store.ports, store.lanes) == (8, 4, ("ens1f0np0",), None)
