# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drivers of the port, imported statically: an import by name breaks in a shipped module. PRIVATE."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.contract import Bmc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.apart import speakers
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.driver import IpmiBmc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.driver import RedfishBmc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.rehearsal import (
    rehearse as rehearse_redfish,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._together import Peers
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

DRIVERS: dict[str, Callable[[Mapping[str, Any], Context], Bmc]] = {
    "redfish": RedfishBmc,
    "ipmi": IpmiBmc,
}
#: What goes around all who go on beside each other in one process, of drivers whose library serves one at a time.
APART: dict[str, Callable[[Peers], AbstractContextManager[None]]] = {"ipmi": speakers}
DEFAULT_PROTOCOL = next(iter(names.DRIVERS))


def connect(params: Mapping[str, Any], ctx: Context) -> Bmc:
    """The machine that the options name, not yet spoken to."""
    require(params, "bmc_address", "bmc_username", "bmc_password", node=ctx.node)
    protocol = params.get("bmc_protocol") or DEFAULT_PROTOCOL
    if protocol not in DRIVERS:
        raise ConfigError(
            f"no driver for the BMC protocol {protocol}", node=ctx.node, wanted=" or ".join(sorted(DRIVERS))
        )
    return DRIVERS[protocol](params, ctx)


@contextmanager
def side_by_side(peers: Peers) -> Iterator[None]:
    """Begun while this process has one thread: drivers that need it have processes of their own from here on."""
    with ExitStack() as begun:
        for its in APART.values():
            begun.enter_context(its(peers))
        yield


def rehearse() -> None:
    """Before workers fork: let each driver that gains by it do once what they will all do."""
    rehearse_redfish()
