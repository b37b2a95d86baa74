# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""As much of a NetBox 4 as lists of devices and interfaces need: tokens, pages, filters, and that it passes over those
that it does not know."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable
from urllib.parse import parse_qsl, urlsplit

TOKEN = "0123456789abcdef0123456789abcdef01234567"
_PLACES = {"site": "slug", "role": "slug", "tenant": "slug", "rack": "name", "status": "value"}


class Netbox:
    def __init__(self) -> None:
        self.devices: list[dict[str, Any]] = []
        self.interfaces: list[dict[str, Any]] = []
        self.asked: list[str] = []
        #: MAX_PAGE_SIZE
        self.page = 1000
        self.instead: Callable[[str], tuple[int, dict[str, str], bytes] | None] = lambda path: None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, name: str | None, *cards: dict[str, Any], **told: Any) -> dict[str, Any]:
        number = len(self.devices) + 1
        device = {
            "id": number, "url": f"{self.url}/api/dcim/devices/{number}/", "display": name or f"device {number}",
            "name": name, "serial": "", "asset_tag": None, "position": 10.0,
            "device_type": {"id": 1, "model": "DGX H100", "manufacturer": {"id": 1, "name": "NVIDIA"}},
            "role": {"id": 1, "slug": "gpu-node", "name": "GPU node"}, "tenant": None, "platform": None,
            "site": {"id": 1, "slug": "dc1", "name": "DC 1"}, "location": None, "cluster": None,
            "rack": {"id": 1, "name": "r12"}, "status": {"value": "active", "label": "Active"},
            "primary_ip": None, "oob_ip": None, "tags": [], "custom_fields": {"sku": None}, **told,
        }  # fmt: skip
        self.devices.append(device)
        for card in cards:
            self.interfaces.append({"id": len(self.interfaces) + 1, "device": {"id": number}, **card})
        return device

    def answer(self, path: str, headers: Any) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(path)
        instead = self.instead(path)
        if instead:
            return instead
        if headers.get("Authorization") != f"Token {TOKEN}":
            return 403, {}, json.dumps({"detail": "Invalid token"}).encode()
        parts = urlsplit(path)
        rows = {"/api/dcim/devices/": self.devices, "/api/dcim/interfaces/": self.interfaces}.get(parts.path)
        if rows is None:
            return 404, {}, b'{"detail": "Not found."}'
        query: dict[str, list[str]] = {}
        for name, value in parse_qsl(parts.query):
            query.setdefault(name, []).append(value)
        if any(value == "nosuch" for value in query.get("site", [])):
            return 400, {}, b'{"site": ["Select a valid choice. nosuch is not one of the available choices."]}'
        chosen = [row for row in rows if all(_is_so(row, name, values) for name, values in query.items())]
        return 200, {}, json.dumps(self._page(parts.path, chosen, query)).encode()

    def _page(self, path: str, rows: list[dict[str, Any]], query: dict[str, list[str]]) -> dict[str, Any]:
        limit = min(int(query.get("limit", ["50"])[0]), self.page)
        offset = int(query.get("offset", ["0"])[0])
        more = offset + limit < len(rows)
        following = f"http://elsewhere.example.com{path}?limit={limit}&offset={offset + limit}" if more else None
        return {"count": len(rows), "next": following, "previous": None, "results": rows[offset : offset + limit]}


def _is_so(row: dict[str, Any], name: str, values: list[str]) -> bool:
    if name == "device_id":
        return str(row["device"]["id"]) in values
    if name.startswith("cf_"):
        return name[3:] not in row["custom_fields"] or str(row["custom_fields"][name[3:]]) in values
    if name == "tag":
        return {tag["slug"] for tag in row["tags"]} >= set(values)
    return name not in _PLACES or (row.get(name) or {}).get(_PLACES[name]) in values


def card(name: str, mac: str | None, kind: str = "25gbase-x-sfp28", **told: Any) -> dict[str, Any]:
    """As NetBox 4.2 and newer tell it."""
    primary = {"id": 1, "mac_address": mac} if mac else None
    return {"name": name, "type": {"value": kind}, "mgmt_only": False, "primary_mac_address": primary, **told}


def _handler(server: Netbox) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, headers, body = server.answer(self.path, self.headers)
            self.send_response(code)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Requests carry a token."""

    return Handler
