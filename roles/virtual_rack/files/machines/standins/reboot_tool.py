# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask the kernel for a reboot; in a pid namespace that ends its first process, and the machine boots again."""

from __future__ import annotations

import ctypes
import os

_RB_AUTOBOOT = 0x01234567


def main() -> int:
    """Reboot."""
    os.sync()
    return int(ctypes.CDLL(None).reboot(_RB_AUTOBOOT))
