# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One JSON document out of what a tool printed, or none. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._once import once


def document(text: str) -> Mapping[str, Any]:
    """Its one document; lines of warnings may stand around it.

    :raises ValueError: where there is none, more than one, or one that is cut.
    """
    if not text.strip():
        raise ValueError("it printed nothing")
    start = text.find("{")
    if start < 0:
        raise ValueError("it printed no JSON")
    try:
        found, end = json.JSONDecoder(object_pairs_hook=once).raw_decode(text, start)
    except RecursionError as exc:
        raise ValueError("it is nested without an end") from exc
    if any(mark in text[:start] + text[end:] for mark in "{}") or not isinstance(found, dict):
        raise ValueError("it printed more than one document")
    return found


def number(value: Any) -> float | None:
    """A number that is told as one; a truth value is none, and neither is what is not finite."""
    fits = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if fits and 0 <= value < 1e39 else None
