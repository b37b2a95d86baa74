# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hundred thousand records of the kernel, of which next to none is looked at. PRIVATE to the collection.

The numbers and times of all are taken out at once, and a record becomes a line where somebody asks for it.
Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Optional, Union, overload

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.lines import Line, parse

#: What lines.parse takes for a record. One group, for which Python makes no tuples: its number, and its microseconds.
_RECORD = re.compile(r"^\d{1,10},(\d{1,20},\d{1,20}),[^;\n]*;", re.M)


class Records(Sequence[Line]):
    """Records as lines. texts: each as the kernel wrote it. numbers, times: of each, the latter since boot."""

    def __init__(self, texts: list[str], numbers: list[int], times: list[float]) -> None:
        self.texts = texts
        self.numbers = numbers
        self.times = times

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, at: int) -> Line: ...

    @overload
    def __getitem__(self, at: slice) -> list[Line]: ...

    def __getitem__(self, at: Union[int, slice]) -> Union[Line, list[Line]]:
        if isinstance(at, slice):
            return [parse(text, 0.0) for text in self.texts[at]]
        return parse(self.texts[at], 0.0)


def records_of(whole: str, texts: list[str]) -> Optional[Records]:
    """The lines of a text, where each of them is a record of the kernel."""
    heads = _RECORD.findall(whole)
    if not heads or len(heads) != len(texts):
        return None
    both = list(map(int, ",".join(heads).split(",")))
    return Records(texts, both[::2], [time / 1e6 for time in both[1::2]])


def texts_of(lines: Sequence[Line]) -> list[str]:
    """What each says; of records with their heads, which cost more to cut off than to look through."""
    return lines.texts if isinstance(lines, Records) else [line.text for line in lines]


def times_of(lines: Sequence[Line]) -> Sequence[Optional[float]]:
    """When each was written, in seconds since boot; None where it does not tell that."""
    return lines.times if isinstance(lines, Records) else [line.mono for line in lines]
