# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the few nodes that spoil an answer about many. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, TypeVar

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer

_T = TypeVar("_T")
#: More of them than this, and it is not single nodes that cannot be read.
_MOST = 16


def by_halves(
    names: Sequence[str], ask: Callable[[Sequence[str]], dict[str, _T]], spoilt: dict[str, BadAnswer]
) -> dict[str, _T]:
    """What ``ask`` tells of these names; where it cannot be read, each half is asked for itself.

    :param spoilt: given the names of which alone nothing can be read, and why.
    :raises BadAnswer: where they are too many.
    """
    try:
        return ask(names)
    except BadAnswer as exc:
        if not names[1:]:
            spoilt[names[0]] = exc
            return {}
        if len(spoilt) >= _MOST:
            raise
    middle = len(names) // 2
    return {**by_halves(names[:middle], ask, spoilt), **by_halves(names[middle:], ask, spoilt)}
