# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lldpd, NVLink and the kernel tell of where a node is. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._lldp import interfaces, members, value

#: The fields that are asked for, in this order. man: nvidia-smi --help-query-gpu, from driver 550 on.
FABRIC = ("fabric.clusterUuid", "fabric.cliqueId", "fabric.state", "fabric.status")
_NOTHING = frozenset({"", "N/A", "[N/A]", "Not Supported", "[Not Supported]"})
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_CLIQUE = re.compile(r"[0-9]{1,10}\Z")
_GUID = re.compile(r"[0-9a-f]{16}\Z")
#: What one node can have, several times over: an answer of more is none.
MOST_PORTS = 256


@dataclass(frozen=True)
class Neighbour:
    """A port of the node and the switch that it leads to: its name, and the id by which it is known for sure."""

    port: str
    leaf: str
    leaf_id: str = ""

    def as_dict(self) -> dict[str, str]:
        return {"port": self.port, "leaf": self.leaf, "leaf_id": self.leaf_id}


def neighbours(text: str) -> list[Neighbour]:
    """Each switch that lldpd has heard; a neighbour that is none, such as another host, is passed over.

    :raises ValueError: for what is no answer of lldpd.
    """
    try:
        found = [one for row in interfaces(text) for one in _neighbour(row)]
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise ValueError(f"no answer of lldpctl: {short(exc, 100)}") from exc
    if len(found) > MOST_PORTS:
        raise ValueError(f"{len(found)} neighbours")
    return list(dict.fromkeys(found))


def _neighbour(row: Mapping[str, Any]) -> Iterator[Neighbour]:
    for chassis in row["chassis"]:
        name = next(filter(None, map(value, members([chassis], "name"))), "")
        ids = [value(one) for one in members([chassis], "id")]
        kinds = list(members([chassis], "capability"))
        # One that tells no capability at all may be a switch; one that tells what it is and is no bridge is none.
        if kinds and not any(one.get("enabled") is True and one.get("type") in ("Bridge", "Router") for one in kinds):
            continue
        if name or any(ids):
            leaf_id = next(filter(None, ids), "")
            yield Neighbour(str(row["name"]), name or leaf_id, leaf_id)


# -- NVLink ----------------------------------------------------------------------------------------------------


def fabric_command(nvidia_smi: str) -> list[str]:
    return [nvidia_smi, f"--query-gpu={','.join(FABRIC)}", "--format=csv,noheader"]


@dataclass(frozen=True)
class Domain:
    """id: ``ClusterUUID.CliqueId`` of all GPUs of the node; empty where they are in none. trouble: why nobody can tell,
    or what is wrong with it."""

    id: str = ""
    trouble: str = ""


def domain(text: str) -> Domain:
    """Both parts are needed, and each GPU has to be in it: an H100 says Completed with a UUID of zeros, by which all
    nodes would be in one domain, and what ran out of resources says Completed beside that too."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    rows = [row for row in rows if row[0] != FABRIC[0]]
    if not rows or any(len(row) != len(FABRIC) for row in rows):
        return Domain(trouble=f"no answer of nvidia-smi: {short(text, 100) or 'nothing'}")
    cliques = {_clique(row) for row in rows}
    if cliques == {""}:
        return Domain(trouble=_unhealthy(rows))
    if len(cliques) > 1:
        shown = ", ".join(sorted(one or "none" for one in cliques))
        return Domain(trouble=f"its GPUs are in several NVLink domains: {short(shown, 200)}")
    return Domain(cliques.pop(), _unhealthy(rows))


def _clique(row: Sequence[str]) -> str:
    uuid, clique = row[0].lower(), row[1]
    whole = bool(_UUID.match(uuid)) and set(uuid) - set("0-") and _CLIQUE.match(clique)
    return f"{uuid}.{clique}" if whole else ""


def _unhealthy(rows: Sequence[Sequence[str]]) -> str:
    """A GPU that is no part of any domain, as in a machine of eight by itself, has nothing to be amiss."""
    told = {(row[2], row[3]) for row in rows if row[2] not in _NOTHING}
    amiss = sorted(told - {("Completed", "Success")})
    return f"the fabric of its GPUs is {short('; '.join(' '.join(pair) for pair in amiss), 200)}" if amiss else ""


# -- InfiniBand ------------------------------------------------------------------------------------------------


def port_guid(gid: str) -> str:
    """Of a port's first GID, its end: what the driver calls a node may be lost after a boot, and this is not."""
    guid = gid.strip().replace(":", "")[16:].lower()
    return guid if _GUID.match(guid) and set(guid) != {"0"} else ""


def plain_guid(told: str) -> str:
    """As people write one. :raises ValueError: for what is none."""
    guid = told.strip().lower().removeprefix("0x").replace(":", "")
    if not _GUID.match(guid):
        raise ValueError(f"{told!r} is no GUID of a port")
    return guid
