# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How gpu_bandwidth_gate is asked about what nvbandwidth printed."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import Diagnosis
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.document import RAN, Seen, read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.judge import judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.section import floors_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Tool
from verdicts_recorded import ABOUT, Recorded, counted, verdict_of

#: Less than any bandwidth: of a machine of no SKU nobody knows more than that it was measured.
_ANY = 1e-6


def gpu_bandwidth(recorded: Recorded) -> tuple[dict[str, Any], str]:
    text = recorded.path.read_text(encoding="utf-8", errors="replace")
    seen = read(text)
    profile = recorded.profile or _as_recorded(seen)
    wanted = wanted_of(profile)
    run = Run(("nvbandwidth", "-j"), recorded.number("exit_status", 0), text.encode(), b"", "exit", 0.0)
    sheet = judge(seen, run, wanted, floors_of(wanted), wanted.gpu_count)
    verdict = verdict_of("gpu_bandwidth_gate", sheet, Tool("nvbandwidth", seen.version), run, wanted)
    return verdict, f"exit status {run.rc}, profile {wanted.sku}"


def _as_recorded(seen: Seen) -> dict[str, Any]:
    """A machine of the GPUs that are listed, and each case that measured just those, as some are edited."""
    ran = {name: case.rows for name, case in seen.cases.items() if case.status == RAN and not case.problem}
    gpus = seen.devices or max((len(rows[0]) for rows in ran.values()), default=1)
    whole = {name: rows for name, rows in ran.items() if len(rows[0]) == gpus and len(rows) in (1, gpus)}
    seen.cases = {name: case for name, case in seen.cases.items() if name in whole or name not in ran}
    rows = [
        {"name": name, "between": "gpus" if len(matrix) == gpus > 1 else "host", "minimum": _ANY, **ABOUT}
        for name, matrix in whole.items()
    ]
    profile = counted(Diagnosis())
    gpu = {**profile["gpu"], "count": {"value": gpus, **ABOUT}}
    nothing = [{"name": "nothing", "between": "host", "minimum": _ANY, **ABOUT}]
    return {**profile, "gpu": gpu, "gpu_bandwidth": {"cases": rows or nothing}}
