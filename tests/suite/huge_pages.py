# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Memory in huge pages, for a process that forks often.

A fork copies a table with one entry a page: about 0.1 ms for each MiB in pages of 4 KiB, so that a process of tests
(some 200 MiB, most of it what was imported and collected) pays 20 ms and more for each program that it starts.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path

#: MADV_COLLAPSE of Linux 6.1 (include/uapi/asm-generic/mman-common.h); an older kernel refuses it, and nothing changes.
_COLLAPSE = 25
_HUGE = 2 * 1024 * 1024
_MAPS = Path("/proc/self/maps")
#: Private memory that can be written and is no file's: ``7f..-7f.. rw-p 00000000 00:00 0`` with nothing behind it
_ANONYMOUS = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-p 0+ 00:00 0\s*(\[heap\])?$")


def collapse() -> int:
    """Put this process' own memory into huge pages, as far as the kernel does that: how many it has collapsed."""
    if not _MAPS.exists():
        return 0
    advise = ctypes.CDLL(None, use_errno=True).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return sum(advise(start, _HUGE, _COLLAPSE) == 0 for start in _whole_pages())


def _whole_pages() -> Iterator[int]:
    for line in _MAPS.read_text(encoding="ascii", errors="replace").splitlines():
        found = _ANONYMOUS.match(line)
        if found:
            start, end = int(found[1], 16), int(found[2], 16)
            yield from range(-(-start // _HUGE) * _HUGE, end - _HUGE + 1, _HUGE)
