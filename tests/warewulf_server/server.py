# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses, methods, who may; and what nodes ask for on their way up."""

from __future__ import annotations

import base64
import hmac
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Optional
from urllib.parse import parse_qsl, unquote

from . import images, shared, wwctl
from .answers import Answer, invalid, not_found, plain, told
from .conf import NODE_FIELDS, NodesConf, Record, merged, read, with_profiles

#: What a node asks for on its way up, in this order.
BOOT = ("ipxe", "kernel", "image", "system", "runtime")
#: How each version calls a stage. 4.6 has no word for those that are not here.
_WORDS = {
    "4.6.5": {
        "efiboot": "EFI",
        "ipxe": "IPXE",
        "kernel": "KERNEL",
        "system": "SYSTEM_OVERLAY",
        "runtime": "RUNTIME_OVERLAY",
        "initramfs": "INITRAMFS",
    },
    "4.7.0": {stage: stage for stage in (*BOOT, "initramfs", "grub", "efiboot", "shim")},
}
#: 4.6 knows no TLS.
_TAKES_CLEAR = ("4.6.5",)
_SENT = {"ipxe": "default.ipxe", "system": "__SYSTEM__.img", "runtime": "__RUNTIME__.img"}


@dataclass
class Config:
    users: dict[str, str] = field(default_factory=dict)
    version: str = "4.7.0"
    #: Seconds between reading nodes.conf and writing it.
    thinks: float = 0.0
    #: Seconds for which nodes.conf is empty as it is written: whoever reads it then finds neither profiles nor nodes.
    tears: float = 0.0
    #: Does it demand TLS of what is secret?
    tls: bool = False
    api: bool = True
    #: Is this machine in one of the allowed subnets?
    allowed: bool = True
    #: Seconds by which its clock is ahead of everybody else's.
    ahead: float = 0.0
    images: dict[str, Record] = field(default_factory=dict)
    overlays: tuple[str, ...] = ("wwinit", "hosts")
    #: Where it is reached.
    address: str = "127.0.0.1"


def image(**other: Any) -> Record:
    return {"kernels": ["/boot/vmlinuz-6.8.0-1"], "size": 128512, "buildtime": 1795165415, "writable": True, **other}


class WarewulfServer:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.conf = NodesConf(config.thinks, config.tears)
        self.status: dict[str, Record] = {}
        self.built: dict[str, str] = {}
        #: Files of overlays that the site has made, by path; those of a distribution's are not told apart here.
        self.site_overlays: dict[str, dict[str, str]] = {}
        #: What its registry has, by reference; of these the import breaks off.
        self.registry: dict[str, Record] = {}
        self.breaks: set[str] = set()
        #: Does the order to build overlays do anything?
        self.builds = True
        #: What the commands on the server find there.
        self.host = wwctl.Host()
        self.clock = 0
        self._http = ThreadingHTTPServer((config.address, 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._serve, daemon=True, name=f"Warewulf at {self.url}")

    @property
    def url(self) -> str:
        return f"http://{self.config.address}:{self._http.server_address[1]}"

    def _serve(self) -> None:
        self._http.serve_forever(poll_interval=0.1)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join(timeout=10)
        self._http.server_close()

    def restart(self) -> None:
        """What nodes asked for is kept in memory alone."""
        self.status.clear()

    # -- nodes -------------------------------------------------------------------------------------------------

    def asks(self, stage: str, hwaddr: str, sent: str = "", *, packed: bool = True, asset: str = "") -> Answer:
        """What a loader, or the client on a running node, asks for; ``sent``: a fault in its place.

        It comes in clear. What is answered before a stage has come to its end stands in no status.
        """
        if stage == "runtime" and self.config.tls and self.config.version not in _TAKES_CLEAR:
            return Answer(403)
        content = self.conf.load()
        names = sorted(name for name in content["nodes"] if _has(with_profiles(content, name), hwaddr))
        name = names[-1] if names else self._discovered(content, hwaddr)  # in their order, each over the one before it
        known = with_profiles(content, name) if name else {}
        image_name = known.get("image name", "")
        if {*known.get(f"{stage} overlay", ())} - self.overlay_names():
            return Answer(404)
        served = {**_SENT, "kernel": "vmlinuz-6.8.0-1", "image": f"{image_name}.img", "initramfs": "initramfs.img"}
        end = ".gz" if packed and stage in ("image", "system", "runtime") else ""
        missing = "" if name and (image_name or stage == "ipxe") else "BAD_REQUEST"
        code = 400
        if name and known.get("asset key", "") not in ("", asset):
            missing, code = "BAD_ASSET", 401
        elif not missing and stage == "image" and not self.config.images.get(image_name, {}).get("buildtime"):
            missing, code = "NOT_FOUND", 404  # imported, and not built: there is no file of it
        # The real one counts seconds, of which a boot takes many.
        self.clock = max(self.clock + 1, int(time.time() + self.config.ahead))
        self.status[name] = {
            "node name": name,
            "stage": _WORDS[self.config.version].get(stage, ""),
            "sent": sent or missing or served.get(stage, stage) + end,
            "ipaddr": "127.0.0.1",
            "last seen": self.clock,
        }
        return Answer(code if missing else 200, kind="application/octet-stream")

    def _discovered(self, content: Any, hwaddr: str) -> str:
        """A stranger's card becomes that of the first node that is to be discovered; without one it is nobody's."""
        free = [one for one in sorted(content["nodes"]) if _is_true(with_profiles(content, one).get("discoverable"))]
        if not free:
            return ""
        node = content["nodes"][free[0]]
        device = with_profiles(content, free[0]).get("primary network", "default")
        devices = node.setdefault("network devices", {})
        devices[device] = {**devices.get(device, {}), "hwaddr": hwaddr.replace("-", ":").lower()}
        node.pop("discoverable", None)
        self.conf.save(content)
        return str(free[0])

    def boots(self, name: str) -> None:
        found = with_profiles(self.conf.load(), name)
        hwaddr = next(iter(found["network devices"].values()))["hwaddr"]
        for stage in BOOT:
            self.asks(stage, hwaddr, asset=found.get("asset key", ""))

    def of_all(self) -> Answer:
        idle = {"stage": "", "sent": "", "ipaddr": "", "last seen": 0}
        names = [*self.conf.load()["nodes"], *(name for name in self.status if not name)]
        nodes = {name: self.status.get(name) or {"node name": name, **idle} for name in sorted(names)}
        return Answer(200, json.dumps({"nodes": nodes}, indent=2).encode(), "text/plain; charset=utf-8")

    # -- one request -------------------------------------------------------------------------------------------

    def answer(self, method: str, target: str, headers: Any, body: bytes) -> Answer:
        path, _mark, query = target.partition("?")
        parts = [unquote(one) for one in path.strip("/").split("/")]
        if parts[0] == "status":
            return self.of_all()
        if parts[0] in (*BOOT, "initramfs") and len(parts) == 2:
            asset = dict(parse_qsl(query)).get("assetkey", "")
            return self.asks(parts[0], parts[1], packed="compress=gz" in query, asset=asset)
        if parts[0] == "wwctl":  # the command asks no server; it finds its state here
            return told(wwctl.ran(self, json.loads(body)))
        if parts[0] != "api" or not self.config.api:
            return plain(404, "404 page not found")
        refused = self._refused(headers.get("Authorization") or "")
        if refused is not None:
            return refused
        route = _ROUTES.get((method, parts[1] if len(parts) > 1 else "", "/".join(parts[3:]), len(parts) > 2))
        if route is None:
            return plain(405 if len(parts) > 1 else 404, "Method Not Allowed")
        given = {**(json.loads(body) if body else {}), "?": dict(parse_qsl(query))}
        return route(self, parts[2] if len(parts) > 2 else "", given, headers)

    def _refused(self, login: str) -> Optional[Answer]:
        if not self.config.allowed:
            return plain(403, "Forbidden")
        user, _colon, password = _decoded(login).partition(":")
        known = self.config.users.get(user)
        if known is not None and hmac.compare_digest(known.encode(), password.encode()):
            return None
        return plain(401, "Unauthorized", ("WWW-Authenticate", 'Basic realm="Restricted"'))

    # -- routes ------------------------------------------------------------------------------------------------

    def nodes(self, _name: str, _body: Any, _headers: Any) -> Answer:
        content = self.conf.load()
        return told({name: with_profiles(content, name) for name in content["nodes"]})

    def node(self, name: str, _body: Any, _headers: Any) -> Answer:
        content = self.conf.load()
        if name not in content["nodes"]:
            return not_found(f"node not found: {name} (node/profile not found)")
        return told(with_profiles(content, name))

    def raw(self, name: str, _body: Any, _headers: Any) -> Answer:
        nodes = self.conf.load()["nodes"]
        return told(nodes[name]) if name in nodes else not_found(f"node not found: {name}")

    def put(self, name: str, body: Any, headers: Any) -> Answer:
        content = self.conf.load()
        if headers.get("If-None-Match") == "*" and name in content["nodes"]:
            return invalid(f"node '{name}' already exists")
        return self._stored(content, name, {}, body)

    def patch(self, name: str, body: Any, _headers: Any) -> Answer:
        content = self.conf.load()
        if name not in content["nodes"]:
            return not_found("node/profile not found")
        return self._stored(content, name, content["nodes"][name], body)

    def _stored(self, content: Any, name: str, before: Record, body: Any) -> Answer:
        given = read(body.get("node") or {}, NODE_FIELDS)
        wrong = self.wrong(content, given)
        if wrong:
            return invalid(wrong)
        content["nodes"][name] = merged(before, given, append=False)
        self.conf.save(content)
        return told(content["nodes"][name])

    def overlay_names(self) -> set[str]:
        return {*self.config.overlays, *self.site_overlays}

    def wrong(self, content: Any, given: Record) -> str:
        overlays = [*given.get("system overlay", ()), *given.get("runtime overlay", ())]
        missing = (
            ("profile", [one for one in given.get("profiles", ()) if one not in content["nodeprofiles"]]),
            ("image", [one for one in [given.get("image name")] if one and one not in self.config.images]),
            ("overlay", [one for one in overlays if one not in self.overlay_names()]),
        )
        return next((f"{kind} '{names[0]}' does not exist" for kind, names in missing if names), "")

    def build_image(self, name: str) -> None:
        self.config.images[name].update(buildtime=int(time.time()), size=128512)

    def delete(self, name: str, _body: Any, _headers: Any) -> Answer:
        content = self.conf.load()
        if name not in content["nodes"]:
            return told({"error": f"nodename does not exist: {name}"}, 500)
        gone = content["nodes"].pop(name)
        self.conf.save(content)
        return told(gone)

    def overlays(self, name: str, _body: Any, _headers: Any) -> Answer:
        content = self.conf.load()
        if name not in content["nodes"]:
            return not_found("node/profile not found")
        found = with_profiles(content, name)
        kinds = ("system overlay", "runtime overlay")
        made = {"mtime": self.built[name]} if name in self.built else {}
        return told({kind: {**({"overlays": found[kind]} if kind in found else {}), **made} for kind in kinds})

    def build(self, name: str, _body: Any, _headers: Any) -> Answer:
        content = self.conf.load()
        if name not in content["nodes"]:
            return not_found("node/profile not found")
        found = with_profiles(content, name)
        lacking = {*found.get("system overlay", ()), *found.get("runtime overlay", ())} - self.overlay_names()
        if lacking:
            return told({"error": f"overlay does not exist: {min(lacking)}"}, 500)
        if self.builds:
            self.built[name] = datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")
        return told(name)


_Route = Callable[[WarewulfServer, str, Any, Any], Answer]
#: Method, collection, what stands behind a name, and whether there is a name.
_ROUTES: dict[tuple[str, str, str, bool], _Route] = {
    **images.ROUTES,
    **shared.ROUTES,
    ("GET", "nodes", "", False): WarewulfServer.nodes,
    ("GET", "nodes", "", True): WarewulfServer.node,
    ("GET", "nodes", "raw", True): WarewulfServer.raw,
    ("GET", "nodes", "overlays", True): WarewulfServer.overlays,
    ("PUT", "nodes", "", True): WarewulfServer.put,
    ("PATCH", "nodes", "", True): WarewulfServer.patch,
    ("DELETE", "nodes", "", True): WarewulfServer.delete,
    ("POST", "nodes", "overlays/build", True): WarewulfServer.build,
}


def _is_true(value: Any) -> bool:
    return str(value or "").lower() in ("true", "yes", "1", "t")


def _has(record: Record, hwaddr: str) -> bool:
    wanted = hwaddr.replace("-", ":").lower()
    return any(one.get("hwaddr", "").lower() == wanted for one in record.get("network devices", {}).values())


def _decoded(login: str) -> str:
    kind, _blank, text = login.partition(" ")
    return base64.b64decode(text).decode() if kind == "Basic" else ""


def _handler(server: WarewulfServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            said = server.answer(self.command, self.path, self.headers, body)
            self.send_response(said.code)
            for key, value in (("Content-Type", said.kind), *said.headers, ("Content-Length", str(len(said.body)))):
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(said.body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any

        def date_time_string(self, timestamp: Optional[float] = None) -> str:
            return super().date_time_string(time.time() + server.config.ahead if timestamp is None else timestamp)

        def log_message(self, format: str, *args: Any) -> None:
            """Tests ask the server itself."""

    return Handler
