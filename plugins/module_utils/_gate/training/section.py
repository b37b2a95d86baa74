# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section ``training`` of a SKU's profile. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.floors import chosen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.formats import (
    SPEEDS,
    Format,
    format_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted

NAME = "training"
#: How a question names the training that the gate has run itself, beside its name: more than a log proves.
RUN = "_run"
#: What a mark may hold in place of the name of the run.
RUN_ID = "{run}"
#: A third of what is measured must be a step at least; and more steps than this nobody needs to see.
_FEWEST, _MOST = 3, 1_000_000


@dataclass(frozen=True)
class Training:
    """One reference training. steps: lines of a step that its log has, each of ``interval`` steps, the first of them
    ``first``. warm_up: of these, how many are not measured. nodes: on how many it runs. skipped: iterations that may be
    skipped or have no number. step_ms: milliseconds that a step may take, p99: how much longer the slow ones may be, as
    a factor, drift: per cent that it may slow down; None where the profile does not say. floors: of speeds, by field.
    reference: the loss by step, and within how many per cent of it a good node is."""

    name: str
    format: Format
    steps: int
    first: int
    interval: int
    warm_up: int
    nodes: int
    skipped: int
    step_ms: Optional[float]
    p99: Optional[float]
    drift: Optional[float]
    floors: Mapping[str, float]
    reference: Mapping[int, float]
    tolerance: float
    start_mark: str
    end_mark: str
    source: str

    @property
    def numbers(self) -> range:
        """The steps that its log must tell, in their order."""
        return range(self.first, self.first + self.steps * self.interval, self.interval)

    @property
    def unit(self) -> str:
        """What the figure is, so that nobody compares it with another one."""
        return f"ms a step, {self.format.name}, {self.nodes} node{'s' if self.nodes > 1 else ''}"

    def cell(self, what: str) -> str:
        return f"{self.name}.{what}"


def _read(section: Mapping[str, Any]) -> tuple[Training, ...]:
    found = tuple(_training(row) for row in section["runs"])
    names = [one.name for one in found]
    if not found or len(set(names)) < len(names) or any(name.endswith(RUN) for name in names):
        raise ValueError(f"a run without a name of its own, or whose name ends with {RUN}")
    for one in found:
        _check(one)
    return found


def _training(row: Mapping[str, Any]) -> Training:
    form, interval = format_of(row), int(row.get("interval") or 1)
    first = row.get("first_step", interval if form.first is None else form.first)
    return Training(
        name=str(row["name"]),
        format=form,
        steps=int(row["steps"]),
        first=int(first),
        interval=interval,
        warm_up=int(row["warm_up"]),
        nodes=int(row.get("nodes") or 1),
        skipped=int(row.get("skipped") or 0),
        step_ms=_figure(row, "step_ms"),
        p99=_figure(row, "p99_to_median"),
        drift=_figure(row, "drift_percent"),
        floors={str(key): float(value) for key, value in (row.get("floors") or {}).items()},
        reference={int(one["step"]): float(one["loss"]) for one in row.get("reference") or ()},
        tolerance=float(row.get("tolerance_percent") or 0),
        start_mark=str(row.get("start_mark") or ""),
        end_mark=str(row.get("end_mark") or form.end),
        source=str(row["source"]),
    )


def _figure(row: Mapping[str, Any], key: str) -> Optional[float]:
    return None if row.get(key) is None else float(row[key])


def _check(one: Training) -> None:
    limits = [value for value in (one.step_ms, one.p99, *one.floors.values()) if value is not None]
    losses = list(one.reference.values())
    if not all(map(math.isfinite, [*limits, *losses, one.tolerance, one.drift or 0.0])):
        raise ValueError(f"a limit of {one.name} that is no number")
    counted = one.steps - one.warm_up >= _FEWEST and one.steps <= _MOST and min(one.warm_up, one.first) >= 0
    if not counted or min(one.interval, one.nodes) < 1 or one.skipped < 0:
        raise ValueError(f"{one.name}: too few steps beside its warm-up, or a number below nothing")
    if any(value <= 0 for value in limits) or (one.p99 or 1.0) < 1 or (one.drift or 0.0) < 0:
        raise ValueError(f"a limit of {one.name} that nothing, or everything, would reach")
    _check_reference(one)
    if not set(one.floors) <= set(SPEEDS):
        raise ValueError(f"the floors of {one.name} are of {', '.join(SPEEDS)}")


def _check_reference(one: Training) -> None:
    if bool(one.reference) != (one.tolerance > 0) or any(loss <= 0 for loss in one.reference.values()):
        raise ValueError(f"the reference of {one.name} is losses by step, all above 0, and tolerance_percent")
    if not set(one.reference) <= set(one.numbers):
        raise ValueError(f"the reference of {one.name} names a step that its log does not tell")


def training_of(wanted: Wanted, name: str = "") -> Training:
    """The training of the profile that is named, or its only one.

    :raises ConfigError: where the profile has no such section, none of that name, or several and none is named.
    """
    found = chosen(wanted, NAME, _read, [name] if name else [])
    if len(found) > 1:
        names = ", ".join(one.name for one in found)
        raise ConfigError(
            f"the SKU profile {wanted.sku} knows several trainings", seen=names, do="name one with the option test"
        )
    return found[0]
