# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The elements of a JSON list as they come, so that memory holds one of them and not all. PRIVATE to the collection."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

#: Read at once. The begun element at its end is parsed again with the next piece, so it is many elements long.
_PIECE = 1 << 20
#: Characters of one element; recorded ones of MAAS have 49,000.
_LARGEST = 16 << 20
#: What stands behind a value, which a number has no sign of its own for.
_ENDS = frozenset(" \t\r\n,]")
_SPACE = re.compile(r"[ \t\r\n]*")


class _Text:
    """What was read and not taken yet."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._kept, self._at, self._whole = "", 0, False

    def _more(self) -> bool:
        if self._whole or len(self._kept) - self._at > _LARGEST:
            return False
        piece = self._read(_PIECE)
        self._whole = not piece
        self._kept, self._at = self._kept[self._at :] + self._decode(piece, self._whole), 0
        return True

    def peek(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            found = _SPACE.match(self._kept, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._kept) or not self._more():
                return self._kept[self._at : self._at + 1]

    def take(self) -> str:
        mark = self.peek()
        self._at += len(mark)
        return mark

    def value(self, decoder: json.JSONDecoder) -> Any:
        self.peek()
        while True:
            try:
                value, end = decoder.raw_decode(self._kept, self._at)
            except RecursionError as exc:
                raise ValueError("an element is nested too deep") from exc
            except ValueError:
                if not self._more():
                    raise
                continue
            # A number that seems to be whole may go on.
            if self._kept[end : end + 1] in _ENDS or not self._more():
                self._at = end
                return value


def elements(read: Callable[[int], bytes]) -> Iterator[Any]:
    """Each element of the list, parsed when it is there.

    :param read: at most so many bytes of it; none at its end.
    :raises ValueError: where it is no JSON list; what came before was given out by then.
    """
    text, decoder = _Text(read), json.JSONDecoder()
    if text.take() != "[":
        raise ValueError("a list was to come")
    mark = text.take() if text.peek() == "]" else ","
    while mark == ",":
        yield text.value(decoder)
        mark = text.take()
    if mark != "]" or text.peek():
        raise ValueError("a list was to end")
