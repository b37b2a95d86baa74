# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the running rack is, and what the tests of its services ask of it."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any, Optional

CHECKOUT = Path(__file__).resolve().parents[2]
RACK = Path(os.environ.get("GPUFLEET_RACK_DIR") or "/var/lib/gpufleet-rack")
SERVICES = CHECKOUT / "roles" / "virtual_rack" / "files" / "services"
BOOT_URL = "http://10.77.0.1:8080"
IRONIC_URL = "http://127.0.0.1:16385"


def secret(name: str) -> str:
    return (RACK / "secrets" / name).read_text(encoding="utf-8").strip()


def secrets() -> dict[str, str]:
    """Every password of the rack; the MAAS key in its parts, since each of them is one."""
    found = {path.name: path.read_text(encoding="utf-8").strip() for path in (RACK / "secrets").iterdir()}
    key = found.pop("maas_api_key", "")
    return {**found, **{f"maas_api_key {place}": part for place, part in enumerate(key.split(":")) if place and part}}


def get(url: str, user: Optional[str] = None, password: str = "") -> bytes:
    request = urllib.request.Request(url)
    if user is not None:
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        request.add_header("Authorization", f"Basic {token}")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=10) as answer:
        body: bytes = answer.read()
    return body


def supervise(*arguments: str) -> dict[str, Any]:
    argv = [sys.executable, str(SERVICES / "supervise.py"), "--run-dir", str(RACK / "run"), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def status() -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in supervise("status", str(RACK / "services.json"))["services"]}


def making(*arguments: str) -> subprocess.Popen[str]:
    """A make under way."""
    # The inner make must not take over the options of one that runs these tests.
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    argv = ["make", f"RACK_DIR={RACK}", *arguments]
    return subprocess.Popen(
        argv,
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**env, "ANSIBLE_NOCOLOR": "1"},
    )


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    with making(*arguments) as process:
        out, err = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
