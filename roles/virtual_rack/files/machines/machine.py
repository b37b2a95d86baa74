# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One boot of one machine: firmware, root, and the first process of its operating system.

Started by ``chassis.py`` at each power-on. Two processes come of it. The supervisor stays in this computer's
namespaces and waits for the end of the boot: it notes a power-off or starts the next boot after a reboot. The
machine itself is process 1 of its own pid namespace: when it dies, the kernel kills everything in it.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import chassis
import console
import firmware
import kernel
import network
import records
import rootfs
from fault_table import kernel_lines
from rackconf import CLEAN_ENV, NODE_PYTHON, Node, Rack, append_json, faults_of, load, read_json, write_json

SLURMD = "/usr/sbin/slurmd"
_HOST_FILES_FIRST_FD = 3
_FOR_CHILDREN = {"pid": kernel.CLONE_NEWPID, "time": kernel.CLONE_NEWTIME}


def main() -> int:
    """Detach, start the machine, and return once both processes are on record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    parser.add_argument("--node", required=True)
    options = parser.parse_args()
    rack = load(options.config)
    node = rack.node(options.node)
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        return 0 if os.read(reading, 1) == b"+" else 1
    os.close(reading)
    os.setsid()
    _supervise(rack, node, writing)


def _supervise(rack: Rack, node: Node, started: int) -> NoReturn:
    kernel.set_process_name(f"rack-{node.name}")
    clock = console.boot_clock()
    own = {kind: os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name, kind in _FOR_CHILDREN.items()}
    kernel.unshare(kernel.CLONE_NEWPID | kernel.CLONE_NEWTIME)
    # Both clocks start at zero, so uptime, kernel stamps and the scheduler's boot time are this boot's own.
    Path("/proc/self/timens_offsets").write_text(
        f"monotonic -{int(clock)} 0\nboottime -{int(clock)} 0\n", encoding="ascii"
    )
    gate_reading, gate_writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(gate_writing)
        os.read(gate_reading, 1)
        _machine(rack, node, clock)
    for kind, handle in own.items():  # the supervisor's later children are not the machine's
        kernel.enter_by_handle(handle, kind)
    run = {"supervisor": records.record(os.getpid()), "init": records.record(child), "clock": clock}
    write_json(node.home / "run.json", run)
    os.write(gate_writing, b"+")
    os.write(started, b"+")
    os.close(started)
    _pid, status = os.waitpid(child, 0)
    _after(rack, node, run, status)


def _after(rack: Rack, node: Node, run: dict[str, Any], status: int) -> NoReturn:
    """The machine has ended: by itself, or because its power was cut."""
    current = read_json(node.home / "run.json", {})
    if current.get("supervisor") != run["supervisor"]:
        os._exit(0)  # power was cut or cycled: the chassis sees to the rest
    network.cable_down(node)
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    wanted = chassis.restart_wanted(node)
    if ended_by == signal.SIGHUP or (ended_by == 0 and wanted):  # SIGHUP: reboot(2) in a pid namespace
        console.say(node, "reboot: restarting system")
        _chassis(rack, node, "restart")
    if ended_by in (0, signal.SIGINT):
        console.say(node, "reboot: power down")
        _chassis(rack, node, "off")
    console.say(node, f"machine died of signal {ended_by}")
    os._exit(0)


def _chassis(rack: Rack, node: Node, action: str) -> NoReturn:
    program = str(Path(__file__).with_name("chassis.py"))
    words = [NODE_PYTHON, "-E", "-s", "-S", program, "--config", str(rack.config), "--node", node.name, action]
    os.execve(NODE_PYTHON, words, CLEAN_ENV)


def _machine(rack: Rack, node: Node, clock: float) -> NoReturn:
    """Process 1: firmware first, then the operating system."""
    try:
        kernel.die_with_parent(signal.SIGKILL)
        kernel.set_process_name("init")
        kernel.enter(f"/run/netns/{node.netns}", kernel.CLONE_NEWNET)
        kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC)
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
        network.cable_up(node)
        outcome = firmware.start(rack, node, lambda text: console.say(node, text))
        if outcome.device == "none":
            network.address_off(node)
            _hang()
        if outcome.device == "poweroff":
            os._exit(0)
        _boot(rack, node, clock, outcome)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the console has to show it
        _panic(node, f"kernel panic: {type(error).__name__}: {error}")


def _panic(node: Node, text: str) -> NoReturn:
    try:
        console.say(node, text)
    except OSError:  # already inside the node's root, where the console is the standard error
        os.write(2, f"{text}\n".encode())
    _hang()


def _hang() -> NoReturn:
    """Stay powered on and do nothing, deaf to a graceful shutdown."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        signal.pause()


def _boot(rack: Rack, node: Node, clock: float, outcome: firmware.Outcome) -> NoReturn:
    """Build the root, step into it, start the services, and be init."""
    boot_id = rootfs.write_hardware(node, outcome.arguments)
    lines = _boot_lines(node, outcome.arguments)
    console.kernel_say(node, lines, console.boot_clock())
    for priority, text in kernel_lines(faults_of(node)):
        console.kernel_say(node, [text], console.boot_clock(), priority)
    boot = {"boot_id": boot_id, "device": outcome.device, "image": outcome.image, "clock": clock}
    write_json(node.home / "boot_state.json", boot)
    append_json(node.home / "boots.jsonl", {**boot, "time": time.time()})
    rootfs.prepare_disk(rack, node)
    rootfs.cloud_init(node, outcome.arguments, firmware.fetch)
    root = rootfs.mount_all(rack, node)
    log = os.open(node.home / "console.log", os.O_WRONLY | os.O_APPEND)
    conf = root / "etc/slurm/slurm.conf"
    slurm_folders = rootfs.slurm_folders(conf, node.name) if conf.exists() else []
    deaf = "ignore_shutdown" in faults_of(node)
    kernel.pivot_root(root)
    kernel.set_hostname(node.name)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.closerange(_HOST_FILES_FIRST_FD, 1024)
    _init(node, slurm_folders, deaf)


def _boot_lines(node: Node, arguments: str) -> list[str]:
    kernel_name = os.uname()
    gpus = [f"nvidia 0000:{bus}:00.0: enabling device (0000 -> 0002)" for bus in network.GPU_BUSES]
    return [
        f"Linux version {kernel_name.release} {kernel_name.version}",
        f"Command line: {arguments}",
        f"DMI: {rootfs.dmi(node)['sys_vendor']} {rootfs.dmi(node)['product_name']}, BIOS 1.0.0",
        *gpus,
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64",
    ]


def _init(node: Node, slurm_folders: list[Path], deaf: bool) -> NoReturn:
    """Start the services and reap what dies, until the shutdown."""
    children = [_spawn(["/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/sshd_config"])]
    if slurm_folders and os.access(SLURMD, os.X_OK):
        for folder in slurm_folders:
            folder.mkdir(parents=True, exist_ok=True)
        command = [SLURMD, "-D", "-b", "-N", node.name, "-f", "/etc/slurm/slurm.conf"]
        children.append(_spawn(command))
    os.write(1, f"{node.name}: boot done\n".encode())
    awaited = {signal.SIGTERM, signal.SIGCHLD}
    # Blocked first, so that no signal falls between a test and a wait; after the services, which would inherit it.
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    while signal.sigwaitinfo(awaited).si_signo != signal.SIGTERM or deaf:
        _reap()
    os.write(1, f"{node.name}: shutting down\n".encode())
    for child in children:
        _terminate(child)
    os._exit(0)


def _spawn(words: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words, env=CLEAN_ENV, stdin=subprocess.DEVNULL, start_new_session=True)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _terminate(child: subprocess.Popen[bytes]) -> None:
    try:
        os.kill(child.pid, signal.SIGTERM)
        child.wait(timeout=1.0)
    except (OSError, subprocess.TimeoutExpired):
        pass  # what does not stop is killed with the pid namespace


if __name__ == "__main__":
    sys.exit(main())
