# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A provisioner's server beside the rack's machines: what it was told to boot is what a node that boots is given."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import shutil
import socket
import threading
import time
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import lab
import yaml
from maas_server.config import Config
from maas_server.hardware import Bmc, bmc_of
from maas_server.store import Machine

#: One with a BMC that speaks Redfish, and one with a BMC that speaks IPMI.
NODES = ("gpu001", "gpu004")
#: Where the machines of the rack reach this one.
ADDRESS = "10.77.0.1"
OLD, NEW = "2026.11.1", "2026.11.2"
IMAGES = lab.RACK / "ironic" / "http" / "images"
#: What a loader is told that is to boot what lies on its machine's disk.
FROM_DISK = "#!ipxe\nsanboot --no-describe\n"
#: Seconds for which a machine that boots is waited for.
PATIENCE = 120
#: Seconds that a machine's firmware takes. Of a boot less than two after its power came on two drivers believe nothing.
POST_SECONDS = 4


class Beside(ABC):
    """One kind of provisioner, started for the tests of this folder."""

    name: ClassVar[str]
    #: What ``make rack-up`` is told besides.
    settings: ClassVar[tuple[str, ...]] = ()
    #: How many writes a machine's BMC sees on day 0 (boot device, on) and when it is imaged anew (off before that).
    bmc_writes: ClassVar[tuple[int, int]] = (2, 3)
    #: What the environment of a run has besides.
    env: Mapping[str, str] = types.MappingProxyType({})

    @abstractmethod
    def variables(self) -> dict[str, Any]:
        """``gpufleet_provisioner`` and what belongs to it."""

    @abstractmethod
    def writes(self) -> list[str]:
        """What the server was told to change, by anybody, oldest first."""

    @abstractmethod
    def lie(self, node: str, lies: bool) -> None:
        """From now on the node boots what lies on its disk, and the server takes that for a deployment; or no more."""

    @abstractmethod
    def close(self) -> None: ...

    def shown(self, node: str) -> str:
        """The id of the deployment that the system which runs on the node shows."""
        told = [word.partition("=")[2] for word in command_line(node) if word.startswith("gpufleet.deploy=")]
        return told[-1] if told else ""

    def image(self, version: str) -> dict[str, Any]:
        """What ``gpufleet_image`` has besides: the name that the image has there."""
        return {"named": f"gpu-golden-{version}"}

    def options(self) -> dict[str, Any]:
        """What ``enroll_driver`` says of a node to this driver."""
        return {}

    @property
    def inventory(self) -> str:
        return f"inventory-of-{self.name}"

    def declare(self, version: str) -> None:
        """The rack's own inventory, with another provisioner; it declares this version of the golden image."""
        folder = lab.RACK / self.inventory
        (folder / "group_vars").mkdir(parents=True, exist_ok=True)
        shutil.copy(lab.RACK / "inventory" / "rack.fleet.yml", folder)
        text = yaml.safe_dump(changed(racks_own(), self, version), sort_keys=False, width=1000)
        (folder / "group_vars" / "all.yml").write_text(text, encoding="utf-8")


def racks_own() -> dict[str, Any]:
    """The variables of all hosts in the rack's inventory, which is Ironic's."""
    text = (lab.RACK / "inventory" / "group_vars" / "all.yml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def changed(own: dict[str, Any], site: Beside, version: str) -> dict[str, Any]:
    kept = {key: value for key, value in copy.deepcopy(own).items() if not key.startswith("gpufleet_provisioner")}
    artifact = IMAGES / f"gpu-golden-{version}.tar.gz"
    told = {"sha256": hashlib.sha256(artifact.read_bytes()).hexdigest(), "size": artifact.stat().st_size}
    kept["gpufleet_image"] = {**kept["gpufleet_image"], **lab.image(version), **told, **site.image(version)}
    kept["enroll_driver"][site.name] = site.options()
    return {**kept, **site.variables()}


@contextmanager
def slow_to_start() -> Iterator[None]:
    """The rack's machines start as no other does, within a second: the drivers ask who was on its way before that."""
    path = lab.RACK / "rack.json"
    before = path.read_text(encoding="utf-8")
    path.write_text(json.dumps({**json.loads(before), "post_seconds": POST_SECONDS}), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(before, encoding="utf-8")


@functools.cache
def machines() -> dict[str, dict[str, Any]]:
    """By name: the machines of the rack as its configuration has them."""
    known = json.loads((lab.RACK / "rack.json").read_text(encoding="utf-8"))["nodes"]
    return {node["name"]: node for node in known}


def card(node: str) -> str:
    """The MAC by which it boots, as loaders spell it."""
    return str(machines()[node]["mac"]).replace(":", "-")


def node_of(mac: str) -> str:
    """The machine of that card; empty where it is none of the rack's."""
    wanted = mac.lower().replace("-", ":")
    return next((name for name, node in machines().items() if node["mac"] == wanted), "")


def lead(url: str) -> None:
    """What a site's DHCP does: each machine that boots from the network is led to this server."""
    for node in machines():
        tell(node, f"chain {url}")


def tell(node: str, *lines: str) -> None:
    """What its loader is told first."""
    path = lab.RACK / "ironic" / "http" / "pxelinux.cfg" / card(node)
    path.unlink(missing_ok=True)
    path.write_text("\n".join(("#!ipxe", *lines, "")), encoding="ascii")


def golden(name: str) -> bytes:
    """The golden image of that name, as any server keeps it."""
    return (IMAGES / f"{name}.tar.gz").read_bytes()


class Loaders:
    """The web server of a provisioner that has none of its own in these tests: whoever boots asks for /MAC."""

    def __init__(self, entry: Callable[[str], str]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                node = node_of(self.path.strip("/"))
                body = entry(node).encode() if node else b""
                self.send_response(200 if body else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """The rack keeps what its machines did."""

        self._http = ThreadingHTTPServer((ADDRESS, 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        lead(f"http://{ADDRESS}:{self._http.server_address[1]}/${{mac:hexhyp}}")

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


def entry(arguments: str, image: str) -> str:
    """What a loader is told that is to boot this golden image, with these words for its kernel."""
    files = f"http://{ADDRESS}:8080/images"
    return f"#!ipxe\nkernel {files}/vmlinuz {arguments}\ninitrd {files}/{image}.tar.gz\nboot\n"


def answers(node: str) -> bool:
    """Whether a system on the machine takes logins."""
    try:
        socket.create_connection((machines()[node]["ip"], 22), timeout=0.3).close()
    except OSError:
        return False
    return True


def once_up(node: str, then: Callable[[], None]) -> None:
    """What the system on the machine does as soon as it runs; its loader has just asked."""

    def watch() -> None:
        end = time.monotonic() + PATIENCE
        while not answers(node):
            if time.monotonic() > end:
                return
            time.sleep(0.2)
        then()

    threading.Thread(target=watch, daemon=True).start()


def bmc(node: str, user: str, password: str) -> Bmc:
    """The machine's own, by the login that the provisioner was given."""
    known = machines()[node]
    port = f":{known['bmc']['port']}" if known["bmc"]["protocol"] == "redfish" else ""
    login = {"power_address": known["bmc"]["address"] + port, "power_user": user, "power_pass": password}
    machine = Machine(
        node, node, power_type=known["bmc"]["protocol"], power_parameters={**login, "node_id": known["uuid"]}
    )
    return bmc_of(machine, Config(users=(), bmc={"ca_path": str(lab.RACK / "tls" / "ca.pem")}))


# -- what runs on a machine, read past everybody ---------------------------------------------------------------------


def disk(node: str) -> Path:
    return lab.RACK / "disks" / node / "upper"


def command_line(node: str) -> list[str]:
    """The words that the kernel which it runs was given."""
    return (lab.RACK / "nodes" / node / "hw" / "cmdline").read_text(encoding="utf-8").split()


def version_of(node: str) -> str:
    """Of the image that it runs, by the manifest in it."""
    text = (disk(node) / "etc" / "gpufleet" / "manifest.json").read_text(encoding="utf-8")
    return str(json.loads(text)["version"])
