# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gpu-burn prints of GPUs of our own making."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

ABOUT = {"source": "written for tests", "date": "2026-11-27", "conditions": "none at all"}
NAME = "burn"


def row(**other: Any) -> dict[str, Any]:
    known = {"name": NAME, "precision": "tensor", "memory_percent": 90, "seconds": 1, "minimum": 400000, **ABOUT}
    return {key: value for key, value in {**known, **other}.items() if value is not None}


def profile(*burns: dict[str, Any], count: int = 8) -> dict[str, Any]:
    return {**made.profile(count), "gpu_burn": {"burns": list(burns) or [row()]}}


def progress(
    part: float, gpus: int, done: int, *, speed: Mapping[int, str] = {}, errors: Mapping[int, str] = {},
    did: Mapping[int, int] = {},
) -> str:  # fmt: skip
    """One line, as it is written over the one before. did: what single GPUs have computed, in place of ``done``."""
    counts = " - ".join(f"{did.get(at, done)} ({speed.get(at, '500000')} Gflop/s)" for at in range(gpus))
    wrong = " - ".join(errors.get(at, "0") for at in range(gpus))
    temps = " - ".join("61 C" for _at in range(gpus))
    return f"\r{part:.1f}%  proc'd: {counts}   errors: {wrong}   temps: {temps} "


def burn_of(*lines: str) -> str:
    """A whole output with this progress."""
    return output().replace("".join(progress(part, 8, int(part)) for part in (50.0, 80.0, 100.0)), "".join(lines))


def output(
    gpus: int = 8, *, parts: Sequence[float] = (50.0, 80.0, 100.0), speed: Mapping[int, str] = {},
    errors: Mapping[int, str] = {}, results: Mapping[int, str] = {}, first: str = "", tested: Optional[int] = None,
) -> str:  # fmt: skip
    lines = ["Burning for 1 seconds."]
    lines += [f"GPU {at}: NVIDIA H100 80GB HBM3 (UUID: GPU-{at:08x}-0000-0000-0000-000000000000)" for at in range(gpus)]
    lines += [first] if first else []
    lines += ["Initialized device 0 with 81079 MB of memory (80500 MB available, using 72450 MB of it), using FLOATS"]
    burn = "".join(progress(part, gpus, int(part), speed=speed, errors=errors) for part in parts)
    last = [f"Tested {gpus if tested is None else tested} GPUs:"]
    last += [f"\tGPU {at}: {results.get(at, 'OK')}" for at in range(gpus)]
    return "\n".join([*lines, burn, "\tSummary at:   Fri Nov 27 14:00:00 UTC 2026", "", "done", "", *last, ""])


def params(
    folder: Path, text: Optional[str] = None, *, rc: int = 0, body: str = "", seconds: float = 1
) -> dict[str, Any]:
    """The options of a gpu_burn_gate over a machine whose gpu-burn prints this."""
    (folder / "burn.out").write_text(output() if text is None else text, encoding="utf-8")
    program = f'echo "$*" >> {folder}/calls\n{body}\nsleep 1\ncat {folder}/burn.out\nexit {rc}'
    tool = made.program(folder / "gpu_burn", program)
    return {"gpu_burn": tool, "profile": profile(), "timeout": 20, "pci_path": made.pci(folder)}
