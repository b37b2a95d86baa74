# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All drivers, imported by name so that they travel with a shipped module. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.driver import Kubernetes
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.none.driver import NoScheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.driver import Slurm

DRIVERS: dict[str, type[Scheduler]] = {
    "slurm": Slurm,
    "kubernetes": Kubernetes,
    "none": NoScheduler,
}


def open_scheduler(
    params: Mapping[str, Any], *, node: str = "", drivers: Optional[Mapping[str, type[Scheduler]]] = None
) -> Scheduler:
    """The driver that the options name.

    :param drivers: those to choose from; a driver that no user sees is registered by an entry in ``DRIVERS``.
    """
    require(params, "scheduler", node=node)
    name, known = str(params["scheduler"]), drivers or DRIVERS
    if name not in known:
        raise ConfigError(f"no driver for the scheduler {name}", node=node, wanted=" or ".join(sorted(known)))
    return known[name](params)
