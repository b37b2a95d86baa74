# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks that the kernel frees, and folders in which nobody else can write. PRIVATE to the collection.

Standard library only: the detached gates, which run on nodes, come here as well.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from typing import IO, Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError


def locked(lock: IO[Any] | int) -> bool:
    """Lock the file, if nobody else has. The lock ends with the last process that has the open file from us."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def own_folder(path: str, what: str, *, denied: str, foreign: str) -> str:
    """Make or find a folder of this user alone: others must be able neither to write there nor to lead us elsewhere.

    :param what: what lies in it, for the message. denied, foreign: what to do where we may not make it, and where it
        is there and not ours alone.
    """
    with suppress(FileExistsError):
        try:
            os.mkdir(path, 0o700)
        except FileNotFoundError as exc:
            raise ConfigError(f"the folder for {what} cannot be made", seen=path, do="make its parent") from exc
        except PermissionError as exc:
            raise ConfigError(f"the folder for {what} cannot be made", seen=path, do=denied) from exc
    about = os.lstat(path)
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise ConfigError(
            f"the folder for {what} is not ours alone",
            wanted=f"{path}: a folder of user {os.geteuid()}, mode 0700",
            seen=f"{stat.filemode(about.st_mode)}, user {about.st_uid}",
            do=foreign,
        )
    return path
