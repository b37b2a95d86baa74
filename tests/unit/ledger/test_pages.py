# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of states in the reference is the one in the code."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifecycle import STATES, WAYS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "ledger.md"


def test_the_page_tells_every_way() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## States")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]*)\|$", section, re.M)
    told = {}
    for target, sources, evidence in rows:
        named = set(re.findall(r"`(\w+)`", sources))
        told[target] = set(STATES) - named if sources.startswith("any but") else named
        asks = WAYS[target].missing({}, {}, 0.0) != ""
        assert bool(evidence.strip()) == asks, target
    assert told == {target: set(way.sources) for target, way in WAYS.items()}
