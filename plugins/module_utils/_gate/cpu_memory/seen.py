# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a tool has shown of one load, or of one system that it solved. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional


@dataclass
class Seen:
    """wrong: results that were wrong. rate: in the unit of what was asked, None where nobody knows it."""

    version: str = ""
    rate: Optional[float] = None
    wrong: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
