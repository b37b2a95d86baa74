# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a soak's progress and what was asked of it lie on the node. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.progress import SCHEMA, Progress

_LARGEST = 16 * 1024 * 1024
#: What is not told by the files that were written before the clocks of a soak were kept.
_BEFORE = 2
_UNTOLD: Mapping[str, Any] = {"schema": SCHEMA, "wall": 0.0, "offset": None}


@dataclass(frozen=True)
class Store:
    """The files of one soak; nowhere with an empty folder."""

    folder: str
    job: str

    def _path(self, what: str) -> str:
        return os.path.join(self.folder, f"{self.job}.{what}")

    def load(self) -> Optional[Progress]:
        """None where there is none that can be gone on with."""
        told = _of_now(self._read("soak"))
        known = {one.name for one in fields(Progress)}
        return Progress(**told) if told.get("schema") == SCHEMA and set(told) == known else None

    def save(self, progress: Progress) -> str:
        """What was in the way; empty where nothing was."""
        return self._write("soak", asdict(progress))

    def asked(self) -> float:
        """The hours that were asked for last; 0 where nobody has asked."""
        hours = self._read("asked").get("hours")
        return float(hours) if isinstance(hours, (int, float)) else 0.0

    def ask(self, hours: float) -> str:
        return self._write("asked", {"hours": hours})

    def _read(self, what: str) -> dict[str, Any]:
        if not self.folder:  # what lies in the folder where it was called is a stranger's
            return {}
        try:
            with open(self._path(what), "rb") as file:
                told = json.loads(file.read(_LARGEST))
        except (OSError, ValueError, RecursionError):
            return {}
        return told if isinstance(told, dict) else {}

    def _write(self, what: str, content: Mapping[str, Any]) -> str:
        if not self.folder:
            return ""
        path = self._path(what)
        try:
            _write(path, json.dumps(content, separators=(",", ":")).encode())
        except OSError as exc:
            with suppress(OSError):  # half a file takes room and tells nothing
                os.unlink(f"{path}.new")
            return str(exc.strerror)
        return ""


def _of_now(told: dict[str, Any]) -> dict[str, Any]:
    """A file of the schema before: nobody knows when its parts began by the clock of their boot."""
    if told.get("schema") != _BEFORE:
        return told
    parts = [{**part, "up": None} for part in told.get("parts") or []]
    return {**told, **_UNTOLD, "parts": parts}


def _write(path: str, content: bytes) -> None:
    """The whole file or none, also where the machine loses power."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(f"{path}.new", flags, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)
