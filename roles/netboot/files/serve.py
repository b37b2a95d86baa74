# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The web server of the netboot role: gives each node what it boots, and notes that it asked.

    serve --root DIR --listen ADDRESS:PORT

    GET /boot.ipxe           the same for all: leads each machine to its own entry
    GET /entries/MAC.ipxe    what this machine boots; 404 for one that is not to boot from here
    GET /failed/MAC/WHAT     its loader says that it could not load that
    GET /images/FILE         kernels and images that the site keeps here

What a machine says is noted below ``seen/`` and trusted for nothing: it tells a person, and a run that waits, how far a
boot has come. What runs is proven on the node. Python's standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

ENTRY = re.compile(r"/entries/(?P<mac>[0-9a-f]{2}(?:-[0-9a-f]{2}){5})\.ipxe\Z")
FAILED = re.compile(r"/failed/(?P<mac>[0-9a-f]{2}(?:-[0-9a-f]{2}){5})/(?P<what>kernel|image|boot)\Z")
IMAGE = re.compile(r"/images/(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\Z")


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, root: Path, address: tuple[str, int]) -> None:
        self.root = root
        self._lock = threading.Lock()
        super().__init__(address, Handler)

    def known(self, mac: str) -> bool:
        """Only of a machine that is enrolled is anything written down."""
        hosts = (self.root / "dhcp-hosts").iterdir()
        lines = (path.read_text(encoding="utf-8") for path in hosts if not path.name.startswith("."))
        return any(line.startswith(mac.replace("-", ":") + ",") and ",ignore" not in line for line in lines)

    def note(self, mac: str, what: str, words: str = "") -> None:
        path = self.root / "seen" / f"{mac}.json"
        with self._lock:
            new = path.with_name(f".{path.name}.new")
            new.write_text(json.dumps({"at": time.time(), "what": what, "words": words}), encoding="utf-8")
            os.replace(new, path)


class Handler(BaseHTTPRequestHandler):
    server: Server
    #: One that says nothing holds no thread for ever.
    timeout = 60

    def do_GET(self) -> None:
        path = unquote(self.path.partition("?")[0])
        root = self.server.root / "http"
        entry, failed, image = ENTRY.match(path), FAILED.match(path), IMAGE.match(path)
        if path == "/boot.ipxe":
            self._file(root / "boot.ipxe")
        elif entry and self.server.known(entry["mac"]):
            file = root / "entries" / f"{entry['mac']}.ipxe"
            if file.is_file():  # noted before it is told: what the loader says next must not be noted before this
                self.server.note(entry["mac"], "entry")
            self._file(file)
        elif failed and self.server.known(failed["mac"]):
            self.server.note(failed["mac"], "failed", failed["what"])
            self._told(200, b"#!ipxe\nexit 1\n")
        elif image:
            self._file(root / "images" / image["name"])
        else:
            self._told(404, b"nothing is to be booted from here\n")

    def _file(self, path: Path) -> None:
        try:
            with open(path, "rb") as file:
                self.send_response(200)
                self.send_header("Content-Length", str(os.fstat(file.fileno()).st_size))
                self.end_headers()
                shutil.copyfileobj(file, self.wfile, 1 << 20)
        except FileNotFoundError:
            self._told(404, b"nothing is to be booted from here\n")

    def _told(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """As its unit logs it, without what a stranger may put into a terminal."""
        print(f"{self.client_address[0]} {ascii(format % args)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="serve")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--listen", required=True)
    words = parser.parse_args()
    host, _colon, port = words.listen.rpartition(":")
    server = Server(words.root, (host, int(port)))
    print(f"serving {words.root} at {server.server_address[0]}:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
