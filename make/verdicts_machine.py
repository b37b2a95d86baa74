# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How cpu_memory_gate is asked about what stress-ng found."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory import loads
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.section import STRESSORS, Load
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import Diagnosis
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    NODE,
    Sheet,
    Tool,
    as_verdict,
    digest,
    now_utc,
)
from verdicts_recorded import ABOUT, NotAsked, Recorded, counted

_ROW = re.compile(r"^    - stressor: (\S+)$", re.M)
_ANY = 1e-9


def stressed(recorded: Recorded) -> tuple[dict[str, Any], str]:
    """One load, of a machine whose kernel saw it work.

    :raises NotAsked: for a load that the gate does not ask for.
    """
    text = recorded.path.read_text(encoding="utf-8", errors="replace")
    named = next(iter(_ROW.findall(text)), "cpu")
    if named not in STRESSORS:
        raise NotAsked(f"stress-ng was asked for {named}")
    load = Load("recorded", named, "all", _ANY, 0, None, "", ABOUT["source"])
    run = Run(("stress-ng",), recorded.number("exit_status", 0), text.encode(), b"", "exit", 3600.0)
    sheet = Sheet()
    sheet.require(load.cell, NODE)
    seen = read(run, load)
    loads.judge(sheet, loads.Taken(load, run, seen, "; ".join(seen.problems)))
    wanted = wanted_of(recorded.profile or counted(Diagnosis()))
    verdict = as_verdict(
        "cpu_memory_gate", sheet, tool=Tool("stress-ng", seen.version), started=now_utc(),
        evidence=digest(*run.parts()), profile=wanted.reference(),
    )  # fmt: skip
    return verdict, f"exit status {run.rc}, {named}"
