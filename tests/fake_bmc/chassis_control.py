# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ipmi_sim calls: ``chassis_control.py FOLDER get|set|check [name [value]]...``; sets are noted in ``calls``."""

from __future__ import annotations

import sys
import time
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


def main() -> int:
    folder, operation, rest = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if operation in ("0x20", "20"):  # some builds put the address of the controller first
        operation, rest = rest[0], rest[1:]
    if operation == "get":
        for name in rest:
            path = folder / name
            print(f"{name}:{path.read_text().strip() if path.exists() else ('none' if name == 'boot' else '0')}")
    elif operation == "set":
        for name, value in zip(rest[::2], rest[1::2]):
            change(folder, name, value)
    return 0


if __name__ == "__main__":
    sys.exit(main())
