# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``nv-fabricmanager --version``."""

from __future__ import annotations

import sys

import gpu_state


def main() -> int:
    """Print the version of the image that runs."""
    if sys.argv[1:] not in (["--version"], ["-v"]):
        print("usage: nv-fabricmanager --version", file=sys.stderr)
        return 1
    print(f"Fabric Manager version is : {gpu_state.manifest().get('fabric_manager', 'unknown')}")
    return 0
