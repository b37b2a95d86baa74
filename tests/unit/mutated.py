# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the fuzzers change one member of a JSON document, or the lines of a text, and how long they look."""

from __future__ import annotations

import copy
import json
import os
import random
import re
from typing import Any

from hypothesis import HealthCheck, settings
from suite.properties import at_most

#: So many times what make test tries: `make fuzz` looks for long, at other examples each time. All else tries the same
#: few at every run: red means that the change is at fault, and a kept mutation is noticed each time or never.
FOLD = int(asked) if (asked := os.environ.get("GPUFLEET_FUZZ", "")).isdigit() else 0


def tried(examples: int) -> settings:
    """How many examples of a property make test tries. They are the same each time, so that who has the brief profile,
    beside a run that tries all, tries the first of them."""
    return settings(
        max_examples=at_most(examples) * (FOLD or 1),
        derandomize=not FOLD,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every member at any depth."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in pairs for place in ((*path, key), *places(item, (*path, key)))]


def in_document(text: str | bytes, kind: str, part: float, value: Any) -> Any:
    """The document with one member dropped, doubled, wrapped or replaced.

    :raises ValueError: where it is no JSON. :raises IndexError: where it has no member.
    """
    document = json.loads(text)
    place = places(document)[int(part * len(places(document)))]
    inner = document
    for step in place[:-1]:
        inner = inner[step]
    if kind == "drop":
        del inner[place[-1]]
    elif kind == "twice" and isinstance(inner, list):
        inner.append(copy.deepcopy(inner[place[-1]]))
    else:
        inner[place[-1]] = [inner[place[-1]]] if kind == "wrap" else value
    return document


def shuffled(text: str, dice: random.Random) -> str:
    """One line lost, doubled, moved or joined with the next, a part cut out, or off, or a word of a line broken."""
    lines = text.splitlines(keepends=True)
    at, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    kind = dice.choice(["drop", "twice", "move", "join", "word", "cut", "block"])
    if kind == "drop":
        del lines[at]
    elif kind == "twice":
        lines.insert(other, lines[at])
    elif kind == "move":
        lines.insert(other, lines.pop(at))
    elif kind == "join":
        lines[at] = lines[at].rstrip("\n")
    elif kind == "word":
        lines[at] = _broken(lines[at], dice)
    else:
        del lines[min(at, other) : len(lines) if kind == "cut" else max(at, other)]
    return "".join(lines)


def _broken(line: str, dice: random.Random) -> str:
    """One of its words lost, doubled, or another one, wherever it stands in it. No figure becomes another figure."""
    words = line.split()
    if not words:
        return line
    word = dice.choice(words)
    broken = dice.choice(["", f"{word} {word}", "error"])
    return re.sub(rf"(?<!\S){re.escape(word)}(?!\S)", lambda _match: broken, line)
