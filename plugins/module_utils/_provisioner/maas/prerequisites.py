# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a deployment by MAAS needs, of a whole batch: rights, and images for its architectures. PRIVATE."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas.api import MaasApi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted

Nodes = Sequence[tuple[Wanted, Optional[NodeState]]]
Asked = Callable[[Wanted, Optional[NodeState]], Optional[FleetError]]


def lacking(api: MaasApi, nodes: Nodes, asked: Asked) -> Iterator[tuple[str, FleetError]]:
    """:param asked: what keeps one node from being deployed; the same for all of one image and architecture."""
    user = api.get("users/", [("op", "whoami")]) or {}
    known: dict[str, FleetError | None] = {}
    for wanted, node in nodes:
        if node is None and user.get("is_superuser") is False:
            yield wanted.host, may_not(api.address, str(user.get("username") or ""))
        kind = (node.raw.get("architecture") if node else "") or record.architecture(wanted)
        key = repr((wanted.image, wanted.extras, kind, node.id if node and node.raw.get("is_dpu") else ""))
        if key not in known:
            known[key] = asked(wanted, node)
        why = known[key]
        if why is not None:
            yield wanted.host, why


def may_not(address: str, user: str) -> Refused:
    return Refused(
        "MAAS shows no such machine, and the API key is no administrator's: it sees not all, and can enrol none",
        address=address,
        seen=f"the key of {user}",
        do="use an administrator's key in gpufleet_provisioner_api_key, or have the machine enrolled and shown",
    )
