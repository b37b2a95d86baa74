# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reference says what the code does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles, xids
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cries import (
    CRIES,
    IN_DOUBT,
    OF_NODE,
    OF_SITE,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm import errors as dcgm_errors
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm import exits as dcgm_exits
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state import exits as smi_exits
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.cells import RULES
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log import sxids
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage import errors as storage_errors
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.climbed import CLIMBS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.event import ATTEMPTS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.remedies import BUDGETS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import REMEDIES
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

DOCS = made.CHECKOUT / "docs" / "reference"
pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="this copy has no docs")


def rows(title: str) -> dict[str, list[str]]:
    """The table under a heading, by its first column."""
    text = (DOCS / "remedies.md").read_text(encoding="utf-8")
    section = text.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    cells = [[cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in lines]
    return {row[0].strip(): row[1:] for row in cells if row[0].strip().isdigit()}


def test_dcgm_errors() -> None:
    expected = {str(number): [row.words, row.remedy, row.source] for number, row in dcgm_errors.ERRORS.items()}
    assert rows("DCGM errors") == expected


def test_exits() -> None:
    expected = {str(number): [row.kind, row.words, row.remedy] for number, row in dcgm_exits.EXITS.items()}
    assert rows("Exit status of dcgmi") == expected


def test_exits_of_nvidia_smi() -> None:
    expected = {str(number): [row.verdict, row.words, row.remedy] for number, row in smi_exits.EXITS.items()}
    assert rows("Exit status of nvidia-smi") == expected


def test_the_cells_of_the_gpus_state() -> None:
    text = (DOCS / "gates.md").read_text(encoding="utf-8").split("## gpu_state_gate", 1)[1].split("\n## ", 1)[0]
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.M)) == set(RULES)
    schema = json.loads(made.PROFILE_SCHEMA.read_text(encoding="utf-8"))
    assert set(schema["$defs"]["cell"]["properties"]["name"]["enum"]) == set(RULES)


def test_xids() -> None:
    expected = {str(number): [row.words, row.remedy, row.source] for number, row in xids.XIDS.items()}
    assert rows("Xid") == expected


def test_sxids() -> None:
    known = {number: sxids.look_up(number) for number in sxids.SXIDS}
    expected = {str(n): [r.words, "yes" if r.fatal else "no", r.remedy, r.source] for n, r in known.items()}
    assert rows("SXid") == expected


def test_drives() -> None:
    for title, table in (
        ("What an NVMe drive warns of", storage_errors.WARNINGS),
        ("Errors of a drive under load", storage_errors.OF_THE_DRIVE),
    ):
        assert rows(title) == {str(number): [row.text, row.remedy, row.source] for number, row in table.items()}


def test_what_trainings_cry() -> None:
    text = (DOCS / "remedies.md").read_text(encoding="utf-8")
    section = text.split("\n## What the log of a training cries\n", 1)[1].split("\n## ", 1)[0]
    told = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \| `(\w+)` \| (.+) \|$", section, re.M)
    whose = {OF_NODE: "the node", IN_DOUBT: "in doubt", OF_SITE: "the site"}
    assert told == [(cry.id, cry.words, whose[cry.whose], cry.remedy, cry.source) for cry in CRIES]


def test_the_ladder() -> None:
    text = (DOCS / "remedies.md").read_text(encoding="utf-8").split("\n## ", 1)[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", text, re.M)) == REMEDIES


def test_h2_the_recycles_that_day_2_tries_are_documented() -> None:
    text = (DOCS / "remedies.md").read_text(encoding="utf-8")
    section = text.split("\n## What day 2 tries by itself\n", 1)[1].split("\n## ", 1)[0]
    told = re.findall(r"^\| `(\w+)` \| (\d+) \| (.+) \|$", section, re.M)
    assert told == [(remedy, str(budget.tries), budget.source) for remedy, budget in BUDGETS.items()]
    assert set(BUDGETS) == set(ATTEMPTS)


def test_h2_what_is_due_when_a_finding_comes_back_is_documented() -> None:
    text = (DOCS / "remedies.md").read_text(encoding="utf-8")
    section = text.split("\n### Where a finding comes back\n", 1)[1].split("\n## ", 1)[0]
    told = re.findall(r"^\| `(\w+)` \| `(\w+)` \| `(\w+)` \| (.+) \|$", section, re.M)
    assert told == [(remedy, *climb) for remedy, climb in CLIMBS.items()]
    assert {word for climb in CLIMBS.values() for word in climb[:2]} <= set(BUDGETS)


def test_the_example_of_a_profile_is_one(tmp_path: Path) -> None:
    example = re.findall(r"```yaml\n(---\nschema: .*?)```", (DOCS / "profiles.md").read_text(encoding="utf-8"), re.S)[0]
    path = tmp_path / "h100-nvl-2.yaml"
    path.write_text(example, encoding="utf-8")
    profile = profiles.read(path, yaml.safe_load(example)["sku"], made.PROFILE_SCHEMA)
    assert profile.data["gpu"]["count"]["value"] == 2
