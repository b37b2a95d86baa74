# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verdict of this gate has measured, for the floors of a profile. PRIVATE to the collection.

Runs on nodes by what imports it: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.section import NAME, NCCL, TOOLS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.shown import Measured, Measures

#: As the section writes the unit of a floor.
_UNIT = re.compile(r"GB/s busbw, (\d{1,6}) to (\d{1,6}) GiB, ([a-z]+)\Z")
_CELL, _RANKS = ".busbw", ".ranks"
_PROGRAM = re.compile(r"(?:.*/)?([a-z][a-z0-9_]*_perf)\Z")


def read(verdict: Mapping[str, Any]) -> dict[str, Measured]:
    """By test its slowest size. verdict: one that passed, as the ledger has it.

    Which program a test was, its command tells: tests and programs stand there in one order.
    """
    programs = [match.group(1) for match in map(_PROGRAM.match, map(str, verdict["argv"])) if match]
    rows = [(row, _UNIT.match(row["unit"])) for row in verdict["checks"] if row["id"].endswith(_CELL)]
    ranks = {row["id"]: row["measured"] for row in verdict["checks"] if row["id"].endswith(_RANKS)}
    if len(programs) != len(rows):
        return {}
    libraries = [library for library, tool in TOOLS.items() if tool == verdict["tool"]["name"] and library != NCCL]
    found = {}
    for program, (row, unit) in zip(programs, rows):
        name = row["id"][: -len(_CELL)]
        if unit:
            sizes = {"from_gib": int(unit.group(1)), "to_gib": int(unit.group(2))}
            told = {"name": name, "program": program, "algorithm": unit.group(3), **sizes}
            told.update({"library": libraries[0]} if libraries else {})
            found[name] = Measured(told, float(row["measured"]), row["unit"], int(ranks[name + _RANKS]))
    return found


MEASURES = Measures(NAME, "tests", read)
