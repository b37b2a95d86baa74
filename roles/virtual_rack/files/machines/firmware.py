# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine between power-on and its operating system: which device to boot, and fetching from the network."""

from __future__ import annotations

import http.client
import re
import threading
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import disk
import ipxe
from bmc_memory import take_override
from rackconf import Node, Rack, faults_of

FETCH_TIMEOUT = 10.0
NETWORK_TARGETS = ("Pxe", "UefiHttp")
OTHER_PORT = "52:54:00:fe:ed:01"  # the MAC of no port of any machine here
_MAX_PAUSE = 1.0  # iPXE's own waits, shortened


@dataclass
class Outcome:
    """What the firmware hands over to: device is network, disk, none or poweroff."""

    device: str
    arguments: str = ""
    image: str = ""


def start(rack: Rack, node: Node, log: ipxe.Log) -> Outcome:
    """Run the firmware: network boot where the override says so, else the disk."""
    threading.Event().wait(rack.post_seconds)
    override = take_override(node)
    faults = faults_of(node)
    wants_network = override["enabled"] != "Disabled" and override["target"] in NETWORK_TARGETS
    log(f"firmware: boot override {override['enabled']} {override['target']}")
    if wants_network and "ignore_netboot" not in faults:
        outcome = _from_network(rack, node, override, faults, log)
        if outcome is not None:
            return outcome
    if not disk.bootable(node):
        log("firmware: no bootable device found")
        return Outcome("none")
    log("firmware: booting from disk")
    return Outcome("disk", arguments="BOOT_IMAGE=/boot/vmlinuz root=/dev/vda1 ro quiet")


def _from_network(
    rack: Rack, node: Node, override: dict[str, str], faults: dict[str, Any], log: ipxe.Log
) -> Outcome | None:
    """Boot from the network; None where the machine falls through to its disk."""
    url = override["uri"] or f"{rack.http}/pxelinux.cfg/{node.mac.replace(':', '-')}"
    try:
        boot = _load(url, node, log)
    except (OSError, http.client.HTTPException, ipxe.ScriptError) as error:
        log(f"firmware: network boot failed: {error}")
        return None
    if boot.action != "image":
        log(f"firmware: the boot script says {boot.action}")
        return Outcome("poweroff") if boot.action == "poweroff" else None
    return _install(node, boot, faults, log)


def _load(url: str, node: Node, log: ipxe.Log) -> ipxe.Boot:
    log(f"firmware: GET {url}")
    content = fetch(url)
    if content.startswith(b"#!ipxe"):
        pause = threading.Event()
        text = content.decode("utf-8", errors="replace")
        return ipxe.Script(text, node.mac, fetch, log, lambda delay: _pause(pause, delay)).run()
    return ipxe.Boot("image", images=[(url, content)])  # UEFI HTTP boot straight into an image


def _pause(event: threading.Event, delay: float) -> None:
    event.wait(min(delay, _MAX_PAUSE))


def _install(node: Node, boot: ipxe.Boot, faults: dict[str, Any], log: ipxe.Log) -> Outcome | None:
    """Put the fetched image on the overlay; None where it is no image of this machine."""
    if not boot.images:
        log("firmware: the boot script loads no image")
        return None
    # The first is the image; what a provisioner adds of its own (overlays, say) comes after it.
    (url, content), *more = boot.images
    if "boots_old_image" in faults and disk.keep_old(node):
        log(f"firmware: fetched {url} ({len(content)} bytes)")
    else:
        try:
            disk.install(node, content, url, *(part for _url, part in more))
        except disk.NotAnImage as error:
            log(f"kernel panic: {url}: {error}")
            return None
        log(f"firmware: {url} ({len(content)} bytes) unpacked")
    arguments = boot.arguments
    if "BOOTIF=" not in arguments:
        arguments = f"{arguments} BOOTIF=01-{node.mac.replace(':', '-')}".strip()
    if "boots_other_port" in faults:
        arguments = re.sub(r"BOOTIF=\S+", f"BOOTIF=01-{OTHER_PORT.replace(':', '-')}", arguments)
    return Outcome("network", arguments=arguments, image=url)


def fetch(url: str) -> bytes:
    """GET over plain HTTP, from the machine's own network namespace; OSError where there is no 200."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise OSError(f"cannot fetch {url}: only http is built into this firmware")
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=FETCH_TIMEOUT)
    try:
        connection.request("GET", parts.path + (f"?{parts.query}" if parts.query else ""))
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise OSError(f"{url}: HTTP {answer.status}")
        return content
    finally:
        connection.close()
