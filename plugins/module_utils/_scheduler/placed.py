# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Would a node that is resumed be given any work? PRIVATE to the collection.

One that the scheduler's map of the network lacks stands idle for good, and passes for a node in service.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError

#: So long a run goes by one look at the map, for all its hosts.
LOOK_SECONDS = 60.0
UNREAD = "nobody looked whether the scheduler's topology has this node: {}"


def demand(node: Any) -> None:
    """:param node: as of ``scheduler_node``.
    :raises ConfigError: where it would get no work; nothing was written. Whoever gives a reason knows.
    """
    if node.params.get("force_reason"):
        return
    driver = node.driver
    asked = f"unplaced {driver.NAME} {driver.address}"
    unplaced, unread = node._away.once(asked, lambda: node._heard(driver.unplaced), LOOK_SECONDS)
    if unread and (line := UNREAD.format(unread)) not in node.ctx.warnings:
        node.ctx.warnings.append(line)
    if node.name in unplaced:
        raise ConfigError(
            "refused: the scheduler would show this node idle, and give it no job for ever",
            node=node.name,
            address=driver.address,
            wanted="a node that the scheduler's topology has",
            seen=unplaced[node.name],
            do="write it into the topology (playbook topology), then run again; its hold stays until then, or give"
            " force_reason, which is recorded",
        )
