# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a strange site has beside its nodes: a colleague's inventory full of mistakes, and services that go away."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import lab
import listed
import yaml

#: The inventory as a colleague has it.
MISTAKEN = "inventory-mistaken"
#: Its rows that are not as ours.
ROWS = ("gpu003-old", "gpu004.rack.example", "gpu005", "gpu006")
#: What may be away for a while, each with what ends it: slurmctld writes down what it knows, as before a failover.
SERVICES = {"slurmctld": signal.SIGTERM, "ironic": signal.SIGKILL, "boot-http": signal.SIGKILL}


def mistaken_inventory() -> None:
    """gpu004 by its full name, and three rows that are wrong.

    gpu003-old: all of gpu003, the scheduler's node too, with letters for digits in its serial. gpu005: a machine of its
    own by its serial, behind the BMC of gpu001, which works for others. gpu006: all of gpu003 once more, with a name at
    the scheduler that the scheduler does not know.
    """
    folder = lab.RACK / MISTAKEN
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    known = _as_listed()
    hosts = {host: known[host] for host in ("gpu001", "gpu002", "gpu003")}
    hosts["gpu004.rack.example"] = known["gpu004"]
    hosts["gpu003-old"] = {**known["gpu003"], "gpufleet_serial": "GFRACKOOO3", "gpufleet_system_uuid": ""}
    behind = {key: value for key, value in known["gpu001"].items() if key.startswith("gpufleet_bmc")}
    of_its_own = {
        "gpufleet_serial": "GFRACK0005",
        "gpufleet_boot_mac": "52:54:00:77:00:05",
        "ansible_host": "10.77.0.15",
    }
    hosts["gpu005"] = {**behind, **of_its_own, "gpufleet_sku": "h100-sxm-8", "gpufleet_scheduler": "none"}
    hosts["gpu006"] = {**known["gpu003"], "gpufleet_scheduler_node": "gpu03"}
    text = yaml.safe_dump({"all": {"children": {"rack": {"hosts": hosts}}}})
    (folder / "hosts.yml").write_text(text, encoding="utf-8")


def _as_listed() -> dict[str, dict[str, object]]:
    """The variables of each host, without what holds for all, as the rack's own inventory has them."""
    argv = [str(listed.program("ansible-inventory")), "-i", str(lab.RACK / "inventory" / "rack.fleet.yml"), "--list"]
    paths = {"ANSIBLE_COLLECTIONS_PATH": str(lab.CHECKOUT / "build" / "collections")}
    paths["ANSIBLE_HOME"] = str(lab.CHECKOUT / "build" / "home-e2e")
    environment = {**lab.clean_env(), **paths}
    told = subprocess.run([*argv], env=environment, capture_output=True, check=True)
    found: dict[str, dict[str, object]] = json.loads(told.stdout)["_meta"]["hostvars"]
    return found


def answers(node: str) -> bool:
    """Whether its system runs, and lets people in."""
    nodes = json.loads((lab.RACK / "rack.json").read_text(encoding="utf-8"))["nodes"]
    [address] = [one["ip"] for one in nodes if one["name"] == node]
    with suppress(OSError), socket.create_connection((address, 22), timeout=1):
        return True
    return False


@contextmanager
def away(service: str, after: float, seconds: float) -> Iterator[None]:
    """A service that ends so many seconds after this begins, and is back after so many more, at the end in any case."""
    over = threading.Event()

    def gone_for_a_while() -> None:
        if over.wait(after):
            return
        end(service)
        over.wait(seconds)
        start_what_is_missing()

    thread = threading.Thread(target=gone_for_a_while)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def end(service: str) -> None:
    known = json.loads((lab.RACK / "run" / f"{service}.json").read_text(encoding="utf-8"))
    pid = int(known["pid"])
    os.kill(pid, SERVICES[service])
    lab.wait_for(lambda: not _lives(pid), 30, f"{service} has ended")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def start_what_is_missing() -> None:
    """As the rack starts its services."""
    program = lab.CHECKOUT / "roles" / "virtual_rack" / "files" / "services" / "supervise.py"
    lab.done(
        [sys.executable, str(program), "--run-dir", str(lab.RACK / "run"), "start", str(lab.RACK / "services.json")]
    )
