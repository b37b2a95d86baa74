# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, watch and stop the program that is a node's BMC."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import ipmi_bmc
import records
from rackconf import CLEAN_ENV, Node, Rack, read_json, write_json

READY_TIMEOUT = 60.0
_POLL = 0.1
_PRIORITY = -10
_PING_TIMEOUT = 0.5


class NotReady(Exception):
    """A BMC does not answer."""


def _command(rack: Rack, node: Node) -> list[str]:
    if node.bmc.protocol == "ipmi":
        return ipmi_bmc.command(node)
    program = str(Path(__file__).with_name("bmc.py"))
    return [rack.python, "-E", "-s", program, "--config", str(rack.config), "--node", node.name]


def start(rack: Rack, node: Node) -> bool:
    """Start a BMC that does not run; say whether one was started."""
    _clear_strays(rack, node)
    if records.alive(read_json(node.home / "bmc.json", None)):
        return False
    if node.bmc.protocol == "ipmi":
        ipmi_bmc.write_configuration(rack, node)
    with open(node.home / "bmc.log", "a", encoding="utf-8") as log:
        process = subprocess.Popen(
            _command(rack, node),
            env=CLEAN_ENV,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )
    _go_first(process.pid)
    write_json(node.home / "bmc.json", records.record(process.pid))
    return True


def _go_first(pid: int) -> None:
    """A BMC has a processor of its own, and so has its machine: here they run before others, where that is allowed."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, pid, _PRIORITY)


def stop(rack: Rack, node: Node) -> bool:
    """Stop a BMC."""
    stopped = records.stop(read_json(node.home / "bmc.json", None), signal.SIGTERM, timeout=3.0)
    (node.home / "bmc.json").unlink(missing_ok=True)
    return _clear_strays(rack, node) or stopped


def tell_identity(rack: Rack, node: Node) -> None:
    """Make the BMC tell the serial that it shall: ipmi_sim reads its FRU when it starts, the other at each request."""
    if node.bmc.protocol == "ipmi" and stop(rack, node):
        start(rack, node)
        wait_ready(rack, node)


def _clear_strays(rack: Rack, node: Node) -> bool:
    """End a BMC whose record was lost (a starter killed between the start and the note of it).

    Its command line names this rack's own configuration file and this node, word for word. One that listens in another
    network is another rack's, in namespaces of its own.
    """
    wanted = [word.encode() for word in _command(rack, node)]
    recorded = (read_json(node.home / "bmc.json", None) or {}).get("pid")
    found = False
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == recorded:
            continue
        try:
            words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")[:-1]
        except OSError:
            continue
        if words == wanted and _listens_here(entry):
            found = records.stop(records.record(int(entry)), signal.SIGTERM, timeout=3.0) or found
    return found


def _listens_here(pid: str) -> bool:
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino
    except OSError:
        return False


def wait_ready(rack: Rack, node: Node) -> None:
    """Wait until a BMC answers."""
    pause = threading.Event()
    deadline = time.monotonic() + READY_TIMEOUT
    while not answers(rack, node):
        if not records.alive(read_json(node.home / "bmc.json", None)):
            raise NotReady(f"the BMC of {node.name} ended at once; see {node.home / 'bmc.log'}")
        if time.monotonic() > deadline:
            raise NotReady(
                f"the BMC of {node.name} did not answer in {READY_TIMEOUT:.0f} s; see {node.home / 'bmc.log'}"
            )
        pause.wait(_POLL)


def answers(rack: Rack, node: Node) -> bool:
    """Whether the BMC answers on its address, in its own protocol."""
    if node.bmc.protocol == "ipmi":
        return _answers_ipmi(node)
    return _answers_tls(rack, node)


def _answers_tls(rack: Rack, node: Node) -> bool:
    context = ssl.create_default_context(cafile=rack.paths["tls_cert"])
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # alive is all that is asked here; no secret is sent
    try:
        with socket.create_connection((node.bmc.address, node.bmc.port), timeout=_PING_TIMEOUT) as raw:
            raw.settimeout(5.0)
            with context.wrap_socket(raw) as tls:
                tls.sendall(b"GET /redfish/v1/ HTTP/1.0\r\nHost: bmc\r\n\r\n")
                return tls.recv(64).startswith(b"HTTP/1.")
    except OSError:
        return False


# RMCP header, IPMI session-less wrapper, and the command Get Channel Authentication Capabilities (IPMI 2.0, 22.13).
_CHANNEL_CAPABILITIES = bytes.fromhex("0600ff07000000000000000000092018c88100388e04b5")


def _answers_ipmi(node: Node) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(_PING_TIMEOUT)
        try:
            udp.sendto(_CHANNEL_CAPABILITIES, (node.bmc.address, node.bmc.port))
            return udp.recvfrom(256)[0][:4] == _CHANNEL_CAPABILITIES[:4]
        except OSError:
            return False
