# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many host names in few words: for people as Slurm writes them, for Ansible's ``--limit`` as it takes them. PRIVATE.

Ansible has no ranges in a limit: ``gpu[1:3]`` counts members of a group there. It takes names between commas, and
regular expressions.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence

#: A name that stands for itself in a list, an expression, a limit and a shell.
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
_NUMBER = re.compile(r"([0-9]+)")
#: A list of names that is no longer is easier to read than any expression.
_SHORT = 60

#: Texts and numbers in turn; each place has all that stand there.
_Shape = tuple[tuple[str, ...], ...]


def in_order(names: Iterable[str]) -> list[str]:
    """As people count: gpu2 before gpu10."""

    def key(name: str) -> tuple[list[tuple[int, str]], str]:
        return [(int(part), "") if at % 2 else (0, part) for at, part in enumerate(_NUMBER.split(name))], name

    return sorted(set(names), key=key)


def folded(names: Iterable[str]) -> str:
    """``gpu[001-003,007],login1``."""
    return ",".join("".join(_brackets(place) for place in shape) for shape in _shapes(names))


def limit(names: Collection[str], groups: Collection[str] = ()) -> str:
    """What ``--limit`` takes for just these hosts, as a person types it into a shell.

    :param groups: of the inventory. An expression takes a group of a host's name too, with all that is in it; a plain
        name that a host has is that host.
    """
    listed = ",".join(in_order(names))
    if len(listed) <= _SHORT or not all(map(_PLAIN.match, names)) or not set(names).isdisjoint(groups):
        return _typed(listed)
    patterns = ",".join(_limit(shape) for shape in _shapes(names))
    return _typed(min(listed, patterns, key=len))


def _typed(text: str) -> str:
    """With quotes where a shell would act on it."""
    return text if all(map(_PLAIN.match, text.split(","))) else shlex.quote(text)


def _shapes(names: Iterable[str]) -> list[_Shape]:
    """Names that differ in one number are one shape; what was so joined may differ in an earlier one as well."""
    shapes: list[_Shape] = []
    for name in in_order(names):
        shapes.append(tuple((part,) for part in _NUMBER.split(name)) if _PLAIN.match(name) else ((name,),))
    for place in range(max(map(len, shapes), default=1) - 2, 0, -2):
        shapes = _joined(shapes, place)
    return shapes


def _joined(shapes: Iterable[_Shape], place: int) -> list[_Shape]:
    """:param place: where a number stands in each that is long enough, counted from the left."""
    found: dict[_Shape, list[str]] = {}
    for shape in shapes:
        if place < len(shape):
            found.setdefault((*shape[:place], (), *shape[place + 1 :]), []).extend(shape[place])
        else:
            found.setdefault(shape, [])
    return [(*shape[:place], tuple(own), *shape[place + 1 :]) if own else shape for shape, own in found.items()]


def _brackets(place: Sequence[str]) -> str:
    if len(place) == 1:
        return place[0]
    return "[" + ",".join(first if first == last else f"{first}-{last}" for first, last in _runs(place)) + "]"


def _runs(numbers: Iterable[str]) -> Iterator[tuple[str, str]]:
    """First and last of what follows each other, with as many zeros before it as the first one has."""
    ordered = sorted(set(numbers), key=lambda one: (int(one), len(one)))
    first = last = ordered[0]
    for number in ordered[1:]:
        if number != str(int(last) + 1).zfill(len(first)):
            yield first, last
            first = number
        last = number
    yield first, last


def _limit(shape: _Shape) -> str:
    """A name, or an expression: Ansible begins it at the name's beginning, and does not end it at its end."""
    if all(len(place) == 1 for place in shape):
        return "".join(place[0] for place in shape)
    return "~" + "".join(_expression(place) if at % 2 else re.escape(place[0]) for at, place in enumerate(shape)) + "$"


def _expression(numbers: Iterable[str]) -> str:
    by_length: dict[int, set[str]] = {}
    for number in numbers:
        by_length.setdefault(len(number), set()).add(number)
    return _either([_digits(ones) for _length, ones in sorted(by_length.items())])


def _digits(numbers: set[str]) -> str:
    """Of numbers of one length. First digits after which the same may come stand together."""
    after: dict[str, set[str]] = {}
    for number in numbers:
        after.setdefault(number[0], set()).add(number[1:])
    firsts: dict[str, str] = {}
    for digit, rests in sorted(after.items()):
        rest = "" if rests == {""} else _digits(rests)
        firsts[rest] = firsts.get(rest, "") + digit
    return _either([_one_of(digits) + rest for rest, digits in firsts.items()])


def _one_of(digits: str) -> str:
    if len(digits) == 1:
        return digits
    follow = int(digits[-1]) - int(digits[0]) == len(digits) - 1 and len(digits) > 2
    return f"[{digits[0]}-{digits[-1]}]" if follow else f"[{digits}]"


def _either(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else "(" + "|".join(parts) + ")"
