# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recorded Redfish trees, and a BMC that serves one: reads out of the recording, writes noted and answered with 204.

A tree is a folder ``NAME/redfish/v1/**/index.json``, as DMTF's Redfish-Mockup-Creator writes it, or the same in
``NAME.tar.xz`` (or ``.tar.gz``, ``.tgz``). Nothing is unpacked.
"""

from __future__ import annotations

import json
import lzma
import tarfile
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Optional

_MARK = "redfish/v1"
_FILE = "index.json"
_ARCHIVES = (".tar.xz", ".tar.gz", ".tgz")
#: What no verb reads, and most of what a recording is.
_LEFT_OUT = frozenset(
    {"Journal", "Dump", "PostCodes", "JsonSchemas", "Registries", "TelemetryService", "Sensors", "Jobs"}
)
#: A resource is a few kB; more than this is none.
_MOST_BYTES = 4_000_000

#: The resources of one tree by their URI, without a slash at the end.
Tree = dict[str, bytes]


def trees(folder: Path) -> Iterator[tuple[str, Tree | str]]:
    """Each tree below the folder with its name; the folder itself, where it is one. A text says why one is not read."""
    if (folder / _MARK).is_dir():
        yield folder.name, _of_folder(folder)
        return
    for path in sorted(folder.iterdir()):
        if path.name.endswith(_ARCHIVES):
            yield from _whole(path)
        elif (path / _MARK).is_dir():
            yield path.name, _of_folder(path)


def _uri(inside: str) -> Optional[str]:
    """The URI of a file of a tree; None for what is no resource, or one that nobody asks for."""
    parts = inside.split("/")
    if parts[-1] != _FILE or _LEFT_OUT & set(parts):
        return None
    return "/" + "/".join(parts[:-1])


def _of_folder(folder: Path) -> Tree:
    found: Tree = {}
    for path in (folder / _MARK).rglob(_FILE):
        uri = _uri(path.relative_to(folder).as_posix())
        if uri and path.is_file() and path.stat().st_size <= _MOST_BYTES:
            found[uri] = path.read_bytes()
    return found


def _whole(path: Path) -> list[tuple[str, Tree | str]]:
    try:
        return sorted(_of_archive(path).items()) or [(path.name, f"no {_MARK} is in it")]
    except (OSError, EOFError, lzma.LZMAError, zlib.error, tarfile.TarError) as exc:
        return [(path.name, f"the archive cannot be read to its end: {exc}")]


def _of_archive(path: Path) -> dict[str, Tree]:
    found: dict[str, Tree] = {}
    with tarfile.open(path) as archive:
        for member in archive:
            name, mark, rest = member.name.removeprefix("./").partition(f"/{_MARK}/")
            uri = _uri(f"{_MARK}/{rest}")
            if not mark or not member.isfile() or uri is None or member.size > _MOST_BYTES:
                continue
            data = archive.extractfile(member)
            assert data is not None  # it is a file
            found.setdefault(name, {})[uri] = data.read()
    return found


class RecordedBmc:
    """Serves one tree at a port of this machine. ``writes``: what it was asked to change."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        # Some BMCs spell a link in lower case, and answer to it.
        self._folded: dict[str, list[str]] = {}
        for uri in tree:
            self._folded.setdefault(uri.lower(), []).append(uri)
        self.writes: list[tuple[str, str, Any]] = []
        handler = type("Handler", (_Handler,), {"bmc": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> RecordedBmc:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def resource(self, uri: str) -> Optional[bytes]:
        """As recorded; under another spelling of its letters where only one resource has it."""
        bare = uri.rstrip("/")
        others = self._folded.get(bare.lower(), [])
        return self.tree.get(bare, self.tree[others[0]] if len(others) == 1 else None)

    def document(self, uri: str) -> dict[str, Any]:
        """The same, read; empty where it is nothing."""
        try:
            found = json.loads(self.resource(uri) or b"")
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are two packets: without this the second waits for a word of the other end, 40 ms each time.
    disable_nagle_algorithm = True
    bmc: RecordedBmc

    def log_message(self, *args: Any) -> None:
        """Silent."""

    def do_GET(self) -> None:
        body = self.bmc.resource(self.path)
        self._send(404 if body is None else 200, body or b"")

    def _write(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.bmc.writes.append((self.command, self.path, json.loads(raw)))
        self._send(204, b"")

    do_POST = do_PATCH = _write

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
