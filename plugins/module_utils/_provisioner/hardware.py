# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provisioner's inspection found in one machine; reads only. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Optional, Protocol, runtime_checkable

from ansible_collections.gpufleet.baremetal.plugins.module_utils._away import Away
from ansible_collections.gpufleet.baremetal.plugins.module_utils._hardware import Hardware
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import wanted as wants
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver, NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.guard import agreed, found
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import connected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


@runtime_checkable
class Inspector(Protocol):
    """A driver whose provisioner looks at the hardware."""

    def hardware(self, node: NodeState) -> Optional[Hardware]:
        """What its inspection found in the machine, with what requests that takes; None where it has not inspected it.
        What a person wrote into the record is no finding."""


class Inspected(NamedTuple):
    """agrees: in what the record that this was found in is the inventory's machine; in nothing, it may be another's."""

    parts: Hardware
    agrees: tuple[str, ...]


def hardware(params: Mapping[str, Any], ctx: Context) -> Optional[Inspected]:
    """None where the provisioner does not know the node, or has not inspected it.

    :raises WrongMachine: where its record is another machine's.
    """
    with connected(params, ctx) as driver:
        wanted = wants.of_task(params, driver.name, driver.image_needs, ctx.node)
        away = Away(str(params.get("run_cache") or ""), wanted.host)
        return away.heard(driver.address, lambda: _read(driver, wanted), beat=ctx.lifeline.beat, final=lambda: False)


def _read(driver: Driver, wanted: Wanted) -> Optional[Inspected]:
    node = found(driver, wanted)
    if node is None:
        return None
    agrees = agreed(driver, node, wanted)
    parts = driver.hardware(node) if isinstance(driver, Inspector) else None
    return None if parts is None else Inspected(parts, agrees)
