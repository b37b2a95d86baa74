# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has begun a run. PRIVATE to the collection."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import Any

#: Variables of a job of an automation controller, in which nobody but it says who launched it.
_LAUNCHERS = ("awx_user_name", "tower_user_name")


def launcher(variable: Callable[[str], Any]) -> str:
    """The user of the automation controller; empty where none has launched this."""
    return next((str(told) for name in _LAUNCHERS if (told := variable(name))), "")


def logged_in() -> str:
    """Who runs this here; empty where nobody has a name for him, as in a container with a user id of its own."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
