# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rack's one switch (a bridge) and each machine's cable (a veth pair into its network namespace)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from rackconf import CLEAN_ENV, Node, Rack

# PCI buses of the eight GPUs, as on a common 8-GPU board.
GPU_BUSES = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
_PREFIX = 24


def _ip(*words: str, batch: str = "", check: bool = True) -> str:
    run = subprocess.run(
        ["ip", *words], input=batch, env=CLEAN_ENV, capture_output=True, text=True, check=False, timeout=30
    )
    if check and run.returncode:
        raise OSError(f"ip {' '.join(words)} {batch}: {run.stderr.strip()}")
    return run.stdout


def build(rack: Rack) -> bool:
    """Make the bridge and every cable that is missing."""
    changed = False
    if not Path(f"/sys/class/net/{rack.bridge}").exists():
        _ip(
            "-batch",
            "-",
            batch=(
                f"link add {rack.bridge} type bridge stp_state 0 forward_delay 0\n"
                f"addr add {rack.gateway}/{_PREFIX} dev {rack.bridge}\n"
                f"link set {rack.bridge} up\n"
            ),
        )
        changed = True
    for node in rack.nodes:
        changed = _cable(rack, node) or changed
    return changed


def _cable(rack: Rack, node: Node) -> bool:
    # The link "master" is gone where the bridge was removed and made again.
    if Path(f"/sys/class/net/{node.veth}/master").exists() and Path(f"/run/netns/{node.netns}").exists():
        return False
    remove_cable(node)
    _ip("netns", "add", node.netns)
    _ip(
        "-batch",
        "-",
        batch=(
            f"link add {node.veth} type veth peer name eth0 address {node.mac} netns {node.netns}\n"
            f"link set {node.veth} master {rack.bridge} up\n"
        ),
    )
    return True


def remove_cable(node: Node) -> bool:
    """Take away what there is of a node's cable and namespace."""
    there = Path(f"/run/netns/{node.netns}").exists() or Path(f"/sys/class/net/{node.veth}").exists()
    _ip("link", "del", node.veth, check=False)
    _ip("netns", "del", node.netns, check=False)
    return there


def remove_bridge(rack: Rack) -> bool:
    """Take the bridge away."""
    there = Path(f"/sys/class/net/{rack.bridge}").exists()
    _ip("link", "del", rack.bridge, check=False)
    return there


def pids_inside(node: Node) -> list[int]:
    """Return the processes in a node's network namespace; it is ours, so all of them are."""
    return [int(word) for word in _ip("netns", "pids", node.netns, check=False).split()]


def cable_up(node: Node) -> None:
    """Bring the node's card up; call inside its network namespace."""
    gateway = f"{node.ip.rpartition('.')[0]}.1"
    _ip(
        "-batch",
        "-",
        batch=(
            "link set lo up\n"
            f"addr replace {node.ip}/{_PREFIX} dev eth0\n"
            "link set eth0 up\n"
            f"route replace default via {gateway}\n"
        ),
    )


def address_off(node: Node) -> None:
    """Take the address away; call inside the network namespace: no system runs that could answer."""
    _ip("addr", "flush", "dev", "eth0")


def cable_down(node: Node) -> None:
    """A machine without power: no link, no address."""
    _ip("-n", node.netns, "-batch", "-", batch="addr flush dev eth0\nlink set eth0 down\n", check=False)
