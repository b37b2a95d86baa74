# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ipmi_sim calls to drive the machine: ``ipmi_chassis.py CONFIG NODE get|set|check ...``.

ipmi_sim's own contract: ``get power boot`` prints ``power:1`` and so on; ``set power 1 boot pxe`` carries it out.
Every ``set`` is noted in ``bmc_writes.jsonl``.

Whoever asked waits for this program, and asks again after a second, which is a second write: so what only acts is not
loaded before the answer is out.
"""

from __future__ import annotations

import datetime
import os
import sys
import time
from collections.abc import Callable

import bmc_memory
from rackconf import Node, Rack, append_json, faults_of, load

# ipmi_sim's words for a boot device, and ours.
BOOT_TARGETS = {"none": "None", "default": "Hdd", "pxe": "Pxe", "cdrom": "Cd", "bios": "BiosSetup"}
_WORDS = {target: word for word, target in BOOT_TARGETS.items()}


def _power(rack: Rack, node: Node, value: str) -> None:
    import chassis

    if value != "1":
        chassis.power_off(rack, node)
    elif "bmc_lies_power" not in faults_of(node):
        chassis.power_on(rack, node)


def _boot(_rack: Rack, node: Node, value: str) -> None:
    target = BOOT_TARGETS.get(value, "None")
    bmc_memory.write_override(node, target=target, enabled="Disabled" if target == "None" else "Once", uri="")


def _reset(rack: Rack, node: Node, _value: str) -> None:
    import chassis

    if bmc_memory.power(node) == "on":
        chassis.reset(rack, node)


def _shutdown(rack: Rack, node: Node, _value: str) -> None:
    import chassis

    chassis.shutdown(rack, node)


def _nothing(_rack: Rack, _node: Node, _value: str) -> None:
    """Accepted without effect."""


# What is read back right after it was set; the rest takes its time, as on a real machine.
AT_ONCE = ("boot",)
SETTERS: dict[str, Callable[[Rack, Node, str], None]] = {
    "power": _power,
    "boot": _boot,
    "reset": _reset,
    "shutdown": _shutdown,
    "graceful_shutdown": _shutdown,
    "identify": _nothing,
}


def _get(node: Node, name: str) -> str:
    if name == "power":
        return "1" if bmc_memory.power(node) == "on" else "0"
    if name == "boot":
        return _WORDS.get(bmc_memory.read_override(node)["target"], "none")
    return "0"


def main() -> int:
    """Command line."""
    config, name, *words = sys.argv[1:]
    rack = load(config)
    node = rack.node(name)
    faults = faults_of(node)
    if "bmc_slow" in faults:
        time.sleep(float(faults["bmc_slow"].get("seconds", 2.0)))
    if words and words[0].startswith("0x"):  # the management controller's address
        words = words[1:]
    action, rest = words[0], words[1:]
    if action == "get":
        for item in rest:
            print(f"{item}:{_get(node, item)}")
        return 0
    if action == "set":
        for item, value in zip(rest[::2], rest[1::2]):
            now = datetime.datetime.now(datetime.timezone.utc).isoformat()
            append_json(
                node.home / "bmc_writes.jsonl",
                {"time": now, "method": "IPMI", "path": f"chassis/{item}", "body": value, "status": 0},
            )
        pairs = list(zip(rest[::2], rest[1::2]))
        for item, value in pairs:
            if item in AT_ONCE:
                SETTERS[item](rack, node, value)
        _later(lambda: [SETTERS[item](rack, node, value) for item, value in pairs if item not in AT_ONCE])
        return 0
    return 0 if action == "check" else 1


def _later(act: Callable[[], object]) -> None:
    """Act once ipmi_sim has its answer. It waits for this program, and who asked it asks again after a second."""
    if os.fork():
        return
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for handle in range(3):
        os.dup2(nowhere, handle)
    try:
        act()
    finally:
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
