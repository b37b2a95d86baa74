# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The far end of an open IPMI session: commands in, answers out. For completion codes that no simulator gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Answer = Callable[[tuple[int, ...]], tuple[int, bytes]]


class Session:
    """Stands where pyghmi's session stands once it is open. ``says`` maps a command to what answers its data."""

    broken = False
    incommand: Any = False

    def __init__(self, says: Mapping[tuple[int, int], Answer]) -> None:
        self.says = dict(says)
        self.heard: list[tuple[int, int, tuple[int, ...]]] = []

    def raw_command(
        self, netfn: int, command: int, data: tuple[int, ...], callback: Callable[[Any], None], timeout: Any = None
    ) -> None:
        self.heard.append((netfn, command, tuple(data)))
        code, answer = self.says.get((netfn, command), lambda _data: (0xC1, b""))(tuple(data))
        callback({"code": code, "data": bytearray(answer), **({"error": "in words"} if code else {})})

    def logout(self) -> None:
        """It is closed with its test."""
