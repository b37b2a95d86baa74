# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Ironic, all in one process, with fake hardware: what the contract suite runs the Ironic driver against."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
VENV = CHECKOUT / "build" / "venv" / "rack"
#: A hardware type of ours, as a vendor's package brings one.
STEPS = Path(__file__).with_name("ironic_steps")
ENTRY_POINTS = """
[ironic.hardware.types]
fake-steps = gpufleet_steps:StepHardware
[ironic.hardware.interfaces.bios]
fake-steps = gpufleet_steps:StepBIOS
"""
USER = "admin"
PASSWORD = "ironic-Pa55word"

CONFIG = """
[DEFAULT]
host = contract-conductor
my_ip = 127.0.0.1
state_path = {home}
use_stderr = true
rpc_transport = none
tempdir = {home}
minimum_memory_warning_only = true
enabled_hardware_types = fake-hardware,fake-steps,redfish,ipmi
enabled_bios_interfaces = fake,fake-steps,no-bios,redfish
enabled_boot_interfaces = fake,ipxe,pxe,redfish-virtual-media
enabled_console_interfaces = fake,no-console
enabled_deploy_interfaces = fake,direct,ramdisk
enabled_firmware_interfaces = fake,no-firmware,redfish
enabled_inspect_interfaces = fake,no-inspect,redfish,agent
enabled_management_interfaces = fake,noop,redfish,ipmitool
enabled_network_interfaces = noop
enabled_power_interfaces = fake,redfish,ipmitool
enabled_raid_interfaces = fake,no-raid,redfish,agent
enabled_rescue_interfaces = fake,no-rescue
enabled_storage_interfaces = noop
enabled_vendor_interfaces = fake,no-vendor,redfish,ipmitool
default_network_interface = noop
[api]
host_ip = 127.0.0.1
port = {port}
api_workers = 1
public_endpoint = {url}
[database]
connection = sqlite:///{home}/ironic.sqlite
[dhcp]
dhcp_provider = none
[conductor]
automated_clean = false
sync_power_state_interval = 600
power_state_change_timeout = 60
[deploy]
http_url = http://127.0.0.1:1
http_root = {home}/http
[redfish]
connection_attempts = 1
[oslo_concurrency]
lock_path = {home}/lock
[oslo_messaging_notifications]
driver = noop
[sensor_data]
send_sensor_data = false
[DEFAULT]
{auth}
"""
AUTH = """auth_strategy = http_basic
http_basic_auth_user_file = {home}/htpasswd
"""


def missing() -> str:
    """Why no Ironic can be started here; empty where it can."""
    if not (VENV / "bin" / "ironic").exists():
        return f"no Ironic in {VENV.relative_to(CHECKOUT)}: make setup-rack"
    return ""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class IronicServer:
    """Starts it in a folder of its own, and ends it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, timeout: float = 90.0) -> None:
        for folder in ("http", "lock"):
            (self.home / folder).mkdir(parents=True, exist_ok=True)
        package = self.home / "packages" / "gpufleet_steps-1.dist-info"
        package.mkdir(parents=True, exist_ok=True)
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: gpufleet-steps\nVersion: 1\n", encoding="ascii")
        (package / "entry_points.txt").write_text(ENTRY_POINTS, encoding="ascii")
        config = self.home / "ironic.conf"
        filled = CONFIG.format(home=self.home, port=self.port, url=self.url, auth=self.prepared())
        config.write_text(filled, encoding="utf-8")
        argv = ["--config-file", str(config)]
        with open(self.home / "ironic.log", "wb") as log:
            dbsync = [str(VENV / "bin" / "ironic-dbsync"), *argv, "create_schema"]
            subprocess.run(dbsync, check=True, stdout=log, stderr=log)
        self.go_on(timeout)

    def prepared(self) -> str:
        """What of its configuration says who may ask it, and whatever that needs."""
        line = subprocess.run(
            [
                str(VENV / "bin" / "python"),
                "-c",
                "import bcrypt,sys;print(bcrypt.hashpw(sys.stdin.read().encode(), bcrypt.gensalt(5)).decode())",
            ],
            input=PASSWORD,
            text=True,
            capture_output=True,
            check=True,
        ).stdout
        (self.home / "htpasswd").write_text(f"{USER}:{line}", encoding="ascii")
        return AUTH.format(home=self.home)

    def login(self) -> dict[str, str]:
        """By which it knows one who may do everything."""
        return {"Authorization": f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"}

    def go_on(self, timeout: float = 90.0) -> None:
        """With what it knows, as after a restart."""
        argv = ["--config-file", str(self.home / "ironic.conf")]
        env = {**os.environ, "PYTHONPATH": f"{self.home / 'packages'}:{STEPS}"}
        with open(self.home / "ironic.log", "ab") as log:
            self._process = subprocess.Popen([str(VENV / "bin" / "ironic"), *argv], stdout=log, stderr=log, env=env)
        self._await(timeout)

    def ended(self) -> None:
        """It is killed, and so is whatever it has started."""
        self.stop()
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                self.get("/v1/")
            except (OSError, urllib.error.URLError):
                return
            time.sleep(0.1)
        raise RuntimeError("Ironic answers still")

    def _await(self, timeout: float) -> None:
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if self._process is not None and self._process.poll() is not None:
                break
            try:
                if b'"fake-hardware"' in self.get("/v1/drivers"):
                    return
            except (OSError, urllib.error.URLError):
                pass
            time.sleep(0.25)
        raise RuntimeError((self.home / "ironic.log").read_text(errors="replace")[-3000:])

    def get(self, path: str) -> bytes:
        request = urllib.request.Request(self.url + path, headers=self.login())
        request.add_header("X-OpenStack-Ironic-API-Version", "latest")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return bytes(answer.read())

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            # Its folder goes with it; a graceful end takes fifteen seconds.
            self._process.kill()
            self._process.wait(timeout=15)
