# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has a node of xCAT now, against who had it when it was judged. PRIVATE to the collection.

Nobody keeps a record for us between the judgement and the write: leave to write may be waited for, and a command for
many nodes takes minutes. So who has them is looked up after leave was given, right before each command.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import meanwhile
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.meanwhile import Nodes
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat import record


def as_judged(
    nodes: Nodes, now: Mapping[str, NodeState], address: str, method: str | None = None
) -> tuple[Nodes, dict[str, FleetError]]:
    """Those that are still as they were judged, as they stand now; and why not, by host, for the others.

    :param method: the ``provmethod`` that each is to have by now, where we have written it since.
    """
    return meanwhile.as_judged(
        nodes, now, lambda judged, there, wanted: difference(judged, there, wanted, address, method)
    )


def difference(
    judged: NodeState, now: NodeState | None, wanted: Wanted, address: str, method: str | None = None
) -> FleetError | None:
    """What says that somebody else has it since; None where nothing does."""
    written = {} if method is None else {"provmethod": method}
    return meanwhile.since("xCAT", judged, now, wanted, address, _whose, **written)


def _whose(node: NodeState) -> dict[str, str]:
    """With another card or BMC it is another machine that is booted, or switched off."""
    return {
        "owner": node.foreign,
        "hold": node.hold,
        "mac": ", ".join(sorted(record.macs(node.raw))),
        "bmc": node.raw.get("bmc", ""),
        "provmethod": node.raw.get("provmethod", ""),
    }
