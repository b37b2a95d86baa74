# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the line of a step looks in the log of a training. PRIVATE to the collection.

The layouts of frameworks are a table, each with its source. Beside them a site may name the keys of its JSON lines, or
give an expression with named groups.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._once import once

#: What a step must tell, what it may tell beside it, and of that what is a figure of speed, with its unit.
STEP, TIME, LOSS, GRAD_NORM, SKIPPED, NAN = "step", "time", "loss", "grad_norm", "skipped", "nan"
OWED = (STEP, TIME, LOSS)
SPEEDS: Mapping[str, str] = {"tflops": "Tflop/s", "samples": "samples/s", "tokens": "tokens/s"}
FIELDS = (*OWED, GRAD_NORM, SKIPPED, NAN, *SPEEDS)
#: By the unit that a profile names, how many milliseconds it is.
UNITS: Mapping[str, float] = {"ms": 1.0, "s": 1000.0}
#: The longest expression of a site.
_LONGEST = 500
#: What a launcher puts before each line of a rank: ``[default0]:`` (torchrun), ``gpu001:`` (pdsh), ``0:`` (srun).
_RANK = re.compile(r"(?:\[[\w.-]{1,64}\]:? ?|[\w.-]{1,64}: ?)?(?=\{)")


@dataclass(frozen=True)
class Format:
    """How lines are read. unit: of the time of a step. first: the number of the first step, None where it is as many
    as a line is of. closed: does the line itself say that it is whole? redrawn: may the line of a step be told again,
    as a bar of progress does? lossless: may a line lack its loss? end: what stands in the log after a training that
    came to its end, empty where nobody knows. slow: does it need a limit of time? tells: the fields that each line has
    beside those that are owed."""

    name: str
    unit: str
    first: Optional[int] = None
    closed: bool = True
    redrawn: bool = False
    lossless: bool = False
    end: str = ""
    slow: bool = False
    tells: frozenset[str] = frozenset()

    def fields(self, line: str) -> Optional[dict[str, str]]:
        """By field the word of a line; None of a line that tells of no step.

        :raises ValueError: of one that does, and cannot be read.
        """
        raise NotImplementedError


def _forms(names: Mapping[str, tuple[str, ...]], close: str) -> dict[str, re.Pattern[str]]:
    """By field what its value stands in. Some tell the mean after a stroke; the step's own value stands before it."""
    told = {key: "|".join(map(re.escape, ways)) for key, ways in names.items()}
    value = rf"[ ]?[:=][ ]*([^\s|,\]/]+)(?:/[^\s|,\]/]+)?[ ]?(?={close})"
    return {key: re.compile(rf"(?:^|[|\[,])[ ]?(?:{words}){value}") for key, words in told.items()}


@dataclass(frozen=True)
class Layout(Format):
    """Names with values in a line. mark: what the line of a step alone has. forms: by field its name with its value."""

    mark: re.Pattern[str] = re.compile("(?!)")
    forms: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    source: str = ""

    def fields(self, line: str) -> Optional[dict[str, str]]:
        marks = self.mark.findall(line)
        if not marks:
            return None
        told = {key: form.findall(line) for key, form in self.forms.items()}
        if len(marks) > 1 or any(len(words) > 1 for words in told.values()):
            raise ValueError("two steps in one line")
        own = {} if STEP in told else {STEP: marks[0]}
        return {**own, **{key: words[0] for key, words in told.items() if words}}


_STOPPED = "`Trainer.fit` stopped: `max_steps="
_NEMO: Mapping[str, tuple[str, ...]] = {
    STEP: ("global_step",),
    TIME: ("train_step_timing in s",),
    LOSS: ("reduced_train_loss",),
    GRAD_NORM: ("grad_norm",),
    "tflops": ("tflops_per_sec_per_gpu", "TFLOPS_per_GPU"),
}
_MEGATRON: Mapping[str, tuple[str, ...]] = {
    TIME: ("elapsed time per iteration (ms)",),
    LOSS: ("lm loss",),
    GRAD_NORM: ("grad norm",),
    SKIPPED: ("number of skipped iterations",),
    NAN: ("number of nan iterations",),
    "tflops": ("throughput per GPU (TFLOP/s/GPU)", "TFLOPs"),
    "samples": ("samples per second",),
    "tokens": ("tokens per second",),
}
_TABLE = (
    Layout(
        "megatron",
        "ms",
        # It leaves out a loss that is not above zero, and NaN is not.
        lossless=True,
        end="[after training is done]",
        tells=frozenset({SKIPPED, NAN}),
        mark=re.compile(r"\biteration +(\d+)/ *\d+ \|"),
        forms=_forms(_MEGATRON, r"\|"),
        source="NVIDIA/Megatron-LM, training_log of its training loop; a log of Megatron-DeepSpeed that"
        " microsoft/superbenchmark@700d6501 keeps for its tests",
    ),
    Layout(
        "nemo",
        "s",
        first=0,
        closed=False,
        end=_STOPPED,
        mark=re.compile(r"\bTraining epoch \d+, iteration (\d+)/\d+ \|"),
        forms=_forms(_NEMO, r"\||$"),
        source="NVIDIA NeMo 2, its printer of progress, as its guides show the lines; Lightning's own last line",
    ),
    Layout(
        "nemo_bar",
        "s",
        first=0,
        redrawn=True,
        end=_STOPPED,
        mark=re.compile(r"\b(train_step_timing in s)="),
        forms=_forms(_NEMO, r"[,\]]"),
        source="NVIDIA NeMo 1, the bar of progress of Lightning with NeMo's metrics, as its guides show it",
    ),
)
LAYOUTS: Mapping[str, Layout] = {one.name: one for one in _TABLE}


@dataclass(frozen=True)
class JsonLines(Format):
    """Each line of a step is one JSON object. keys: by field the way to its value, its parts with points between."""

    keys: Mapping[str, str] = field(default_factory=dict)

    def fields(self, line: str) -> Optional[dict[str, str]]:
        rank = _RANK.match(line.strip())
        if rank is None or self.keys[STEP].rpartition(".")[2] not in line:
            return None
        try:
            told = json.loads(line.strip()[rank.end() :], object_pairs_hook=once)
        except RecursionError as exc:
            raise ValueError("too deep") from exc
        found = {key: _word(value) for key, way in self.keys.items() if (value := _at(told, way)) is not None}
        return found if STEP in found else None


def _at(told: Any, way: str) -> Any:
    for part in way.split("."):
        told = told.get(part) if isinstance(told, dict) else None
    return told


def _word(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("no number")
    return str(value)


@dataclass(frozen=True)
class Pattern(Format):
    """An expression of the site's, whose groups are named like fields."""

    form: re.Pattern[str] = re.compile("(?!)")

    def fields(self, line: str) -> Optional[dict[str, str]]:
        match = self.form.search(line)
        return {key: word for key, word in match.groupdict().items() if word is not None} if match else None


def _layout(row: Mapping[str, Any]) -> Format:
    if {"keys", "pattern", "time_unit"} & set(row):
        raise ValueError(f"the lines of {row['format']} are known: neither keys, pattern nor time_unit")
    return LAYOUTS[row["format"]]


def _json(row: Mapping[str, Any]) -> Format:
    keys = {str(key): str(way) for key, way in row["keys"].items()}
    _fit("keys", set(keys))
    return JsonLines("json", _unit(row), tells=frozenset(keys) - frozenset(OWED), keys=keys)


def _pattern(row: Mapping[str, Any]) -> Format:
    text = str(row["pattern"])
    if len(text) > _LONGEST:
        raise ValueError(f"a pattern of {len(text)} characters, and not of at most {_LONGEST}")
    try:
        form = re.compile(text)
    except (re.error, RecursionError, OverflowError) as exc:
        raise ValueError(f"a pattern that is none: {exc}") from exc
    _fit("groups of pattern", set(form.groupindex))
    return Pattern("pattern", _unit(row), closed=False, slow=True, form=form)


def _fit(what: str, names: set[str]) -> None:
    if not set(OWED) <= names <= set(FIELDS):
        raise ValueError(f"the {what} are {', '.join(OWED)}, and of {', '.join(FIELDS[len(OWED) :])} what is told")


def _unit(row: Mapping[str, Any]) -> str:
    unit = str(row["time_unit"])
    if unit not in UNITS:
        raise ValueError(f"a time_unit that is none of {', '.join(UNITS)}")
    return unit


_MADE = {**dict.fromkeys(LAYOUTS, _layout), "json": _json, "pattern": _pattern}
NAMES = tuple(_MADE)


def format_of(row: Mapping[str, Any]) -> Format:
    """How the log of a profile's row is read.

    :raises ValueError: where the row does not say it; :raises KeyError: where it names no format that is known.
    """
    return _MADE[str(row["format"])](row)
