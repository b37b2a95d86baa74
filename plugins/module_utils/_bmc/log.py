# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb behind ``bmc_log``: what has happened to a machine, as its BMC wrote it down. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import clock
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.registry import connect
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.who import shown
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result

#: How many entries may be asked for.
MOST = 5000
_MOST_LINES, _LINE = 50, 400


def log(params: Mapping[str, Any], ctx: Context) -> Result:
    """The newest entries of one machine's system event log; reads only.

    :raises ConfigError: where an option is none that can be meant; nothing was asked.
    :raises Unsupported: where its BMC shows no such log: that is no empty one.
    """
    most, since = _most(params.get("most"), ctx), clock.since(params.get("since"))
    with connect(params, ctx) as bmc:
        machine = shown(bmc, params)
        found = bmc.events.newest(most, since)
        data = {
            "address": bmc.address,
            "machine": machine,
            "log": found.name.as_dict(),
            "entries": [one.as_dict() for one in found.entries],
            "total": found.total,
            "unread": _bounded(found.unread),
            "bmc_time": clock.iso(found.clock.at),
            "bmc_time_said": found.clock.said,
            "bmc_ahead": found.clock.ahead,
        }
    return Result(changed=False, data=data)


def _bounded(unread: Sequence[str]) -> list[str]:
    """A BMC may have any number of things that cannot be read."""
    left = len(unread) - _MOST_LINES
    lines = [short(line, _LINE) for line in unread[:_MOST_LINES]]
    return [*lines, f"and {left} more"] if left > 0 else lines


def _most(asked: Any, ctx: Context) -> int:
    if isinstance(asked, int) and 1 <= asked <= MOST:
        return asked
    raise ConfigError("most is no number of entries", node=ctx.node, wanted=f"1 to {MOST}", seen=str(asked))
