# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put the vendor tools' stand-ins into a node's tool folder, as its faults demand."""

from __future__ import annotations

import shutil
from pathlib import Path

from rackconf import Node, faults_of

SOURCE = Path(__file__).parent / "standins"
# A fault that takes a tool away, and which one.
REMOVED_BY = {"dcgm_missing": "dcgmi"}


def install(node: Node) -> None:
    """Copy the tools; a tool that a fault took away is removed, and comes back when it is lifted."""
    faults = faults_of(node)
    gone = {tool for fault, tool in REMOVED_BY.items() if fault in faults}
    (node.tools / "bin").mkdir(parents=True, exist_ok=True)
    for source in sorted(SOURCE.iterdir()):
        if source.suffix == ".py":
            _copy(source, node.tools / source.name, 0o644)
        elif source.is_file() and source.name in gone:
            (node.tools / "bin" / source.name).unlink(missing_ok=True)
        elif source.is_file():
            _copy(source, node.tools / "bin" / source.name, 0o755)
    (node.tools / "state.json").touch()


def _copy(source: Path, target: Path, mode: int) -> None:
    if not target.exists() or target.read_bytes() != source.read_bytes():
        shutil.copyfile(source, target)
    target.chmod(mode)
