# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Break a machine of the rack, or mend it: ``fault.py --config RACK/rack.json NODE FAULT [KEY=VALUE ...]``.

``none`` lifts all faults of the node; a name with a minus before it lifts that one. Hardware faults lie outside
the node's disk, so that no image cures them, and are told in the kernel log again at each boot.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

import bmc_process
import clock
import console
import records
import tools
from fault_table import FAULTS, kernel_lines
from rackconf import Node, faults_of, load, read_json, told_serial


class Unknown(Exception):
    """No such fault, or no such parameter of it."""


def change(node: Node, fault: str, values: dict[str, str]) -> dict[str, Any]:
    """Inject or lift; return the faults that the node has now."""
    faults = faults_of(node)
    if fault == "none":
        faults = {}
    elif fault.startswith("-"):
        faults.pop(_known(fault[1:]), None)
    else:
        faults[fault] = {**_parameters(fault, values), "boot_id": _boot_id(node)}
    _write(node, faults)
    tools.install(node)
    if node.hardware.exists():
        clock.write(node)
    if fault in faults:
        _tell_kernel(node, {fault: faults[fault]})
    return faults


def _known(fault: str) -> str:
    if fault not in FAULTS:
        raise Unknown(f"no fault {fault!r}; known are none, {', '.join(sorted(FAULTS))}")
    return fault


def _parameters(fault: str, values: dict[str, str]) -> dict[str, Any]:
    defaults = FAULTS[_known(fault)][1]
    unknown = set(values) - set(defaults)
    if unknown:
        raise Unknown(f"{fault} has no parameter {', '.join(sorted(unknown))}; it has {', '.join(defaults) or 'none'}")
    return {**defaults, **{key: type(defaults[key])(value) for key, value in values.items()}}


def _boot_id(node: Node) -> str:
    run = read_json(node.home / "run.json", {})
    boot = read_json(node.home / "boot_state.json", {})
    return str(boot.get("boot_id", "")) if records.alive(run.get("init")) else ""


def _write(node: Node, faults: dict[str, Any]) -> None:
    """Write in place: the node has this very file mounted, and a new one would not be seen there.

    Blanks pad the new text to the old length before the file is cut, so that a reader never finds half of it.
    """
    text = json.dumps({"schema": 1, "node": node.name, "faults": faults}, indent=1, sort_keys=True) + "\n"
    handle = os.open(node.fault_file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.pwrite(handle, text.encode().ljust(os.fstat(handle).st_size), 0)
        os.ftruncate(handle, len(text.encode()))
    finally:
        os.close(handle)


def _tell_kernel(node: Node, faults: dict[str, Any]) -> None:
    run = read_json(node.home / "run.json", {})
    if not records.alive(run.get("init")) or not console.kernel_log(node).exists():
        return
    for priority, line in kernel_lines(faults):
        console.kernel_say(node, [line], console.uptime_of(int(run["clock"])), priority)


def _listing() -> str:
    lines = [f"{'none':20} lift every fault of the node"]
    for name, (text, parameters) in sorted(FAULTS.items()):
        shown = " ".join(f"{key}={value}" for key, value in parameters.items())
        lines.append(f"{name:20} {text}" + (f"  [{shown}]" if shown else ""))
    return "\n".join(lines)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config")
    parser.add_argument("--list", action="store_true", help="list the faults")
    parser.add_argument("node", nargs="?")
    parser.add_argument("fault", nargs="?")
    parser.add_argument("values", nargs="*", metavar="KEY=VALUE")
    options, rest = parser.parse_known_args()
    if options.list:
        print(_listing())
        return 0
    fault = options.fault or (rest[0] if rest else None)  # "-name" looks like an option to argparse
    if not (options.config and options.node and fault):
        parser.error("--config, a node and a fault are needed")
    try:
        rack = load(options.config)
        node = rack.node(options.node)
        values = dict(item.split("=", 1) for item in options.values)
        serial = told_serial(node)
        faults = change(node, fault, values)
        if told_serial(node) != serial:
            bmc_process.tell_identity(rack, node)
        print(json.dumps({"node": node.name, "faults": faults}, sort_keys=True))
    except (KeyError, Unknown, ValueError, bmc_process.NotReady) as error:
        print(f"fault: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
