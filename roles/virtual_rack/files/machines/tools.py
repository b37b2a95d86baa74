# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put the vendor tools' stand-ins into a node's tool folder, as its faults demand."""

from __future__ import annotations

from pathlib import Path

from rackconf import NODE_PYTHON, Node, faults_of

SOURCE = Path(__file__).parent / "standins"
PROGRAMS = {
    "dcgmi": "dcgmi_tool",
    "nvidia-smi": "smi_tool",
    "nv-fabricmanager": "fabric_tool",
    "reboot": "reboot_tool",
}
# A fault that takes a tool away, and which one.
REMOVED_BY = {"dcgm_missing": "dcgmi"}
_LAUNCHER = """#!{python} -EsS
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import {module}

sys.exit({module}.main())
"""


def install(node: Node) -> None:
    """Write the tools; one that a fault took away is removed, and comes back when the fault is lifted."""
    faults = faults_of(node)
    gone = {tool for fault, tool in REMOVED_BY.items() if fault in faults}
    (node.tools / "bin").mkdir(parents=True, exist_ok=True)
    for source in sorted(SOURCE.glob("*.py")):
        _write(node.tools / source.name, source.read_text(encoding="utf-8"), 0o644)
    for name, module in PROGRAMS.items():
        path = node.tools / "bin" / name
        if name in gone:
            path.unlink(missing_ok=True)
        else:
            _write(path, _LAUNCHER.format(python=NODE_PYTHON, module=module), 0o755)
    (node.tools / "state.json").touch()


def _write(path: Path, text: str, mode: int) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    path.chmod(mode)
