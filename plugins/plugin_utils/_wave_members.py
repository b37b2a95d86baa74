# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who belongs to a fleet's service, who of it is out now, and who may be in a wave. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.served import FOREIGN, NEVER_SERVED, Seen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.budget import FLEET, Limit, Member, domains

Variable = Callable[[str, str], Any]
Nodes = Mapping[str, Mapping[str, Any]]


def members(
    nodes: Nodes, seen: Mapping[str, Seen], promised: Collection[str], budgets: Mapping[str, Limit], variable: Variable
) -> list[Member]:
    """Those that serve, or once did, or of which nobody can tell; a machine that was never to serve is no capacity.

    :param promised: ids of nodes that another run is about to take.
    """
    return [
        Member(
            host,
            out(one) or one["node_id"] in promised,
            domains(host, {key: "" if key == FLEET else variable(key, host) for key in budgets}),
            tuple(seen[host].runs) if host in seen else (),
        )
        for host, one in nodes.items()
        if belongs(one)
    ]


def belongs(one: Mapping[str, Any]) -> bool:
    return one["state"] not in NEVER_SERVED or one["served"] == "yes"


def out(one: Mapping[str, Any]) -> bool:
    """By anybody, and also where nobody can tell. Who serves somebody else is not out."""
    return one["state"] != "admitted" and not (one["state"] in NEVER_SERVED and one["served"] == "yes")


def refused(nodes: Nodes, hosts: Iterable[str], paused: Mapping[str, str], taken: Mapping[str, str]) -> dict[str, str]:
    """By host, why no wave may take it, whatever the budgets have left.

    :param taken: by id of a node, the other run that is about to take it.
    """
    found = {host: _refused(nodes[host], paused.get(host, ""), taken) for host in hosts}
    return {host: why for host, why in found.items() if why}


def _refused(one: Mapping[str, Any], paused: str, taken: Mapping[str, str]) -> str:
    other = taken.get(str(one["node_id"]), "")
    whys = (
        (one["state"] == "unknown", one["stopped"] or "nobody can tell where it stands"),
        (one["stranger"], "it works for somebody else"),
        (one["state"] in NEVER_SERVED, f"it is {one['state']}: it was never in service"),
        (one["kept"], f"kept by a person: {one['kept']}"),
        (one["tenant"], f"of the tenant {one['tenant']}, whom this run does not name"),
        (one["busy"], f"the run {one['lease']} works on it"),
        (other, f"the run {other} has begun a wave with it"),
        (one["state"] == "unserved" and one["held_by"] == FOREIGN, str(one["reason"])),
        (paused, paused),
    )
    return next((str(why) for holds, why in whys if holds), "")
