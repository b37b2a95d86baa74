# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a deployment by Ironic needs, as far as its API tells without a write. PRIVATE to the collection.

Its configuration cannot be read. What is enabled it lists; what else a node lacks it says when it validates it, which
changes nothing. Nodes that differ in nothing that counts are validated once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic import record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.api import IronicApi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted

Nodes = Sequence[tuple[Wanted, Optional[NodeState]]]
_FIELDS = "uuid,driver,driver_info,conductor_group,boot_interface"
#: What of a node's record decides what its validation says of them.
_DECIDE = ("deploy_kernel", "deploy_ramdisk", "deploy_iso", "bootloader", "redfish_verify_ca")
_AGENT = ("deploy_kernel", "deploy_ramdisk")
_CA = "redfish_verify_ca"


def lacking(api: IronicApi, nodes: Nodes) -> Iterator[tuple[str, FleetError]]:
    told = api.shown("/drivers", detail=True)  # by its policy to logins of the whole system alone
    enabled = {str(one.get("name")): one for one in (told or {}).get("drivers") or []}
    for wanted, node in nodes if told is not None else ():
        yield from ((wanted.host, exc) for exc in _not_enabled(api.address, enabled, wanted, node))
    yield from _not_valid(api, [(wanted, node) for wanted, node in nodes if node is not None])


def _not_enabled(
    address: str, enabled: Mapping[str, Mapping[str, Any]], wanted: Wanted, node: NodeState | None
) -> Iterator[ConfigError]:
    kind = str(record.fields(wanted).get("driver") or (node.raw.get("driver") if node else "") or "")
    if kind and kind not in enabled:
        yield ConfigError(
            f"no conductor of Ironic drives nodes of the type {kind}",
            address=address,
            seen=f"enabled: {', '.join(sorted(enabled)) or 'nothing'}",
            do=f"add {kind} to enabled_hardware_types in its ironic.conf, or correct gpufleet_bmc_protocol",
        )
        return
    needed = {key: str(value) for key, value in wanted.extras.items() if key.endswith("_interface")}
    if wanted.image is not None and record.deploy_interface(wanted.image, wanted.extras):
        needed["deploy_interface"] = record.deploy_interface(wanted.image, wanted.extras)
    for name, value in needed.items():
        known = enabled.get(kind, {}).get(f"enabled_{name}s")
        if isinstance(known, list) and value not in known:
            yield ConfigError(
                f"Ironic has the {name.replace('_', ' ')} {value} not enabled for {kind}",
                address=address,
                seen=f"enabled: {', '.join(map(str, known)) or 'none'}",
                do=f"add {value} to enabled_{name}s in its ironic.conf",
            )


def _not_valid(api: IronicApi, nodes: Sequence[tuple[Wanted, NodeState]]) -> Iterator[tuple[str, FleetError]]:
    """What the conductors say of nodes that they know, before anything is written for the deployment."""
    of_disk = [(wanted, node) for wanted, node in nodes if wanted.image is not None and record.has_drive(wanted.image)]
    if not of_disk:
        return
    records = {str(one.get("uuid")): one for one in api.listed("/nodes", "nodes", fields=_FIELDS)}
    groups: dict[str, list[tuple[Wanted, str]]] = {}
    for wanted, node in of_disk:
        raw = records.get(node.id) or {}
        decides = {key: (raw.get("driver_info") or {}).get(key) for key in _DECIDE}
        key = json.dumps([decides, raw.get("driver"), raw.get("conductor_group"), raw.get("boot_interface")])
        groups.setdefault(key, []).append((wanted, node.id))
    for alike in groups.values():
        told = api.get(f"/nodes/{alike[0][1]}/validate") or {}
        for wanted, _id in alike:
            yield from ((wanted.host, exc) for exc in _judged(api.address, told, wanted))


def _judged(address: str, told: Mapping[str, Any], wanted: Wanted) -> Iterator[ConfigError]:
    """Much of what a validation misses is written with the deployment; what is not, is for the site to put there."""
    coming = (
        record.driver_info(wanted) if wanted.bmc.get("bmc_address") else dict(wanted.extras.get("driver_info") or {})
    )
    boot, power = (str((told.get(name) or {}).get("reason") or "") for name in ("boot", "power"))
    if any(name in boot for name in _AGENT) and not all(coming.get(name) for name in _AGENT):
        yield ConfigError(
            "Ironic knows no deploy kernel and ramdisk for this node",
            address=address,
            seen=short(boot, 200),
            do="set deploy_kernel and deploy_ramdisk under [conductor] in its ironic.conf, or in driver.driver_info"
            " (enroll_driver)",
        )
    if _CA in power and str(coming.get(_CA)) in power:
        yield ConfigError(
            "the file of the BMC's CA is not there on Ironic's conductor, where the path is read as well",
            address=address,
            wanted=str(coming[_CA]),
            do="put it there by the same path, or give driver.driver_info.redfish_verify_ca (enroll_driver) the"
            " conductor's",
        )
