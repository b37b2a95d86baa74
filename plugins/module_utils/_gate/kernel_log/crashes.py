# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel kept of its crashes over a boot, and where systemd moves it. PRIVATE to the collection.

pstore holds records as files ``dmesg-BACKEND-NUMBER``, and the machine check that stopped the machine as
``mce-BACKEND-NUMBER`` (Linux v6.12, fs/pstore/platform.c, drivers/acpi/apei/erst.c). systemd-pstore moves them at the
next boot into its own folder, one or two levels down, and joins their parts in ``dmesg.txt`` (systemd,
src/pstore/pstore.c). The move gives them a new time; records of EFI carry their own in the name. Where only the move's
time is known it counts: a crash is then told too often rather than not at all.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError

#: Deeper than systemd-pstore puts any record.
_DEPTH = 3
#: How the names of records of a crash begin, and of a fatal machine check.
_CRASH, _CHECK = "dmesg-", "mce-"
#: efi-pstore names a record (time * 100 + part) * 1000 + count (Linux, drivers/firmware/efi/efi-pstore.c).
_EFI = re.compile(r"dmesg-efi(?:_pstore)?-(\d{10})\d{5}\Z")
_SECONDS = re.compile(r"\d{10}\Z")


def crash_records(folder: str, start_wall: float) -> list[str]:
    """The records since then that nobody has cleared, as paths below the folder.

    :raises ConfigError: where there are none, and not all of the folder could be read.
    """
    unread: list[str] = []
    found = [path for path in _files(folder, unread) if _time(folder, path) >= start_wall]
    if unread and not found:
        raise ConfigError("the records of crashes cannot be read", seen=unread[0], do="run as root: become")
    return sorted(os.path.relpath(path, folder) for path in found)


def of_check(record: str) -> bool:
    """Is it what the hardware said when it stopped the machine? record: one of crash_records."""
    return os.path.basename(record).startswith(_CHECK)


def _files(folder: str, unread: list[str], depth: int = 0) -> Iterator[str]:
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:  # a kernel without pstore, a system without systemd-pstore
        return
    except OSError as exc:
        unread.append(f"{folder}: {exc.strerror}")
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if depth < _DEPTH:
                yield from _files(entry.path, unread, depth + 1)
        elif entry.name.startswith((_CRASH, _CHECK)) or entry.name == "dmesg.txt":
            yield entry.path


def _time(folder: str, path: str) -> float:
    """When the kernel crashed; where that is not told, when the record was last touched; never, where it is gone.

    A record of which neither can be read is one of now.
    """
    try:
        touched = os.stat(path).st_mtime
    except FileNotFoundError:
        return float("-inf")
    except OSError:
        return float("inf")
    told = _told(os.path.relpath(path, folder))
    return touched if told is None or told > touched else told


def _told(path: str) -> Optional[float]:
    *folders, name = path.split(os.sep)
    record = _EFI.match(name)
    if record:
        return float(record.group(1))
    if name == "dmesg.txt" and folders and _SECONDS.match(folders[0]):
        return float(folders[0])
    return None
