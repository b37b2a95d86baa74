# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cells that a soak must fill before it can pass. PRIVATE to the collection.

One place for both ends: the node judges by this grid, and the controller holds against it what a node's answer says.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.section import ALWAYS, UNITS, Plan
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import NODE

SOAKED, SAMPLES, GAP, CLOCK, INTERRUPTIONS = "soaked", "samples", "gap", "clock_set", "interruptions"
LOG, SERIES, UUID, STATE = "kernel_log", "series", "uuid", "state"
#: Between two samples a clock that is slewed goes wrong by less. Seconds.
CLOCK_SECONDS = 5.0
#: Fewer tell nothing of a time between them.
_LEAST_SAMPLES = 2
_OWN = "own rule: what was not seen was not soaked"


def _any(_value: Any) -> bool:
    return True


def number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class Required(NamedTuple):
    """One cell that must be there. keeps: does what was measured pass? known: what each pass has there."""

    id: str
    entity: str
    wanted: Any
    unit: str
    source: str
    keeps: Callable[[Any], bool] = _any
    known: Any = None


def _least(id: str, least: float, unit: str, source: str) -> Required:
    return Required(id, NODE, least, unit, source, lambda value: number(value) and value >= least)


def _most(id: str, most: float, unit: str, source: str) -> Required:
    return Required(id, NODE, most, unit, source, lambda value: number(value) and value <= most)


def rounds(name: str) -> str:
    """The cell of one load."""
    return f"rounds.{name}"


def seconds_of(hours: float) -> float:
    return round(hours * 3600, 1)


def required(wanted: Wanted, plan: Plan, loads: Sequence[str], hours: float) -> Iterator[Required]:
    """loads: the names of what loads the GPUs, each of which must have run."""
    yield _least(SOAKED, seconds_of(hours), "s", "as it was asked for")
    yield _least(SAMPLES, _LEAST_SAMPLES, "", _OWN)
    yield _most(GAP, plan.gap, "s", plan.source)
    yield _most(CLOCK, CLOCK_SECONDS, "s", _OWN)
    yield _most(INTERRUPTIONS, plan.interruptions, "", plan.source)
    for name in loads:
        yield _least(rounds(name), 1, "rounds that passed", "profile")
    yield Required(LOG, NODE, 0, "failures", "kernel log", lambda value: value == 0, 0)
    yield Required(SERIES, NODE, "kept", "", _OWN)
    for at in range(wanted.gpu_count):
        yield from _of_gpu(plan, f"GPU {at}")


def _of_gpu(plan: Plan, gpu: str) -> Iterator[Required]:
    yield Required(UUID, gpu, "its own", "", "nvidia-smi")
    yield Required(STATE, gpu, 0, "looks that failed", "profile", lambda value: value == 0, 0)
    for name in ALWAYS:
        yield Required(name, gpu, "told", UNITS[name], "nvidia-smi")
    for limit in plan.limits:
        yield Required(limit.cell, gpu, limit.wanted, limit.unit, limit.source, limit.keeps)
