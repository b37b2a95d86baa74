# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb behind ``topology_info``: ask a node where it is in the network. PRIVATE to the collection.

Runs on nodes: standard library only. What a file says in place of a program comes from the controller.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _lldp as lldp
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._topology import heard
from ansible_collections.gpufleet.baremetal.plugins.module_utils._topology.specs import INFINIBAND, LLDP, NVLINK
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result

_FIRST_GID = 4096


def topology_info(params: Mapping[str, Any], ctx: Context) -> Result:
    """What each source tells; one that tells nothing stands in ``unread`` with why. It only looks."""
    data: dict[str, Any] = {"neighbours": [], "domain": "", "guids": {}, "unread": {}}
    for source in params["sources"]:
        try:
            _SOURCES[source](params, data)
        except (ValueError, OSError) as exc:
            data["unread"][source] = short(str(exc), 300)
    return Result(changed=False, data=data)


def _lldp(params: Mapping[str, Any], data: dict[str, Any]) -> None:
    found = heard.neighbours(_told(params, LLDP, lldp.command(params["lldpctl"])))
    counted = [one.as_dict() for one in found if counts(one.port, params.get("ports"))]
    data["neighbours"] += counted
    if not counted:
        raise ValueError(_none_of("port that hears a switch", [one.port for one in found], params))


def _nvlink(params: Mapping[str, Any], data: dict[str, Any]) -> None:
    found = heard.domain(_told(params, NVLINK, heard.fabric_command(params["nvidia_smi"])))
    data["domain"] = found.id
    if found.trouble:
        raise ValueError(found.trouble)


def _infiniband(params: Mapping[str, Any], data: dict[str, Any]) -> None:
    """The ports alone: which leaf each leads to, the fabric tells, on the controller."""
    given = params.get("guids")
    found = {guid: guid for guid in map(heard.plain_guid, given)} if given else _ports(str(params["sysfs_path"]))
    data["guids"] = {port: guid for port, guid in found.items() if counts(port, None if given else params.get("ports"))}
    if not data["guids"]:
        raise ValueError(_none_of("InfiniBand port with a GUID", list(found), params))


def _ports(sysfs: str) -> dict[str, str]:
    """By name as mlx5_0/1."""
    found, root = {}, os.path.join(sysfs, "class", "infiniband")
    for device in sorted(os.listdir(root)):
        for port in sorted(os.listdir(os.path.join(root, device, "ports"))):
            place = os.path.join(root, device, "ports", port)
            guid = heard.port_guid(_read(os.path.join(place, "gids", "0")))
            if guid and _read(os.path.join(place, "link_layer")).strip() == "InfiniBand":
                found[f"{device}/{port}"] = guid
    return found


def _read(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read(_FIRST_GID)


def _none_of(what: str, ports: Sequence[str], params: Mapping[str, Any]) -> str:
    """Ports that count are named by people: where there are none of these, there may be others."""
    others = (
        f" among {', '.join(params.get('ports') or ())}, which count; there are {', '.join(ports)}" if ports else ""
    )
    return f"no {what}{others}"


def counts(port: str, ports: Sequence[str] | None) -> bool:
    return not ports or any(fnmatchcase(port, pattern) for pattern in ports)


def _told(params: Mapping[str, Any], source: str, argv: Sequence[str]) -> str:
    """:raises ValueError: where the program told nothing that could be believed."""
    given = (params.get("told") or {}).get(source)
    if given is not None:
        return str(given)
    done = run(argv, timeout=float(params["timeout"]))
    if done.ended != "exit" or done.rc != 0:
        said = short(done.cries or done.text, 200)
        how = f"exit status {done.rc}" if done.ended == "exit" else done.ended
        raise ValueError(f"{argv[0]}: {how}{': ' if said else ''}{said}")
    return done.text


_SOURCES: Mapping[str, Callable[[Mapping[str, Any], dict[str, Any]], None]] = {
    LLDP: _lldp,
    NVLINK: _nvlink,
    INFINIBAND: _infiniband,
}
