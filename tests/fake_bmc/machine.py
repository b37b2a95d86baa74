# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine with a power button and a boot override: the truth behind a simulated BMC."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any

#: So long is a machine at the beginning of its start.
START_SECONDS = 0.4


class Machine:
    """Power takes ``lag`` seconds to change; a one-time override is used up by the boot that obeys it."""

    def __init__(
        self, *, power: str = "Off", lag: float = 0.0, obedient: bool = True, mac: str = "525400000001"
    ) -> None:
        self.lock = threading.RLock()
        self.lag = lag
        #: False: every request is taken and nothing is done.
        self.obedient = obedient
        #: False: the operating system hangs at a shutdown.
        self.shuts_down = True
        self.mac = mac
        self.boots: list[str] = []
        self.boot_id = ""
        self.reset_time = "2026-01-01T00:00:00Z"
        self.booted_at = 0.0
        self.override: dict[str, Any] = {"enabled": "Disabled", "target": "None", "mode": "UEFI", "uri": ""}
        self._power = power
        self._pending: list[tuple[float, str]] = []
        if power == "On":
            self._boot()
            self.booted_at -= START_SECONDS

    @property
    def starting(self) -> bool:
        """Whether it is at the beginning of its start."""
        return self.power == "On" and time.monotonic() - self.booted_at < START_SECONDS

    @property
    def power(self) -> str:
        with self.lock:
            self.catch_up()
            return self._power

    def catch_up(self) -> None:
        """Make the changes that are due."""
        with self.lock:
            while self._pending and time.monotonic() >= self._pending[0][0]:
                self._arrive(self._pending.pop(0)[1])

    def arrive(self) -> None:
        """Make all changes that are under way."""
        with self.lock:
            self._pending = [(0.0, state) for _due, state in self._pending]
            self.catch_up()

    def reset(self, kind: str) -> None:
        with self.lock:
            now = self.power
            if not self.obedient or (kind.startswith("Graceful") and not self.shuts_down):
                return
            steps = {"On": ["On"], "ForceOff": ["Off"], "GracefulShutdown": ["Off"], "Off": ["Off"]}
            restart = ["Off", "On"]
            for number, state in enumerate(steps.get(kind, restart), 1):
                if state != now or number > 1:
                    self._pending.append((time.monotonic() + self.lag * number, state))

    def _arrive(self, state: str) -> None:
        if state == "On" and self._power != "On":
            self._boot()
        self._power = state

    def _boot(self) -> None:
        self.boot_id = str(uuid.uuid4())
        self.booted_at = time.monotonic()
        self.reset_time = f"2026-01-01T00:00:{len(self.boots) % 60:02d}Z"
        enabled = self.override["enabled"]
        self.boots.append(self.override["target"] if enabled in ("Once", "Continuous") else "disk")
        if enabled == "Once":
            self.override["enabled"] = "Disabled"

    def probe(self) -> dict[str, str] | None:
        """What the node itself would say of its boot, over its own connection."""
        with self.lock:
            if self.power != "On":
                return None
            network = self.boots[-1] in ("Pxe", "UefiHttp")
            mac = "-".join(self.mac[i : i + 2] for i in range(0, 12, 2))
            return {
                "boot_id": self.boot_id,
                "cmdline": "quiet" + (f" BOOTIF=01-{mac}" if network else ""),
                "uptime": f"{time.monotonic() - self.booted_at:.2f}",
            }
