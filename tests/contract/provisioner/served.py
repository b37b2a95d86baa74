# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The web server that a site's images lie on."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Served:
    """Files by their path, each as it is put there."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        #: Paths that were read whole.
        self.read: list[str] = []
        #: Says of none of them how large it is.
        self.sizes = True
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self._thread.start()

    def put(self, path: str, content: bytes) -> str:
        """Its address."""
        self.files[path] = content
        return f"http://127.0.0.1:{self._http.server_address[1]}{path}"

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join(timeout=10)
        self._http.server_close()


def _handler(served: Served) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = served.files.get(self.path)
            self.send_response(404 if content is None else 200)
            if content is not None and served.sizes:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content or b"")
            served.read.append(self.path)

        def log_message(self, format: str, *args: Any) -> None:
            """Tests ask what was read."""

    return Handler
