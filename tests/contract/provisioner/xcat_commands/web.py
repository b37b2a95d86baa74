# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""xCAT's web service before the management node of these tests: what ``xcatws.cgi`` makes of requests and answers.

Written from its source. It hands a request on as a command, and shows of the answer what its handlers do: records as
``defout`` reads them, words of nodes as ``actionout`` does, nothing at all of a write that was taken; and 403 with all
errors where there is one, without a word of what went well.
"""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from .management import AWAY, Answer, Management

USER, PASSWORD, TOKEN = "fleet", "xcat-S3cret", "a6e89b59-2b23-429a-b3fe-d16807dd19eb"
_RESOURCES = {"power": "rpower", "nextboot": "rsetboot", "bootstate": "nodeset", "nodestat": "nodestat"}
_MAKES = {"host": "makehosts", "dns": "makedns", "dhcp": "makedhcp"}
Told = tuple[int, Any]


class _Unheard(Exception):
    """``xcatd`` is away, and the service is there."""


class Web(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, management: Management) -> None:
        self.management = management
        #: Commands that the policy table has no rule for.
        self.denied: set[str] = set()
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/xcatws"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    def answer(self, method: str, path: str, token: str, body: dict[str, Any]) -> Told:
        layers = [unquote(one) for one in path.split("/")[2:]]
        if layers == ["tokens"]:
            if (body.get("userName"), body.get("userPW")) != (USER, PASSWORD):
                return 401, None
            return 201, {"token": {"id": TOKEN, "expire": "2026-11-24 10:00:00"}}
        if token != TOKEN:
            return 401, None
        with self._lock:
            try:
                if len(layers) == 3 and layers[2] in _MAKES and method == "POST":
                    return self._acted(method, _MAKES[layers[2]], layers[2], layers[1], {})
                if len(layers) == 3 and layers[2] in _RESOURCES:
                    return self._acted(method, _RESOURCES[layers[2]], layers[2], layers[1], body)
                return self._defined(method, layers, body)
            except _Unheard:
                return 503, {"error": "Connection failurexx: IO::Socket::INET: connect: Connection refused"}

    def _run(self, *argv: str) -> Answer | None:
        answer = None if argv[0] in self.denied else self.management.run(argv)
        if answer is not None and answer.err == AWAY:
            raise _Unheard
        return answer

    def _defined(self, method: str, layers: list[str], body: dict[str, Any]) -> Told:
        kind = layers[0].removesuffix("s")
        command = {"GET": "lsdef", "PUT": "chdef", "POST": "mkdef"}[method]
        names = [] if layers[1] == "ALLRESOURCES" else ["-o", layers[1]]
        asked = ["-i", layers[3]] if len(layers) == 4 else []
        answer = self._run(command, "-t", kind, *names, *asked, *(f"{key}={value}" for key, value in body.items()))
        if answer is None:
            return 401, None
        errors = [one.removeprefix("Error: ") for one in answer.err.splitlines() if one.startswith("Error: ")]
        if errors:
            return 403, {"error": errors, "errorcode": "1"}
        return (201 if method == "POST" else 200, None) if method != "GET" else _records(answer.out)

    def _acted(self, method: str, command: str, resource: str, names: str, body: dict[str, Any]) -> Told:
        words = [next(iter(body.items()))] if body else []
        given = [f"{key}={value}" if key == "osimage" else str(value) for key, value in words]
        given = given or (["stat"] if command in ("rpower", "rsetboot", "nodeset") else [])
        answer = self._run(command, names, *given)
        if answer is None:
            return 401, None
        errors = []
        for line in [*answer.out.splitlines(), *answer.err.splitlines()]:
            name, sign, text = line.partition(": Error: ")
            errors += [f"{name}: {text}"] if sign else [line[7:]] if line.startswith("Error: ") else []
        if errors:
            return 403, {"error": errors, "errorcode": "1"}
        if method != "GET":
            return 200, None
        lines = [one.partition(": ") for one in answer.out.splitlines()]
        return 200, {name: {resource: text} for name, sign, text in lines if sign} or None


def _records(text: str) -> Told:
    found: dict[str, dict[str, str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith(("No object definitions", "Could not find")):
            continue
        if line.startswith("Object name: "):
            name = line.split()[2]
            continue
        one = re.match(r"\s*(\S+?)=(.*)$", line)
        if not one:
            return 418, {"error": "improperly formatted lsdef output from xcatd", "errorcode": "2"}
        found.setdefault(name, {})[one[1]] = one[2]
    return 200, found or None


class _Handler(BaseHTTPRequestHandler):
    server: Web

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        told = self.server.answer(
            self.command, self.path, self.headers.get("X-Auth-Token") or "", json.loads(body) if body else {}
        )
        content = json.dumps(told[1]).encode() + b"\n" if told[1] is not None else b""
        self.send_response(told[0])
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = _any

    def log_message(self, format: str, *args: Any) -> None:
        """Tests ask the proxy before it."""
