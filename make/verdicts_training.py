# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How training_gate is asked about the log of a training."""

from __future__ import annotations

import math
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import Diagnosis
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.document import Seen, read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.formats import LAYOUTS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.judge import begin, judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.section import NAME, training_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.taken import Taken
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Tool
from verdicts_recorded import ABOUT, NotAsked, Recorded, counted, verdict_of

#: Longer than any step takes.
_ANY = 1e12


def trained(recorded: Recorded) -> tuple[dict[str, Any], str]:
    """A run of as many steps as the log tells, as far as it told them, whose steps may take as long as they like.

    :raises NotAsked: for a log in none of the formats that the gate knows by itself.
    """
    text = recorded.path.read_text(encoding="utf-8", errors="replace")
    name = next((name for name in LAYOUTS if _seen(name, text).steps), "")
    if not name:
        raise NotAsked("no step in the form of a framework that is known, with its loss")
    numbers = [step.number for step in _seen(name, text).steps]
    row = {"first_step": numbers[0], "steps": max(3, len(numbers)), "step_ms": _ANY}
    profile = {**(recorded.profile or counted(Diagnosis())), NAME: {"runs": [_row(name, **row)]}}
    wanted = wanted_of(profile)
    one = training_of(wanted)
    run = Run(("train",), recorded.number("exit_status", 0), text.encode(), b"", "exit", math.inf)
    sheet = begin(wanted, one, wanted.gpu_count, ran=True)
    judge(sheet, Taken(run.argv, run.stdout, "", run), read(text, one), wanted, one)
    verdict = verdict_of("training_gate", sheet, Tool("reference training"), run, wanted)
    return verdict, f"exit status {run.rc}, {name}, {len(numbers)} steps"


def _row(name: str, **more: Any) -> dict[str, Any]:
    return {"name": "recorded", "format": name, "steps": 3, "warm_up": 0, **ABOUT, **more}


def _seen(name: str, text: str) -> Seen:
    return read(text, training_of(wanted_of({**counted(Diagnosis()), NAME: {"runs": [_row(name)]}})))
