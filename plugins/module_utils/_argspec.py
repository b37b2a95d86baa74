# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The argument specs that several modules share, one a port. PRIVATE to the collection.

Each has a documentation fragment of the same name under ``plugins/doc_fragments``. An option of these specs that
a task leaves out is taken from the host variable ``gpufleet_<option>`` by the verb's action on the controller;
that is why none is marked as required here: :func:`require` says what is missing, and where to put it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import names as bmc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import names as gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names as provisioner
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names as scheduler

Spec = dict  # dict[str, dict[str, Any]]; spelled so for Python 3.9's type aliases

FLEET: Spec = {
    "node_id": {"type": "str"},
    "ledger_url": {"type": "str", "no_log": True},
    "force_reason": {"type": "str"},
}

BMC: Spec = {bmc.OPTION: {"type": "str", "choices": list(bmc.DRIVERS)}, **bmc.OPTIONS}

PROVISIONER: Spec = {provisioner.OPTION: {"type": "str", "choices": list(provisioner.DRIVERS)}, **provisioner.OPTIONS}

SCHEDULER: Spec = {scheduler.OPTION: {"type": "str", "choices": list(scheduler.DRIVERS)}, **scheduler.OPTIONS}

#: Which verdicts fail the host, the gates that a passport asks for by itself, and all that there are.
FAIL_ON: Spec = {"fail_on": {"type": "str", "choices": list(gate.FAIL_ON), "default": "inconclusive"}}
GATES = gate.REQUIRED
ALL_GATES = tuple(gate.DRIVERS.values())
#: The gate that measures nothing, and compares on the controller what the others have measured.
OUTLIERS = "gate_outliers"

#: Shared by the verbs that watch a whole batch from one task.
BATCH: Spec = {
    "after": {"type": "list", "elements": "str"},
    "nodes": {"type": "list", "elements": "dict"},
}

#: Shared by the verbs that serve one host, or all hosts of a play from one task.
FOR_ALL: Spec = {
    "batch": {"type": "bool"},
    "each": {"type": "dict"},
    "after": {"type": "list", "elements": "str"},
    "at_once": {"type": "int"},
}

#: Options that the action takes from ``gpufleet_<option>`` where the task leaves them out.
FROM_HOST_VARS: frozenset[str] = frozenset(
    [*BMC, *PROVISIONER, *SCHEDULER, "node_id", "ledger_url"]
    + ["provisioner_id", "scheduler_node", "image", "sku", "tenant", "failure_domain"]
    + ["serial", "system_uuid", "boot_mac"]
    + ["passport_key_path", "passport_public_keys", "flap_recycles", "flap_days"]
)


def spec(*parts: Mapping[str, Any], **own: Mapping[str, Any]) -> dict[str, Any]:
    """One argument spec out of shared parts and the module's own options."""
    merged: dict[str, Any] = {}
    for part in parts:
        merged.update({name: dict(option) for name, option in part.items()})
    merged.update({name: dict(option) for name, option in own.items()})
    return merged


def for_a_module(params: Mapping[str, Any]) -> dict[str, Any]:
    """What a module on another machine is given. The ledger's address, which can hold a password, is the controller's
    alone, as all of FLEET; so is whom a task is for."""
    own = {**FLEET, **FOR_ALL}
    return {key: value for key, value in params.items() if value is not None and key not in own}


def of_each_host(option: str, options: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Of a port's names, those that a batch knows of each of its hosts. No secret: the list of hosts is no secret."""
    return (option, *(name for name, one in options.items() if not one.get("no_log")))


def value_of(given: Mapping[str, Any], name: str, options: Mapping[str, Mapping[str, Any]]) -> Any:
    """As the module itself reads that option, for what stands in a list of hosts; empty where it is not given."""
    value = given.get(name)
    is_path = bool(value) and options.get(name, {}).get("type") == "path"
    return os.path.expanduser(os.path.expandvars(str(value))) if is_path else "" if value is None else value


#: What `require` advises, before the names. Who has no task, as a source of an inventory, advises without it.
IN_A_TASK = "give the option in the task, or set the host variable "


def require(params: Mapping[str, Any], *names: str, node: str = "") -> None:
    """Say at once which options are missing, and which host variables would fill them.

    :raises ConfigError: naming all of them.
    """
    missing = [name for name in names if params.get(name) in (None, "")]
    if missing:
        sources = ", ".join(f"gpufleet_{name}" for name in missing if name in FROM_HOST_VARS)
        raise ConfigError(
            f"missing: {', '.join(missing)}",
            node=node,
            do=f"{IN_A_TASK}{sources} in the inventory" if sources else "give the option in the task",
        )
