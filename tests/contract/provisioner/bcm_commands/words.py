# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How what cmsh is told is read: its commands, their words, and lists of nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator


def commands(text: str) -> Iterator[str]:
    """What stands between the semicolons, but for those in brackets and between quotes. A shell's signs are none that a
    test may send."""
    depth, quote, begin = 0, False, 0
    for at, sign in enumerate(text):
        quote ^= sign == '"'
        if sign in "`!|<>$\n":
            raise AssertionError(f"it would be read by a shell: {text}")
        depth += (sign == "(") - (sign == ")") if not quote else 0
        if sign == ";" and not quote and not depth:
            yield text[begin:at].strip()
            begin = at + 1
    assert not depth and not quote, text
    yield text[begin:].strip()


def split(text: str) -> list[str]:
    return [one.strip('"') for one in re.findall(r'"[^"]*"|\S+', text)]


def expanded(names: str) -> Iterator[str]:
    """A list of nodes, in which two dots are a range."""
    for one in names.split(","):
        first, dots, last = one.partition("..")
        if not dots:
            yield one
            continue
        stem = first.rstrip("0123456789")
        width = len(first) - len(stem)
        for number in range(int(first[len(stem) :]), int(last[len(stem) :]) + 1):
            yield f"{stem}{number:0{width}}"
