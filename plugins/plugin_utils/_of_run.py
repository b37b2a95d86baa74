# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one task of a run leaves for those that follow it, each of which is a process of its own. PRIVATE.

PRIVATE to the collection. Ansible makes a folder for each run, for its user alone, and removes it at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

from ansible import constants as C


def read(name: str) -> str:
    """What was left under this name; empty where nothing was."""
    try:
        return _place(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def leave(name: str, text: str) -> None:
    """Whole or not at all, and by the first alone. Where none can be left (a full disk), each task looks itself."""
    place = _place(name)
    if place.exists():
        return
    with contextlib.suppress(OSError), tempfile.NamedTemporaryFile("w", dir=place.parent, encoding="utf-8") as whole:
        whole.write(text)
        whole.flush()
        with contextlib.suppress(FileExistsError):
            os.link(whole.name, place)


def _place(name: str) -> Path:
    return Path(C.DEFAULT_LOCAL_TMP) / f"gpufleet-{name}"


class CheckedFiles:
    """Files that a task of this run has held against their schema already, by the digest of both.

    Each gate of each host reads its profile: parsing and checking it is 10 ms, of which this leaves a third of one.
    """

    def get(self, digest: str) -> Optional[dict[str, Any]]:
        try:
            data = json.loads(read(f"checked-{digest}") or "null")
        except ValueError:
            return None
        return data if isinstance(data, dict) else None

    def put(self, digest: str, data: Mapping[str, Any]) -> None:
        leave(f"checked-{digest}", json.dumps(data))


CHECKED_FILES = CheckedFiles()
