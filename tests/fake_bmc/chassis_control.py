# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ipmi_sim calls: ``control get|set|check [name [value]]...``; sets are noted in ``calls``."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def boot(folder: Path) -> None:
    """A machine that starts uses its one-time override up."""
    device = folder / "boot"
    said = device.read_text().strip() if device.exists() else "none"
    note(folder, f"boot:{said}")
    device.write_text("none")


def note(folder: Path, line: str) -> None:
    with open(folder / "calls", "a", encoding="utf-8") as calls:
        calls.write(line + "\n")


def change(folder: Path, name: str, value: str) -> None:
    note(folder, f"set {name} {value}")
    if (folder / "liar").exists():
        return
    power = folder / "power"
    on = power.read_text().strip() == "1"
    time.sleep(float((folder / "lag").read_text()))
    if name == "boot":
        (folder / "boot").write_text(value)
    elif name == "power" and (value == "1") != on:
        if value == "1":
            boot(folder)
        power.write_text(value)
    elif name == "reset" and on:
        boot(folder)
    elif name == "shutdown" and not (folder / "hangs").exists():
        power.write_text("0")


def answer(folder: Path, argv: list[str], _is_gone: Callable[[], bool]) -> tuple[int, str, str]:
    """Exit status, and what is printed."""
    operation, rest = argv[0], argv[1:]
    if operation in ("0x20", "20"):  # some builds put the address of the controller first
        operation, rest = rest[0], rest[1:]
    told = ""
    if operation == "get":
        for name in rest:
            path = folder / name
            told += f"{name}:{path.read_text().strip() if path.exists() else ('none' if name == 'boot' else '0')}\n"
    elif operation == "set":
        for name, value in zip(rest[::2], rest[1::2]):
            change(folder, name, value)
    return 0, told, ""
