# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every program of the rack's machines knows: one JSON file, ``<rack>/rack.json``.

The role renders it; nothing here reads an inventory, a provisioner or the collection::

    {
      "dir": "/var/lib/gpufleet-rack",      the rack's own folder
      "checkout": "/home/me/gpufleet",      hidden from the nodes; home of the rack's Python by default
      "bridge": "gfrack0",                  one bridge in the host's network namespace
      "gateway": "10.77.0.1",               its address (/24); also where slurmctld and the web server listen
      "http": "http://10.77.0.1:8080",      document root of the provisioner: boot entries lie there
      "nodes": [
        {"name": "gpu001", "index": 1, "ip": "10.77.0.11", "mac": "52:54:00:77:00:01",
         "serial": "GFRACK0001", "uuid": "5ac00000-0000-4000-8000-000000000001", "sku": "h100-sxm-8",
         "bmc": {"protocol": "redfish", "address": "127.77.0.11", "port": 8443}}
      ],
      "bmc_username": "admin",
      "power_delay": 0.3,                   optional: seconds between a BMC's "yes" and the effect
      "post_seconds": 0,                    optional: seconds that a machine's firmware takes before it boots
      "paths": {
        "bmc_password_file": "...",         clear text, mode 0600, read once when a BMC starts
        "tls_cert": "...", "tls_key": "...", of the Redfish BMCs
        "slurm_conf": "...",                bound to /etc/slurm/slurm.conf of a node (gres.conf beside it too)
        "munge_socket_dir": "...",          bound to the same path in a node
        "node_key_pub": "...",              the public key that may log in as root
        "rack_python": "..."                optional: Python with sushy-tools
      }
    }
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NODE_PYTHON = "/usr/bin/python3"
# Nothing of the caller's environment may reach a node or a BMC: it can hold secrets.
CLEAN_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/"}


@dataclass(frozen=True)
class Bmc:
    """Where a node's BMC listens."""

    protocol: str
    address: str
    port: int


@dataclass(frozen=True)
class Node:
    """One machine of the rack, with the folders that are its own."""

    name: str
    index: int
    ip: str
    mac: str
    serial: str
    uuid: str
    sku: str
    bmc: Bmc
    rack_dir: Path

    @property
    def home(self) -> Path:
        """State that a machine keeps in its chassis and BMC, and its logs."""
        return self.rack_dir / "nodes" / self.name

    @property
    def disk(self) -> Path:
        """Its disk: the overlay's upper and work folders, on the rack's tmpfs."""
        return self.rack_dir / "disks" / self.name

    @property
    def hardware(self) -> Path:
        """Files that the running system sees at fixed paths (kernel log, DMI, boot id)."""
        return self.home / "hw"

    @property
    def tools(self) -> Path:
        """The vendor tools' stand-ins of this node."""
        return self.home / "tools"

    @property
    def fault_file(self) -> Path:
        """What is broken in this node; outside its disk, so that no image cures it."""
        return self.rack_dir / "faults" / f"{self.name}.json"

    @property
    def netns(self) -> str:
        """Name of its network namespace."""
        return f"gfrack-{self.name}"

    @property
    def veth(self) -> str:
        """The bridge's end of its cable."""
        return f"gfr-{self.name}"[:15]


@dataclass(frozen=True)
class Rack:
    """The whole rack."""

    config: Path
    dir: Path
    checkout: Path
    bridge: str
    gateway: str
    http: str
    nodes: tuple[Node, ...]
    bmc_username: str
    power_delay: float
    post_seconds: float = 0.0
    paths: dict[str, str] = field(default_factory=dict)

    def node(self, name: str) -> Node:
        """Return the node of that name."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(f"no node {name!r} in {self.config}: {', '.join(n.name for n in self.nodes)}")

    @property
    def python(self) -> str:
        """The Python that has sushy-tools."""
        return self.paths.get("rack_python") or str(self.checkout / "build/venv/rack/bin/python")


def load(path: str | Path) -> Rack:
    """Read rack.json."""
    config = Path(path).resolve()
    raw: dict[str, Any] = json.loads(config.read_text(encoding="utf-8"))
    rack_dir = Path(raw["dir"])
    nodes = tuple(_node(item, rack_dir) for item in raw["nodes"])
    return Rack(
        config=config,
        dir=rack_dir,
        checkout=Path(raw["checkout"]),
        bridge=raw["bridge"],
        gateway=raw["gateway"],
        http=raw["http"].rstrip("/"),
        nodes=nodes,
        bmc_username=raw["bmc_username"],
        power_delay=float(raw.get("power_delay", 0.3)),
        post_seconds=float(raw.get("post_seconds", 0)),
        paths={key: str(value) for key, value in raw["paths"].items() if value},
    )


def _node(raw: dict[str, Any], rack_dir: Path) -> Node:
    bmc = raw["bmc"]
    fields = {key: raw[key] for key in ("name", "ip", "serial", "uuid", "sku")}
    return Node(
        **fields,
        index=int(raw["index"]),
        mac=raw["mac"].lower(),
        bmc=Bmc(bmc["protocol"], bmc["address"], int(bmc["port"])),
        rack_dir=rack_dir,
    )


def read_json(path: Path, default: Any) -> Any:
    """Read a JSON file; the default where it is missing, empty or half written."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return default


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file so that a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(scratch, path)


def append_json(path: Path, value: Any) -> None:
    """Append one line; a single write, so that two writers cannot mix their lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(value, sort_keys=True) + "\n"
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def told_serial(node: Node) -> str:
    """The serial that the BMC tells: the machine's own, or another one's by a fault."""
    return str(faults_of(node).get("bmc_other_serial", {}).get("serial") or board_of(node)[0])


def board_of(node: Node) -> tuple[str, str]:
    """Serial and system UUID of the board that is in the machine: its first one, or what that was swapped for."""
    swapped = faults_of(node).get("board_swapped", {})
    return str(swapped.get("serial") or node.serial), str(swapped.get("uuid") or node.uuid)


def faults_of(node: Node) -> dict[str, dict[str, Any]]:
    """Return the faults that are injected in a node, by name."""
    return dict(read_json(node.fault_file, {}).get("faults", {}))
