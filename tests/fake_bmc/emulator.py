# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""sushy-tools' own emulator as a BMC. It needs an environment of its own: the one of the built-in rack."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
import time
import urllib.request
import uuid
from base64 import b64encode
from pathlib import Path
from typing import Any, Optional

from .tls import Authority

USER, PASSWORD = "admin", "correct-horse"
PYTHON = Path(__file__).resolve().parents[2] / "build" / "venv" / "rack" / "bin" / "python"
SYSTEM = str(uuid.UUID(int=0x5AC00000000040008000000000000001))
# The fake driver draws how long a change of power takes, up to 11 s.
_LAUNCH = """
import sys, types
from sushy_tools.emulator.resources.systems import fakedriver
fakedriver.random = types.SimpleNamespace(randint=lambda low, high: 0)
from sushy_tools.emulator import main
sys.exit(main.main())
"""
_HASH = "import bcrypt, sys; print(bcrypt.hashpw(sys.argv[1].encode(), bcrypt.gensalt(4)).decode())"
_CONFIG = """
SUSHY_EMULATOR_LISTEN_IP = {address!r}
SUSHY_EMULATOR_LISTEN_PORT = {port}
SUSHY_EMULATOR_FAKE_DRIVER = True
SUSHY_EMULATOR_AUTH_FILE = {auth!r}
SUSHY_EMULATOR_SSL_CERT = {cert!r}
SUSHY_EMULATOR_SSL_KEY = {key!r}
SUSHY_EMULATOR_STATE_DIR = {state!r}
SUSHY_EMULATOR_FEATURE_SET = 'full'
SUSHY_EMULATOR_FAKE_SYSTEMS = [{{'uuid': {system!r}, 'name': 'test', 'power_state': 'Off', 'external_notifier': False,
                                'nics': [{{'mac': '52:54:00:00:00:01', 'ip': '127.0.0.9'}}]}}]
"""


class Emulator:
    """Context manager around one emulator with one system."""

    def __init__(self, folder: Path, authority: Authority, address: str = "127.0.0.1") -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        (folder / "state").mkdir()
        with socket.socket() as probe:
            probe.bind((address, 0))
            self.port = int(probe.getsockname()[1])
        self.url = f"https://{address}:{self.port}"
        self._trust = ssl.create_default_context(cafile=str(authority.path))
        cert, key = authority.issue(address)
        hashed = subprocess.run([PYTHON, "-c", _HASH, PASSWORD], check=True, capture_output=True, text=True).stdout
        (folder / "htpasswd").write_text(f"{USER}:{hashed}")
        (folder / "launch.py").write_text(_LAUNCH)
        text = _CONFIG.format(
            address=address, port=self.port, auth=str(folder / "htpasswd"), cert=str(cert), key=str(key),
            state=str(folder / "state"), system=SYSTEM,
        )  # fmt: skip
        (folder / "emulator.conf").write_text(text)
        self._process: Optional[subprocess.Popen[bytes]] = None

    def __enter__(self) -> Emulator:
        command = [str(PYTHON), str(self.folder / "launch.py"), "--config", str(self.folder / "emulator.conf")]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        with open(self.folder / "log", "wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        end = time.monotonic() + 30
        while True:
            try:
                self.system()
                return self
            except OSError:
                if time.monotonic() > end or self._process.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()[-2000:]) from None
                time.sleep(0.1)

    def __exit__(self, *exc: object) -> None:
        assert self._process
        self._process.kill()
        self._process.wait()

    def request(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            self.url + path, method=method, data=json.dumps(body).encode() if body else None
        )
        request.add_header("Authorization", "Basic " + b64encode(f"{USER}:{PASSWORD}".encode()).decode())
        request.add_header("Content-Type", "application/json")
        request.add_header("User-Agent", "the-test-itself")
        with urllib.request.urlopen(request, context=self._trust, timeout=10) as answer:
            data = answer.read()
        return json.loads(data) if data else None

    def system(self) -> dict[str, Any]:
        found: dict[str, Any] = self.request("GET", f"/redfish/v1/Systems/{SYSTEM}")
        return found

    def log(self, method: str) -> list[str]:
        """What the emulator noted of requests with this method, whoever sent them."""
        # werkzeug colours what is not 200.
        return re.findall(rf'"(?:\x1b\[[0-9;]*m)*{method} (\S+) HTTP', (self.folder / "log").read_text())

    def refused(self) -> int:
        """How many requests it has answered with 401."""
        return len(re.findall(r'HTTP/1\.1(?:\x1b\[0m)?" 401 ', (self.folder / "log").read_text()))
