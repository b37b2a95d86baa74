# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a running rack back to how it was when it was new, in seconds and without starting it anew.

    empty.py --rack DIR --rackctl .../rackctl.py

Ironic forgets its nodes and goes on running; Slurm's controller and the MAAS stand-in start anew on empty folders; the
machines are off, mended and wiped; the ledger is set aside; the services' logs begin anew, and with them what is
counted in them. As long as this works nobody else takes the rack, also where the run that called it has been killed.
"""

from __future__ import annotations

import argparse
import base64
import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from claim import Claimed, working
from forget import remove, set_ledger_aside
from keep_logs import begin_anew
from supervise import Service, ServiceError, load, start_all

# Below the rack's folder: what each service that starts anew remembers.
MEMORY = {"slurmctld": "slurm/spool", "maas": "maas"}
IRONIC_FOLDERS = ("http", "images", "images-master", "tftp", "tftp-master", "tmp")
KEPT_IN_WEB_ROOT = ("images", "pxelinux.cfg")
API_VERSION = "1.81"
LOCK_SECONDS = 60.0
LOCK_PACE = 0.2
_GONE, _CONFLICT = 404, 409


class Ironic:
    """Ironic's API, as its operator uses it."""

    def __init__(self, spec: dict[str, Any]) -> None:
        check = spec["health"]
        password = Path(check["password_file"]).read_text(encoding="utf-8").strip()
        login = base64.b64encode(f"{check['user']}:{password}".encode()).decode()
        self._url = check["http"].rpartition("/v1/")[0]
        self._headers = {
            "Authorization": f"Basic {login}",
            "Content-Type": "application/json",
            "X-OpenStack-Ironic-API-Version": API_VERSION,
        }
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}/v1{path}", data, self._headers, method=method)
        with self._opener.open(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def forget_nodes(self) -> list[str]:
        """Delete every node, in whatever state; a node that a conductor works on is waited for."""
        nodes = self.ask("GET", "/nodes?fields=uuid,name,maintenance,instance_uuid")["nodes"]
        for node in nodes:
            path = f"/nodes/{node['uuid']}"
            # In maintenance a node may go from any state.
            if not node["maintenance"]:
                self._unlocked("PUT", f"{path}/maintenance", {"reason": "the rack is emptied"})
            if node["instance_uuid"]:
                self._unlocked("PATCH", path, [{"op": "remove", "path": "/instance_uuid"}])
            self._unlocked("DELETE", path)
        return [node["name"] or node["uuid"] for node in nodes]

    def _unlocked(self, method: str, path: str, body: Any = None) -> None:
        """Ask again while the node is locked."""
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                self.ask(method, path, body)
                return
            except urllib.error.HTTPError as error:
                told = error.read().decode("utf-8", "replace")[:500]
                if error.code == _GONE:
                    return
                if error.code != _CONFLICT or time.monotonic() > deadline:
                    raise ServiceError(f"ironic: {method} {path}: HTTP {error.code} {told}") from error
            time.sleep(LOCK_PACE)


def empty_folder(folder: Path, kept: tuple[str, ...] = ()) -> None:
    for path in folder.glob("*"):
        if path.name not in kept:
            remove(path)


def forget_boot_entries(rack: Path) -> None:
    ironic = rack / "ironic"
    for name in IRONIC_FOLDERS:
        empty_folder(ironic / name, KEPT_IN_WEB_ROOT if name == "http" else ())
    empty_folder(ironic / "http" / "pxelinux.cfg")


def empty_machines(rack: Path, rackctl: Path) -> None:
    argv = ["/usr/bin/python3", "-EsS", str(rackctl), "empty", "--config", str(rack / "rack.json")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ServiceError(done.stderr.strip())


def start_anew(rack: Path, services: dict[str, Service]) -> None:
    """Those that remember in memory what they have on disk."""
    again = [services[name] for name in MEMORY if name in services]
    for service in again:
        service.stop()
        folder = rack / MEMORY[service.name]
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o755)
        service.start()
    for service in again:
        service.wait_healthy()


def empty(rack: Path, rackctl: Path) -> dict[str, Any]:
    run_dir, spec = rack / "run", rack / "services.json"
    if not spec.exists() or all(service.pid() is None for service in load(run_dir, spec)):
        raise ServiceError(f"no rack runs in {rack}; start it: make rack-up")
    start_all(run_dir, spec)
    services = {service.name: service for service in load(run_dir, spec)}
    # Ironic first: it would give power back to a node that it still knows.
    forgotten = Ironic(services["ironic"].spec).forget_nodes()
    empty_machines(rack, rackctl)
    forget_boot_entries(rack)
    start_anew(rack, services)
    set_ledger_aside(rack)
    for log in (*(rack / "log").glob("*.log"), *(rack / "nodes").glob("*/*.log")):
        begin_anew(log)
    return {"changed": True, "forgotten": forgotten}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rack", type=Path, required=True)
    parser.add_argument("--rackctl", type=Path, required=True)
    asked = parser.parse_args()
    try:
        with working(asked.rack):
            told = empty(asked.rack, asked.rackctl)
        print(json.dumps(told))
    except (Claimed, ServiceError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
