# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One kind of message of the kernel, as the tables have it. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
from typing import NamedTuple

ADDRESS = r"(?P<where>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d)"


class Row(NamedTuple):
    """One kind of message. words: for a person, in ours. most: how many of one part within a day are borne and
    only told."""

    name: str
    pattern: re.Pattern[str]
    words: str
    remedy: str
    source: str
    most: int = 0


def row(name: str, pattern: str, words: str, remedy: str, source: str, most: int = 0) -> Row:
    """The pattern names its part in a group: where, drive, or the number of a CPU in cpu."""
    return Row(name, re.compile(pattern), words, remedy, source, most)
