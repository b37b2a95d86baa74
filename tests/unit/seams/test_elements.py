# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A JSON list that is read element by element says what Python's own reader says of the whole."""

from __future__ import annotations

import io
import json
from typing import Any, Callable

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _elements
from ansible_collections.gpufleet.baremetal.plugins.module_utils._elements import elements

LISTS = [
    "[]", " [ ] \n", "[1]", "[12, 345.5e1 , -6]", '["a", "\u00fc \u20ac \U0001f600", "[,]\\"]"]',
    '[{"a": [1, {"b": null}]}, true, false, null, [], {}, ""]', "\n[\t1 ,\r\n2 ]  ", "[1234567890123456789012]",
]  # fmt: skip
BROKEN = [
    "", " ", "{}", "1", "[", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1]]", "[1] x", '["a', "[tru]", '[{"a": }]', "]",
    "[1}", '[{"a": 1}', "null", "[1],",
]  # fmt: skip


def piecewise(text: bytes, size: int) -> Callable[[int], bytes]:
    stream = io.BytesIO(text)
    return lambda most: stream.read(min(size, most))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_it_says_the_same(size: int) -> None:
    for text in LISTS:
        assert list(elements(piecewise(text.encode(), size))) == json.loads(text)
    assert list(elements(piecewise(b"\xef\xbb\xbf[1]", size))) == [1]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("text", BROKEN)
def test_what_is_broken_is_no_list(text: str, size: int) -> None:
    with pytest.raises(ValueError):
        list(elements(piecewise(text.encode(), size)))


@pytest.mark.parametrize("text", [b'["\xff"]', b"[" * 200_000])
def test_neither_is_what_cannot_be_read(text: bytes) -> None:
    with pytest.raises(ValueError):
        list(elements(piecewise(text, 1000)))


def test_no_element_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_elements, "_PIECE", 1000)
    monkeypatch.setattr(_elements, "_LARGEST", 10_000)
    read: list[Any] = []

    def endless(most: int) -> bytes:
        read.append(most)
        return b'["' if len(read) == 1 else b"x" * most

    with pytest.raises(ValueError):
        list(elements(endless))
    assert len(read) < 20
