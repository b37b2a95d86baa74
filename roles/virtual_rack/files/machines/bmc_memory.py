# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a BMC holds of its machine: whether the power is on, and which device the next boot is from.

Apart from what acts on it, because ipmi_sim starts a program for each question and answers nobody until that has ended.
"""

from __future__ import annotations

from rackconf import Node, read_json, write_json


def power(node: Node) -> str:
    """Return "on" or "off"."""
    try:
        return (node.home / "power").read_text(encoding="ascii").strip() or "off"
    except OSError:
        return "off"


def read_override(node: Node) -> dict[str, str]:
    """Return the boot override as the BMC holds it."""
    override: dict[str, str] = {"target": "None", "enabled": "Disabled", "mode": "UEFI", "uri": ""}
    override.update(read_json(node.home / "boot.json", {}))
    return override


def write_override(node: Node, **changes: str) -> dict[str, str]:
    """Change the boot override."""
    override = {**read_override(node), **changes}
    write_json(node.home / "boot.json", override)
    return override


def take_override(node: Node) -> dict[str, str]:
    """Return the override for this boot; a one-time override is used up by it."""
    override = read_override(node)
    if override["enabled"] == "Once":
        write_override(node, target="None", enabled="Disabled", uri="")
    return override
