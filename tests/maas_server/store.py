# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines that MAAS knows, kept in a file that only this user can read: it holds their BMCs' passwords."""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Optional

from .statuses import NAMES, NEW, TRANSITIONS

#: MAAS leaves out what can be misread (provisioningserver/utils/znums.py).
_ALPHABET = "34678abcdefghkmnpqrstwxy"


@dataclass
class Machine:
    system_id: str
    hostname: str
    architecture: str = "amd64/generic"
    macs: list[str] = field(default_factory=list)
    domain: str = "maas"
    zone: str = "default"
    pool: str = "default"
    description: str = ""
    min_hwe_kernel: str = ""
    status: int = NEW
    previous_status: int = NEW
    status_message: str = ""
    error_description: str = ""
    owner: str = ""
    locked: bool = False
    power_type: str = "manual"
    power_state: str = "unknown"
    power_parameters: dict[str, str] = field(default_factory=dict)
    osystem: str = ""
    distro_series: str = ""
    hwe_kernel: str = ""
    ephemeral_deploy: bool = False
    user_data: str = ""
    enable_hw_sync: bool = False
    netboot: bool = True
    tags: list[str] = field(default_factory=list)
    is_dpu: bool = False
    annotations: dict[str, str] = field(default_factory=dict)
    agent_name: str = ""
    hardware: dict[str, str] = field(default_factory=dict)
    #: What commissioning found on its buses.
    devices: list[dict[str, Any]] = field(default_factory=list)
    #: -1: it was never commissioned
    commissioning_status: int = -1
    testing_status: int = -1
    #: sets of script results, each from its first run on
    results: dict[str, int] = field(default_factory=dict)
    #: counts the background jobs: a job that is no longer the newest changes nothing any more
    job: int = 0

    def move(self, status: int) -> None:
        """Only along MAAS's own transitions: anything else is a defect of this server."""
        if status not in TRANSITIONS[self.status]:
            raise ValueError(f"{self.system_id}: no transition from {NAMES[self.status]} to {NAMES[status]}")
        self.status = status


class Store:
    """All machines; every change goes through :meth:`changing` and is on disk before its answer is sent."""

    def __init__(self, folder: Optional[Path]) -> None:
        self._path = folder / "machines.json" if folder else None
        self._lock = threading.RLock()
        self.machines: dict[str, Machine] = {}
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.exists():
                told = json.loads(self._path.read_text(encoding="utf-8"))
                self.machines = {one["system_id"]: Machine(**one) for one in told}

    @contextmanager
    def changing(self) -> Iterator[dict[str, Machine]]:
        with self._lock:
            yield self.machines
            self._save()

    @contextmanager
    def reading(self) -> Iterator[dict[str, Machine]]:
        with self._lock:
            yield self.machines

    def new_id(self) -> str:
        while True:
            name = "".join(secrets.choice(_ALPHABET) for _place in range(6))
            if name not in self.machines:
                return name

    def _save(self) -> None:
        if self._path is None:
            return
        draft = self._path.with_suffix(".new")
        text = json.dumps([asdict(one) for one in self.machines.values()], indent=1)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
            out.write(text)
        os.replace(draft, self._path)
