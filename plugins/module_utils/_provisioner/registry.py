# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drivers of the port, imported statically: an import by name breaks in a shipped module. PRIVATE."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import PROVISIONER, require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm.driver import BcmDriver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.cloud import load_cloud
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.driver import IronicDriver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas.driver import MaasDriver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.pxe.driver import PxeDriver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf.driver import WarewulfDriver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat.driver import XcatDriver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

#: Each is made with the task's options and its context: ``DRIVERS[name](params, ctx)``.
DRIVERS: dict[str, Any] = {
    "bcm": BcmDriver,
    "ironic": IronicDriver,
    "maas": MaasDriver,
    "pxe": PxeDriver,
    "warewulf": WarewulfDriver,
    "xcat": XcatDriver,
}


def register(driver: type[Driver], options: tuple[str, ...] = ("provisioner_url",)) -> Callable[[], None]:
    """Add a driver that is no part of the collection, in this process and in those forked from it later.

    Made for drivers under test: everything that asks for names and choices knows it from here on, until what this
    returns is called. The specs of verbs share one list of choices, so that it does not matter which of them are
    imported already.
    """
    choices = PROVISIONER[names.OPTION]["choices"]

    def undo() -> None:
        for known in (DRIVERS, names.DRIVERS, names.STATELESS):
            known.pop(driver.name, None)
        names.POWERLESS.discard(driver.name)
        names.NO_MAINTENANCE.discard(driver.name)
        if driver.name in choices:
            choices.remove(driver.name)

    undo()
    DRIVERS[driver.name], names.DRIVERS[driver.name] = driver, options
    choices.append(driver.name)
    if not driver.owns_power:
        names.POWERLESS.add(driver.name)
    if not driver.holds:
        names.NO_MAINTENANCE.add(driver.name)
    if driver.stateless:
        names.STATELESS[driver.name] = driver.stateless
    return undo


def rehearse() -> None:
    """Before workers fork: load once what else each of them would, for its one task."""
    with suppress(FleetError):  # a verb that needs it says so
        load_cloud()


@contextmanager
def connected(params: Mapping[str, Any], ctx: Context) -> Iterator[Driver]:
    """The provisioner that the options name; nothing has been sent to it yet."""
    require(params, "provisioner", node=ctx.node)
    name = str(params["provisioner"])
    if name not in DRIVERS:
        raise ConfigError(f"no driver for the provisioner {name}", node=ctx.node, wanted=" or ".join(sorted(DRIVERS)))
    driver: Driver = DRIVERS[name].reached_by(params)(params, ctx)
    try:
        yield driver
    finally:
        driver.close()
