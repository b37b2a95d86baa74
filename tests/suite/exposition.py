# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prometheus' text format, read as strictly as its page words it: version 0.0.4, which a node exporter takes.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_NAME, _LABEL = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*"), re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_VALUE = re.compile(r"[+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|Inf)|NaN")
_TYPES = ("counter", "gauge", "histogram", "summary", "untyped")
_MEANT = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

Labels = tuple[tuple[str, str], ...]


@dataclass
class Metric:
    kind: str = "untyped"
    help: str = ""
    samples: dict[Labels, float] = field(default_factory=dict)


def parsed(text: str) -> dict[str, Metric]:
    """By name. :raises ValueError: for what a scraper refuses, or the format forbids."""
    if not text.endswith("\n"):
        raise ValueError("the last line has no end")
    found: dict[str, Metric] = {}
    told: set[tuple[str, str]] = set()
    newest = ""
    for line in text[:-1].split("\n"):
        word = re.fullmatch(r"# (HELP|TYPE) (\S+) (.*)", line)
        name = word[2] if word else _first(_NAME, line)
        if name != newest and name in found:
            raise ValueError(f"{name} is in two places")
        newest, metric = name, found.setdefault(name, Metric())
        if word is None:
            _sample(line[len(name) :], metric)
        elif (word[1], name) in told or metric.samples or not _NAME.fullmatch(name):
            raise ValueError(f"{line}: told twice, or too late")
        else:
            told.add((word[1], name))
            _of_all(metric, word[1], word[3])
    return found


def _of_all(metric: Metric, what: str, words: str) -> None:
    if what == "HELP":
        metric.help = words
    elif words in _TYPES:
        metric.kind = words
    else:
        raise ValueError(f"no type: {words}")


def _sample(rest: str, metric: Metric) -> None:
    labels, rest = _labels(rest) if rest.startswith("{") else ((), rest)
    value = re.fullmatch(rf" ({_VALUE.pattern})", rest)
    if value is None:
        raise ValueError(f"no value: {rest!r}")
    if labels in metric.samples:
        raise ValueError(f"one sample twice: {labels}")
    metric.samples[labels] = float(value[1])


def _labels(rest: str) -> tuple[Labels, str]:
    found: dict[str, str] = {}
    rest = rest[1:]
    while not rest.startswith("}"):
        name = _first(_LABEL, rest)
        quoted = re.match(r'="((?:[^"\\\n]|\\[\\"n])*)"', rest[len(name) :])
        if quoted is None or name in found:
            raise ValueError(f"no label: {rest!r}")
        found[name] = re.sub(r"\\.", lambda one: _MEANT[one[0]], quoted[1])
        rest = rest[len(name) + quoted.end() :]
        if rest[:1] not in (",", "}"):
            raise ValueError(f"labels that do not end: {rest!r}")
        rest = rest.removeprefix(",")
    return tuple(sorted(found.items())), rest[1:]


def _first(form: re.Pattern[str], text: str) -> str:
    match = form.match(text)
    if match is None:
        raise ValueError(f"no name: {text!r}")
    return match[0]
