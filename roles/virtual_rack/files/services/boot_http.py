# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rack's boot web server: files of one folder, no listings, one log line a request.

boot_http.py --listen 10.77.0.1:8080 --root DIR
"""

from __future__ import annotations

import argparse
import functools
import http.server
import sys
from typing import Any


class BootHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files; a folder is not found, whatever it holds."""

    server_version = "rack-boot"
    protocol_version = "HTTP/1.1"
    timeout = 30

    def list_directory(self, path: Any) -> None:
        self.send_error(404, "File not found")

    def log_message(self, format: str, *args: Any) -> None:  # the name is the base class's
        # An address can ask for anything; what it asked must not become a line of its own in the log.
        line = (format % args).translate({code: f"\\x{code:02x}" for code in range(32)})
        print(f"{self.log_date_time_string()} {self.address_string()} {line}", file=sys.stderr, flush=True)


class BootServer(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--listen", required=True)
    parser.add_argument("--root", required=True)
    asked = parser.parse_args()
    host, _colon, port = asked.listen.rpartition(":")
    handler = functools.partial(BootHandler, directory=asked.root)
    with BootServer((host, int(port)), handler) as server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
