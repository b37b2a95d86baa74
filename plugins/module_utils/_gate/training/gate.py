# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The training gate: runs a site's reference training on this node, or reads its log, and judges it. PRIVATE.

PRIVATE to the collection. Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import evidence
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.alone import BUSY, TEXT, alone
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.begun import Begun, begin
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.on_bus import on_bus
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training import judge as judging
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.section import Training, training_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.taken import (
    Taken,
    asked_of,
    by_log,
    by_run,
    told,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Tool, answer, digest

GATE = "training_gate"
TOOL = "reference training"
_PCI = "/sys/bus/pci/devices"
#: A machine without a name of its own is called so, as many others are.
_NOBODY = frozenset({"", "localhost", "(none)"})


def training_gate(params: Mapping[str, Any], ctx: Context) -> Result:
    """Train, or read what a job has trained, and say what that proves."""
    return begin(GATE, params, lambda begun: _look(params, ctx, begun), needs=lambda wanted: _asked(params, wanted))


def _asked(params: Mapping[str, Any], wanted: Wanted) -> Training:
    """:raises ConfigError: where options or profile do not say what to judge, and by what."""
    asked_of(params)
    return training_of(wanted, str(params.get("test") or ""))


def _look(params: Mapping[str, Any], ctx: Context, begun: Begun) -> Result:
    one, (command, log) = _asked(params, begun.wanted), asked_of(params)
    if not command:
        return _judged(params, ctx, begun, one, _logged(params, one, log))
    argv = told(command)
    if not ctx.may_write(f"run {' '.join(argv)}", destructive=True):
        verdict = begun.unmeasured("not run in check mode: it would load the GPUs", "check_mode")
        return answer({**verdict, "argv": argv})
    taken = _ran(params, ctx, one, command)
    if taken is None:
        return answer({**begun.unmeasured(TEXT, BUSY), "argv": argv})
    return _judged(params, ctx, begun, one, taken)


def _ran(params: Mapping[str, Any], ctx: Context, one: Training, command: list[str]) -> Optional[Taken]:
    """None where another gate loads the GPUs."""
    timeout = float(params.get("timeout") or 3600)
    with alone(params, ctx, timeout=timeout) as free:
        return by_run(command, one, ctx, timeout=timeout) if free else None


def _logged(params: Mapping[str, Any], one: Training, log: str) -> Taken:
    given = [str(name) for name in params.get("node_names") or []]
    own = os.uname().nodename
    names = given or [name for name in (own.partition(".")[0],) if name.lower() not in _NOBODY]
    age = float(params.get("max_age") or 86400)
    return by_log(log, one, run_id=str(params.get("run_id") or ""), max_age=age, names=names)


def _judged(params: Mapping[str, Any], ctx: Context, begun: Begun, one: Training, taken: Taken) -> Result:
    found = on_bus(begun.wanted, str(params.get("pci_path") or _PCI))
    sheet = judging.begin(begun.wanted, one, found, ran=taken.run is not None)
    judging.judge(sheet, taken, read(taken.text, one, mark=taken.mark), begun.wanted, one)
    kept = evidence.save(sheet, params, ctx, lambda: {"gate": GATE, "runs": [taken.as_evidence()]})
    verdict = begun.verdict(sheet, Tool(TOOL, "", taken.argv), digest(*taken.parts()))
    return answer(verdict, evidence_path=kept)
