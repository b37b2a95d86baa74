# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys as a site names them. PRIVATE to the collection."""

from __future__ import annotations

import os
from typing import Any


def listed(value: Any) -> list[str]:
    """A list as it is, and a text as paths between commas or colons; PEM text stays whole."""
    if not value:
        return []
    if isinstance(value, str):
        pem = "-----BEGIN" in value
        return [value] if pem else [part.strip() for part in value.replace(os.pathsep, ",").split(",") if part.strip()]
    return [str(item) for item in value]
