# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands before a web service: counts what is asked of it, and fails on demand.

A fault that itself fails looks like an outage to whoever asks: :meth:`Proxy.close` raises it, so that its test fails.
"""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Optional, Union
from urllib.parse import urlsplit

#: A fault's answer: drop the connection without a word; pass the request on and drop the connection instead of the
#: answer; or (code, headers, body).
DROP, LOSE = "drop", "lose"
Fault = Union[str, tuple[int, dict[str, str], bytes], None]


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: str
    body: bytes

    @property
    def is_write(self) -> bool:
        """A login changes nothing."""
        return self.method != "GET" and not self.path.endswith("/tokens")


class Proxy:
    """http(s)://127.0.0.1:PORT in front of ``target``."""

    def __init__(self, target: str, tls: Optional[ssl.SSLContext] = None) -> None:
        parts = urlsplit(target)
        self._host = parts.netloc
        self._path = parts.path
        self._to_tls = parts.scheme == "https"
        self.asked: list[Asked] = []
        #: With the code of its answer, where there was one.
        self.answered: list[tuple[Asked, int]] = []
        self.fault: Callable[[Asked], Fault] = lambda asked: None
        self._broken: list[Exception] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self._scheme = "https" if tls else "http"
        threading.Thread(target=lambda: self._http.serve_forever(poll_interval=0.1), daemon=True).start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._http.server_address[1]}{self._path}"

    def forget(self) -> None:
        self.answered = []
        self.asked.clear()
        self.fault = lambda asked: None

    @property
    def writes(self) -> list[Asked]:
        return [one for one in self.asked if one.is_write]

    def lists(self, path: str) -> list[Asked]:
        """GETs of a whole list."""
        return [one for one in self.asked if one.method == "GET" and one.path.rstrip("/").endswith(path)]

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        if self._broken:
            raise self._broken[0]

    def _struck(self, asked: Asked) -> Fault:
        try:
            return self.fault(asked)
        except Exception as exc:
            self._broken.append(exc)
            return DROP

    def _pass_on(self, asked: Asked, target: str, headers: Any) -> tuple[int, dict[str, str], bytes]:
        if self._to_tls:  # whom the service proves to be is no matter of a test of faults
            link: http.client.HTTPConnection = http.client.HTTPSConnection(
                self._host, timeout=60, context=ssl._create_unverified_context()
            )
        else:
            link = http.client.HTTPConnection(self._host, timeout=60)
        try:
            kept = {key: value for key, value in headers.items() if key.lower() not in ("host", "connection")}
            link.request(asked.method, target, asked.body or None, kept)
            answer = link.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            link.close()

    def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:  # noqa: N805  # pylint: disable=no-self-argument
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path, _mark, query = self.path.partition("?")
                asked = Asked(self.command, path, query, body)
                proxy.asked.append(asked)
                fault = proxy._struck(asked)
                self.close_connection = True
                if fault == LOSE:
                    proxy._pass_on(asked, self.path, self.headers)
                if fault in (DROP, LOSE):
                    return
                code, headers, content = (
                    fault if isinstance(fault, tuple) else proxy._pass_on(asked, self.path, self.headers)
                )
                proxy.answered.append((asked, code))
                self.send_response_only(code)  # Server and Date are those of whoever stands behind
                for key, value in headers.items():
                    if key.lower() not in ("connection", "transfer-encoding", "content-length"):
                        self.send_header(key, value)
                self.send_header("Connection", "close")
                if code != 204:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any

            def log_message(self, format: str, *args: Any) -> None:
                """Tests read `asked`."""

        return Handler
