# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a driver on the controller gets a command to run on another host of the inventory. PRIVATE to the collection.

Drivers know no inventory and no connection. Whoever has them says once how a line of shell gets there.
"""

from __future__ import annotations

from typing import Callable, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError

#: Runs a line of shell there, once, with what it reads, and waits for so many seconds: all that it printed on its
#: standard output, and what was in the way. What it reads comes there by no terminal; it is in no argument and no log.
Ask = Callable[[str, str, float], tuple[str, str]]
#: Opens the way to a host; None where the inventory has no such host.
Opens = Callable[[str], Optional[Ask]]
_opens: Optional[Opens] = None


def led_by(opens: Opens) -> None:
    """From now on in this process, the ways of the task that is at work."""
    global _opens
    _opens = opens


def to(host: str, setting: str) -> Ask:
    """:raises ConfigError: where there is none: to a host that nobody knows, and on a machine to which the module was
    shipped."""
    if _opens is None:
        raise ConfigError(
            f"nobody here knows the way to {host}",
            address=host,
            wanted="a task of the controller, which has the inventory's connections",
            seen="a module on another machine",
            do=f"leave delegate_to out of the task, or {setting} unset for it",
        )
    ask = _opens(host)
    if ask is None:
        raise ConfigError(
            f"the inventory has no host {host}",
            address=host,
            wanted="the name of a host of the inventory, as ansible-inventory --list shows it",
            do=f"correct {setting}, or add that host to the inventory; where AWX slices the job, it is in one slice"
            " alone: let it be one job (awx_slices: 1)",
        )
    return ask
