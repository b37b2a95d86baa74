# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON in which no key stands twice: two readers must never see two documents. PRIVATE to the collection.

Standard library only, and it runs on nodes.
"""

from __future__ import annotations

from typing import Any


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, as ``object_pairs_hook`` of a reader.

    :raises ValueError: where a key stands twice.
    """
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key stands twice")
    return made
