# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small rack of its own for the tests of the machines: two nodes, other names and addresses than the built-in rack.

The tests may cut power and break things in it while somebody works with the built-in rack beside it.
"""

from __future__ import annotations

import base64
import functools
import glob
import gzip
import http.client
import http.server
import io
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
MACHINES = CHECKOUT / "roles/virtual_rack/files/machines"
RACK_PYTHON = CHECKOUT / "build/venv/rack/bin/python"
sys.path.insert(0, str(MACHINES))

GATEWAY = "10.79.0.1"
PASSWORD = "lab-own-bmc-pass"  # IPMI 2.0 has room for 20 bytes
PROGRAMS = ("/usr/bin/ipmi_sim", "/usr/bin/ipmitool", "/usr/sbin/sshd", "/usr/bin/openssl")
FAKETIME = "/usr/lib/*/faketime/libfaketime.so.1"


def missing() -> list[str]:
    """What this computer lacks for these tests."""
    programs = [name for name in (*PROGRAMS, str(RACK_PYTHON)) if not os.access(name, os.X_OK)]
    return programs + ([] if glob.glob(FAKETIME) else [FAKETIME])


def artifact(version: str, **files: str) -> bytes:
    """A golden image: a manifest and what else is asked for."""
    manifest = {"schema": 1, "name": "lab", "version": version, "kernel": os.uname().release, "driver": "580.105.08"}
    manifest.update({"cuda": "13.0", "fabric_manager": "580.105.08", "built": "2026-11-01"})
    members = {"etc/gpufleet/manifest.json": json.dumps(manifest), **files}
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, text in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(raw.getvalue())


# As Ironic 39 renders and switches it for a ramdisk deploy, cut to what a machine walks through.
BOOT_ENTRY = """#!ipxe

set attempts:int32 10
set i:int32 0

goto {label}

:deploy
imgfree
kernel {base}/deploy.kernel selinux=0 BOOTIF=${{mac}} initrd=deploy_ramdisk || goto retry

initrd {base}/deploy.ramdisk || goto retry
boot

:retry
iseq ${{i}} ${{attempts}} && goto fail ||
inc i
echo No response, retrying in ${{i}} seconds.
goto deploy

:fail
poweroff

:boot_ramdisk
imgfree
kernel {base}/kernel root=/dev/ram0 text lab=1 initrd=ramdisk || goto boot_ramdisk
initrd {base}/{image} || goto boot_ramdisk
boot

:boot_whole_disk
sanboot --no-describe || exit 0
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and says nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Lab:
    """The rack under test, with its boot server."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.http_root = home / "http"
        self._write()
        from rackconf import load

        self.rack = load(home / "rack.json")

    def _write(self) -> None:
        for name in ("http/pxelinux.cfg", "keys", "tls", "secrets"):
            (self.home / name).mkdir(parents=True)
        (self.home / "secrets/bmc_password").write_text(PASSWORD + "\n")
        self._quietly(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.home / "keys/id")])
        names = "subjectAltName=IP:127.79.0.11"
        self._quietly(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
            + ["-keyout", str(self.home / "tls/key.pem"), "-out", str(self.home / "tls/cert.pem")]
            + ["-subj", "/CN=lab", "-addext", names]
        )
        paths = {
            "bmc_password_file": self.home / "secrets/bmc_password",
            "tls_cert": self.home / "tls/cert.pem",
            "tls_key": self.home / "tls/key.pem",
            "slurm_conf": "",
            "munge_socket_dir": "",
            "node_key_pub": self.home / "keys/id.pub",
        }
        config = {
            "dir": str(self.home),
            "checkout": str(CHECKOUT),
            "bridge": "gfracklab0",
            "gateway": GATEWAY,
            "http": f"http://{GATEWAY}:8080",
            "nodes": [self._node(1, "redfish", 8443), self._node(2, "ipmi", 623)],
            "bmc_username": "admin",
            "power_delay": 0.1,
            "paths": {key: str(value) for key, value in paths.items()},
        }
        (self.home / "rack.json").write_text(json.dumps(config))

    @staticmethod
    def _node(index: int, protocol: str, port: int) -> dict[str, Any]:
        return {
            "name": f"lab00{index}",
            "index": index,
            "ip": f"10.79.0.1{index}",
            "mac": f"52:54:00:79:00:0{index}",
            "serial": f"GFLAB000{index}",
            "uuid": f"5ac00000-0000-4000-8079-00000000000{index}",
            "sku": "h100-sxm-8",
            "bmc": {"protocol": protocol, "address": f"127.79.0.1{index}", "port": port},
        }

    @staticmethod
    def _quietly(words: list[str]) -> None:
        subprocess.run(words, check=True, capture_output=True)

    def serve(self) -> None:
        """Serve boot entries and images on the rack's bridge."""
        handler = functools.partial(Quiet, directory=str(self.http_root))
        self._server = http.server.ThreadingHTTPServer((GATEWAY, 8080), handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        (self.http_root / "kernel").write_bytes(b"kernel")

    def stop_serving(self) -> None:
        """Stop the boot server."""
        self._server.shutdown()
        self._server.server_close()

    def offer(self, node: str, image: bytes, label: str = "boot_ramdisk") -> None:
        """Write a node's boot entry, as a provisioner does."""
        (self.http_root / f"{node}.img").write_bytes(image)
        text = BOOT_ENTRY.format(base=self.rack.http, image=f"{node}.img", label=label)
        self.entry(node).write_text(text)

    def entry(self, node: str) -> Path:
        """A node's boot entry."""
        return self.http_root / "pxelinux.cfg" / self.rack.node(node).mac.replace(":", "-")

    def control(self, action: str) -> dict[str, Any]:
        """Run rackctl."""
        run = self.program("rackctl.py", action)
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)

    def fault(self, node: str, *words: str) -> None:
        """Inject or lift a fault."""
        run = self.program("fault.py", node, *words)
        assert run.returncode == 0, run.stderr

    def program(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one of the rack's programs."""
        command = ["/usr/bin/python3", "-EsS", str(MACHINES / name), *words, "--config", str(self.home / "rack.json")]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def ssh(self, node: str, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command on a node."""
        options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "ConnectTimeout=2"]
        words = ["ssh", "-n", "-i", str(self.home / "keys/id"), *[word for item in options for word in ("-o", item)]]
        words += [f"root@{self.rack.node(node).ip}", command]
        return subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)

    def say(self, node: str, command: str) -> str:
        """Run a command that has to succeed, once the node answers."""
        wait(lambda: self.answers(node))
        run = self.ssh(node, command)
        assert run.returncode == 0, run.stderr
        return run.stdout.strip()

    def answers(self, node: str) -> bool:
        """Whether a node's SSH server answers."""
        try:
            with socket.create_connection((self.rack.node(node).ip, 22), timeout=0.3) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def redfish(self, method: str, path: str = "", body: Any = None, password: str = PASSWORD) -> tuple[int, Any]:
        """One request to the first node's BMC."""
        node = self.rack.node("lab001")
        context = ssl.create_default_context(cafile=str(self.home / "tls/cert.pem"))
        connection = http.client.HTTPSConnection(node.bmc.address, node.bmc.port, context=context, timeout=15)
        login = base64.b64encode(f"admin:{password}".encode()).decode()
        headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
        text = None if body is None else json.dumps(body)
        url = path if path.startswith("/") else f"/redfish/v1/Systems/{node.uuid}{'/' + path if path else ''}"
        connection.request(method, url, body=text, headers=headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, json.loads(content) if content.strip().startswith(b"{") else content

    def system(self) -> dict[str, Any]:
        """The first node's system resource."""
        status, document = self.redfish("GET")
        assert status == 200
        return dict(document)

    def reset(self, kind: str) -> int:
        """Ask the first node's BMC for a power change."""
        return self.redfish("POST", "Actions/ComputerSystem.Reset", {"ResetType": kind})[0]

    def boot_from(self, target: str, enabled: str = "Once") -> int:
        """Set the first node's boot override."""
        boot = {"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": enabled}
        return self.redfish("PATCH", body={"Boot": boot})[0]

    def off(self) -> None:
        """Cut the first node's power and wait for it."""
        assert self.reset("ForceOff") == 204
        wait(lambda: self.system()["PowerState"] == "Off")

    def netboot(self, image: bytes) -> None:
        """From off: boot the first node from the network into an image."""
        self.off()
        self.offer("lab001", image)
        assert self.boot_from("Pxe") == 204
        assert self.reset("On") == 204
        wait(lambda: self.answers("lab001"))

    def ipmi(self, *words: str) -> str:
        """Run ipmitool against the second node's BMC."""
        node = self.rack.node("lab002")
        command = ["ipmitool", "-I", "lanplus", "-C", "3", "-H", node.bmc.address, "-U", "admin", "-E", *words]
        environment = {**os.environ, "IPMI_PASSWORD": PASSWORD}
        run = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=environment)
        assert run.returncode == 0, run.stderr
        return run.stdout

    def lines(self, node: str, name: str) -> list[dict[str, Any]]:
        """A log of a node, one object a line."""
        path = self.rack.node(node).home / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def console(self, node: str) -> str:
        """A node's serial console."""
        return (self.rack.node(node).home / "console.log").read_text()

    def boots(self, node: str) -> int:
        """How often a system was started on a node."""
        return len(self.lines(node, "boots.jsonl"))

    def processes(self) -> list[str]:
        """Command lines of every process that names this rack's configuration."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                except OSError:
                    continue
                if str(self.home) in words:
                    found.append(words)
        return found

    def remove(self) -> None:
        """Take the rack and its folder away."""
        self.program("rackctl.py", "down")
        shutil.rmtree(self.home, ignore_errors=True)


def wait(condition: Callable[[], bool], timeout: float = 15.0) -> None:
    """Wait until something holds."""
    pause = threading.Event()
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        pause.wait(0.05)
