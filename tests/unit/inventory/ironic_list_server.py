# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""As much of an Ironic as lists of nodes and ports need: fields, pages, login, microversions, masked passwords."""

from __future__ import annotations

import base64
import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable
from urllib.parse import parse_qs, urlsplit

USER, PASSWORD = "admin", "s3cret-of-ironic"
_SUMMARY = ("uuid", "name", "instance_uuid", "provision_state", "power_state", "maintenance", "links")


class IronicLists:
    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.ports: list[dict[str, Any]] = []
        self.page = 1000
        self.asked: list[str] = []
        #: answers in place of the API: path -> (status, content type, body)
        self.instead: Callable[[str], tuple[int, str, bytes] | None] = lambda path: None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, name: str, mac: str, *, serial: str = "", extra: Any = None, **fields: Any) -> str:
        number = str(uuid.uuid4())
        node = {
            "uuid": number, "name": name, "driver": "redfish",
            "provision_state": "available", "power_state": "power off",
            "driver_info": {
                "redfish_address": f"https://{name}.bmc.example.com", "redfish_username": "root",
                "redfish_password": "******", "redfish_system_id": "/redfish/v1/Systems/1",
            },
            "properties": {"cpu_arch": "x86_64"},
            "extra": {**({"gpufleet_serial": serial} if serial else {}), **(extra or {})},
            "resource_class": "gpu", "conductor_group": "", "owner": None, "maintenance": False,
            **fields,
        }  # fmt: skip
        self.nodes.append(node)
        if mac:
            self.ports.append({"uuid": str(uuid.uuid4()), "address": mac, "node_uuid": number, "pxe_enabled": True})
        return number

    def answer(self, path: str, headers: Any) -> tuple[int, str, bytes]:
        self.asked.append(path)
        instead = self.instead(path)
        if instead:
            return instead
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if headers.get("Authorization") != f"Basic {login}":
            return 401, "application/json", b'{"error": {"message": "Incorrect username or password"}}'
        version = headers.get("X-OpenStack-Ironic-API-Version") or headers.get("OpenStack-API-Version", "").split()[-1]
        parts = urlsplit(path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        members = {"/v1/nodes": self.nodes, "/v1/ports": self.ports}.get(parts.path)
        if members is None:
            return 404, "application/json", b"{}"
        key = parts.path.rpartition("/")[2]
        if not version or float(version.split(".")[1]) < 50:  # owner came with 1.50
            members = [{name: one[name] for name in one if name in _SUMMARY} for one in members]
        if query.get("conductor_group"):
            members = [one for one in members if one["conductor_group"] == query["conductor_group"]]
        return 200, "application/json", json.dumps(self._paged(members, key, query)).encode()

    def _paged(self, members: list[dict[str, Any]], key: str, query: dict[str, str]) -> dict[str, Any]:
        limit = min(int(query.get("limit") or self.page), self.page)
        start = 0
        if query.get("marker"):
            start = [one["uuid"] for one in members].index(query["marker"]) + 1
        names = query["fields"].split(",") if query.get("fields") else list(_SUMMARY)
        chosen = members[start : start + limit]
        if query.get("detail") == "True":
            names = [name for one in chosen for name in one]
        body: dict[str, Any] = {key: [{name: one.get(name) for name in names} for one in chosen]}
        if start + limit < len(members):
            body["next"] = f"{self.url}/v1/{key}?limit={limit}&marker={chosen[-1]['uuid']}"
        return body


def _handler(server: IronicLists) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, kind, body = server.answer(self.path, self.headers)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    return Handler
