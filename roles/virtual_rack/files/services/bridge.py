# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rack's network: one bridge with one address.

bridge.py up --name gfrack0 --address 10.77.0.1/24
bridge.py down --name gfrack0
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import shutil
import subprocess
import sys
from typing import Any, Optional


class BridgeError(Exception):
    """The bridge cannot be made as it was asked for."""


def ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BridgeError(f"ip {' '.join(arguments)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def links() -> dict[str, dict[str, Any]]:
    return {link["ifname"]: link for link in json.loads(ip("-j", "-d", "address", "show") or "[]") if link}


def conflict(found: dict[str, dict[str, Any]], name: str, wanted: ipaddress.IPv4Interface) -> Optional[str]:
    """Another interface that already lives in the wanted network."""
    for other, link in found.items():
        for entry in link.get("addr_info", []):
            if other == name or entry["family"] != "inet":
                continue
            if ipaddress.ip_interface(f"{entry['local']}/{entry['prefixlen']}").network.overlaps(wanted.network):
                return f"{other} already has {entry['local']}/{entry['prefixlen']}"
    return None


def up(name: str, wanted: ipaddress.IPv4Interface) -> bool:
    found = links()
    trouble = conflict(found, name, wanted)
    if trouble:
        raise BridgeError(f"{name} cannot have {wanted}: {trouble}")
    link = found.get(name)
    if link and link.get("linkinfo", {}).get("info_kind") != "bridge":
        raise BridgeError(f"{name} exists and is no bridge")
    changed = False
    if not link:
        ip("link", "add", name, "type", "bridge", "stp_state", "0", "forward_delay", "0")
        changed, link = True, {}
    has = {f"{entry['local']}/{entry['prefixlen']}" for entry in link.get("addr_info", [])}
    if str(wanted) not in has:
        ip("address", "add", str(wanted), "dev", name)
        changed = True
    if "UP" not in link.get("flags", []):
        ip("link", "set", name, "up")
        changed = True
    return changed


def down(name: str) -> bool:
    # Without the program, nothing here ever made a bridge.
    if shutil.which("ip") is None or name not in links():
        return False
    ip("link", "delete", name, "type", "bridge")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("verb", choices=["up", "down"])
    parser.add_argument("--name", required=True)
    parser.add_argument("--address", type=ipaddress.IPv4Interface)
    asked = parser.parse_args()
    if asked.verb == "up" and asked.address is None:
        parser.error("up needs --address")
    try:
        changed = up(asked.name, asked.address) if asked.verb == "up" else down(asked.name)
    except BridgeError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps({"changed": changed}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
