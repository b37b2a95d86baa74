# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks the MAAS server of these tests as `curl` would, past the driver."""

from __future__ import annotations

import time
from typing import Any

import requests
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas.api import authorization
from maas_server.server import MaasServer
from maas_server.store import Machine

KEY = "consumer:token:s3cret"
TENANT = "tenant:token:other"


class Client:
    """Asks as `curl` would."""

    def __init__(self, server: MaasServer) -> None:
        self.server = server
        self.base = f"{server.url}/api/2.0/"

    def __call__(self, method: str, path: str, key: str = KEY, **kwargs: Any) -> requests.Response:
        headers = {"Authorization": authorization(key), **kwargs.pop("headers", {})}
        return requests.request(method, self.base + path, headers=headers, timeout=10, allow_redirects=False, **kwargs)

    def machine(self, status: int, **fields: Any) -> Machine:
        with self.server.store.changing() as machines:
            system_id = self.server.store.new_id()
            fields.setdefault("hostname", f"gpu-{system_id}")
            machine = Machine(system_id=system_id, status=status, commissioning_status=2, **fields)
            machines[system_id] = machine
        return machine

    def op(self, machine: Machine, op: str, key: str = KEY, **kwargs: Any) -> requests.Response:
        return self("POST", f"machines/{machine.system_id}/?op={op}", key, **kwargs)

    def settled(self, machine: Machine) -> int:
        end = time.monotonic() + 10
        while machine.status in (1, 9, 12, 14, 21) and time.monotonic() < end:
            time.sleep(0.02)
        return machine.status
