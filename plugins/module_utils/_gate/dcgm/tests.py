# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tests that a profile wants to see of DCGM. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.options import Version, canonical
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.section import section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted, version_of


@dataclass(frozen=True)
class WantedTest:
    """A DCGM test that must be there. scope ``gpu``: once for each GPU; ``node``: once."""

    name: str
    scope: str
    source: str


def wanted_tests(wanted: Wanted, level: int, names: Sequence[str], version: Optional[Version]) -> list[WantedTest]:
    """The tests that a run of this level, or of these names, must show with this version of DCGM.

    Where the version is not known, every test of the level is wanted.
    """
    known = {canonical(str(row["name"])): row for row in section_of(wanted).tests}
    if names:
        rows = [(canonical(name), known.get(canonical(name), {})) for name in names]
        return [WantedTest(name, str(row.get("scope", "gpu")), str(row.get("source", "task"))) for name, row in rows]
    return [
        WantedTest(name, str(row.get("scope", "gpu")), str(row["source"]))
        for name, row in known.items()
        if int(row["level"]) <= level and _in_version(row, version)
    ]


def _in_version(row: Mapping[str, Any], version: Optional[Version]) -> bool:
    if version is None:
        return True
    too_old = version < version_of(row.get("since", "0"))
    return not too_old and ("until" not in row or version < version_of(row["until"]))
