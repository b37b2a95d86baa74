# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tells one boot of a node from another, in the node's own words. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Reads it in one round trip; a missing file gives an empty line.
PROBE = (
    "cat /proc/sys/kernel/random/boot_id 2>/dev/null; echo; cat /proc/cmdline 2>/dev/null; echo;"
    " cat /proc/uptime 2>/dev/null"
)


def told(answer: Mapping[str, Any]) -> dict[str, str] | None:
    """``{"boot_id", "cmdline", "uptime"}``; None where the node did not say all of it."""
    lines = [line.strip() for line in str(answer.get("stdout", "")).splitlines() if line.strip()]
    if answer.get("rc") != 0 or len(lines) < 3:
        return None
    return {"boot_id": lines[0], "cmdline": lines[1], "uptime": lines[2].split()[0]}
