# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines with network ports of our own making: what the kernel shows of them, and what lldpd has heard there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.ports import NETDEV, RDMA
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

ABOUT = {"source": "written for tests", "date": "2026-11-27", "conditions": "none at all"}
RAILS, STORE = ("mlx5_0/1", "mlx5_1/1"), "ens1f0np0"
PLAN = {STORE: "leaf01 Ethernet1/1"}
#: Ten in a profile of a site.
SECONDS = 0.1


def links(name: str = "rails", kind: str = "infiniband", **other: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "kind": kind, "errors": 0, "seconds": SECONDS, **ABOUT}
    row.update({"ports": [STORE], "rate_gbps": 100} if kind == "ethernet" else {"ports": list(RAILS), "rate_gbps": 400})
    row.update({"lanes": 4} if kind == "infiniband" else {})
    return {key: value for key, value in {**row, **other}.items() if value is not None}


def profile(*rows: dict[str, Any]) -> dict[str, Any]:
    return {**made.profile(), "network": {"links": list(rows) or [links(), links("store", "ethernet")]}}


def heard(
    port: str = STORE, switch: str = "leaf01", to: str = "Ethernet1/1", *, kind: str = "ifname", descr: str = ""
) -> dict[str, Any]:
    """What ``lldpctl -f json0`` of lldpd 1.0 tells of one neighbour."""
    chassis = {"id": [{"type": "mac", "value": "0c:42:a1:00:00:01"}], "name": [{"value": switch}]}
    told = {"id": [{"type": kind, "value": to}], "descr": [{"value": descr or f"to {to}"}], "ttl": [{"value": "120"}]}
    return {"name": port, "via": "LLDP", "rid": "1", "age": "0 day, 00:02:11", "chassis": [chassis], "port": [told]}


def document(*rows: dict[str, Any]) -> str:
    return json.dumps({"lldp": [{"interface": list(rows)}]}, indent=1)


# -- the machine -------------------------------------------------------------------------------------------------------


def rdma(folder: Path, port: str, **told: Any) -> None:
    device, _slash, number = port.partition("/")
    place = folder / "sys" / "class" / "infiniband" / device / "ports" / number
    words = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"}
    write(place, {**words, **{f"counters/{name}": 0 for name in RDMA}, **told})


def netdev(folder: Path, name: str = STORE, **told: Any) -> None:
    place = folder / "sys" / "class" / "net" / name
    words = {"operstate": "up", "carrier": 1, "speed": 100000}
    write(place, {**words, **dict.fromkeys(NETDEV, 0), **told})


def write(place: Path, told: dict[str, Any]) -> None:
    for name, value in told.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n", encoding="utf-8")


def params(folder: Path, output: Optional[str] = None, *, body: str = "", **told: Any) -> dict[str, Any]:
    """The options of a network_gate over a machine that is well, whose lldpctl says this."""
    for port in RAILS:
        rdma(folder, port)
    netdev(folder)
    (folder / "heard.json").write_text(document(heard()) if output is None else output, encoding="utf-8")
    return {
        "lldpctl": made.program(folder / "lldpctl", f"{body}\ncat {folder}/heard.json"),
        "neighbours": PLAN,
        "profile": profile(),
        "timeout": 20,
        "sysfs_path": str(folder / "sys"),
        **told,
    }
