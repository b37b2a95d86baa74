# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a soak's progress and what was asked of it lie on the node. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import DeadlineExceeded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import job
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak import grid
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.progress import SCHEMA, Progress
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS

_LARGEST = 16 * 1024 * 1024
#: What a failure is written into where the disk is full, and how much of it is told there.
_SPARE, _ROOM, _MOST = "spare", 128 * 1024, 20
#: Whoever begins a soak holds the lock for a moment.
_CLOSING_SECONDS = 5.0
_IN_PLACE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
#: What is not told by the files that were written before the clocks of a soak were kept.
_BEFORE = 2
_UNTOLD: Mapping[str, Any] = {"schema": SCHEMA, "wall": 0.0, "offset": None, "forgotten": 0}


@dataclass(frozen=True)
class Store:
    """The files of one soak; nowhere with an empty folder."""

    folder: str
    job: str

    def _path(self, what: str) -> str:
        return os.path.join(self.folder, f"{self.job}.{what}")

    def load(self) -> Optional[Progress]:
        """None where there is none that can be gone on with."""
        told = self._read(_SPARE) or _of_now(self._read("soak"))
        known = {one.name for one in fields(Progress)}
        return Progress(**told) if told.get("schema") == SCHEMA and set(told) == known else None

    def save(self, progress: Progress) -> str:
        """What was in the way; empty where nothing was. A failure is then in the room that is kept for it."""
        problem = self._write("soak", asdict(progress))
        if problem and progress.failed:
            self._spare(progress)
        return problem

    def keep_room(self) -> str:
        """Room for a failure that is seen while the disk is full; what was in the way, empty where nothing was."""
        if not self.folder:
            return ""
        try:
            descriptor = os.open(self._path(_SPARE), _IN_PLACE | os.O_TRUNC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, _ROOM)
            finally:
                os.close(descriptor)
        except OSError as exc:
            if exc.errno in job.NO_ROOM:
                self.give_room_back()
                return str(exc.strerror)
            # A file system that promises none promises none.
        return ""

    def give_room_back(self) -> None:
        """What was in it is written elsewhere."""
        if self.folder:
            with suppress(OSError):
                os.unlink(self._path(_SPARE))

    def _spare(self, progress: Progress) -> None:
        """The failure, without its series, over what was in the room: it grows no file and takes no block."""
        told = {**asdict(progress), "rows": [], "digests": progress.digests[-1:], "parts": _brief(progress.parts)}
        content = json.dumps(told, separators=(",", ":"), default=str).encode()
        with suppress(OSError), os.fdopen(os.open(self._path(_SPARE), _IN_PLACE, 0o600), "wb", buffering=0) as file:
            file.write(content.ljust(_ROOM, b"\0"))
            os.fsync(file.fileno())

    def asked(self) -> float:
        """The hours that were asked for last; 0 where nobody has asked."""
        hours = self._read("asked").get("hours")
        return float(hours) if isinstance(hours, (int, float)) else 0.0

    def ask(self, hours: float) -> str:
        return self._write("asked", {"hours": hours})

    def over(self) -> bool:
        """Are its hours over, so that its verdict is of those?"""
        return bool(self._read("asked").get("over"))

    def close(self, seconds: float) -> bool:
        """Its hours are over, and nobody asks for more of them any more; or somebody has meanwhile."""
        if not self.folder:
            return True
        with suppress(DeadlineExceeded), job.alone_in(self.folder, _CLOSING_SECONDS):
            if grid.seconds_of(self.asked()) > seconds:
                return False
            self._write("asked", {"hours": self.asked(), "over": True})
        return True

    def _read(self, what: str) -> dict[str, Any]:
        if not self.folder:  # what lies in the folder where it was called is a stranger's
            return {}
        try:
            with open(self._path(what), "rb") as file:
                told = json.loads(file.read(_LARGEST).rstrip(b"\0"))
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


def _brief(parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The parts with that of what they found by which a failure is told."""
    return [{**part, "found": [[what, _wrong_in(told)] for what, told in part["found"]]} for part in parts]


def _wrong_in(told: Mapping[str, Any]) -> dict[str, Any]:
    wrong = [row for row in told["checks"] if row["verdict"] != PASS]
    return {**told, "checks": wrong[:_MOST], "findings": told["findings"][:_MOST], "argv": []}


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
