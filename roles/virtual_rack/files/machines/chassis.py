# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power of one machine: ``chassis.py --config RACK/rack.json --node gpu001 on|off|reset|shutdown|status``.

A BMC calls this and nothing else does in normal use. Like a chassis it knows no inventory, no provisioner and
no collection: at power-on the firmware looks at the boot override that the BMC holds, and boots.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import console
import network
import records
from bmc_memory import power
from rackconf import CLEAN_ENV, NODE_PYTHON, Node, Rack, load, read_json

START_TIMEOUT = 20.0
RESTART_WANTED = "restart_wanted"


class Refused(Exception):
    """The chassis cannot do that now."""


def _set_state(node: Node, value: str) -> None:
    (node.home / "power").write_text(value + "\n", encoding="ascii")
    console.say(node, f"chassis: power {value}")


@contextlib.contextmanager
def _locked(node: Node) -> Iterator[None]:
    node.home.mkdir(parents=True, exist_ok=True)
    handle = os.open(node.home / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def power_on(rack: Rack, node: Node) -> None:
    """Power on; nothing where it is on."""
    with _locked(node):
        if power(node) != "on":
            _set_state(node, "on")
            _start(rack, node)


def power_off(_rack: Rack, node: Node) -> None:
    """Cut the power: every process of the machine dies."""
    with _locked(node):
        if power(node) != "off":
            _set_state(node, "off")
        _cut(node)


def reset(rack: Rack, node: Node) -> None:
    """Cut the power and give it back."""
    with _locked(node):
        if power(node) != "on":
            raise Refused("the machine is off")
        _cut(node)
        console.say(node, "chassis: reset")
        _start(rack, node)


def restart(rack: Rack, node: Node) -> None:
    """Begin the next boot after the system asked for a reboot."""
    with _locked(node):
        if power(node) == "on":
            _cut(node)
            _start(rack, node)


def shutdown(_rack: Rack, node: Node) -> None:
    """Press the power button: a running system shuts down in its own time, anything else ignores it."""
    with _locked(node):
        run = read_json(node.home / "run.json", {})
        console.say(node, "chassis: power button pressed")
        if power(node) == "on" and records.alive(run.get("init")):
            with contextlib.suppress(ProcessLookupError):
                os.kill(run["init"]["pid"], signal.SIGTERM)


def graceful_restart(rack: Rack, node: Node) -> None:
    """Press the button and power on again once the system has shut down; without a system nothing happens."""
    (node.home / RESTART_WANTED).touch()
    shutdown(rack, node)


def restart_wanted(node: Node) -> bool:
    """Whether the shutdown that has just ended was the first half of a restart."""
    mark = node.home / RESTART_WANTED
    wanted = mark.exists()
    mark.unlink(missing_ok=True)
    return wanted


def _cut(node: Node) -> None:
    (node.home / RESTART_WANTED).unlink(missing_ok=True)
    run = read_json(node.home / "run.json", {})
    # Off the record first, so that the supervisor knows that it was not the system's own doing.
    (node.home / "run.json").unlink(missing_ok=True)
    (node.home / "boot_state.json").unlink(missing_ok=True)
    records.stop(run.get("init"))
    supervisor = run.get("supervisor")
    if supervisor and supervisor["pid"] != os.getpid():
        records.stop(supervisor)
    network.cable_down(node)


def _start(rack: Rack, node: Node) -> None:
    program = str(Path(__file__).with_name("machine.py"))
    words = [NODE_PYTHON, "-E", "-s", "-S", program, "--config", str(rack.config), "--node", node.name]
    with open(node.home / "console.log", "a", encoding="utf-8") as log:
        subprocess.run(
            words,
            env=CLEAN_ENV,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=True,
            timeout=START_TIMEOUT,
            cwd="/",
        )


def status(node: Node) -> dict[str, object]:
    """Return what the machine does now."""
    run = read_json(node.home / "run.json", {})
    boot = read_json(node.home / "boot_state.json", {})
    running = records.alive(run.get("init"))
    return {"node": node.name, "power": power(node), "running": running, "boot": boot if running else {}}


ACTIONS: dict[str, Callable[[Rack, Node], None]] = {
    "on": power_on,
    "off": power_off,
    "reset": reset,
    "restart": restart,
    "shutdown": shutdown,
    "graceful-restart": graceful_restart,
}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("action", choices=[*ACTIONS, "status"])
    options = parser.parse_args()
    rack = load(options.config)
    node = rack.node(options.node)
    if options.action == "status":
        print(json.dumps(status(node), sort_keys=True))
        return 0
    try:
        ACTIONS[options.action](rack, node)
    except Refused as refusal:
        print(f"{node.name}: {refusal}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
