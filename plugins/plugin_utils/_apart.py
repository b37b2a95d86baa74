# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts whose library serves one at a time, among those that one task serves. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass

from ansible_collections.gpufleet.baremetal.plugins.module_utils._together import Peers


@dataclass(frozen=True)
class Apart:
    """option, words: of which hosts. begun: around all of it, from before there are threads. most: so many at once."""

    option: str
    words: Collection[str]
    begun: Callable[[Peers], AbstractContextManager[None]]
    most: int = 16
