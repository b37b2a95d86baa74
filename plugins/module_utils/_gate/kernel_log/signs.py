# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of many lines are worth a look. PRIVATE to the collection.

A log has a hundred thousand lines, and two dozen patterns that look at each take seconds. Each pattern asks for a word
that next to no line has, and finding words in one long text takes milliseconds. Runs on nodes: standard library only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, repeat
from operator import add


def worth(texts: Sequence[str], signs: Iterable[str]) -> list[int]:
    """The numbers of those that hold one of the signs, whatever its case. signs: in small letters.

    What is not plain ASCII always is: letters of other alphabets match some of ours where case does not count.
    """
    plain, found = texts, set()
    whole = "\n".join(texts)
    if not whole.isascii():
        plain = [text if text.isascii() else "" for text in texts]
        found = {number for number, text in enumerate(texts) if not text.isascii()}
        whole = "\n".join(plain)
    whole = whole.lower()
    ends = list(accumulate(map(add, map(len, plain), repeat(1))))
    for sign in signs:
        at = whole.find(sign)
        while at >= 0:
            number = bisect_right(ends, at)
            found.add(number)
            at = whole.find(sign, ends[number])
    return sorted(found)
