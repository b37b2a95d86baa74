# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The provisioner behind the driver beside this file: a service that takes orders for many nodes and works them off.

An order is noted at once, and for a while a node's status goes on telling what was before it, with its old time.
Only a status whose time is newer than the order is about the order.

    GET  /nodes[?names=A,B]          {"nodes": {NAME: record}}
    GET  /images                     {"images": [NAME, ...]}
    PUT  /nodes/NAME                 fields of the record; makes the node where it is not there
    POST /orders                     {"action": "discover" | "install" | "clear", "nodes": {NAME: note}, "image": ...}
                                     -> {"taken": [NAME, ...]}
"""

from __future__ import annotations

import itertools
import json
import queue
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "queue-S3cret-token"
#: Seconds until the status tells of an order, and until the order is done.
PACE = 0.04
#: action -> what the status says while it lasts, and after it.
ACTIONS = {"discover": ("discovering", "ready"), "install": ("installing", "booted"), "clear": ("clearing", "ready")}
SHOWN = ("mac", "serial", "bmc", "image", "status", "status_time", "order", "error", "owner", "locked_by")


class Queue:
    """The nodes, and one worker that obeys the orders."""

    def __init__(self, images: tuple[str, ...]) -> None:
        self.images = images
        self.nodes: dict[str, dict[str, Any]] = {}
        self.lock = threading.RLock()
        #: Nodes whose hardware does not answer.
        self.dead: set[str] = set()
        #: Nodes for which it takes no order.
        self.full: set[str] = set()
        self._orders: queue.Queue[Any] = queue.Queue()
        self._times = itertools.count(1)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=lambda: self._http.serve_forever(poll_interval=0.1), daemon=True).start()
        threading.Thread(target=self._work, daemon=True).start()

    def close(self) -> None:
        self._orders.put(None)
        self._http.shutdown()
        self._http.server_close()

    def told(self, names: list[str]) -> dict[str, Any]:
        with self.lock:
            return {name: _shown(self.nodes[name]) for name in names or self.nodes if name in self.nodes}

    def put(self, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            if name not in self.nodes:
                self.nodes[name] = {}
                self.say(self.nodes[name], "defined")
            self.nodes[name].update(fields)
            return _shown(self.nodes[name])

    def say(self, node: dict[str, Any], status: str) -> None:
        node.update(status=status, status_time=next(self._times))

    def order(self, body: dict[str, Any]) -> tuple[int, Any]:
        """What of it was taken."""
        with self.lock:
            if not set(body["nodes"]) <= set(self.nodes):
                return 404, {}
            if body["action"] == "install" and body.get("image") not in self.images:
                return 400, {}
            taken = [name for name in body["nodes"] if name not in self.full]
            for name, note in ((name, body["nodes"][name]) for name in taken):
                made = {"action": body["action"], "at": next(self._times), "note": note, "image": body.get("image")}
                self.nodes[name]["order"] = made
                self._orders.put((time.monotonic() + PACE, name, made))
        return 202, {"taken": taken}

    def _work(self) -> None:
        while True:
            item = self._orders.get()
            if item is None:
                return
            due, name, order = item
            time.sleep(max(0.0, due - time.monotonic()))
            with self.lock:
                node = self.nodes[name]
                if node.get("order") is not order:
                    continue
                during, after = ACTIONS[order["action"]]
                if node["status"] != during:
                    self.say(node, during)
                    self._orders.put((time.monotonic() + PACE, name, order))
                    continue
                node["error"] = "the BMC does not answer" if name in self.dead else ""
                node["image"] = order["image"] if order["action"] == "install" else ""
                self.say(node, "failed" if name in self.dead else after)


def _shown(node: dict[str, Any]) -> dict[str, Any]:
    shown = {key: node.get(key) for key in SHOWN}
    shown["bmc"] = {key: value for key, value in (node.get("bmc") or {}).items() if key != "password"}
    return shown


def _handler(serving: Queue) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            code, answer = self._answered(urlsplit(self.path), body)
            content = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _answered(self, address: Any, body: Any) -> tuple[int, Any]:
            if self.headers.get("X-Token") != TOKEN:
                return 401, {"error": "token"}
            if self.command == "GET" and address.path == "/images":
                return 200, {"images": list(serving.images)}
            if self.command == "GET":
                names = [name for name in parse_qs(address.query).get("names", [""])[0].split(",") if name]
                return 200, {"nodes": serving.told(names)}
            if self.command == "PUT":
                return 200, serving.put(unquote(address.path.rpartition("/")[2]), body)
            return serving.order(body)

        do_GET = do_PUT = do_POST = _any

        def log_message(self, format: str, *args: Any) -> None:
            """Tests read what the proxy before it saw."""

    return Handler
