# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in a verdict, for whoever reads one that a stranger may have written. PRIVATE to the collection."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Callable

from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    REMEDIES,
    canonical,
)

_WORDS = (PASS, FAIL, INCONCLUSIVE)
#: The longest text, the most rows and the largest number of any verdict, many times over.
_LONGEST, _MOST, _LARGEST = 20_000, 5_000, 1e18
#: The most values in one cell.
_LISTED = 100
#: The most bytes of one answer. A machine of 16 GPUs on which each test of level 4 fails for three reasons answers with
#: 84,000, and no recorded output makes more than 36,000.
_WHOLE = 512 * 1024
_UNKEPT = re.compile("[\x00\ud800-\udfff]")


def is_text(value: Any) -> bool:
    return any_text(value) and bool(value)


def any_text(value: Any) -> bool:
    """A text that every ledger can keep: no lone halves of characters, no NUL, no end of it out of sight."""
    return isinstance(value, str) and len(value) <= _LONGEST and not _UNKEPT.search(value)


def is_word(value: Any) -> bool:
    return value in _WORDS


def is_remedy(value: Any) -> bool:
    return value in REMEDIES


def plain(value: Any) -> bool:
    """What a cell may hold: a word, a number, nothing, or a list of these."""
    if isinstance(value, list):
        return len(value) <= _LISTED and all(not isinstance(item, list) and plain(item) for item in value)
    if isinstance(value, (int, float)):
        return -_LARGEST < value < _LARGEST
    return value is None or any_text(value)


def too_large(value: Any) -> bool:
    """Is it more than any honest answer, so that reading, keeping and showing it costs the others their time?

    value: one whose shape was checked.
    """
    return len(canonical(value)) > _WHOLE


def mapping_of(shape: Mapping[str, Callable[[Any], bool]]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, dict) and set(value) == set(shape) and all(fits(value[key]) for key, fits in shape.items())
    )


def list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and len(value) <= _MOST and all(fits(item) for item in value)


CHECK = mapping_of(
    {
        "id": is_text,
        "entity": is_text,
        "measured": plain,
        "wanted": plain,
        "unit": any_text,
        "source": any_text,
        "verdict": is_word,
    }
)
FINDING = mapping_of({"id": is_text, "entity": is_text, "text": is_text, "remedy": is_remedy})


def _flat(value: Any) -> bool:
    return isinstance(value, dict) and all(any_text(key) and plain(item) for key, item in value.items())


_ROWS = list_of(_flat)


def beside(value: Any) -> bool:
    """What a result may hold beside its verdict: what a cell may, by names, and a list of such rows."""
    return (plain(value) or _flat(value) or _ROWS(value)) and not too_large(value)
