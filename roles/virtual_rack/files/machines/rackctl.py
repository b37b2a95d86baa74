# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rack's machines as a whole: ``rackctl.py up|empty|down|status --config RACK/rack.json``.

``up`` makes what is missing and starts what does not run; a second one changes nothing. ``empty`` brings running
machines back to how they were delivered: off, mended, nothing on the disk, nothing counted. ``down`` leaves no
process, namespace, mount or cable behind, also where parts were killed before. Each prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import bmc_process
import chassis
import fault
import kernel
import network
import records
import tools
from rackconf import CLEAN_ENV, Node, Rack, load, read_json, told_serial, write_json

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NEEDED = ("ip", "ssh-keygen", "sshd", "ipmi_sim")
# What a machine and its BMC keep of the past, below the node's own folder: counts, orders, logs.
_PAST = ("boots.jsonl", "bmc_writes.jsonl", "bmc_refused.jsonl", "boot.json", "power")


class Unable(Exception):
    """This computer cannot run the rack."""


def up(rack: Rack) -> dict[str, Any]:
    """Bring the machines to where a technician leaves them: cabled, with their BMCs answering."""
    _check()
    changed = _forget_last_life(rack)
    changed = _mount_disks(rack) or changed
    changed = network.build(rack) or changed
    for node in rack.nodes:
        changed = _furnish(node) or changed
    started = [node for node in rack.nodes if bmc_process.start(rack, node)]
    for node in rack.nodes:
        bmc_process.wait_ready(rack, node)
    return {"changed": changed or bool(started), **status(rack)}


def empty(rack: Rack) -> dict[str, Any]:
    """Bring the machines back to how they were delivered, and keep cables and BMCs."""
    for node in rack.nodes:
        chassis.power_off(rack, node)
        told = told_serial(node)
        fault.change(node, "none", {})
        if told_serial(node) != told:
            bmc_process.tell_identity(rack, node)
        for name in _PAST:
            (node.home / name).unlink(missing_ok=True)
        for part in ("upper", "work", "imaged.json"):
            _remove(node.disk / part)
    return up(rack)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def down(rack: Rack) -> dict[str, Any]:
    """Take everything away but the logs."""
    changed = False
    for node in rack.nodes:
        changed = bmc_process.stop(rack, node) or changed
        changed = _power_down(rack, node) or changed
    for node in rack.nodes:
        changed = network.remove_cable(node) or changed
    changed = network.remove_bridge(rack) or changed
    while os.path.ismount(rack.dir / "disks"):
        kernel.umount(rack.dir / "disks", detach=True)
        changed = True
    for node in rack.nodes:
        for name in ("run.json", "boot_state.json", "boot.json", "power", "bmc.json", "lock"):
            (node.home / name).unlink(missing_ok=True)
    (rack.dir / "machines.json").unlink(missing_ok=True)
    return {"changed": changed}


def status(rack: Rack) -> dict[str, Any]:
    """Tell what runs."""
    nodes = []
    for node in rack.nodes:
        faults = sorted(read_json(node.fault_file, {}).get("faults", {}))
        nodes.append({**chassis.status(node), "bmc": bmc_process.answers(rack, node), "faults": faults})
    return {"nodes": nodes, "up": all(item["bmc"] for item in nodes)}


def _check() -> None:
    if os.geteuid() != 0:
        raise Unable("the rack's machines need root: namespaces, mounts and an overlay")
    path = CLEAN_ENV["PATH"]
    missing = [name for name in _NEEDED if shutil.which(name, path=path) is None]
    if missing:
        raise Unable(
            f"not installed: {', '.join(missing)} (packages iproute2, openssh-client, openssh-server, openipmi)"
        )
    if not Path("/proc/self/ns/time_for_children").exists():
        raise Unable("this kernel has no time namespaces (Linux 5.6 or newer with CONFIG_TIME_NS)")


def _forget_last_life(rack: Rack) -> bool:
    """After a reboot of this computer nothing of the old state is true any more."""
    boot_id = _BOOT_ID.read_text(encoding="ascii").strip()
    mark = rack.dir / "machines.json"
    if read_json(mark, {}).get("boot_id") == boot_id:
        return False
    for node in rack.nodes:
        for name in ("run.json", "boot_state.json", "power", "bmc.json"):
            (node.home / name).unlink(missing_ok=True)
    write_json(mark, {"boot_id": boot_id})
    return True


def _mount_disks(rack: Rack) -> bool:
    """The overlays' upper folders lie on a tmpfs: an overlay cannot be another overlay's upper layer."""
    disks = rack.dir / "disks"
    disks.mkdir(parents=True, exist_ok=True)
    if os.path.ismount(disks):
        return False
    kernel.mount("tmpfs", disks, "tmpfs", kernel.MS_NODEV, "mode=700,size=2g")
    return True


def _furnish(node: Node) -> bool:
    """What a node brings along: its folders, its SSH host key, its fault file, its vendor tools."""
    changed = False
    for folder in (node.home, node.home / "ssh", node.hardware, node.disk, node.fault_file.parent):
        folder.mkdir(parents=True, exist_ok=True)
    node.home.chmod(0o700)
    key = node.home / "ssh" / "ssh_host_ed25519_key"
    if not key.exists():
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", node.name, "-f", str(key)]
        subprocess.run(words, env=CLEAN_ENV, check=True)
        changed = True
    if not node.fault_file.exists():
        write_json(node.fault_file, {"schema": 1, "node": node.name, "faults": {}})
        changed = True
    tools.install(node)
    return changed


def _power_down(rack: Rack, node: Node) -> bool:
    if not node.home.exists():
        return False
    run = read_json(node.home / "run.json", {})
    was_running = records.alive(run.get("init")) or records.alive(run.get("supervisor"))
    chassis.power_off(rack, node)
    # The namespace is ours, so whatever still lives in it lost its record and is ours as well.
    for pid in network.pids_inside(node):
        was_running = records.stop(records.record(pid)) or was_running
    return was_running


ACTIONS = {"up": up, "empty": empty, "down": down, "status": status}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=sorted(ACTIONS))
    parser.add_argument("--config", required=True)
    options = parser.parse_args()
    try:
        print(json.dumps(ACTIONS[options.action](load(options.config)), sort_keys=True))
    except (Unable, bmc_process.NotReady, OSError, ValueError) as error:
        print(f"rackctl {options.action}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
